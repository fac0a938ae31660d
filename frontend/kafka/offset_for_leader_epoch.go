package kafka

// OffsetForLeaderEpoch (key 23): versions 2 to 4.
//
//	2    current leader epoch: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (KIP-320)
//	3    replica id
//	4    flexible
//
// The answer is the largest epoch at or below the one asked for that the log
// knows, and where it ends; both -1 when there is none. Clients use it to notice that
// a log was cut below what they have read.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
)

func offsetForLeaderEpoch(ctx context.Context, c *call, asked *kmsg.OffsetForLeaderEpochRequest, answer *kmsg.OffsetForLeaderEpochResponse) {
	for i := range asked.Topics {
		topic, unknown := c.session.protocol.broker.Topic([]byte(asked.Topics[i].Topic))
		answered := kmsg.NewOffsetForLeaderEpochResponseTopic()
		answered.Topic = asked.Topics[i].Topic
		for j := range asked.Topics[i].Partitions {
			answered.Partitions = append(answered.Partitions, c.epochEnd(ctx, topic, unknown, &asked.Topics[i].Partitions[j]))
		}
		answer.Topics = append(answer.Topics, answered)
	}
}

func (c *call) epochEnd(ctx context.Context, topic *broker.Topic, err error, asked *kmsg.OffsetForLeaderEpochRequestTopicPartition) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
	p.Partition, p.LeaderEpoch, p.EndOffset = asked.Partition, -1, -1
	epoch, end := int32(-1), int64(-1)
	if err == nil {
		epoch, end, err = c.session.protocol.broker.EpochEnd(ctx, topic, asked.Partition, asked.CurrentLeaderEpoch, asked.LeaderEpoch)
	}
	if p.ErrorCode = c.failed(err); err == nil {
		p.LeaderEpoch, p.EndOffset = epoch, end
	}
	return p
}
