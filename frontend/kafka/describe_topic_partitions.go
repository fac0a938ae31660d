package kafka

// DescribeTopicPartitions (key 75): version 0 (KIP-966).
//
// Topics in the order of their names, page by page: an answer has at most
// responsePartitionsMax partitions, and a cursor to where the next one goes on. No names are all
// topics. Replicas that may lead without being in sync (ELR) do not exist: the lists are empty.

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/meta"
)

// responsePartitionsMax bounds the partitions of one answer: Kafka's
// max.request.partition.size.limit.
const responsePartitionsMax = 2000

func describeTopicPartitions(_ context.Context, c *call, asked *kmsg.DescribeTopicPartitionsRequest, answer *kmsg.DescribeTopicPartitionsResponse) {
	from := kmsg.NewDescribeTopicPartitionsRequestCursor()
	if asked.Cursor != nil {
		from = *asked.Cursor
	}
	image := c.session.protocol.broker.Image()
	page := topicsPage{call: c, image: image, answer: answer, left: max(min(asked.ResponsePartitionLimit, responsePartitionsMax), 1)}
	if from.Partition < 0 {
		page.refuse(from.Topic, fmt.Errorf("%w: the cursor's partition must be valid: %d", errInvalidRequest, from.Partition))
		return
	}
	for name := range describedNames(image, asked, from.Topic) {
		first := int32(0)
		if name == from.Topic {
			first = from.Partition
		}
		if !page.add(name, first) {
			return
		}
	}
}

// describedNames goes over the names to describe, in order, from one on.
func describedNames(image *meta.Image, asked *kmsg.DescribeTopicPartitionsRequest, from string) iter.Seq[string] {
	if len(asked.Topics) == 0 {
		return func(yield func(string) bool) {
			for topic := range image.TopicsFrom(from) {
				if !yield(topic.Name) {
					return
				}
			}
		}
	}
	var names []string
	for i := range asked.Topics {
		if name := asked.Topics[i].Topic; name >= from {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Values(slices.Compact(names))
}

// topicsPage is one answer in the making.
type topicsPage struct {
	call   *call
	image  *meta.Image
	answer *kmsg.DescribeTopicPartitionsResponse
	left   int32 // partitions that it may still get
}

// add describes a topic from a partition on and reports whether there is room for more.
func (p *topicsPage) add(name string, first int32) bool {
	if p.left == 0 {
		p.next(name, 0)
		return false
	}
	topic, ok := p.image.Topic(name)
	if !ok {
		err := meta.CheckTopicName(name)
		if err == nil {
			err = broker.ErrUnknownTopic
		}
		p.refuse(name, err)
		return true
	}
	described := kmsg.NewDescribeTopicPartitionsResponseTopic()
	described.Topic, described.TopicID, described.IsInternal = &topic.Name, topic.ID, topic.Internal
	described.AuthorizedOperations = topicOperations
	end := int32(min(int64(len(topic.Partitions)), int64(first)+int64(p.left)))
	for at := first; at < end; at++ {
		described.Partitions = append(described.Partitions, p.describe(&topic.Partitions[at]))
	}
	p.left -= max(end-first, 0)
	p.answer.Topics = append(p.answer.Topics, described)
	if end < int32(len(topic.Partitions)) {
		p.next(name, end)
		return false
	}
	return true
}

func (p *topicsPage) next(name string, partition int32) {
	cursor := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	cursor.Topic, cursor.Partition = name, partition
	p.answer.NextCursor = &cursor
}

func (p *topicsPage) refuse(name string, err error) {
	refused := kmsg.NewDescribeTopicPartitionsResponseTopic()
	refused.Topic, refused.ErrorCode = &name, p.call.failed(err)
	p.answer.Topics = append(p.answer.Topics, refused)
}

func (p *topicsPage) describe(from *meta.Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	to := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	to.Partition, to.LeaderID, to.LeaderEpoch = from.ID, from.Leader, from.LeaderEpoch
	to.Replicas, to.ISR = from.Replicas, from.ISR
	to.EligibleLeaderReplicas, to.LastKnownELR = []int32{}, []int32{}
	for _, id := range from.Replicas {
		if _, registered := p.image.Broker(id); !registered {
			to.OfflineReplicas = append(to.OfflineReplicas, id)
		}
	}
	if _, registered := p.image.Broker(from.Leader); !registered {
		to.LeaderID, to.ErrorCode = meta.NoLeader, kerr.LeaderNotAvailable.Code
	}
	return to
}
