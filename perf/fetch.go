package perf

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// newFetchRequest is a Fetch of what partitions have from their offsets on.
func newFetchRequest(version int16, topic string, waitMillis, bytesMax int32, partitions ...kmsg.FetchRequestTopicPartition) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.SetVersion(version)
	request.ReplicaID = -1
	request.MaxWaitMillis = waitMillis
	request.MinBytes = 1
	request.MaxBytes = bytesMax
	request.SessionEpoch = -1 // no session: each fetch stands alone (KIP-227)
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	t.Partitions = partitions
	request.Topics = append(request.Topics, t)
	return request
}

// fetchPartition is a partition of newFetchRequest.
func fetchPartition(partition int32, offset int64, bytesMax int32) kmsg.FetchRequestTopicPartition {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition = partition
	p.FetchOffset = offset
	p.CurrentLeaderEpoch = -1
	p.LogStartOffset = -1
	p.PartitionMaxBytes = bytesMax
	return p
}

// offsets is listOffsets for all partitions of a topic.
func (c *cluster) offsets(ctx context.Context, topic string, targets []target, timestamp int64) (map[int32]int64, error) {
	all := make(map[int32]int64)
	for _, t := range targets {
		some, err := c.listOffsets(ctx, topic, t.partitions, timestamp)
		if err != nil {
			return nil, err
		}
		for partition, offset := range some {
			all[partition] = offset
		}
	}
	return all, nil
}
