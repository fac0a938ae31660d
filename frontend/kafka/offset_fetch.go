package kafka

// OffsetFetch (key 9): versions 1 to 10.
//
//	1    offsets from the coordinator; 0 asked ZooKeeper
//	2    null is all topics; an error for the whole answer
//	3    throttle time
//	5    leader epochs (KIP-320)
//	6    flexible
//	7    require_stable (KIP-447): without transactions every offset is stable
//	8    many groups at once (KIP-709)
//	9    member id and epoch, which are checked (KIP-848): UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH
//	10   topics by id (KIP-848): UNKNOWN_TOPIC_ID
//
// A group that does not exist has committed nothing: offset -1 without an error. While the coordinator
// loads the answer is COORDINATOR_LOAD_IN_PROGRESS, never -1. A group that is named twice is answered once, and a partition
// as well: an answer stays in proportion to what is stored.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/group"
	"ringlog/meta"
)

func offsetFetch(ctx context.Context, c *call, asked *kmsg.OffsetFetchRequest, answer *kmsg.OffsetFetchResponse) {
	image := c.session.protocol.broker.Image()
	if asked.Version < 8 {
		c.offsetFetchOne(ctx, image, asked, answer)
		return
	}
	// All groups are asked before any is waited for: their partitions load and answer side by side.
	requests := make([]*group.OffsetFetchGroup, 0, len(asked.Groups))
	pending := make([]broker.GroupAnswer, 0, len(asked.Groups))
	seen := make(map[string]bool, len(asked.Groups))
	for i := range asked.Groups {
		from := &asked.Groups[i]
		if seen[from.Group] {
			continue
		}
		seen[from.Group] = true
		request := &group.OffsetFetchGroup{GroupID: from.Group, MemberID: from.MemberID, MemberEpoch: from.MemberEpoch, All: from.Topics == nil}
		fetch := fetchOfGroup{image: image, byID: asked.Version >= 10, request: request, seen: make(map[fetchedPartition]bool)}
		for j := range from.Topics {
			fetch.add(from.Topics[j].Topic, from.Topics[j].TopicID, from.Topics[j].Partitions)
		}
		requests = append(requests, request)
		pending = append(pending, c.session.protocol.broker.StartAskGroup(from.Group, request))
	}
	for i := range requests {
		fetched, err := broker.AwaitGroup[*group.OffsetsFetched](ctx, pending[i])
		if err == nil {
			err = fetched.Err
		}
		answered := kmsg.NewOffsetFetchResponseGroup()
		answered.Group = requests[i].GroupID
		if answered.ErrorCode = c.failed(err); err == nil {
			answered.Topics = c.offsetsOfGroup(image, asked.Version, fetched.Topics)
		}
		answer.Groups = append(answer.Groups, answered)
	}
}

// offsetsOfGroup is what a group has committed, as versions from 8 on have it.
func (c *call) offsetsOfGroup(image *meta.Image, version int16, fetched []group.OffsetFetchTopic) []kmsg.OffsetFetchResponseGroupTopic {
	var topics []kmsg.OffsetFetchResponseGroupTopic
	for i := range fetched {
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic, topic.TopicID = fetched[i].Topic, fetched[i].ID
		if version >= 10 && fetched[i].ID.IsZero() {
			now, ok := image.Topic(fetched[i].Topic)
			if !ok {
				continue // it has no id by which it could be named
			}
			topic.TopicID = now.ID
		}
		topic.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(fetched[i].Partitions))
		for j := range fetched[i].Partitions {
			from, to := &fetched[i].Partitions[j], &topic.Partitions[j]
			to.Partition, to.Offset, to.LeaderEpoch, to.Metadata = from.Partition, from.Offset, from.LeaderEpoch, &from.Metadata
			to.ErrorCode = c.failed(from.Err)
		}
		topics = append(topics, topic)
	}
	return topics
}

// offsetFetchOne answers versions 1 to 7: one group.
func (c *call) offsetFetchOne(ctx context.Context, image *meta.Image, asked *kmsg.OffsetFetchRequest, answer *kmsg.OffsetFetchResponse) {
	request := &group.OffsetFetchGroup{GroupID: asked.Group, MemberEpoch: -1, All: asked.Version >= 2 && asked.Topics == nil}
	fetch := fetchOfGroup{image: image, request: request, seen: make(map[fetchedPartition]bool)}
	for i := range asked.Topics {
		fetch.add(asked.Topics[i].Topic, meta.TopicID{}, asked.Topics[i].Partitions)
	}
	fetched, err := broker.AskGroup[*group.OffsetsFetched](ctx, c.session.protocol.broker, asked.Group, request)
	if err == nil {
		err = fetched.Err
	}
	answer.ErrorCode = c.failed(err)
	if err != nil {
		if asked.Version < 2 { // no other place for it
			answer.Topics = refusedOffsets(asked.Topics, answer.ErrorCode)
		}
		return
	}
	for i := range fetched.Topics {
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = fetched.Topics[i].Topic
		topic.Partitions = make([]kmsg.OffsetFetchResponseTopicPartition, len(fetched.Topics[i].Partitions))
		for j := range topic.Partitions {
			from, to := &fetched.Topics[i].Partitions[j], &topic.Partitions[j]
			to.Partition, to.Offset, to.LeaderEpoch, to.Metadata = from.Partition, from.Offset, from.LeaderEpoch, &from.Metadata
		}
		answer.Topics = append(answer.Topics, topic)
	}
}

// refusedOffsets answers every partition with the same code.
func refusedOffsets(asked []kmsg.OffsetFetchRequestTopic, number int16) []kmsg.OffsetFetchResponseTopic {
	topics := make([]kmsg.OffsetFetchResponseTopic, len(asked))
	nothing := ""
	for i := range asked {
		topics[i] = kmsg.NewOffsetFetchResponseTopic()
		topics[i].Topic = asked[i].Topic
		for _, partition := range asked[i].Partitions {
			p := kmsg.NewOffsetFetchResponseTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = partition, group.NoOffset, -1, &nothing, number
			topics[i].Partitions = append(topics[i].Partitions, p)
		}
	}
	return topics
}

// fetchedPartition is a partition as the request names it.
type fetchedPartition struct {
	topic     string
	id        meta.TopicID
	partition int32
}

// fetchOfGroup fills the request for one group.
type fetchOfGroup struct {
	image   *meta.Image
	byID    bool
	request *group.OffsetFetchGroup
	seen    map[fetchedPartition]bool
}

// add asks for partitions of a topic. A name that no topic has is looked up nevertheless: something may have been
// committed for it.
func (f *fetchOfGroup) add(name string, id meta.TopicID, partitions []int32) {
	topic, err := topicOfOffsets(f.image, f.byID, name, id)
	fetch := group.OffsetFetchTopic{Topic: name, ID: id, Partitions: make([]group.OffsetFetchPartition, 0, len(partitions))}
	if err == nil {
		fetch.Topic, fetch.ID = topic.Name, topic.ID
	}
	if isUnknownTopic(err) {
		err = nil
	}
	for _, partition := range partitions {
		as := fetchedPartition{name, id, partition}
		if !f.seen[as] {
			f.seen[as] = true
			fetch.Partitions = append(fetch.Partitions, group.OffsetFetchPartition{Partition: partition, Err: err})
		}
	}
	f.request.Topics = append(f.request.Topics, fetch)
}
