package assign

import (
	"cmp"
	"slices"
)

// Range gives each subscriber of a topic one run of neighbouring partitions, as long as any other's or one
// longer, in the order of the members. So members that subscribe to the same topics own
// the same partition numbers of all that have equally many: what a join by key needs.
//
// Runs follow from the order alone, as in Kafka 4: keeping partitions where they were would tear co-partitioned
// topics apart as soon as one of them came later. What stickiness there is comes from the order: static
// members come first, by their instance ids, so that one which restarts under a new member id finds the
// partitions that it left.
var Range Assignor = ranges{}

type ranges struct{}

func (ranges) Name() string { return "range" }

func (ranges) Assign(group *Group) []Partitions {
	t := newTable(group)
	rank := make([]int32, len(group.Members))
	for place, member := range group.ranked() {
		rank[member] = int32(place)
	}
	for topic, subscribers := range t.subscribers() {
		if len(subscribers) == 0 {
			continue
		}
		slices.SortFunc(subscribers, func(a, b int32) int { return cmp.Compare(rank[a], rank[b]) })
		partitions := int(group.Topics[topic].Partitions)
		run, longer := partitions/len(subscribers), partitions%len(subscribers)
		next := t.base[topic]
		for n, member := range subscribers {
			length := run
			if n < longer {
				length++
			}
			for range length {
				t.give(next, member)
				next++
			}
		}
	}
	return t.result()
}

// ranked returns the members in the order of their runs: static ones by instance id, then the others
// by member id.
func (g *Group) ranked() []int32 {
	order := make([]int32, len(g.Members))
	for m := range order {
		order[m] = int32(m)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		first, second := &g.Members[a], &g.Members[b]
		dynamicFirst, dynamicSecond := first.InstanceID == "", second.InstanceID == ""
		if dynamicFirst || dynamicSecond {
			return cmp.Or(compareBools(dynamicFirst, dynamicSecond), cmp.Compare(first.ID, second.ID))
		}
		return cmp.Compare(first.InstanceID, second.InstanceID)
	})
	return order
}
