package group

import (
	"fmt"
	"slices"
)

// enter returns the member that a heartbeat is of, and makes it where it joins. When it returns an error,
// nothing has changed.
func (g *consumerGroup) enter(c call, r *ConsumerHeartbeat) (*consumerMember, error) {
	if err := g.checkRoom(r.MemberID, instanceOf(r.InstanceID)); err != nil {
		return nil, err
	}
	if r.InstanceID != nil {
		return g.enterStatic(c, r)
	}
	member := g.members[r.MemberID]
	switch {
	case member != nil:
		return member, member.checkEpoch(r.Epoch, r.owned())
	case r.Epoch != JoinEpoch:
		return nil, fmt.Errorf("%w: %s", ErrUnknownMember, r.MemberID)
	}
	return g.add(r.MemberID), nil
}

// checkRoom says whether there is room for a member. Those that are in have it already, as has who comes in a static
// member's place (Kafka refuses that one, and with it a rolling restart of a full group).
func (g *consumerGroup) checkRoom(id, instance string) error {
	if limit := g.machine.config.Consumer.MembersMax; len(g.order) >= limit && g.members[id] == nil && g.instances[instance] == nil {
		return fmt.Errorf("%w: group.consumer.max.size is %d", ErrGroupFull, limit)
	}
	return nil
}

// enterStatic is enter for a static member. Its place in the group is its instance's, and outlives its member id.
func (g *consumerGroup) enterStatic(c call, r *ConsumerHeartbeat) (*consumerMember, error) {
	holder := g.instances[*r.InstanceID]
	switch {
	case r.Epoch == JoinEpoch && holder == nil:
		if member := g.members[r.MemberID]; member != nil {
			return member, nil // it joins again under the same id and has a name from now on
		}
		return g.add(r.MemberID), nil
	case r.Epoch == JoinEpoch && holder.id == r.MemberID && holder.position.epoch != StaticLeaveEpoch && holder.classic == nil:
		return holder, nil // it was fenced, or lost the answer to its join, and joins again
	case r.Epoch == JoinEpoch && holder.position.epoch != StaticLeaveEpoch && holder.classic == nil:
		return nil, fmt.Errorf("%w: %q is of member %s", ErrUnreleasedInstance, *r.InstanceID, holder.id)
	case r.Epoch == JoinEpoch && holder.id != r.MemberID && g.members[r.MemberID] != nil:
		return nil, fmt.Errorf("%w: the member id %s is of a member that is not %q", ErrInvalidRequest, r.MemberID, *r.InstanceID)
	case r.Epoch == JoinEpoch:
		return g.replace(c, holder, r.MemberID), nil
	case holder == nil:
		return nil, fmt.Errorf("%w: instance %q", ErrUnknownMember, *r.InstanceID)
	case holder.id != r.MemberID:
		return nil, fmt.Errorf("%w: %q is now of member %s", ErrFencedInstance, *r.InstanceID, holder.id)
	}
	return holder, holder.checkEpoch(r.Epoch, r.owned())
}

// replace puts a member in the place of a static one that is away, with its subscription, its target and its
// partitions: nothing has to be divided anew.
func (g *consumerGroup) replace(c call, member *consumerMember, id string) *consumerMember {
	for _, kind := range [...]int16{keyConsumerPosition, keyConsumerTargetMember, keyConsumerMember} {
		c.effects.Append(consumerTombstone(c, kind, g.group.id, member.id))
	}
	g.rename(member, id)
	g.append(c, consumerMemberRecord(g.group.id, member))
	g.append(c, consumerTargetRecord(g.group.id, member))
	to := member.position
	to.epoch, to.previous = 0, 0
	g.moveStored(c, member, to)
	return member
}

// rename gives a member another id.
func (g *consumerGroup) rename(member *consumerMember, id string) {
	g.forget(member)
	member.id = id
	g.remember(member)
}

// leaveForAWhile has a static member keep its place and its partitions, until its instance is back or
// its session is over. What it was to give up is free.
func (g *consumerGroup) leaveForAWhile(c call, member *consumerMember) {
	to := position{epoch: StaticLeaveEpoch, previous: member.position.epoch, state: member.position.state, assigned: member.position.assigned}
	if to.state == memberUnrevoked {
		to.state = memberStable // it has nothing to give up any more
	}
	g.moveStored(c, member, to)
}

// lose takes a member out of the group that did not say it goes.
func (g *consumerGroup) lose(c call, member *consumerMember, why Cause) {
	c.effects.Event("group lost a member", "group", g.group.id, "member", member.id, "client_id", member.clientID, "cause", why.String())
	g.removeMembers(c, []*consumerMember{member})
}

// removeMembers takes members out of the group: they left, or were not heard of. Their partitions are free at once.
func (g *consumerGroup) removeMembers(c call, members []*consumerMember) {
	if g.maybeDowngrade(c, members) {
		return
	}
	for _, member := range members {
		g.appendMemberTombstones(c, member)
		g.drop(member)
	}
	g.raiseEpoch(c, g.subscriptions.resolve(g.machine.image, false, func(*topicRegex) {}))
}

// loaded implements membership: sessions start anew, and so does the time of those that have to give something up.
func (g *consumerGroup) loaded(m *Machine, c call) {
	g.subscriptions.forgetUnused()
	for _, member := range slices.Clone(g.order) {
		if !member.stored {
			// The log keeps its position or its target, which were written beside its subscription, and not that: a
			// tombstone came through without the others. There is nobody of that id.
			g.appendMemberTombstones(c, member)
			g.drop(member)
			continue
		}
		m.timers.arm(&member.session, c.nowMillis+g.sessionTimeoutMillis(member))
		if member.classic == nil && member.position.state == memberUnrevoked {
			m.timers.arm(&member.patience, c.nowMillis+int64(member.rebalanceTimeoutMillis))
		}
	}
}
