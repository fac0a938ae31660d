package group

// rebalance begins a rebalance, or, when members are joining already, ends it if this was the last that it
// waited for.
func (g *classicGroup) rebalance(c call, why cause) {
	if g.state == StatePreparingRebalance {
		g.maybeComplete(c)
		return
	}
	g.prepare(c, why)
}

// prepare begins a rebalance. REQUIRES: not PreparingRebalance. Whoever waits for its assignment is told to join
// again; all others find out by their heartbeats.
//
// The first rebalance of an empty group waits for more members (group.initial.rebalance.delay.ms), and again as
// long as some came, the longest rebalance timeout in all: the members of an application start one after the
// other, and each would cause a rebalance.
func (g *classicGroup) prepare(c call, why cause) {
	if g.state == StateCompletingRebalance {
		g.failSync(c, ErrRebalanceInProgress)
	}
	g.forgetSync()
	g.history.begin(why, c.nowMillis)
	g.initial.is = g.state == StateEmpty
	g.enter(StatePreparingRebalance, c.nowMillis)
	if g.initial.is {
		delay := g.machine.config.InitialRebalanceDelayMillis
		g.initial.memberAdded = false
		g.initial.delayMillis, g.initial.remainingMillis = delay, max(g.rebalanceTimeoutMillis()-delay, 0)
		g.machine.timers.arm(&g.rejoin, c.nowMillis+delay)
		return
	}
	g.machine.timers.arm(&g.rejoin, c.nowMillis+g.rebalanceTimeoutMillis())
	g.maybeComplete(c)
}

// maybeComplete ends the joining once everybody has joined, those too that have been given an id. An initial
// rebalance ends by its time only.
func (g *classicGroup) maybeComplete(c call) {
	if g.state == StatePreparingRebalance && !g.initial.is && g.joining == len(g.members) && g.pending.len() == 0 {
		g.complete(c)
	}
}

// rejoinTimeUp is called when members have had their time to join.
func (g *classicGroup) rejoinTimeUp(c call) {
	if !g.initial.is || !g.initial.memberAdded || g.initial.remainingMillis == 0 {
		g.complete(c)
		return
	}
	g.initial.memberAdded = false
	delay := min(g.machine.config.InitialRebalanceDelayMillis, g.initial.remainingMillis)
	g.initial.delayMillis, g.initial.remainingMillis = delay, max(g.initial.remainingMillis-g.initial.delayMillis, 0)
	g.machine.timers.arm(&g.rejoin, c.nowMillis+delay)
}

// complete ends the joining: dynamic members that have not joined are out, static ones keep their place
// until their session ends, and there is a new generation. As long as nobody has joined there is none: the
// members that are left are static and may come back.
func (g *classicGroup) complete(c call) {
	g.machine.timers.disarm(&g.rejoin)
	g.initial.is = false
	g.history.overrun(g.removeAll(c, func(member *classicMember) bool { return member.instanceID == "" && !member.join.waits }))
	if len(g.members) > 0 && !g.electJoined() {
		g.machine.timers.arm(&g.rejoin, c.nowMillis+g.rebalanceTimeoutMillis())
		return
	}
	g.generation++
	if len(g.members) == 0 {
		g.protocol = ""
		g.topics, g.topicsKnown = nil, g.protocolType == protocolTypeConsumer
		g.enter(StateEmpty, c.nowMillis)
		g.store(c) // without members it has always room
	} else {
		g.protocol = g.selectProtocol()
		g.computeTopics()
		g.enter(StateCompletingRebalance, c.nowMillis)
		g.begin(c)
	}
	if ended := g.history.end(g.generation, len(g.members), c.nowMillis); ended != nil && ended.isTrouble() {
		c.effects.Event("group lost members or could not keep them", "group", g.group.id, "generation", g.generation, "members", len(g.members),
			"cause", ended.Cause.String(), "member", ended.MemberID, "client_id", ended.ClientID, "reason", ended.Reason,
			"overrun", ended.Overrun, "overrun_member", ended.OverrunID, "took_ms", c.nowMillis-ended.StartedMillis)
	}
}

// electJoined makes sure that the leader is one who has joined: the leader that there was, or the oldest. It
// says whether there is any.
func (g *classicGroup) electJoined() bool {
	if g.leader.join.waits {
		return true
	}
	for _, member := range g.members {
		if member.join.waits {
			g.leader = member
			return true
		}
	}
	return false
}

// begin tells everybody the new generation, and gives them the rebalance timeout to ask for their assignment.
func (g *classicGroup) begin(c call) {
	for _, member := range g.members {
		if member.join.waits {
			g.answerJoin(c, member, g.joined(member))
		}
		g.refresh(c, member)
		member.isNew, member.unsynced = false, true
	}
	g.unsynced = len(g.members)
	g.machine.timers.arm(&g.sync, c.nowMillis+g.rebalanceTimeoutMillis())
}

// sessionExpired is called when a member has not been heard of for its session timeout.
func (g *classicGroup) sessionExpired(c call, member *classicMember) {
	if member.excused() { // its session starts anew with the answer that it waits for
		return
	}
	g.remove(c, member)
	g.rebalance(c, cause{Cause: CauseSessionTimeout, member: member})
}
