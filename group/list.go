package group

import (
	"slices"
	"strings"
)

// The types of groups (KIP-848).
const (
	TypeClassic  = "classic"
	TypeConsumer = "consumer"
)

// List asks for the groups of a machine. Filters compare without regard to case; an empty one lets all pass.
type List struct {
	States []string // KIP-518
	Types  []string // KIP-848
}

// Listed answers List.
type Listed struct{ Groups []ListedGroup }

// ListedGroup is one group.
type ListedGroup struct {
	GroupID      string
	ProtocolType string
	State        string
	Type         string
}

func (r *List) step(m *Machine, c call) {
	listed := &Listed{}
	for _, g := range m.order {
		one := g.listed()
		if passes(r.States, one.State) && passes(r.Types, one.Type) {
			listed.Groups = append(listed.Groups, one)
		}
	}
	c.answer(listed)
}

// passes holds a name against a filter.
func passes(filter []string, name string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(one string) bool { return strings.EqualFold(strings.TrimSpace(one), name) })
}

// listed returns the group's line. As in Kafka one that has only offsets is an empty classic group.
func (g *group) listed() ListedGroup {
	one := ListedGroup{GroupID: g.id, State: StateEmpty, Type: TypeClassic}
	switch {
	case g.classic != nil:
		one.ProtocolType, one.State = g.classic.protocolType, g.classic.state
	case g.consumer != nil:
		one.ProtocolType, one.State, one.Type = protocolTypeConsumer, g.consumer.state(), TypeConsumer
	}
	return one
}
