package kafka

// OffsetCommit (key 8): versions 2 to 10.
//
//	2    a retention time of the client's own
//	3    throttle time
//	5    no retention time any more (KIP-211)
//	6    the leader epoch of the last record consumed (KIP-320)
//	7    group instance ids (KIP-345)
//	8    flexible
//	9    a member epoch in place of the generation for consumer groups (KIP-848); GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH
//	10   topics by id (KIP-848): UNKNOWN_TOPIC_ID
//
// A partition that does not exist fails for itself. The answer says that the offsets are
// committed: durable, and what a later OffsetFetch returns.

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/group"
	"ringlog/meta"
)

func offsetCommit(ctx context.Context, c *call, asked *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse) {
	image := c.session.protocol.broker.Image()
	request := &group.OffsetCommit{
		GroupID: asked.Group, Generation: asked.Generation, MemberID: asked.MemberID, InstanceID: asked.InstanceID,
		MemberEpochs: asked.Version >= 9, ImageIndex: image.Index, RetentionMillis: -1,
		Topics: make([]group.OffsetCommitTopic, len(asked.Topics)),
	}
	if asked.Version < 5 {
		request.RetentionMillis = asked.RetentionTimeMillis
	}
	for i := range asked.Topics {
		request.Topics[i] = commitOfTopic(image, asked.Version, &asked.Topics[i])
	}
	// The coordinator answers in the request, and may still do so when nobody waits any more: what it was not asked about, the topics' names and numbers,
	// is taken from asked.
	committed, err := broker.AskGroup[*group.OffsetCommitted](ctx, c.session.protocol.broker, asked.Group, request)
	count := int64(0)
	for i := range asked.Topics {
		topic := &asked.Topics[i]
		answered := kmsg.NewOffsetCommitResponseTopic()
		answered.Topic, answered.TopicID = topic.Topic, topic.TopicID
		answered.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(topic.Partitions))
		for j := range topic.Partitions {
			p := &answered.Partitions[j]
			p.Partition = topic.Partitions[j].Partition
			partitionErr := err
			if err == nil {
				partitionErr = committed.Topics[i].Partitions[j].Err
			}
			if p.ErrorCode = c.failed(partitionErr); partitionErr == nil {
				count++
			}
		}
		answer.Topics = append(answer.Topics, answered)
	}
	c.session.protocol.metrics.OffsetsCommitted.Add(count)
}

// commitOfTopic is what the coordinator is asked for one topic, with an error for each partition that is not there.
func commitOfTopic(image *meta.Image, version int16, asked *kmsg.OffsetCommitRequestTopic) group.OffsetCommitTopic {
	topic, err := topicOfOffsets(image, version >= 10, asked.Topic, asked.TopicID)
	commit := group.OffsetCommitTopic{Topic: asked.Topic, Partitions: make([]group.OffsetCommitPartition, len(asked.Partitions))}
	if err == nil {
		commit.Topic, commit.ID = topic.Name, topic.ID
	}
	for j := range asked.Partitions {
		from, to := &asked.Partitions[j], &commit.Partitions[j]
		to.Partition, to.Offset, to.LeaderEpoch = from.Partition, from.Offset, from.LeaderEpoch
		if version < 6 {
			to.LeaderEpoch = -1
		}
		if from.Metadata != nil {
			to.Metadata = *from.Metadata
		}
		to.Err = err
		if err == nil {
			to.Err = partitionOfOffsets(topic, from.Partition)
		}
	}
	return commit
}

// topicOfOffsets finds a topic by its name or by its id.
func topicOfOffsets(image *meta.Image, byID bool, name string, id meta.TopicID) (*meta.Topic, error) {
	if byID {
		if topic, ok := image.TopicByID(id); ok {
			return topic, nil
		}
		return nil, broker.ErrUnknownTopicID
	}
	if topic, ok := image.Topic(name); ok {
		return topic, nil
	}
	return nil, fmt.Errorf("%w: %s", broker.ErrUnknownTopic, clip(name))
}

func partitionOfOffsets(topic *meta.Topic, partition int32) error {
	if _, ok := topic.Partition(partition); !ok {
		return fmt.Errorf("%w: %s-%d", broker.ErrUnknownPartition, topic.Name, partition)
	}
	return nil
}

// isUnknownTopic says whether an error of topicOfOffsets is about the name.
func isUnknownTopic(err error) bool { return errors.Is(err, broker.ErrUnknownTopic) }
