package group

import (
	"slices"

	"ringlog/group/assign"
	"ringlog/meta"
)

// reconcile brings a member as near to its target as it can come now, given what it says it owns. A
// member keeps its epoch while it has something to give up, so that its commits are accepted until then.
func (g *consumerGroup) reconcile(c call, member *consumerMember, owned ownedPartitions, subscriptionChanged bool) {
	if !subscriptionChanged && member.isReconciledTo(g.assignmentEpoch) {
		return
	}
	to := g.next(member, owned, subscriptionChanged)
	from := member.position
	to.previous = from.previous
	if from.equal(&to) {
		return
	}
	to.previous = from.epoch
	g.moveStored(c, member, to)
}

// moveStored changes a member's position and stores it.
func (g *consumerGroup) moveStored(c call, member *consumerMember, to position) {
	g.move(member, to)
	g.append(c, consumerPositionRecord(g.group.id, member))
	if member.classic != nil {
		return // its patience is for joining and synchronizing
	}
	if to.state == memberUnrevoked {
		g.machine.timers.arm(&member.patience, c.nowMillis+int64(member.rebalanceTimeoutMillis))
	} else {
		g.machine.timers.disarm(&member.patience)
	}
}

// next decides where a member goes from its position.
func (g *consumerGroup) next(member *consumerMember, owned ownedPartitions, subscriptionChanged bool) position {
	switch at := &member.position; {
	case at.state == memberStable && at.epoch == g.assignmentEpoch:
		return g.withoutUnsubscribed(member, owned)
	case at.state == memberUnrevoked && owned.include(at.revoking):
		if subscriptionChanged {
			return g.withoutUnsubscribed(member, owned)
		}
		return *at
	}
	return g.towardsTarget(member, owned)
}

// towardsTarget is a member's position once it is held against its target.
func (g *consumerGroup) towardsTarget(member *consumerMember, owned ownedPartitions) position {
	at := &member.position
	target := g.subscribedOnly(member, member.target)
	kept := at.assigned.Intersect(target)
	if revoking := at.assigned.Minus(kept); len(revoking) > 0 && owned.include(revoking) {
		return position{epoch: at.epoch, state: memberUnrevoked, assigned: kept, revoking: revoking}
	}
	wanted := target.Minus(kept)
	// What the member itself was to give up it may have back: nobody got it in between.
	free := wanted.Filter(func(topic meta.TopicID, partition int32) bool {
		owner := g.owner(topic, partition)
		return owner == nil || owner == member
	})
	to := position{epoch: g.assignmentEpoch, state: memberStable, assigned: kept.Union(free)}
	if free.Count() < wanted.Count() {
		to.state = memberUnreleased
	}
	return to
}

// withoutUnsubscribed is a member's position without the topics that it left: it need not wait for the
// next target to be rid of these.
func (g *consumerGroup) withoutUnsubscribed(member *consumerMember, owned ownedPartitions) position {
	at := &member.position
	kept := g.subscribedOnly(member, at.assigned)
	left := at.assigned.Minus(kept)
	to := *at
	if len(left) == 0 {
		return to
	}
	to.assigned = kept
	if revoking := at.revoking.Union(left); owned.include(revoking) {
		to.state, to.revoking = memberUnrevoked, revoking
	}
	return to
}

// subscribedOnly returns those partitions whose topics the member subscribes to and which exist.
func (g *consumerGroup) subscribedOnly(member *consumerMember, partitions assign.Partitions) assign.Partitions {
	topics := member.topicIDs()
	left := func(of assign.TopicPartitions) bool {
		_, subscribed := slices.BinarySearchFunc(topics, of.Topic, assign.CompareIDs)
		return !subscribed
	}
	if !slices.ContainsFunc(partitions, left) {
		return partitions // the usual case
	}
	return slices.DeleteFunc(slices.Clone(partitions), left)
}
