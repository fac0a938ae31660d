package group

import (
	"fmt"

	"ringlog/meta"
)

// commitBytesMax bounds the records of one commit. Each of them repeats the group's id, so that a small request with a long
// one could otherwise become gigabytes. Kafka's bound is the topic's max.message.bytes, a fourth of this.
const commitBytesMax = 4 << 20

// OffsetCommit commits offsets of a group.
type OffsetCommit struct {
	GroupID string
	// Generation is the member's generation, or its epoch in a consumer group; negative for a consumer that is no
	// member: then MemberID is "".
	Generation int32
	MemberID   string
	// InstanceID is the static member's name, or nil.
	InstanceID *string
	// MemberEpochs says that the client understands errors about member epochs (KIP-848).
	MemberEpochs bool
	// ImageIndex is that of the image in which the topics were found. A machine that has seen as much
	// refuses those that were deleted since.
	ImageIndex uint64
	// RetentionMillis is how long the client wants these offsets kept, whether the group is empty or not; negative for
	// what the broker has set. Clients before OffsetCommit 5 could ask for that.
	RetentionMillis int64
	Topics          []OffsetCommitTopic
}

// OffsetCommitTopic are the offsets of one topic. Errors that are there already, because the topic or
// the partition does not exist, are answered as they are.
type OffsetCommitTopic struct {
	Topic      string
	ID         meta.TopicID
	Partitions []OffsetCommitPartition
}

// OffsetCommitPartition is the offset of one partition, and is answered in place.
type OffsetCommitPartition struct {
	Partition int32
	Offset    int64
	// LeaderEpoch is that of the last record consumed, or -1.
	LeaderEpoch int32
	Metadata    string

	Err error
}

// OffsetCommitted answers OffsetCommit.
type OffsetCommitted struct {
	// Topics are those of the request, with every Err set.
	Topics []OffsetCommitTopic
	// Err is not nil when the commit as a whole was refused; then all partitions have it, but for those that had an error before.
	Err error
}

// step commits what can be committed; one bad partition does not hold back the others.
func (r *OffsetCommit) step(m *Machine, c call) {
	g, err := m.groupOfCommit(c, r)
	if err != nil {
		for i := range r.Topics {
			partitions := r.Topics[i].Partitions
			for j := range partitions {
				if partitions[j].Err == nil {
					partitions[j].Err = err
				}
			}
		}
		c.answer(&OffsetCommitted{Topics: r.Topics, Err: err})
		return
	}
	for i := range r.Topics {
		m.commitTopic(c, g, r, &r.Topics[i])
	}
	g.offsets.warned = false
	m.maybeRemove(g) // nothing may have been accepted
	c.answer(&OffsetCommitted{Topics: r.Topics})
}

// groupOfCommit returns the group that a commit goes to, if it may be made. A consumer that assigns itself its
// partitions makes a group by its first commit.
func (m *Machine) groupOfCommit(c call, r *OffsetCommit) (*group, error) {
	if r.recordBytes() > commitBytesMax {
		return nil, ErrCommitTooLarge
	}
	g := m.group(r.GroupID)
	if g == nil {
		switch {
		case r.Generation < 0:
			return m.makeGroup(r.GroupID), nil
		case r.MemberEpochs:
			return nil, ErrGroupNotFound
		default:
			return nil, ErrIllegalGeneration
		}
	}
	if members := g.membership(); members != nil {
		return g, members.checkCommit(m, c, r)
	}
	// Only offsets were ever committed: there is no member and no generation.
	if r.Generation >= 0 {
		return nil, ErrUnknownMember
	}
	return g, nil
}

// recordBytes is about how large the records of a commit will be.
func (r *OffsetCommit) recordBytes() (total int) {
	const fixedBytes = 64
	for i := range r.Topics {
		topic := &r.Topics[i]
		for j := range topic.Partitions {
			total += len(r.GroupID) + len(topic.Topic) + len(topic.Partitions[j].Metadata) + fixedBytes
		}
	}
	return total
}

func (m *Machine) commitTopic(c call, g *group, r *OffsetCommit, topic *OffsetCommitTopic) {
	var lost error
	if m.image.Index >= r.ImageIndex {
		if now, ok := m.image.Topic(topic.Topic); !ok || !topic.ID.IsZero() && now.ID != topic.ID {
			lost = fmt.Errorf("%w: %s was deleted", ErrUnknownTopic, topic.Topic)
		}
	}
	for i := range topic.Partitions {
		p := &topic.Partitions[i]
		if p.Err == nil {
			p.Err = lost
		}
		if p.Err == nil && len(p.Metadata) > m.config.OffsetMetadataBytesMax {
			p.Err = ErrOffsetMetadataTooLarge
		}
		if p.Err != nil {
			continue
		}
		at := committed{partition: p.Partition, leaderEpoch: p.LeaderEpoch, offset: p.Offset, commitMillis: c.nowMillis, metadata: p.Metadata}
		if r.RetentionMillis >= 0 {
			at.expireMillis = c.nowMillis + r.RetentionMillis
		}
		m.setOffset(g, topic.Topic, topic.ID, at)
		c.effects.Append(offsetRecord(g.id, topic.Topic, topic.ID, &at))
	}
}
