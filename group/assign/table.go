package assign

import (
	"slices"

	"ringlog/meta"
)

// nobody owns a partition.
const nobody int32 = -1

// table is an assignment being made. Members and topics are known by their places in the group, and all
// partitions of all topics stand in one row: topic t has those from base[t] to base[t+1].
type table struct {
	group *Group
	base  []int32 // one more than there are topics
	owner []int32 // of each partition in the row, a member or nobody
	load  []int32 // of each member, how many it owns
}

func newTable(group *Group) *table {
	t := &table{group: group, base: make([]int32, len(group.Topics)+1), load: make([]int32, len(group.Members))}
	for n := range group.Topics {
		t.base[n+1] = t.base[n] + group.Topics[n].Partitions
	}
	t.owner = make([]int32, t.base[len(group.Topics)])
	for n := range t.owner {
		t.owner[n] = nobody
	}
	return t
}

func (t *table) topic(id meta.TopicID) (int, bool) {
	return slices.BinarySearchFunc(t.group.Topics, id, func(topic Topic, id meta.TopicID) int { return CompareIDs(topic.ID, id) })
}

// retain gives each member, in order, what it owned before, as far as that still exists, the
// member subscribes to it, nobody has it yet and may, asked before each, allows it.
func (t *table) retain(may func(member int32) bool) {
	for m := range t.group.Members {
		member := &t.group.Members[m]
		for _, owned := range member.Owned {
			at, exists := t.topic(owned.Topic)
			if !exists || !subscribes(member, owned.Topic) {
				continue
			}
			for _, partition := range owned.Partitions {
				if partition >= t.group.Topics[at].Partitions {
					break
				}
				place := t.base[at] + partition
				if t.owner[place] != nobody || !may(int32(m)) {
					continue
				}
				t.give(place, int32(m))
			}
		}
	}
}

func subscribes(member *Member, topic meta.TopicID) bool {
	_, found := slices.BinarySearchFunc(member.Topics, topic, CompareIDs)
	return found
}

// give makes a member the owner of a partition that nobody owns.
func (t *table) give(place, member int32) {
	t.owner[place] = member
	t.load[member]++
}

// subscribers returns the members that subscribe to each topic, in their order.
func (t *table) subscribers() [][]int32 {
	subscribers := make([][]int32, len(t.group.Topics))
	for m := range t.group.Members {
		for _, id := range t.group.Members[m].Topics {
			if at, exists := t.topic(id); exists {
				subscribers[at] = append(subscribers[at], int32(m))
			}
		}
	}
	return subscribers
}

// result is the table as one set for each member. A member that has what it owned gets
// that very set.
func (t *table) result() []Partitions {
	sets := make([]Partitions, len(t.group.Members))
	for at := range t.group.Topics {
		id := t.group.Topics[at].ID
		for place := t.base[at]; place < t.base[at+1]; place++ {
			member := t.owner[place]
			if member == nobody {
				continue
			}
			set := sets[member]
			if last := len(set) - 1; last < 0 || set[last].Topic != id {
				set = append(set, TopicPartitions{Topic: id})
			}
			last := len(set) - 1
			set[last].Partitions = append(set[last].Partitions, place-t.base[at])
			sets[member] = set
		}
	}
	for m := range sets {
		if owned := t.group.Members[m].Owned; sets[m].Equal(owned) {
			sets[m] = owned
		}
	}
	return sets
}
