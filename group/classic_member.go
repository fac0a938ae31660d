package group

import (
	"bytes"
	"slices"
)

// Protocol is a way to assign partitions that a member offers, by name, with what the leader has to know of
// the member for it.
type Protocol struct {
	Name     string
	Metadata []byte
}

// instanceOf returns a request's instance id, or "" without one.
func instanceOf(id *string) string {
	if id == nil {
		return ""
	}
	return *id
}

// waiting is a request that a member waits in.
type waiting struct {
	token uint64
	waits bool
}

// classicMember is one member of a classic group.
type classicMember struct {
	id string
	// instanceID is group.instance.id of a static member, which keeps its place through restarts; "" is a dynamic one.
	instanceID string
	clientID   string
	clientHost string

	sessionTimeoutMillis   int32
	rebalanceTimeoutMillis int32
	// protocols in the order in which the member prefers them; no name twice. After a load only the
	// chosen one is known.
	protocols  []Protocol
	assignment []byte

	join, sync waiting
	// isNew is true until the member's first JoinGroup is answered.
	isNew bool
	// unsynced is true from the answer to JoinGroup to SyncGroup.
	unsynced bool
	// gone is true once the member was taken out.
	gone bool
	// session is when the member is given up.
	session timer
}

// metadata returns what the member said for a protocol.
func (m *classicMember) metadata(protocol string) []byte {
	for i := range m.protocols {
		if m.protocols[i].Name == protocol {
			return m.protocols[i].Metadata
		}
	}
	return nil
}

// matches says whether a member joins again with the same metadata.
func (m *classicMember) matches(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// excused says whether a member needs no heartbeat: it waits for the coordinator. A new one is not
// excused: its client may be gone, and would never be noticed.
func (m *classicMember) excused() bool { return !m.isNew && (m.join.waits || m.sync.waits) }

// uniqueProtocols drops names that come again.
func uniqueProtocols(protocols []Protocol) []Protocol {
	unique := protocols[:0:0]
	for _, protocol := range protocols {
		if !slices.ContainsFunc(unique, func(p Protocol) bool { return p.Name == protocol.Name }) {
			unique = append(unique, protocol)
		}
	}
	return unique
}

// pendingMembersMax bounds the ids that a group has given out and that have not come back; the oldest
// is forgotten first, and its client, if there still is one, begins anew.
const pendingMembersMax = 10_000

// pendingMember is an id that was given out.
type pendingMember struct {
	id      string
	session timer
}

// pendingMembers are the ids that a group has given out, the oldest first. The zero value is empty.
type pendingMembers struct {
	byID  map[string]*pendingMember
	order []*pendingMember
}

func (p *pendingMembers) has(id string) bool { return p.byID[id] != nil }

func (p *pendingMembers) len() int { return len(p.order) }

// add remembers an id until a time; expired is called when it did not come back.
func (p *pendingMembers) add(m *Machine, id string, untilMillis int64, expired func(call, string)) {
	if len(p.order) >= pendingMembersMax {
		p.remove(m, p.order[0].id)
	}
	if p.byID == nil {
		p.byID = map[string]*pendingMember{}
	}
	one := &pendingMember{id: id}
	one.session.fire = func(c call) { expired(c, id) }
	p.byID[id] = one
	p.order = append(p.order, one)
	m.timers.arm(&one.session, untilMillis)
}

// remove forgets an id and says whether it was there.
func (p *pendingMembers) remove(m *Machine, id string) bool {
	one := p.byID[id]
	if one == nil {
		return false
	}
	m.timers.disarm(&one.session)
	delete(p.byID, id)
	p.order = slices.DeleteFunc(p.order, func(other *pendingMember) bool { return other == one })
	return true
}

// clear forgets all.
func (p *pendingMembers) clear(m *Machine) {
	for _, one := range p.order {
		m.timers.disarm(&one.session)
	}
	*p = pendingMembers{}
}
