package group

import "slices"

// Group states, as clients and operators see them (KIP-518). StateDead is what a group that does not
// exist is said to be in.
const (
	StateEmpty               = "Empty"
	StatePreparingRebalance  = "PreparingRebalance"
	StateCompletingRebalance = "CompletingRebalance"
	StateStable              = "Stable"
	StateDead                = "Dead"
)

// protocolTypeConsumer is the protocol type of consumers; only of these does the coordinator know what
// their metadata means. Connect's workers, for one, have another.
const protocolTypeConsumer = "consumer"

// newMemberJoinMillis is how long a new member may wait in its first JoinGroup. It does not know its
// id yet and cannot send heartbeats; a client that gave up and asked again would leave
// a member behind at each attempt (Kafka's group.new.member.join.timeout.ms).
const newMemberJoinMillis = 5 * 60 * 1000

// classicGroup is the membership of a group whose members assign partitions among themselves: one of them, the
// leader, gets everybody's metadata and returns everybody's assignment. The coordinator keeps the barrier.
//
//	        first member        ┌───────────────────────────────── member joined, left, was lost, changed its
//	Empty ────────────────┐     │                                  metadata; leader joined again ◀──────────┐
//	  ▲   (delay for more) ▼    ▼                                                                            │
//	  │                 PreparingRebalance ── all have joined, or time is up ──▶ CompletingRebalance ──┐     │
//	  │                     │  waits: JoinGroup                                   waits: SyncGroup     │     │
//	  └── nobody is left ───┘                                                  the leader's SyncGroup  ▼     │
//	      (record)                                                                        (record)  Stable ──┘
//
// Who does not join again within the rebalance timeout is out, unless it is static; so is who does not send
// SyncGroup within it, and who sends no heartbeat within its session. What is in the log is the last state
// that was Empty or Stable: a coordinator that loads it in the middle of a rebalance goes on from there, and
// the members find out by their generation.
type classicGroup struct {
	machine *Machine
	group   *group

	state    string
	previous string // the state before
	// sinceMillis is when the group came into its state; -1 when an old record does not say.
	sinceMillis int64

	protocolType string // "" until the first member
	protocol     string // what the members' votes chose for this generation; "" in Empty
	generation   int32
	leader       *classicMember // nil without members

	// members has all members, the oldest first; byID and static (by instance id) are the same ones.
	members []*classicMember
	byID    map[string]*classicMember
	static  map[string]*classicMember
	// supporters counts the members that support each protocol.
	supporters map[string]int
	// metadataBytes is what all members say for all their protocols, in bytes.
	metadataBytes int
	// joining is how many members wait in JoinGroup, unsynced how many have not sent SyncGroup in this generation.
	joining, unsynced int
	// pending are ids that were given out and have not come back yet (KIP-394).
	pending pendingMembers

	// rejoin is when those who have not joined again are given up, sync the same for SyncGroup.
	rejoin, sync timer
	// initial is the rebalance of a group that was empty; see prepare.
	initial struct {
		is              bool
		memberAdded     bool // since the last look
		delayMillis     int64
		remainingMillis int64
	}

	// topics are what members of the consumer protocol are subscribed to, as of this generation;
	// topicsKnown is false where their metadata cannot be read.
	topics      map[string]bool
	topicsKnown bool

	history history
}

// newClassicGroup returns an empty membership of g; the caller puts it there.
func newClassicGroup(m *Machine, g *group, nowMillis int64) *classicGroup {
	classic := &classicGroup{
		machine: m, group: g,
		state: StateEmpty, previous: StateDead, sinceMillis: nowMillis,
		byID: map[string]*classicMember{}, static: map[string]*classicMember{}, supporters: map[string]int{},
	}
	classic.rejoin.fire = classic.rejoinTimeUp
	classic.sync.fire = classic.syncTimeUp
	return classic
}

