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
// loads the answer is COORDINATOR_LOAD_IN_PROGRESS, never -1. A group that is named twice is answered once, and so are a topic
// and a partition: an answer stays in proportion to what is stored.

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/group"
	"ringlog/meta"
)

// groupsAtOnceMax is how many groups of a request are asked before their answers are waited for: their partitions load and answer side
// by side, and a request for a hundred thousand groups is not all under way.
const groupsAtOnceMax = 256

func offsetFetch(ctx context.Context, c *call, asked *kmsg.OffsetFetchRequest, answer *kmsg.OffsetFetchResponse) {
	image := c.session.protocol.broker.Image()
	if asked.Version < 8 {
		c.offsetFetchOne(ctx, image, asked, answer)
		return
	}
	seen := make(map[string]bool, len(asked.Groups))
	var requests []*group.OffsetFetchGroup
	for i := range asked.Groups {
		from := &asked.Groups[i]
		if !seen[from.Group] {
			seen[from.Group] = true
			request := &group.OffsetFetchGroup{GroupID: from.Group, MemberID: from.MemberID, MemberEpoch: from.MemberEpoch, All: from.Topics == nil}
			fetch := newFetchOfGroup(image, asked.Version)
			for j := range from.Topics {
				fetch.add(from.Topics[j].Topic, from.Topics[j].TopicID, from.Topics[j].Partitions)
			}
			requests = append(requests, fetch.finish(request))
		}
		if len(requests) == groupsAtOnceMax || i == len(asked.Groups)-1 {
			c.fetchGroups(ctx, image, requests, answer)
			requests = requests[:0]
		}
	}
}

// fetchGroups asks for some groups at once and answers them in their order.
func (c *call) fetchGroups(ctx context.Context, image *meta.Image, requests []*group.OffsetFetchGroup, answer *kmsg.OffsetFetchResponse) {
	pending := make([]broker.GroupAnswer, len(requests))
	for i, request := range requests {
		pending[i] = c.session.protocol.broker.StartAskGroup(request.GroupID, request)
	}
	for i, request := range requests {
		fetched, err := broker.AwaitGroup[*group.OffsetsFetched](ctx, pending[i])
		if err == nil {
			err = fetched.Err
		}
		answered := kmsg.NewOffsetFetchResponseGroup()
		answered.Group = request.GroupID
		if answered.ErrorCode = c.failed(err); err == nil {
			answered.Topics = c.offsetsOfGroup(image, answer.Version, fetched.Topics)
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
	fetch := newFetchOfGroup(image, asked.Version)
	for i := range asked.Topics {
		fetch.add(asked.Topics[i].Topic, meta.TopicID{}, asked.Topics[i].Partitions)
	}
	fetched, err := broker.AskGroup[*group.OffsetsFetched](ctx, c.session.protocol.broker, asked.Group, fetch.finish(request))
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

// fetchOfGroup makes the request for one group: each topic and each partition once.
type fetchOfGroup struct {
	image *meta.Image
	byID  bool
	// at is where each topic of the request stands in topics and partitions.
	at         map[topicKey]int
	topics     []topicKey
	partitions [][]int32
}

func newFetchOfGroup(image *meta.Image, version int16) *fetchOfGroup {
	return &fetchOfGroup{image: image, byID: version >= 10, at: make(map[topicKey]int)}
}

// add asks for partitions of a topic.
func (f *fetchOfGroup) add(name string, id meta.TopicID, partitions []int32) {
	key := topicKey{name: name, id: id}
	at, seen := f.at[key]
	if !seen {
		f.at[key] = len(f.topics)
		f.topics, f.partitions = append(f.topics, key), append(f.partitions, partitions)
		return
	}
	f.partitions[at] = append(f.partitions[at], partitions...)
}

// finish puts what was added into request. A name that no topic has is looked up nevertheless: something may have been
// committed for it.
func (f *fetchOfGroup) finish(request *group.OffsetFetchGroup) *group.OffsetFetchGroup {
	request.Topics = make([]group.OffsetFetchTopic, len(f.topics))
	for i, key := range f.topics {
		topic, err := topicOfOffsets(f.image, f.byID, key.name, key.id)
		fetch := &request.Topics[i]
		fetch.Topic, fetch.ID = key.name, key.id
		if err == nil {
			fetch.Topic, fetch.ID = topic.Name, topic.ID
		}
		if isUnknownTopic(err) {
			err = nil
		}
		partitions := once(f.partitions[i])
		fetch.Partitions = make([]group.OffsetFetchPartition, len(partitions))
		for j, partition := range partitions {
			fetch.Partitions[j] = group.OffsetFetchPartition{Partition: partition, Err: err}
		}
	}
	return request
}

// once returns numbers without those that come again: as they are, or, if there are any, in order.
func once(numbers []int32) []int32 {
	sorted := slices.Clone(numbers)
	slices.Sort(sorted)
	if compact := slices.Compact(sorted); len(compact) < len(numbers) {
		return compact
	}
	return numbers
}
