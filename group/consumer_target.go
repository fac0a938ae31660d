package group

import (
	"maps"
	"slices"

	"ringlog/group/assign"
	"ringlog/meta"
)

// subscribe takes over what a member says about itself, and reports whether it asks for other topics than before.
func (g *consumerGroup) subscribe(c call, member *consumerMember, to subscription) bool {
	from := member.subscription
	if member.stored && from.equal(&to) {
		return false
	}
	if from.regex != "" && from.regex != to.regex && g.subscriptions.regexMembers(from.regex) == 1 {
		g.append(c, consumerTombstone(c, keyConsumerRegex, g.group.id, from.regex))
	}
	g.setSubscription(member, to)
	member.stored = true
	g.append(c, consumerMemberRecord(g.group.id, member))
	return !from.sameTopics(&to)
}

// refresh raises the group's epoch when its subscriptions have changed, or when the topics that they come to have
// since it looked last.
func (g *consumerGroup) refresh(c call, changed bool) {
	image := g.machine.image
	if !changed && g.epoch > 0 && g.imageIndex == image.Index {
		return
	}
	// Expressions are tried again on all names only when there are other names; most images differ in other things.
	hash := g.subscriptions.resolve(image, g.imageIndex < g.machine.topicsIndex, func(regex *topicRegex) {
		g.append(c, consumerRegexRecord(g.group.id, regex, image.Index, c.nowMillis))
	})
	g.imageIndex = image.Index
	g.forgetDeletedTopics()
	if changed || g.epoch == 0 || hash != g.metadataHash {
		g.raiseEpoch(c, hash)
	}
}

// forgetDeletedTopics drops what is remembered of topics that are gone, once nobody holds a partition of them.
func (g *consumerGroup) forgetDeletedTopics() {
	maps.DeleteFunc(g.owners, func(id meta.TopicID, owners []*consumerMember) bool {
		_, exists := g.machine.image.TopicByID(id)
		return !exists && !slices.ContainsFunc(owners, func(owner *consumerMember) bool { return owner != nil })
	})
}

// raiseEpoch says that the target is to be computed anew.
func (g *consumerGroup) raiseEpoch(c call, metadataHash int64) {
	g.epoch++
	g.metadataHash = metadataHash
	g.append(c, consumerMetadataRecord(g.group.id, g.epoch, g.metadataHash))
}

// assignAtOnceMembersMax is how many members a group may have to get every target at once: it costs next to nothing.
const assignAtOnceMembersMax = 100

// maybeAssign computes the target when it is behind the group: at once, or, if it is a large group's and was computed less
// than consumer.assignment.interval.ms ago, when that has passed, so that ten thousand members that join
// together cost a few targets and not ten thousand (KIP-1263).
func (g *consumerGroup) maybeAssign(c call) {
	if g.epoch <= g.assignmentEpoch {
		return
	}
	if g.assignmentEpoch > 0 && len(g.order) > assignAtOnceMembersMax {
		if dueMillis := g.assignedMillis + g.assignmentIntervalMillis(); dueMillis > c.nowMillis {
			g.machine.timers.arm(&g.target, dueMillis)
			return
		}
	}
	g.assign(c)
}

// assignLater is maybeAssign once its time has come.
func (g *consumerGroup) assignLater(c call) {
	if g.epoch > g.assignmentEpoch && len(g.order) > 0 {
		g.assign(c)
	}
}

// assign computes the target for the group's epoch. What became of whom is stored, and then the epoch: a
// log that ends between the two has members ahead of the target's epoch, which is computed again.
func (g *consumerGroup) assign(c call) {
	g.machine.timers.disarm(&g.target)
	assignor := g.preferredAssignor()
	group := assign.Group{Topics: g.subscriptions.resolveSets(g.machine.image), Members: make([]assign.Member, len(g.order))}
	for n, member := range g.order {
		group.Members[n] = assign.Member{ID: member.id, InstanceID: member.instance, Topics: member.topicIDs(), Owned: member.target}
	}
	for n, target := range assignor.Assign(&group) {
		member := g.order[n]
		if !target.Equal(member.target) {
			member.target = target
			g.append(c, consumerTargetRecord(g.group.id, member))
		}
	}
	g.assignor = assignor.Name()
	g.assignmentEpoch, g.assignedMillis = g.epoch, c.nowMillis
	g.append(c, consumerTargetMetadataRecord(g.group.id, g.assignmentEpoch, g.assignedMillis))
}

// topicIDs are the topics that the member's subscription comes to.
func (m *consumerMember) topicIDs() []meta.TopicID {
	if m.topics == nil {
		return nil
	}
	return m.topics.topics
}
