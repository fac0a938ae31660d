package group

import "slices"

// Describe asks for everything about a classic group. A group that has only offsets is one that is empty; a
// consumer group is not found here (KIP-848 has its own request).
type Describe struct{ GroupID string }

// Description answers Describe.
type Description struct {
	Err          error
	State        string
	ProtocolType string
	Protocol     string // "" unless Stable
	Generation   int32
	Members      []MemberDescription // the oldest first
	// Rebalances are the last ones, the oldest first, since the group was loaded; RebalanceCount is how many there were.
	Rebalances     []Rebalance
	RebalanceCount int64
}

// MemberDescription is one member.
type MemberDescription struct {
	MemberID   string
	InstanceID string // "" for none
	ClientID   string
	ClientHost string
	Metadata   []byte // nil unless the group is Stable
	Assignment []byte
	IsLeader   bool
}

func (r *Describe) step(m *Machine, c call) {
	g := m.group(r.GroupID)
	switch {
	case g == nil || g.consumer != nil:
		c.answer(&Description{Err: ErrGroupNotFound, State: StateDead})
	case g.classic == nil:
		c.answer(&Description{State: StateEmpty})
	default:
		c.answer(g.classic.describe())
	}
}

func (g *classicGroup) describe() *Description {
	described := &Description{
		State: g.state, ProtocolType: g.protocolType, Generation: g.generation,
		Members:    make([]MemberDescription, len(g.members)),
		Rebalances: slices.Clone(g.history.rebalances), RebalanceCount: g.history.total,
	}
	stable := g.state == StateStable
	if stable {
		described.Protocol = g.protocol
	}
	for i, member := range g.members {
		one := &described.Members[i]
		*one = MemberDescription{
			MemberID: member.id, InstanceID: member.instanceID, ClientID: member.clientID, ClientHost: member.clientHost,
			Assignment: member.assignment, IsLeader: g.isLeader(member),
		}
		if stable {
			one.Metadata = member.metadata(g.protocol)
		}
	}
	return described
}
