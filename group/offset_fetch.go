package group

import "ringlog/meta"

// OffsetFetchGroup asks for the committed offsets of one group.
type OffsetFetchGroup struct {
	GroupID string
	// MemberID and MemberEpoch are those of a member of a consumer group, which are checked (KIP-848); nil and negative
	// for everybody else, who may always read.
	MemberID    *string
	MemberEpoch int32
	// All asks for every offset of the group; Topics are then nil.
	All    bool
	Topics []OffsetFetchTopic
}

// OffsetFetchTopic asks for offsets of one topic.
type OffsetFetchTopic struct {
	Topic      string
	ID         meta.TopicID
	Partitions []OffsetFetchPartition
}

// OffsetFetchPartition is one partition, and is answered in place.
type OffsetFetchPartition struct {
	Partition int32
	// Err may be set by who asks: the partition is then answered as it is.
	Err error

	// Offset is NoOffset when nothing was committed.
	Offset      int64
	LeaderEpoch int32
	Metadata    string
}

// OffsetsFetched answers OffsetFetchGroup.
type OffsetsFetched struct {
	Topics []OffsetFetchTopic
	Err    error // of the group as a whole
}

// step answers from the state. A group that is not there has committed nothing: that is no
// error, because a consumer asks before it first commits. That everything is loaded
// is for the runtime to see to.
func (r *OffsetFetchGroup) step(m *Machine, c call) {
	g := m.group(r.GroupID)
	if g != nil {
		if members := g.membership(); members != nil {
			if err := members.checkFetch(r); err != nil {
				c.answer(&OffsetsFetched{Topics: r.Topics, Err: err})
				return
			}
		}
	}
	if r.All {
		c.answer(&OffsetsFetched{Topics: g.allOffsets()})
		return
	}
	for i := range r.Topics {
		topic := &r.Topics[i]
		var from *topicOffsets
		if g != nil {
			from = g.offsets.topic(topic.Topic)
		}
		if from != nil && !from.id.IsZero() && !topic.ID.IsZero() && from.id != topic.ID {
			from = nil // committed for an earlier topic of that name
		}
		for j := range topic.Partitions {
			p := &topic.Partitions[j]
			p.Offset, p.LeaderEpoch, p.Metadata = NoOffset, -1, ""
			if at := from.get(p.Partition); at != nil && p.Err == nil {
				p.Offset, p.LeaderEpoch, p.Metadata = at.offset, at.leaderEpoch, at.metadata
			}
		}
	}
	c.answer(&OffsetsFetched{Topics: r.Topics})
}

// allOffsets lists every offset of a group, in the order of topics and partitions. g may be nil.
func (g *group) allOffsets() []OffsetFetchTopic {
	if g == nil {
		return nil
	}
	topics := make([]OffsetFetchTopic, len(g.offsets.topics))
	for i, from := range g.offsets.topics {
		partitions := make([]OffsetFetchPartition, len(from.partitions))
		for j := range from.partitions {
			at := &from.partitions[j]
			partitions[j] = OffsetFetchPartition{Partition: at.partition, Offset: at.offset, LeaderEpoch: at.leaderEpoch, Metadata: at.metadata}
		}
		topics[i] = OffsetFetchTopic{Topic: from.topic, ID: from.id, Partitions: partitions}
	}
	return topics
}
