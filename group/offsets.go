package group

import (
	"cmp"
	"slices"
	"strings"

	"ringlog/coord"
	"ringlog/meta"
)

// NoOffset is the offset of a partition for which nothing was committed.
const NoOffset int64 = -1

// offsets are what a group has committed, by topic and partition.
type offsets struct {
	// topics are in name order; none of them is empty.
	topics []*topicOffsets
	// warned says that operators were told that these offsets will expire.
	warned bool
}

// topicOffsets are a group's offsets for one topic.
type topicOffsets struct {
	topic string
	// id is the topic's, as far as the last commit knew it. A topic of another id is another
	// topic: what was committed for the earlier one is not an offset in it.
	id meta.TopicID
	// partitions are in the order of their numbers.
	partitions []committed
}

// committed is one committed offset.
type committed struct {
	partition    int32
	leaderEpoch  int32 // of the last record that was consumed, -1 when the client did not say
	offset       int64
	commitMillis int64
	// expireMillis is when the client wants the offset to expire; 0 when it did not say.
	expireMillis int64
	metadata     string
}

// topic returns the offsets of a topic, or nil.
func (o *offsets) topic(name string) *topicOffsets {
	at, found := slices.BinarySearchFunc(o.topics, name, compareTopicOffsets)
	if !found {
		return nil
	}
	return o.topics[at]
}

// makeTopic returns the offsets of a topic, which the caller must not leave empty.
func (o *offsets) makeTopic(name string) *topicOffsets {
	at, found := slices.BinarySearchFunc(o.topics, name, compareTopicOffsets)
	if !found {
		o.topics = slices.Insert(o.topics, at, &topicOffsets{topic: name})
	}
	return o.topics[at]
}

// drop takes out a topic that became empty.
func (o *offsets) drop(name string) {
	if at, found := slices.BinarySearchFunc(o.topics, name, compareTopicOffsets); found {
		o.topics = slices.Delete(o.topics, at, at+1)
	}
}

func compareTopicOffsets(t *topicOffsets, name string) int { return strings.Compare(t.topic, name) }

// find returns where a partition is or would be. Most groups consume all partitions of a topic, and
// then its number is its place.
func (t *topicOffsets) find(partition int32) (at int, found bool) {
	if at := int(partition); at >= 0 && at < len(t.partitions) && t.partitions[at].partition == partition {
		return at, true
	}
	return slices.BinarySearchFunc(t.partitions, partition, func(c committed, partition int32) int {
		return cmp.Compare(c.partition, partition)
	})
}

// get returns the committed offset of a partition, or nil. It stays valid until the next change.
func (t *topicOffsets) get(partition int32) *committed {
	if t == nil {
		return nil
	}
	at, found := t.find(partition)
	if !found {
		return nil
	}
	return &t.partitions[at]
}

// setOffset makes at the offset of its partition in the state, without a record.
func (m *Machine) setOffset(g *group, topic string, id meta.TopicID, at committed) {
	t := g.offsets.makeTopic(topic)
	if t.id != id && !id.IsZero() {
		if !t.id.IsZero() {
			m.offsetCount -= len(t.partitions)
			t.partitions = t.partitions[:0]
		}
		t.id = id
	}
	place, found := t.find(at.partition)
	if found {
		t.partitions[place] = at
		return
	}
	t.partitions = slices.Insert(t.partitions, place, at)
	m.offsetCount++
}

// unsetOffset takes an offset out of the state, without a record. It says whether there was one.
func (m *Machine) unsetOffset(g *group, topic string, partition int32) bool {
	t := g.offsets.topic(topic)
	if t == nil {
		return false
	}
	place, found := t.find(partition)
	if !found {
		return false
	}
	t.partitions = slices.Delete(t.partitions, place, place+1)
	m.offsetCount--
	if len(t.partitions) == 0 {
		g.offsets.drop(topic)
	}
	return true
}

