package group

import (
	"fmt"

	"ringlog/coord"
)

// noGeneration stands in answers that name no generation.
const noGeneration int32 = -1

// Join asks for membership in a classic group. It is answered when the group has a new generation, which may take
// the rebalance timeout.
type Join struct {
	GroupID string
	// MemberID is "" for a new member.
	MemberID   string
	InstanceID *string
	// NewMemberID makes an id that nobody else has, for a member that has none: it is appended to the
	// instance id, or the client id. Chance comes in from outside.
	NewMemberID string
	ClientID    string
	ClientHost  string
	// SessionTimeoutMillis and RebalanceTimeoutMillis: see classicGroup. A negative rebalance timeout is that of a
	// client that knows none, and means the session timeout.
	SessionTimeoutMillis   int32
	RebalanceTimeoutMillis int32
	ProtocolType           string
	Protocols              []Protocol
	// Reason is what the client says of its reasons (KIP-800).
	Reason string
	// RequireMemberID: the client understands ErrMemberIDRequired (KIP-394).
	RequireMemberID bool
	// SkipAssignment: the client understands JoinAnswer.SkipAssignment (KIP-814).
	SkipAssignment bool
}

// JoinAnswer answers Join.
type JoinAnswer struct {
	Err error
	// MemberID is the member's id from now on, also with ErrMemberIDRequired; "" when it has to begin anew.
	MemberID   string
	Generation int32 // noGeneration with an error
	// ProtocolType and Protocol are nil with an error.
	ProtocolType *string
	Protocol     *string
	LeaderID     string
	// SkipAssignment tells a leader that has restarted not to assign anew (KIP-814).
	SkipAssignment bool
	// Members are all members, for the leader only.
	Members []JoinedMember
}

// JoinedMember is what the leader has to know of a member.
type JoinedMember struct {
	MemberID   string
	InstanceID string // "" for none
	Metadata   []byte // for the chosen protocol
}

func (r *Join) step(m *Machine, c call) {
	r.Protocols = uniqueProtocols(r.Protocols)
	if err := m.join(c, r); err != nil {
		c.answer(&JoinAnswer{Err: err, MemberID: r.MemberID, Generation: noGeneration})
	}
}

// join takes a member into its group, or says why not; without an error it is answered, or will be.
func (m *Machine) join(c call, r *Join) error {
	if r.GroupID == "" {
		return ErrInvalidGroupID
	}
	if timeout := int64(r.SessionTimeoutMillis); timeout < m.config.SessionTimeoutMinMillis || timeout > m.config.SessionTimeoutMaxMillis {
		return ErrInvalidSessionTimeout
	}
	g := m.group(r.GroupID)
	if g != nil && g.consumer != nil && !g.consumer.isEmpty() {
		return g.consumer.joinClassic(c, r)
	}
	if g == nil || g.classic == nil {
		switch {
		case r.MemberID != "":
			return ErrUnknownMember
		case !isProtocol(r.ProtocolType, r.Protocols):
			return ErrInconsistentProtocol // and no group is made, other than in Kafka
		}
		g = m.makeClassic(c, r.GroupID)
	}
	return g.classic.take(c, r)
}

// makeClassic makes an empty classic group. As in Kafka it is in the log at once, so that an
// id that was given out and a group without offsets survive a restart in the same way.
func (m *Machine) makeClassic(c call, id string) *group {
	g := m.makeGroup(id)
	if g.consumer != nil { // without members: it may become another kind of group (KIP-848)
		g.consumer.appendTombstones(m, c)
		g.consumer = nil
	}
	g.classic = newClassicGroup(m, g, c.nowMillis)
	c.effects.Append(coord.Record{Key: groupMetadataKey(id), Value: g.classic.stored(), TimestampMillis: c.nowMillis})
	return g
}

