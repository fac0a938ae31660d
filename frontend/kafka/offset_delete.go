package kafka

// OffsetDelete (key 47): version 0 (KIP-496).
//
// Offsets of topics that members are subscribed to stay: GROUP_SUBSCRIBED_TO_TOPIC. That nothing was committed for
// a partition is no error.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/group"
	"ringlog/meta"
)

func offsetDelete(ctx context.Context, c *call, asked *kmsg.OffsetDeleteRequest, answer *kmsg.OffsetDeleteResponse) {
	image := c.session.protocol.broker.Image()
	request := &group.OffsetDelete{GroupID: asked.Group, Topics: make([]group.OffsetDeleteTopic, len(asked.Topics))}
	for i := range asked.Topics {
		from, to := &asked.Topics[i], &request.Topics[i]
		topic, err := topicOfOffsets(image, false, from.Topic, meta.TopicID{})
		to.Topic, to.Partitions = from.Topic, make([]group.OffsetDeletePartition, len(from.Partitions))
		for j := range from.Partitions {
			p := &to.Partitions[j]
			p.Partition, p.Err = from.Partitions[j].Partition, err
			if err == nil {
				p.Err = partitionOfOffsets(topic, p.Partition)
			}
		}
	}
	deleted, err := broker.AskGroup[*group.OffsetsDeleted](ctx, c.session.protocol.broker, asked.Group, request)
	if err == nil {
		err = deleted.Err
	}
	if answer.ErrorCode = c.failed(err); err != nil {
		return
	}
	for i := range deleted.Topics {
		topic := kmsg.NewOffsetDeleteResponseTopic()
		topic.Topic = deleted.Topics[i].Topic
		for _, p := range deleted.Topics[i].Partitions {
			answered := kmsg.NewOffsetDeleteResponseTopicPartition()
			answered.Partition, answered.ErrorCode = p.Partition, c.failed(p.Err)
			topic.Partitions = append(topic.Partitions, answered)
		}
		answer.Topics = append(answer.Topics, topic)
	}
}
