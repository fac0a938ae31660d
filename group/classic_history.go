package group

// Cause is why a group rebalances.
type Cause uint8

// The causes of rebalances.
const (
	// CauseMemberJoined: a member came that was not there.
	CauseMemberJoined Cause = iota + 1
	// CauseMemberLeft: a member said that it goes.
	CauseMemberLeft
	// CauseMemberRemoved: somebody else, an operator, took out a static member by its instance id.
	CauseMemberRemoved
	// CauseSessionTimeout: a member sent no heartbeat for its session timeout.
	CauseSessionTimeout
	// CausePollOverrun: a member was too busy with its records to come back: it left for that reason, as the Java
	// client does after max.poll.interval.ms, or did not send SyncGroup in time. Who did
	// not join again in time is in Rebalance.Overrun.
	CausePollOverrun
	// CauseMetadataChanged: a member joined again with other metadata: another subscription, mostly.
	CauseMetadataChanged
	// CauseLeaderRejoined: the leader joined again, which it does when topics have other partitions.
	CauseLeaderRejoined
	// CauseStaticMemberRestarted: a static member came back while the leader assigned to the one it was before.
	CauseStaticMemberRestarted
	// CauseGroupTooLarge: the group was loaded with more members than group.max.size allows.
	CauseGroupTooLarge
	// CauseGroupNotStored: the assignment is too large to be stored.
	CauseGroupNotStored
)

var causeNames = [...]string{
	CauseMemberJoined:          "member joined",
	CauseMemberLeft:            "member left",
	CauseMemberRemoved:         "member removed by an operator",
	CauseSessionTimeout:        "session timeout",
	CausePollOverrun:           "poll overrun",
	CauseMetadataChanged:       "metadata changed",
	CauseLeaderRejoined:        "leader rejoined",
	CauseStaticMemberRestarted: "static member restarted",
	CauseGroupTooLarge:         "group too large",
	CauseGroupNotStored:        "group not stored",
}

// String says the cause in words.
func (c Cause) String() string {
	if int(c) < len(causeNames) && causeNames[c] != "" {
		return causeNames[c]
	}
	return "unknown"
}

// Rebalance is one rebalance of a group, from the event that began it to the generation that it led to.
type Rebalance struct {
	StartedMillis int64
	// EndedMillis is when the members were told the generation, not when they had their
	// assignment; 0 while the rebalance runs.
	EndedMillis int64
	// Generation is the one that it led to.
	Generation int32
	// Members is how many members that generation has.
	Members int
	Cause   Cause
	// MemberID, InstanceID and ClientID name the member that caused it, if it was one.
	MemberID   string
	InstanceID string
	ClientID   string
	// Reason is what the client said (KIP-800), cut to reasonBytesMax.
	Reason string
	// Overrun is how many members were left out because they did not join again within the rebalance
	// timeout; OverrunID is the first of them.
	Overrun   int
	OverrunID string
}

// isTrouble says that operators should hear of the rebalance: members came to grief. That members
// come and go is none of it.
func (r *Rebalance) isTrouble() bool {
	switch r.Cause {
	case CauseSessionTimeout, CausePollOverrun, CauseGroupTooLarge, CauseGroupNotStored:
		return true
	}
	return r.Overrun > 0
}

const (
	// rebalancesMax is how many rebalances a group remembers.
	rebalancesMax = 32
	// reasonBytesMax bounds what a client may say of its reasons.
	reasonBytesMax = 256
)

// history are the last rebalances of a group, the newest last. It lives in memory: a coordinator that
// loads the group begins a new one.
type history struct {
	rebalances []Rebalance
	// total counts all, also those that are no longer remembered.
	total int64
}

// begin starts a rebalance.
func (h *history) begin(why cause, nowMillis int64) {
	if len(h.rebalances) >= rebalancesMax {
		copy(h.rebalances, h.rebalances[1:])
		h.rebalances = h.rebalances[:len(h.rebalances)-1]
	}
	one := Rebalance{StartedMillis: nowMillis, Cause: why.Cause, Reason: clipReason(why.reason)}
	if why.member != nil {
		one.MemberID, one.InstanceID, one.ClientID = why.member.id, why.member.instanceID, why.member.clientID
	}
	h.rebalances = append(h.rebalances, one)
	h.total++
}

// running returns the rebalance that has begun and not ended, or nil.
func (h *history) running() *Rebalance {
	if last := len(h.rebalances) - 1; last >= 0 && h.rebalances[last].EndedMillis == 0 {
		return &h.rebalances[last]
	}
	return nil
}

// overrun notes members that did not join again in time.
func (h *history) overrun(members []*classicMember) {
	if one := h.running(); one != nil && len(members) > 0 {
		if one.Overrun == 0 {
			one.OverrunID = members[0].id
		}
		one.Overrun += len(members)
	}
}

// end notes the generation that the running rebalance led to and returns it, or nil when none was running.
func (h *history) end(generation int32, members int, nowMillis int64) *Rebalance {
	one := h.running()
	if one != nil {
		one.Generation, one.Members, one.EndedMillis = generation, members, max(nowMillis, 1)
	}
	return one
}

// cause is an event that makes a group rebalance.
type cause struct {
	Cause
	member *classicMember // that it is about, or nil
	reason string         // what its client said
}

func clipReason(reason string) string {
	if len(reason) > reasonBytesMax {
		return reason[:reasonBytesMax]
	}
	return reason
}