// take goes on with a member whose group is there.
func (g *classicGroup) take(c call, r *Join) error {
	if !g.hasRoom(r.MemberID) {
		return g.turnAway(c, r)
	}
	if !g.supports(r.ProtocolType, r.Protocols) {
		return ErrInconsistentProtocol
	}
	if !g.hasRoomFor(r) {
		return ErrGroupFull
	}
	if r.MemberID == "" {
		g.joinNew(c, r)
		return nil
	}
	return g.joinAgain(c, r)
}

// hasRoom holds the group against group.max.size. While members join, those who came first stay: the
// size may be over the limit already, when it was lowered.
func (g *classicGroup) hasRoom(memberID string) bool {
	member := g.byID[memberID]
	switch g.state {
	case StatePreparingRebalance:
		return member != nil && member.join.waits || g.joining < g.machine.config.MembersMax
	case StateCompletingRebalance, StateStable:
		return member != nil || len(g.members) < g.machine.config.MembersMax
	}
	return true
}

// memberMetadataBytesMax bounds what the members of a group may say of themselves. Only a part of that is stored, what
// they say for the chosen protocol; all of it is in memory, and not every client is well-meaning.
const memberMetadataBytesMax = 4 * groupMetadataBytesMax

// hasRoomFor holds what a member says of itself against what is left of that.
func (g *classicGroup) hasRoomFor(r *Join) bool {
	size := g.metadataBytes + protocolBytes(r.Protocols)
	if member := g.byID[r.MemberID]; member != nil {
		size -= protocolBytes(member.protocols)
	}
	return size <= memberMetadataBytesMax
}

// turnAway refuses a member for which there is no room; if it was one, or was to be one, it no longer is.
func (g *classicGroup) turnAway(c call, r *Join) error {
	g.pending.remove(g.machine, r.MemberID)
	if member := g.byID[r.MemberID]; member != nil {
		g.remove(c, member)
	}
	g.maybeComplete(c)
	c.answer(&JoinAnswer{Err: ErrGroupFull, Generation: noGeneration})
	return nil
}

// joinNew is a member without an id: a new one, or a static one that has restarted (KIP-345).
func (g *classicGroup) joinNew(c call, r *Join) {
	instanceID := instanceOf(r.InstanceID)
	switch {
	case instanceID == "" && r.RequireMemberID:
		id := r.ClientID + "-" + r.NewMemberID
		g.pending.add(g.machine, id, c.nowMillis+int64(r.SessionTimeoutMillis), g.pendingExpired)
		c.answer(&JoinAnswer{Err: ErrMemberIDRequired, MemberID: id, Generation: noGeneration})
	case instanceID == "":
		g.add(c, r, r.ClientID+"-"+r.NewMemberID)
	case g.static[instanceID] == nil:
		g.add(c, r, instanceID+"-"+r.NewMemberID)
	default:
		g.replace(c, r, g.static[instanceID], instanceID+"-"+r.NewMemberID)
	}
}

// add takes a member in and begins a rebalance for it.
func (g *classicGroup) add(c call, r *Join, id string) {
	member := g.newMember(id, instanceOf(r.InstanceID))
	member.isNew = true
	member.take(r)
	if len(g.members) == 0 {
		g.protocolType = r.ProtocolType
	}
	g.initial.memberAdded = g.initial.is
	g.insert(member)
	g.park(c, member)
	g.machine.timers.arm(&member.session, c.nowMillis+newMemberJoinMillis)
	g.rebalance(c, cause{Cause: CauseMemberJoined, member: member, reason: r.Reason})
}

// take copies what a member says of itself.
func (m *classicMember) take(r *Join) {
	m.clientID, m.clientHost = r.ClientID, r.ClientHost
	m.sessionTimeoutMillis, m.rebalanceTimeoutMillis = r.SessionTimeoutMillis, r.RebalanceTimeoutMillis
	if m.rebalanceTimeoutMillis < 0 {
		m.rebalanceTimeoutMillis = m.sessionTimeoutMillis
	}
	m.protocols = r.Protocols
}

// update is take for a member that is counted already; from then on it waits in this JoinGroup.
func (g *classicGroup) update(c call, member *classicMember, r *Join) {
	g.countProtocols(member, -1)
	member.take(r)
	g.countProtocols(member, 1)
	g.park(c, member)
}