// enter changes the state.
func (g *classicGroup) enter(state string, nowMillis int64) {
	g.previous, g.state, g.sinceMillis = g.state, state, nowMillis
}

// rebalanceTimeoutMillis is the longest of all members', and at least one so that time moves on.
func (g *classicGroup) rebalanceTimeoutMillis() int64 {
	longest := int32(1)
	for _, member := range g.members {
		longest = max(longest, member.rebalanceTimeoutMillis)
	}
	return int64(longest)
}

// newMember returns a member that is in no index yet.
func (g *classicGroup) newMember(id, instanceID string) *classicMember {
	member := &classicMember{id: id, instanceID: instanceID}
	member.session.fire = func(c call) { g.sessionExpired(c, member) }
	return member
}

// insert adds a member that is in no index yet.
func (g *classicGroup) insert(member *classicMember) {
	if len(g.members) == 0 {
		g.leader = member
	}
	g.members = append(g.members, member)
	g.byID[member.id] = member
	if member.instanceID != "" {
		g.static[member.instanceID] = member
	}
	g.countProtocols(member, 1)
	g.pending.remove(g.machine, member.id)
}

// remove takes a member out. What it waits for is answered with ErrUnknownMember, whereupon a client that
// is alive joins anew; Kafka leaves a SyncGroup unanswered here.
func (g *classicGroup) remove(c call, member *classicMember) {
	g.dismiss(c, member)
	g.members = slices.DeleteFunc(g.members, func(one *classicMember) bool { return one == member })
	g.electAfterLoss()
}

// removeAll takes out every member of which leaves is true, in one pass, and returns them.
func (g *classicGroup) removeAll(c call, leaves func(*classicMember) bool) (removed []*classicMember) {
	for _, member := range g.members {
		if leaves(member) {
			removed = append(removed, member)
		}
	}
	if len(removed) == 0 {
		return nil
	}
	for _, member := range removed {
		g.dismiss(c, member)
	}
	g.members = slices.DeleteFunc(g.members, func(one *classicMember) bool { return one.gone })
	g.electAfterLoss()
	return removed
}

// dismiss takes a member out of everything but the list of members.
func (g *classicGroup) dismiss(c call, member *classicMember) {
	g.answerJoin(c, member, &JoinAnswer{Err: ErrUnknownMember, Generation: noGeneration})
	g.answerSync(c, member, &SyncAnswer{Err: ErrUnknownMember})
	g.setSynced(member)
	g.machine.timers.disarm(&member.session)
	delete(g.byID, member.id)
	if member.instanceID != "" {
		delete(g.static, member.instanceID)
	}
	g.countProtocols(member, -1)
	member.gone = true
}

// electAfterLoss makes the oldest member leader when the leader is gone.
func (g *classicGroup) electAfterLoss() {
	switch {
	case len(g.members) == 0:
		g.leader = nil
	case g.leader.gone:
		g.leader = g.members[0]
	}
}

// checkMember returns the member of that id, or why there is none: an instance id, if there is one, must
// be the member's (KIP-345).
func (g *classicGroup) checkMember(memberID, instanceID string) (*classicMember, error) {
	if instanceID != "" {
		holder := g.static[instanceID]
		switch {
		case holder == nil:
			return nil, ErrUnknownMember
		case holder.id != memberID:
			return nil, ErrFencedInstance
		}
	}
	member := g.byID[memberID]
	if member == nil {
		return nil, ErrUnknownMember
	}
	return member, nil
}

// answerJoin answers the JoinGroup in which a member waits, if it does.
func (g *classicGroup) answerJoin(c call, member *classicMember, answer *JoinAnswer) {
	if member.join.waits {
		member.join.waits = false
		g.joining--
		c.effects.Answer(member.join.token, answer)
	}
}

// answerSync answers the SyncGroup in which a member waits, if it does, and says whether it did.
func (g *classicGroup) answerSync(c call, member *classicMember, answer *SyncAnswer) bool {
	if !member.sync.waits {
		return false
	}
	member.sync.waits = false
	c.effects.Answer(member.sync.token, answer)
	return true
}

