// Package assign divides the partitions of topics among the members of a consumer group: what
// the brokers do for the consumer protocol of KIP-848. Here live the assignors that Kafka
// has, uniform and range, and Partitions, the set of partitions in which assignments are spoken of.
//
// Package group calls it whenever a group's epoch has risen. Everything here is a pure function of
// its arguments: the same group gives the same assignment on every broker and at every time, which
// is why members come in an order that the caller fixes, and ties go to whoever comes first.
//
// There is no state, so no goroutine owns anything.
package assign

import (
	"ringlog/meta"
)

// Topic is a topic whose partitions are to be divided: 0 to Partitions-1.
type Topic struct {
	ID         meta.TopicID
	Partitions int32
}

// Member is one member of a group.
type Member struct {
	ID string
	// InstanceID is a static member's own name (KIP-345), "" for the others. It outlives ID.
	InstanceID string
	// Topics are the topics that it subscribes to, ascending, each once; every one is in
	// Group.Topics. Members of the same subscription may share the slice.
	Topics []meta.TopicID
	// Owned is what was assigned to it before, and what it keeps as far as its assignor
	// allows. Partitions that are gone or belong to topics that it left are no matter.
	Owned Partitions
}

// Group is what an assignor works on. It does not change it.
type Group struct {
	// Topics are all topics that some member subscribes to, by ascending id, each once.
	Topics []Topic
	// Members are in an order that depends on nothing but who they are.
	Members []Member
}

// Assignor divides the partitions of a group. Assign returns one set for each member, in
// their order; every partition of a topic with a subscriber is in exactly one of them.
type Assignor interface {
	// Name is how members and group.consumer.assignors name it.
	Name() string
	Assign(group *Group) []Partitions
}

// Assignors are all there are, in Kafka's order of preference.
func Assignors() []Assignor { return []Assignor{Uniform, Range} }

// ByName returns the assignor of that name.
func ByName(name string) (Assignor, bool) {
	for _, assignor := range Assignors() {
		if assignor.Name() == name {
			return assignor, true
		}
	}
	return nil, false
}

// homogeneous reports whether all members subscribe to the same topics.
func (g *Group) homogeneous() bool {
	for m := 1; m < len(g.Members); m++ {
		if !sameTopics(g.Members[0].Topics, g.Members[m].Topics) {
			return false
		}
	}
	return true
}

func sameTopics(a, b []meta.TopicID) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) == 0 || &a[0] == &b[0] { // shared: the usual case in a large group
		return true
	}
	for n := range a {
		if a[n] != b[n] {
			return false
		}
	}
	return true
}
