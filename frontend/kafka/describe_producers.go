package kafka

// DescribeProducers (key 61): version 0 (KIP-664).
//
// What a partition remembers of idempotent producers. None is ever in a transaction, so there
// is no coordinator epoch and no first offset of one. A producer that is remembered past its
// time (producer.id.expiration.ms) is shown until the partition is written to again.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
)

func describeProducers(ctx context.Context, c *call, asked *kmsg.DescribeProducersRequest, answer *kmsg.DescribeProducersResponse) {
	seen := make(map[broker.PartitionName]bool)
	for i := range asked.Topics {
		described := kmsg.NewDescribeProducersResponseTopic()
		described.Topic = asked.Topics[i].Topic
		for _, number := range asked.Topics[i].Partitions {
			name := broker.PartitionName{Topic: described.Topic, Partition: number}
			if seen[name] {
				continue
			}
			seen[name] = true
			described.Partitions = append(described.Partitions, c.describeProducersOf(ctx, name))
		}
		answer.Topics = append(answer.Topics, described)
	}
}

func (c *call) describeProducersOf(ctx context.Context, name broker.PartitionName) kmsg.DescribeProducersResponseTopicPartition {
	described := kmsg.NewDescribeProducersResponseTopicPartition()
	described.Partition = name.Partition
	b := c.session.protocol.broker
	topic, err := b.Topic([]byte(name.Topic))
	var producers []broker.ActiveProducer
	if err == nil {
		producers, err = b.Producers(ctx, topic, name.Partition)
	}
	described.ErrorCode, described.ErrorMessage = c.answerTo(err)
	for i := range producers {
		producer := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		producer.ProducerID, producer.ProducerEpoch = producers[i].ID, int32(producers[i].Epoch)
		producer.LastSequence, producer.LastTimestamp = producers[i].LastSequence, producers[i].LastTimestamp
		producer.CoordinatorEpoch = -1
		described.ActiveProducers = append(described.ActiveProducers, producer)
	}
	return described
}