// replace is a static member that comes back without its id: it restarted. Whoever still uses the old id is
// fenced. In a stable group nothing else happens as long as the members' votes choose the same
// protocol: it gets its assignment in SyncGroup.
func (g *classicGroup) replace(c call, r *Join, member *classicMember, newID string) {
	oldLeaderID := g.leaderID()
	g.answerJoin(c, member, &JoinAnswer{Err: ErrFencedInstance, MemberID: member.id, Generation: noGeneration})
	g.answerSync(c, member, &SyncAnswer{Err: ErrFencedInstance})
	delete(g.byID, member.id)
	member.id, member.isNew = newID, false
	g.byID[newID] = member
	g.update(c, member, r)
	g.refresh(c, member)
	switch g.state {
	case StateStable:
		if g.selectProtocol() != g.protocol {
			g.rebalance(c, cause{Cause: CauseMetadataChanged, member: member, reason: r.Reason})
			return
		}
		answer := g.joined(member)
		answer.SkipAssignment = r.SkipAssignment && g.isLeader(member)
		if !r.SkipAssignment {
			// A client that cannot be told to keep the assignment must not find itself leader: it would assign
			// anew, and nobody waits for that.
			answer.LeaderID, answer.Members = oldLeaderID, nil
		}
		if !g.store(c) {
			g.rebalance(c, cause{Cause: CauseGroupNotStored, member: member})
			return
		}
		g.answerJoin(c, member, answer)
	case StateCompletingRebalance:
		// The leader may have been told the old id, and assigns to that.
		g.prepare(c, cause{Cause: CauseStaticMemberRestarted, member: member, reason: r.Reason})
	default:
		g.maybeComplete(c)
	}
}

// joinAgain is a member with an id: it has just been given it, rebalances, or has missed an answer.
func (g *classicGroup) joinAgain(c call, r *Join) error {
	instanceID := instanceOf(r.InstanceID)
	if g.pending.has(r.MemberID) {
		if instanceID != "" {
			return fmt.Errorf("%w: a member with an instance id, %q, joins with an id that was given out to one without", ErrInvalidRequest, instanceID)
		}
		g.add(c, r, r.MemberID)
		return nil
	}
	member, err := g.checkMember(r.MemberID, instanceID)
	if err != nil {
		return err
	}
	same := member.matches(r.Protocols)
	switch {
	case g.state == StatePreparingRebalance:
		g.update(c, member, r)
		g.maybeComplete(c)
	case g.state == StateStable && g.isLeader(member):
		// The leader may see a change that is in nobody's metadata, like more partitions.
		g.update(c, member, r)
		g.rebalance(c, cause{Cause: leaderCause(same), member: member, reason: r.Reason})
	case !same:
		g.update(c, member, r)
		g.rebalance(c, cause{Cause: CauseMetadataChanged, member: member, reason: r.Reason})
	default: // it has not got the answer: this generation is still its own
		c.answer(g.joined(member))
	}
	return nil
}

func leaderCause(same bool) Cause {
	if same {
		return CauseLeaderRejoined
	}
	return CauseMetadataChanged
}

// joined is the answer for a member of the present generation.
func (g *classicGroup) joined(member *classicMember) *JoinAnswer {
	protocolType, protocol := g.protocolType, g.protocol
	answer := &JoinAnswer{MemberID: member.id, Generation: g.generation, ProtocolType: &protocolType, Protocol: &protocol, LeaderID: g.leaderID()}
	if g.isLeader(member) {
		answer.Members = make([]JoinedMember, len(g.members))
		for i, one := range g.members {
			answer.Members[i] = JoinedMember{MemberID: one.id, InstanceID: one.instanceID, Metadata: one.metadata(g.protocol)}
		}
	}
	return answer
}

// pendingExpired is called when an id that was given out did not come back within its session timeout.
func (g *classicGroup) pendingExpired(c call, id string) {
	g.pending.remove(g.machine, id)
	g.maybeComplete(c)
}
