package group

// Sync asks for a member's assignment; the leader's brings everybody's.
type Sync struct {
	GroupID    string
	MemberID   string
	InstanceID *string
	Generation int32
	// ProtocolType and Protocol are what the client was told in JoinAnswer; nil when it does not say.
	ProtocolType *string
	Protocol     *string
	// Assignments are the leader's; those for members that are not there are dropped.
	Assignments []Assignment
}

// Assignment is what the leader gives a member.
type Assignment struct {
	MemberID   string
	Assignment []byte
}

// SyncAnswer answers Sync.
type SyncAnswer struct {
	Err error
	// ProtocolType and Protocol are nil with an error.
	ProtocolType *string
	Protocol     *string
	Assignment   []byte
}

func (r *Sync) step(m *Machine, c call) {
	if err := m.sync(c, r); err != nil {
		c.answer(&SyncAnswer{Err: err})
	}
}

// sync gives a member its assignment, or has it wait for the leader; without an error it is answered, or will be.
func (m *Machine) sync(c call, r *Sync) error {
	g, consumer, err := m.classicOf(r.GroupID)
	switch {
	case err != nil:
		return err
	case consumer != nil:
		return consumer.syncClassic(c, r)
	}
	member, err := g.checkMember(r.MemberID, instanceOf(r.InstanceID))
	switch {
	case err != nil:
		return err
	case r.Generation != g.generation:
		return ErrIllegalGeneration
	case r.ProtocolType != nil && *r.ProtocolType != g.protocolType, r.Protocol != nil && *r.Protocol != g.protocol:
		return ErrInconsistentProtocol
	}
	switch g.state {
	case StatePreparingRebalance:
		return ErrRebalanceInProgress
	case StateStable:
		g.synced(member)
		g.refresh(c, member)
		c.answer(g.assigned(member))
	case StateCompletingRebalance:
		// As in park: a request in which it waited before was given up by its client.
		g.answerSync(c, member, &SyncAnswer{Err: ErrRebalanceInProgress})
		member.sync = waiting{token: c.token, waits: true}
		g.synced(member)
		if g.isLeader(member) {
			g.assign(c, r.Assignments)
		}
	}
	return nil
}

// classicOf returns the group of that id as its members of the classic protocol see it: a classic group, or
// a consumer group, which such members may be in as well (KIP-848).
func (m *Machine) classicOf(id string) (*classicGroup, *consumerGroup, error) {
	if id == "" {
		return nil, nil, ErrInvalidGroupID
	}
	g := m.group(id)
	if g == nil || g.membership() == nil {
		return nil, nil, ErrUnknownMember
	}
	return g.classic, g.consumer, nil
}

// synced notes that a member has sent SyncGroup.
func (g *classicGroup) synced(member *classicMember) {
	g.setSynced(member)
	if g.unsynced == 0 {
		g.machine.timers.disarm(&g.sync)
	}
}

// assigned is the answer for a member whose assignment is known.
func (g *classicGroup) assigned(member *classicMember) *SyncAnswer {
	protocolType, protocol := g.protocolType, g.protocol
	return &SyncAnswer{ProtocolType: &protocolType, Protocol: &protocol, Assignment: member.assignment}
}

// assign takes the leader's assignment: it is stored, and those who wait for it get it. Who is not in it has
// none.
func (g *classicGroup) assign(c call, assignments []Assignment) {
	for _, member := range g.members {
		member.assignment = nil
	}
	for i := range assignments {
		if member := g.byID[assignments[i].MemberID]; member != nil {
			member.assignment = assignments[i].Assignment
		}
	}
	if !g.store(c) {
		g.failSync(c, ErrGroupNotStored)
		g.prepare(c, cause{Cause: CauseGroupNotStored, member: g.leader})
		return
	}
	g.enter(StateStable, c.nowMillis)
	for _, member := range g.members {
		if member.sync.waits {
			g.answerSync(c, member, g.assigned(member))
			g.refresh(c, member)
		}
	}
}

// failSync ends the wait for assignments with an error.
func (g *classicGroup) failSync(c call, err error) {
	for _, member := range g.members {
		member.assignment = nil
		if g.answerSync(c, member, &SyncAnswer{Err: err}) {
			g.refresh(c, member)
		}
	}
}

// forgetSync stops waiting for SyncGroup.
func (g *classicGroup) forgetSync() {
	g.machine.timers.disarm(&g.sync)
	for _, member := range g.members {
		member.unsynced = false
	}
	g.unsynced = 0
}

// syncTimeUp is called when members have had the rebalance timeout to send SyncGroup: who has not is out, be it
// static or not.
func (g *classicGroup) syncTimeUp(c call) {
	removed := g.removeAll(c, func(member *classicMember) bool { return member.unsynced })
	if len(removed) > 0 {
		g.prepare(c, cause{Cause: CausePollOverrun, member: removed[0]})
	}
}
