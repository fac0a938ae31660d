package group

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// A member of a consumer group may speak the classic protocol: while an application is updated, instance by
// instance, its old ones stay in the group beside the new (KIP-848, "Online migration"). To them the
// group looks like a classic one that is always rebalancing a little:
//
//	JoinGroup   tells the member's subscription and what it owns, as a heartbeat does for the others, and is
//	            answered at once. Nobody is leader; the generation is the member's own epoch
//	SyncGroup   is answered with what the member has by then
//	Heartbeat   says REBALANCE_IN_PROGRESS when there is something to come for, or to give up
//
// A member that joins with the eager protocol owns nothing while it does; one of the cooperative
// protocol says what it owns, and gives up what SyncGroup leaves out.

// classicMembership is what a member said in JoinGroup that the consumer protocol has no field for. It never changes.
type classicMembership struct {
	sessionTimeoutMillis int32
	protocols            []Protocol
}

func (m *classicMembership) equal(other *classicMembership) bool {
	if m == nil || other == nil {
		return m == other
	}
	return m.sessionTimeoutMillis == other.sessionTimeoutMillis && slices.EqualFunc(m.protocols, other.protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// joinClassic takes a member that speaks the classic protocol into a group that has members. It is answered here
// unless there is an error.
func (g *consumerGroup) joinClassic(c call, r *Join) error {
	id := r.MemberID
	instance := instanceOf(r.InstanceID)
	if id == "" {
		id = cmp.Or(instance, r.ClientID) + "-" + r.NewMemberID
	}
	if err := g.checkRoom(id, instance); err != nil {
		return err
	}
	if !g.supportsClassic(r.ProtocolType, r.Protocols) {
		return ErrInconsistentProtocol
	}
	if r.MemberID == "" && instance == "" && r.RequireMemberID {
		c.answer(&JoinAnswer{Err: ErrMemberIDRequired, MemberID: id, Generation: noGeneration})
		return nil
	}
	if protocolBytes(r.Protocols) > subscriptionBytesMax {
		return fmt.Errorf("%w: the metadata of the protocols is larger than %d bytes", ErrInvalidRequest, subscriptionBytesMax)
	}
	metadata, err := readConsumerMetadata(r.Protocols[0].Metadata)
	if err != nil {
		return fmt.Errorf("%w: the metadata of protocol %q: %w", ErrInconsistentProtocol, r.Protocols[0].Name, err)
	}
	replaced := g.instances[instance]
	if instance != "" && r.MemberID != "" {
		switch {
		case replaced == nil:
			return ErrUnknownMember
		case replaced.id != r.MemberID:
			return ErrFencedInstance
		}
	}
	// From here on nothing fails.
	var member *consumerMember
	switch {
	case instance != "" && replaced != nil && replaced.id != id:
		member = g.replace(c, replaced, id)
	case g.members[id] != nil:
		member = g.members[id]
	default:
		member = g.add(id)
	}
	wasConsumer := member.stored && member.classic == nil
	subscriptionChanged := g.subscribe(c, member, metadata.subscribed(&member.subscription, r))
	g.machine.timers.disarm(&member.patience)
	if wasConsumer && g.maybeDowngrade(c, nil) {
		// The group is a classic one now, which this member is in already: it joins that.
		return g.group.classic.take(c, &Join{
			GroupID: r.GroupID, MemberID: id, InstanceID: r.InstanceID, ClientID: r.ClientID, ClientHost: r.ClientHost,
			SessionTimeoutMillis: r.SessionTimeoutMillis, RebalanceTimeoutMillis: r.RebalanceTimeoutMillis,
			ProtocolType: r.ProtocolType, Protocols: r.Protocols, Reason: r.Reason, SkipAssignment: r.SkipAssignment,
		})
	}
	g.refresh(c, subscriptionChanged)
	g.maybeAssign(c)
	g.reconcile(c, member, ownedPartitions{given: true, partitions: metadata.owned(g.machine.image)}, subscriptionChanged)
	g.machine.timers.arm(&member.session, c.nowMillis+g.sessionTimeoutMillis(member))
	g.machine.timers.arm(&member.patience, c.nowMillis+int64(member.rebalanceTimeoutMillis)) // for SyncGroup
	protocolType, protocol := protocolTypeConsumer, r.Protocols[0].Name
	c.answer(&JoinAnswer{MemberID: id, Generation: member.position.epoch, ProtocolType: &protocolType, Protocol: &protocol})
	return nil
}

// supportsClassic says whether a member with these protocols goes with those that speak the classic protocol: should
// the group become a classic one, they need one in common.
func (g *consumerGroup) supportsClassic(protocolType string, protocols []Protocol) bool {
	if protocolType != protocolTypeConsumer || len(protocols) == 0 {
		return false
	}
	return slices.ContainsFunc(protocols, func(protocol Protocol) bool {
		return !slices.ContainsFunc(g.order, func(member *consumerMember) bool {
			return member.classic != nil && !slices.ContainsFunc(member.classic.protocols, func(p Protocol) bool { return p.Name == protocol.Name })
		})
	})
}

// checkClassic returns the member that a request of the classic protocol is of.
func (g *consumerGroup) checkClassic(memberID, instanceID string) (*consumerMember, error) {
	member := g.members[memberID]
	if instanceID != "" {
		holder := g.instances[instanceID]
		switch {
		case holder == nil:
			return nil, ErrUnknownMember
		case holder.id != memberID:
			return nil, ErrFencedInstance
		}
		member = holder
	}
	if member == nil || member.classic == nil {
		return nil, ErrUnknownMember
	}
	return member, nil
}

// syncClassic gives a member that speaks the classic protocol what it has. It is answered here unless there is an error.
func (g *consumerGroup) syncClassic(c call, r *Sync) error {
	member, err := g.checkClassic(r.MemberID, instanceOf(r.InstanceID))
	if err != nil {
		return err
	}
	protocolType, protocol := protocolTypeConsumer, member.classic.protocols[0].Name
	switch {
	case r.Generation != member.position.epoch:
		return ErrIllegalGeneration
	case r.ProtocolType != nil && *r.ProtocolType != protocolType, r.Protocol != nil && *r.Protocol != protocol:
		return ErrInconsistentProtocol
	case g.epoch > member.position.epoch && member.position.state != memberUnrevoked:
		// The next target is another already: it had better come for that. Unless it has to give something up,
		// which it has to know first.
		g.expectJoin(c, member)
		return ErrRebalanceInProgress
	}
	g.machine.timers.disarm(&member.patience)
	g.machine.timers.arm(&member.session, c.nowMillis+g.sessionTimeoutMillis(member))
	c.answer(&SyncAnswer{ProtocolType: &protocolType, Protocol: &protocol, Assignment: g.classicAssignment(member)})
	return nil
}

// heartbeatClassic returns what the heartbeat of a member that speaks the classic protocol is answered.
func (g *consumerGroup) heartbeatClassic(c call, r *Heartbeat) error {
	member, err := g.checkClassic(r.MemberID, instanceOf(r.InstanceID))
	switch {
	case err != nil:
		return err
	case r.Generation != member.position.epoch:
		return ErrIllegalGeneration
	}
	g.machine.timers.arm(&member.session, c.nowMillis+g.sessionTimeoutMillis(member))
	// This is where such a member learns of changes: of new subscriptions, or that the topics are others.
	g.refresh(c, false)
	switch state := member.position.state; {
	case g.epoch > member.position.epoch, state == memberUnrevoked, state == memberUnreleased && !g.waits(member):
		g.expectJoin(c, member)
		return ErrRebalanceInProgress
	}
	return nil
}

// waits says whether all that a member still has to get is held by others.
func (g *consumerGroup) waits(member *consumerMember) bool {
	missing := g.subscribedOnly(member, member.target).Minus(member.position.assigned)
	for _, of := range missing {
		for _, partition := range of.Partitions {
			if owner := g.owner(of.Topic, partition); owner == nil || owner == member {
				return false
			}
		}
	}
	return true
}

// expectJoin gives a member its rebalance timeout to join again, from when it is first told to.
func (g *consumerGroup) expectJoin(c call, member *consumerMember) {
	if !member.patience.isSet() {
		g.machine.timers.arm(&member.patience, c.nowMillis+int64(member.rebalanceTimeoutMillis))
	}
}

// leaveClassic takes members out that leave by the classic protocol, or that an operator removes by their
// instance ids, of whatever protocol these are. It sets each one's Err.
func (g *consumerGroup) leaveClassic(c call, members []Leaving) {
	var gone []*consumerMember
	for n := range members {
		leaving := &members[n]
		member, err := g.instances[instanceOf(leaving.InstanceID)], error(nil)
		if leaving.MemberID != "" {
			member, err = g.checkClassic(leaving.MemberID, instanceOf(leaving.InstanceID))
		} else if member == nil {
			err = ErrUnknownMember
		}
		if leaving.Err = err; err == nil && !slices.Contains(gone, member) {
			gone = append(gone, member)
		}
	}
	if len(gone) > 0 {
		g.removeMembers(c, gone)
	}
}

// classicAssignment is what a member has, as its protocol says it.
func (g *consumerGroup) classicAssignment(member *consumerMember) []byte {
	return encodeConsumerAssignment(g.machine.image, member.classic.protocols[0].Metadata, member.position.assigned)
}
