package kafka

// DeleteRecords (key 21): versions 0 to 2.
//
//	0    the offset before which records go (KIP-107); -1 is the high watermark
//	1    may be throttled
//	2    flexible
//
// An offset at or below the start of the log changes nothing and succeeds; one
// above the high watermark is OFFSET_OUT_OF_RANGE. A topic that does not delete is
// POLICY_VIOLATION.

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
)

func deleteRecords(ctx context.Context, c *call, asked *kmsg.DeleteRecordsRequest, answer *kmsg.DeleteRecordsResponse) {
	if asked.TimeoutMillis > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(asked.TimeoutMillis)*time.Millisecond)
		defer cancel()
	}
	for i := range asked.Topics {
		topic, unknown := c.session.protocol.broker.Topic([]byte(asked.Topics[i].Topic))
		answered := kmsg.NewDeleteRecordsResponseTopic()
		answered.Topic = asked.Topics[i].Topic
		for j := range asked.Topics[i].Partitions {
			answered.Partitions = append(answered.Partitions, c.deleteBelow(ctx, topic, unknown, &asked.Topics[i].Partitions[j]))
		}
		answer.Topics = append(answer.Topics, answered)
	}
}

func (c *call) deleteBelow(ctx context.Context, topic *broker.Topic, err error, asked *kmsg.DeleteRecordsRequestTopicPartition) kmsg.DeleteRecordsResponseTopicPartition {
	p := kmsg.NewDeleteRecordsResponseTopicPartition()
	p.Partition, p.LowWatermark = asked.Partition, -1
	if err == nil {
		p.LowWatermark, err = c.session.protocol.broker.DeleteRecords(ctx, topic, asked.Partition, asked.Offset)
	}
	p.ErrorCode = c.failed(err)
	return p
}
