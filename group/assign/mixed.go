package assign

import (
	"cmp"
	"container/heap"
	"slices"
)

// mixed makes the uniform assignment of members whose subscriptions differ: all keep what they have, what is
// free goes to the subscriber with the fewest partitions, and then partitions move, one at a time, from
// a member to one that has at least two fewer, until there is no such pair.
//
// Each move brings two loads closer together, so this ends. It does not look for chains of
// moves through members whose loads are between: Kafka does not either, and its definition of balance is the same.
type mixed struct {
	*table
	subscribers [][]int32 // of each topic
	order       []int     // topics, those first that are hardest to spread
	held        [][]int32 // of each member, the partitions of the topic being leveled, ascending
}

func newMixed(t *table) *mixed {
	m := &mixed{table: t, subscribers: t.subscribers(), held: make([][]int32, len(t.load))}
	for topic := range t.group.Topics {
		if len(m.subscribers[topic]) > 0 {
			m.order = append(m.order, topic)
		}
	}
	// Most partitions for each subscriber first, then fewest subscribers: what few may
	// own is placed while they have room.
	slices.SortStableFunc(m.order, func(a, b int) int {
		subscribersA, subscribersB := len(m.subscribers[a]), len(m.subscribers[b])
		partitionsA, partitionsB := int(t.group.Topics[a].Partitions), int(t.group.Topics[b].Partitions)
		return cmp.Or(cmp.Compare(partitionsB*subscribersA, partitionsA*subscribersB), cmp.Compare(subscribersA, subscribersB))
	})
	return m
}

func (m *mixed) assign() {
	m.retain(func(int32) bool { return true })
	for _, topic := range m.order {
		m.fill(topic)
	}
	for moved := true; moved; {
		moved = false
		for _, topic := range m.order {
			if m.level(topic) {
				moved = true
			}
		}
	}
}

// fill gives the free partitions of a topic to its subscribers with the fewest.
func (m *mixed) fill(topic int) {
	least := newRanking(m.subscribers[topic], func(a, b int32) int { return cmp.Compare(m.load[a], m.load[b]) })
	for place := m.base[topic]; place < m.base[topic+1]; place++ {
		if m.owner[place] == nobody {
			m.give(place, least.first())
			least.moved(least.first())
		}
	}
}

// level moves partitions of one topic from the member with the most to that with the fewest, and
// reports whether it moved any.
func (m *mixed) level(topic int) bool {
	subscribers := m.subscribers[topic]
	if len(subscribers) < 2 {
		return false
	}
	for _, member := range subscribers {
		m.held[member] = m.held[member][:0]
	}
	for place := m.base[topic]; place < m.base[topic+1]; place++ {
		member := m.owner[place]
		m.held[member] = append(m.held[member], place)
	}
	least := newRanking(subscribers, func(a, b int32) int { return cmp.Compare(m.load[a], m.load[b]) })
	// Who has none of this topic has nothing to give, however much it has of others.
	most := newRanking(subscribers, func(a, b int32) int {
		return cmp.Or(-compareBools(len(m.held[a]) > 0, len(m.held[b]) > 0), cmp.Compare(m.load[b], m.load[a]))
	})
	moved := false
	for {
		source, target := most.first(), least.first()
		if len(m.held[source]) == 0 || m.load[target]+2 > m.load[source] {
			return moved
		}
		moved = true
		last := len(m.held[source]) - 1
		place := m.held[source][last]
		m.owner[place] = target
		m.held[source] = m.held[source][:last]
		m.load[source]--
		least.moved(source)
		most.moved(source)
		m.held[target] = append(m.held[target], place)
		m.load[target]++
		least.moved(target)
		most.moved(target)
	}
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// ranking keeps members in a heap whose order changes as their loads do.
type ranking struct {
	members []int32
	place   map[int32]int // of each member in members
	compare func(a, b int32) int
}

// newRanking ranks members that compare finds equal by their order in the group.
func newRanking(members []int32, compare func(a, b int32) int) *ranking {
	r := &ranking{members: slices.Clone(members), place: make(map[int32]int, len(members)), compare: compare}
	for n, member := range members {
		r.place[member] = n
	}
	heap.Init(r)
	return r
}

func (r *ranking) first() int32 { return r.members[0] }

// moved puts a member where its new load belongs.
func (r *ranking) moved(member int32) { heap.Fix(r, r.place[member]) }

// Len, Less, Swap, Push and Pop are heap.Interface. Members neither come nor go.
func (r *ranking) Len() int { return len(r.members) }

func (r *ranking) Less(i, j int) bool {
	a, b := r.members[i], r.members[j]
	return cmp.Or(r.compare(a, b), cmp.Compare(a, b)) < 0
}

func (r *ranking) Swap(i, j int) {
	r.members[i], r.members[j] = r.members[j], r.members[i]
	r.place[r.members[i]], r.place[r.members[j]] = i, j
}

func (r *ranking) Push(any) { panic("assign: a ranking does not grow") }

func (r *ranking) Pop() any { panic("assign: a ranking does not shrink") }
