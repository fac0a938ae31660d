package meta

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Delta is what one command, or an installed snapshot, changed. Slices are in
// the order of names or ids and must not be changed.
type Delta struct {
	// Index is the index of the image after the change.
	Index uint64
	// TopicsCreated are new; TopicsDeleted are gone; TopicsChanged are there
	// before and after, as they are now, with other partitions or configurations.
	TopicsCreated []*Topic
	TopicsDeleted []*Topic
	TopicsChanged []*Topic
	// BrokersChanged are new or started again.
	BrokersChanged []*Broker
	// TombstonesRemoved are logs that no broker has any more.
	TombstonesRemoved []LogID
	// BrokerConfigsChanged are brokers, EveryBroker among them, on which other
	// configurations are set than before.
	BrokerConfigsChanged []int32
	// GroupConfigsChanged are groups on which other configurations are set than before.
	GroupConfigsChanged []string
}

// Empty reports whether nothing but the index, or what only the controller looks
// at, changed.
func (d *Delta) Empty() bool {
	return len(d.TopicsCreated) == 0 && len(d.TopicsDeleted) == 0 && len(d.TopicsChanged) == 0 &&
		len(d.BrokersChanged) == 0 && len(d.TombstonesRemoved) == 0 && len(d.BrokerConfigsChanged) == 0 &&
		len(d.GroupConfigsChanged) == 0
}

// Diff returns what lies between two images, for a reader that skipped some:
// after a snapshot was installed, or at start, when before is NewImage(). A
// topic that was deleted and created anew in between is in both lists.
func Diff(before, after *Image) Delta {
	delta := Delta{Index: after.Index}
	merge(before.topics, after.topics, compareTopics, func(old, now *Topic) {
		switch {
		case now == nil:
			delta.TopicsDeleted = append(delta.TopicsDeleted, old)
		case old == nil:
			delta.TopicsCreated = append(delta.TopicsCreated, now)
		case old == now:
		case old.ID != now.ID:
			delta.TopicsDeleted = append(delta.TopicsDeleted, old)
			delta.TopicsCreated = append(delta.TopicsCreated, now)
		case !old.equal(now):
			delta.TopicsChanged = append(delta.TopicsChanged, now)
		}
	})
	merge(before.brokers, after.brokers, compareBrokers, func(old, now *Broker) {
		if now != nil && (old == nil || old.Epoch != now.Epoch) {
			delta.BrokersChanged = append(delta.BrokersChanged, now)
		}
	})
	merge(before.tombstones, after.tombstones, compareTombstones, func(old, now *Tombstone) {
		if now == nil {
			delta.TombstonesRemoved = append(delta.TombstonesRemoved, old.LogID)
		}
	})
	merge(before.brokerConfigs, after.brokerConfigs, compareBrokerConfigs, func(old, now *BrokerConfigs) {
		switch {
		case old == now:
		case old == nil:
			delta.BrokerConfigsChanged = append(delta.BrokerConfigsChanged, now.ID)
		case now == nil || !maps.Equal(old.Configs, now.Configs):
			delta.BrokerConfigsChanged = append(delta.BrokerConfigsChanged, old.ID)
		}
	})
	merge(before.groupConfigs, after.groupConfigs, compareGroupConfigs, func(old, now *GroupConfigs) {
		switch {
		case old == now:
		case old == nil:
			delta.GroupConfigsChanged = append(delta.GroupConfigsChanged, now.Group)
		case now == nil || !maps.Equal(old.Configs, now.Configs):
			delta.GroupConfigsChanged = append(delta.GroupConfigsChanged, old.Group)
		}
	})
	return delta
}

// merge goes over two sorted lists at once and calls each with what both have
// at a key; nil stands for nothing.
func merge[T any](a, b []*T, compare func(a, b *T) int, each func(a, b *T)) {
	for len(a) > 0 || len(b) > 0 {
		order := 0
		switch {
		case len(b) == 0:
			order = -1
		case len(a) == 0:
			order = 1
		default:
			order = compare(a[0], b[0])
		}
		switch {
		case order < 0:
			each(a[0], nil)
			a = a[1:]
		case order > 0:
			each(nil, b[0])
			b = b[1:]
		default:
			each(a[0], b[0])
			a, b = a[1:], b[1:]
		}
	}
}

func compareTopics(a, b *Topic) int { return strings.Compare(a.Name, b.Name) }

func compareBrokerConfigs(a, b *BrokerConfigs) int { return cmp.Compare(a.ID, b.ID) }

func compareBrokers(a, b *Broker) int { return cmp.Compare(a.ID, b.ID) }

// equal compares all that a topic holds.
func (t *Topic) equal(other *Topic) bool {
	if t.Name != other.Name || t.ID != other.ID || t.Internal != other.Internal || !maps.Equal(t.Configs, other.Configs) {
		return false
	}
	return slices.EqualFunc(t.Partitions, other.Partitions, func(a, b Partition) bool { return a.equal(&b) })
}

func (p *Partition) equal(other *Partition) bool {
	return p.ID == other.ID && p.LogID == other.LogID && p.Leader == other.Leader && p.LeaderEpoch == other.LeaderEpoch &&
		p.PartitionEpoch == other.PartitionEpoch && slices.Equal(p.Replicas, other.Replicas) && slices.Equal(p.ISR, other.ISR)
}