// park has a member wait in JoinGroup. A request in which it waited before is one that its client
// has given up: Kafka never answers that one, here it is told to join again.
func (g *classicGroup) park(c call, member *classicMember) {
	g.answerJoin(c, member, &JoinAnswer{Err: ErrRebalanceInProgress, MemberID: member.id, Generation: noGeneration})
	member.join = waiting{token: c.token, waits: true}
	g.joining++
}

func (g *classicGroup) setSynced(member *classicMember) {
	if member.unsynced {
		member.unsynced = false
		g.unsynced--
	}
}

// refresh starts a member's session anew.
func (g *classicGroup) refresh(c call, member *classicMember) {
	g.machine.timers.arm(&member.session, c.nowMillis+int64(member.sessionTimeoutMillis))
}

// isLeader says whether the member is the one that assigns.
func (g *classicGroup) isLeader(member *classicMember) bool { return g.leader == member }

// leaderID is the leader's id, or "".
func (g *classicGroup) leaderID() string {
	if g.leader == nil {
		return ""
	}
	return g.leader.id
}

// The methods of membership.

// checkCommit implements membership: Kafka's ClassicGroup.validateOffsetCommit. A commit keeps its member's
// session alive as a heartbeat does, except between JoinGroup and SyncGroup.
func (g *classicGroup) checkCommit(_ *Machine, c call, commit *OffsetCommit) error {
	if commit.Generation < 0 && g.state == StateEmpty {
		return nil
	}
	instanceID := instanceOf(commit.InstanceID)
	if commit.Generation < 0 && commit.MemberID == "" && instanceID == "" {
		return ErrUnknownMember // nobody's commit, beside members
	}
	member, err := g.checkMember(commit.MemberID, instanceID)
	switch {
	case err != nil:
		return err
	case commit.Generation != g.generation:
		return ErrIllegalGeneration
	case g.state == StateCompletingRebalance:
		return ErrRebalanceInProgress
	}
	g.refresh(c, member)
	return nil
}

// checkFetch implements membership: a classic group lets everybody read.
func (g *classicGroup) checkFetch(*OffsetFetchGroup) error { return nil }

// checkOffsetDelete implements membership: of consumers it is known what they are subscribed to, of others not.
func (g *classicGroup) checkOffsetDelete() error {
	if !g.isEmpty() && g.protocolType != protocolTypeConsumer {
		return ErrNonEmptyGroup
	}
	return nil
}

// isEmpty implements membership. Ids that were given out are no members.
func (g *classicGroup) isEmpty() bool { return g.state == StateEmpty }

// subscribes implements membership. A consumer whose metadata cannot be read may be subscribed to anything.
func (g *classicGroup) subscribes(topic string) bool {
	if g.topicsKnown {
		return g.topics[topic]
	}
	return g.protocolType == protocolTypeConsumer
}

// emptySinceMillis implements membership.
func (g *classicGroup) emptySinceMillis() int64 {
	if g.state != StateEmpty || g.protocolType == "" {
		return 0
	}
	return max(g.sinceMillis, 0)
}

// loaded implements membership: members keep their ids, and their sessions start anew. A group that was
// larger than group.max.size now allows rebalances, which leaves out those who come last.
func (g *classicGroup) loaded(m *Machine, c call) {
	for _, member := range g.members {
		g.refresh(c, member)
	}
	if len(g.members) > m.config.MembersMax {
		g.prepare(c, cause{Cause: CauseGroupTooLarge})
	}
}

// appendTombstones implements membership.
func (g *classicGroup) appendTombstones(m *Machine, c call) {
	m.timers.disarm(&g.rejoin)
	m.timers.disarm(&g.sync)
	g.pending.clear(m)
	c.effects.Append(groupMetadataTombstone(g.group.id, c.nowMillis))
}
