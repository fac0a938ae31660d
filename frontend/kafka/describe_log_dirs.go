package kafka

// DescribeLogDirs (key 35): versions 1 to 5.
//
//	1    the sizes of logs by directory (KIP-113)
//	2    flexible
//	3    an error for the whole answer
//	4    total and usable bytes of the volume (KIP-827)
//	5    whether the directory is cordoned (KIP-1066): it never is
//
// There is one directory. A null list is all partitions; what has no log here is left out, as
// in Kafka.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
)

func describeLogDirs(ctx context.Context, c *call, asked *kmsg.DescribeLogDirsRequest, answer *kmsg.DescribeLogDirsResponse) {
	var partitions []broker.PartitionName
	if asked.Topics != nil {
		partitions = []broker.PartitionName{}
		seen := make(map[broker.PartitionName]bool)
		for i := range asked.Topics {
			for _, number := range asked.Topics[i].Partitions {
				name := broker.PartitionName{Topic: asked.Topics[i].Topic, Partition: number}
				if !seen[name] { // once each: an answer stays in proportion
					seen[name] = true
					partitions = append(partitions, name)
				}
			}
		}
	}
	described, err := c.session.protocol.broker.LogDir(ctx, partitions)
	if err != nil {
		answer.ErrorCode = c.failed(err)
		return
	}
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir, dir.TotalBytes, dir.UsableBytes = described.Path, described.TotalBytes, described.UsableBytes
	at := make(map[string]int) // of each topic, its place in dir.Topics
	for _, log := range described.Logs {
		place, there := at[log.Topic]
		if !there {
			place = len(dir.Topics)
			at[log.Topic] = place
			topic := kmsg.NewDescribeLogDirsResponseDirTopic()
			topic.Topic = log.Topic
			dir.Topics = append(dir.Topics, topic)
		}
		partition := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		partition.Partition, partition.Size, partition.OffsetLag = log.Partition, log.Bytes, log.OffsetLag
		dir.Topics[place].Partitions = append(dir.Topics[place].Partitions, partition)
	}
	answer.Dirs = append(answer.Dirs, dir)
}