// replayOffset takes a record of a committed offset.
func (m *Machine) replayOffset(record coord.Record) error {
	key, id, at, err := readOffset(record)
	if err != nil {
		return err
	}
	if at != nil {
		m.setOffset(m.makeGroup(key.Group), key.Topic, id, *at)
		return nil
	}
	if g := m.group(key.Group); g != nil {
		m.unsetOffset(g, key.Topic, key.Partition)
		m.maybeRemove(g)
	}
	return nil
}

// deleteTopicOffsets removes a group's offsets for one topic and leaves tombstones.
func (m *Machine) deleteTopicOffsets(c call, g *group, t *topicOffsets) {
	for i := range t.partitions {
		c.effects.Append(offsetTombstone(g.id, t.topic, t.partitions[i].partition, c.nowMillis))
	}
	m.offsetCount -= len(t.partitions)
	g.offsets.drop(t.topic)
}

// deleteAllOffsets removes all offsets of a group and leaves tombstones.
func (m *Machine) deleteAllOffsets(c call, g *group) {
	for len(g.offsets.topics) > 0 {
		m.deleteTopicOffsets(c, g, g.offsets.topics[len(g.offsets.topics)-1])
	}
}

// deleteOffsetsOfTopic forgets what all groups have committed for a topic that was deleted. Offsets of another
// topic by that name, which is there by now, stay.
func (m *Machine) deleteOffsetsOfTopic(c call, topic DeletedTopic) {
	for _, g := range slices.Clone(m.order) { // a copy: a group may be removed
		if t := g.offsets.topic(topic.Name); t != nil && (t.id.IsZero() || t.id == topic.ID) {
			m.lose(c, g, t)
		}
	}
}

// forgetLostTopics forgets what was committed for topics that were deleted while nobody
// could do it: the broker was down, or the log was not loaded.
func (m *Machine) forgetLostTopics(c call) {
	for _, g := range slices.Clone(m.order) {
		for _, t := range slices.Clone(g.offsets.topics) {
			if topic, ok := m.image.Topic(t.topic); !ok || !t.id.IsZero() && t.id != topic.ID {
				m.lose(c, g, t)
			}
		}
	}
}

// lostOffsets are offsets that are forgotten, but for the log.
type lostOffsets struct {
	group   string
	offsets *topicOffsets
}

// lose forgets a group's offsets for a topic that is gone. Nobody finds them any more; the log hears of it piece by piece, because
// a topic that is read by many groups may have hundreds of thousands. What a crash
// leaves of it is lost again by the next machine.
func (m *Machine) lose(c call, g *group, t *topicOffsets) {
	g.offsets.drop(t.topic)
	m.offsetCount -= len(t.partitions)
	m.maybeRemove(g)
	m.lost = append(m.lost, lostOffsets{group: g.id, offsets: t})
	if !m.losing.isSet() {
		m.timers.arm(&m.losing, c.nowMillis)
	}
}

// tombstoneLost leaves the next tombstones of lost offsets.
func (m *Machine) tombstoneLost(c call) {
	for left := tombstonesPerStepMax; len(m.lost) > 0 && left > 0; left-- {
		of := &m.lost[len(m.lost)-1]
		last := len(of.offsets.partitions) - 1
		if last < 0 {
			m.lost = m.lost[:len(m.lost)-1]
			continue
		}
		partition := of.offsets.partitions[last].partition
		of.offsets.partitions = of.offsets.partitions[:last]
		if g := m.group(of.group); g != nil && g.offsets.topic(of.offsets.topic).get(partition) != nil {
			continue // committed anew, for the next topic of that name: that record replaces the lost one
		}
		c.effects.Append(offsetTombstone(of.group, of.offsets.topic, partition, c.nowMillis))
	}
	if len(m.lost) == 0 {
		m.lost = nil
		return
	}
	m.timers.arm(&m.losing, c.nowMillis+1)
}
