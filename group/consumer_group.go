package group

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ringlog/coord"
	"ringlog/group/assign"
	"ringlog/meta"
)

// consumerGroup is the membership of a group whose partitions the coordinator assigns (KIP-848). Three
// epochs chase each other, each in its own time:
//
//	epoch            rises when what is to be divided, or among whom, has changed: a member came, went, or
//	    │            changed its subscription; a topic was created, deleted, or got more partitions
//	    ▼
//	assignmentEpoch  is the epoch for which the target, who shall have what, was computed
//	    │
//	    ▼
//	position.epoch   of each member: the target that it has been brought to, by itself, heartbeat by heartbeat:
//
//	         target is another, member has to give up     says that it did
//	Stable ──────────────────────▶ Unrevoked ────────────────┐
//	  ▲  ▲                                                   ▼
//	  │  └── nothing to give up ──────────────────── has all that is free ──▶ Unreleased
//	  └──────────── has all of its target ◀── owners gave the rest up ────────────┘
//
// No member waits for another but for the partitions it is to get from it, and none is ever given
// to two: it stays the old owner's until that one says it gave it up, left, or was silent for too
// long. There is no barrier and no generation at which all stop.
//
// Members that still speak the classic protocol may be in the group beside the others: see consumer_classic.go.
type consumerGroup struct {
	machine *Machine
	group   *group

	epoch, assignmentEpoch int32
	// metadataHash is of the topics subscribed to, as epoch took them into account.
	metadataHash int64
	// assignedMillis is when the target was last computed.
	assignedMillis int64
	// assignor is what the target was last computed with, or "" when that is not known (after a load).
	assignor string

	members map[string]*consumerMember
	order   []*consumerMember // the same, by id
	// instances has the static members, by instance id.
	instances map[string]*consumerMember
	// subscriptions are the different ones that members have, and what they come to.
	subscriptions subscriptions
	// owners says who holds each partition, be it that it owns it or that it is to give it up.
	owners map[meta.TopicID][]*consumerMember

	// imageIndex is that of the image that subscriptions were last held against; zero is none.
	imageIndex uint64
	// target computes the target later, when one was computed only just now.
	target timer
}

func newConsumerGroup(m *Machine, g *group) *consumerGroup {
	consumer := &consumerGroup{machine: m, group: g, members: map[string]*consumerMember{}, instances: map[string]*consumerMember{},
		owners: map[meta.TopicID][]*consumerMember{}}
	consumer.target.fire = consumer.assignLater
	return consumer
}

// consumerGroupOf returns the consumer group of that id. With join it is made when it is not there, and a
// classic group becomes one where that is possible. A new group is kept only once it has a member.
func (m *Machine) consumerGroupOf(c call, id string, join bool) (*consumerGroup, error) {
	g := m.group(id)
	switch {
	case g != nil && g.consumer != nil:
		return g.consumer, nil
	case !join && g == nil:
		return nil, fmt.Errorf("%w: %q", ErrGroupNotFound, id)
	case !join:
		return nil, fmt.Errorf("%w: %q is not a consumer group", ErrGroupNotFound, id)
	case g != nil && g.classic != nil && !g.classic.isEmpty():
		return m.upgrade(c, g)
	}
	g = m.makeGroup(id)
	if g.classic != nil { // without members: it may become another kind of group
		g.classic.appendTombstones(m, c)
		g.classic = nil
	}
	g.consumer = newConsumerGroup(m, g)
	return g.consumer, nil
}

// maybeRemoveConsumer takes back a group that nobody entered after all.
func (m *Machine) maybeRemoveConsumer(g *consumerGroup) {
	if g.epoch == 0 && len(g.order) == 0 {
		m.timers.disarm(&g.target)
		g.group.consumer = nil
		m.maybeRemove(g.group)
	}
}

// add makes a member that is in the group from now on, without a subscription.
func (g *consumerGroup) add(id string) *consumerMember {
	member := &consumerMember{id: id, subscription: subscription{rebalanceTimeoutMillis: -1}}
	member.session.fire = func(c call) { g.lose(c, member, CauseSessionTimeout) }
	member.patience.fire = func(c call) { g.lose(c, member, CausePollOverrun) }
	g.remember(member)
	return member
}

func (g *consumerGroup) remember(member *consumerMember) {
	g.members[member.id] = member
	at, _ := slices.BinarySearchFunc(g.order, member.id, compareMemberID)
	g.order = slices.Insert(g.order, at, member)
}

func (g *consumerGroup) forget(member *consumerMember) {
	delete(g.members, member.id)
	if at, found := slices.BinarySearchFunc(g.order, member.id, compareMemberID); found {
		g.order = slices.Delete(g.order, at, at+1)
	}
}

func compareMemberID(member *consumerMember, id string) int { return strings.Compare(member.id, id) }

// drop takes a member out of the group, its partitions and its subscription with it.
func (g *consumerGroup) drop(member *consumerMember) {
	g.move(member, position{})
	g.setSubscription(member, subscription{})
	g.machine.timers.disarm(&member.session)
	g.machine.timers.disarm(&member.patience)
	g.forget(member)
}

// setSubscription changes what a member said about itself, and all that follows from it.
func (g *consumerGroup) setSubscription(member *consumerMember, to subscription) {
	if held := g.instances[member.instance]; held == member {
		delete(g.instances, member.instance)
	}
	if to.instance != "" {
		g.instances[to.instance] = member
	}
	g.subscriptions.set(member, &to)
	member.subscription = to
}

// move changes a member's position, and who holds what.
func (g *consumerGroup) move(member *consumerMember, to position) {
	from := &member.position
	if !from.assigned.Equal(to.assigned) || !from.revoking.Equal(to.revoking) {
		g.release(member, from.assigned)
		g.release(member, from.revoking)
		g.hold(member, to.assigned)
		g.hold(member, to.revoking)
	}
	member.position = to
}

func (g *consumerGroup) hold(holder *consumerMember, partitions assign.Partitions) {
	for _, of := range partitions {
		owners := g.owners[of.Topic]
		for _, partition := range of.Partitions {
			for int(partition) >= len(owners) {
				owners = append(owners, nil)
			}
			owners[partition] = holder
		}
		g.owners[of.Topic] = owners
	}
}

// release takes partitions from a member, but for those that somebody else holds by now: the records of a
// compacted log may come in that order.
func (g *consumerGroup) release(holder *consumerMember, partitions assign.Partitions) {
	for _, of := range partitions {
		owners := g.owners[of.Topic]
		for _, partition := range of.Partitions {
			if owners[partition] == holder {
				owners[partition] = nil
			}
		}
	}
}

// owner returns who holds a partition, or nil.
func (g *consumerGroup) owner(topic meta.TopicID, partition int32) *consumerMember {
	if owners := g.owners[topic]; int(partition) < len(owners) {
		return owners[partition]
	}
	return nil
}

// state is the group's as clients and operators see it.
func (g *consumerGroup) state() string {
	switch {
	case len(g.order) == 0:
		return StateEmpty
	case g.epoch > g.assignmentEpoch:
		return StateAssigning
	}
	for _, member := range g.order {
		if !member.isReconciledTo(g.assignmentEpoch) {
			return StateReconciling
		}
	}
	return StateStable
}

// The states that only consumer groups have, beside StateEmpty and StateStable.
const (
	// StateAssigning: the target is behind the group.
	StateAssigning = "Assigning"
	// StateReconciling: members are behind the target.
	StateReconciling = "Reconciling"
)

// preferredAssignor is the one that most members wish for; of several, and without a wish, the one that comes first
// in group.consumer.assignors.
func (g *consumerGroup) preferredAssignor() assign.Assignor {
	names := g.machine.config.Consumer.Assignors
	votes := make(map[string]int, len(names))
	for _, member := range g.order {
		if member.subscription.assignor != "" {
			votes[member.subscription.assignor]++
		}
	}
	name := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(votes[a], votes[b]) }) // the first of equals
	assignor, known := assign.ByName(name)
	if !known {
		panic("group: there is no assignor " + name)
	}
	return assignor
}

// The settings of the group: its own, where somebody set them, or else the broker's.

func (g *consumerGroup) sessionTimeoutMillis(member *consumerMember) int64 {
	if member.classic != nil {
		return int64(member.classic.sessionTimeoutMillis)
	}
	return g.setting(meta.GroupSessionTimeout, g.machine.config.Consumer.SessionTimeoutMillis)
}

func (g *consumerGroup) heartbeatIntervalMillis() int64 {
	return g.setting(meta.GroupHeartbeatInterval, g.machine.config.Consumer.HeartbeatIntervalMillis)
}

func (g *consumerGroup) assignmentIntervalMillis() int64 {
	return g.setting(meta.GroupAssignmentInterval, g.machine.config.Consumer.AssignmentIntervalMillis)
}

func (g *consumerGroup) setting(key *meta.ConfigKey, otherwise SettingMillis) int64 {
	value, set := g.machine.image.GroupSetting(g.group.id, key)
	if !set {
		return otherwise.Value
	}
	// The broker's limits may have become narrower since the value was set.
	return min(max(value, otherwise.Min), otherwise.Max)
}

// The methods of membership.

// checkCommit implements membership: Kafka's ConsumerGroup.validateOffsetCommit.
func (g *consumerGroup) checkCommit(_ *Machine, _ call, commit *OffsetCommit) error {
	if commit.Generation < 0 && len(g.order) == 0 {
		return nil
	}
	member := g.members[commit.MemberID]
	switch {
	case member == nil:
		return fmt.Errorf("%w: %q", ErrUnknownMember, commit.MemberID)
	case member.classic != nil && commit.Generation != member.position.epoch:
		return ErrIllegalGeneration
	case member.classic != nil:
		return nil
	case !commit.MemberEpochs:
		return fmt.Errorf("%w: a member of the consumer protocol commits by OffsetCommit version 9 or above", ErrUnsupportedVersion)
	case commit.Generation != member.position.epoch:
		return fmt.Errorf("%w: %d, the member has %d", ErrStaleMemberEpoch, commit.Generation, member.position.epoch)
	}
	return nil
}

// checkFetch implements membership: Kafka's ConsumerGroup.validateOffsetFetch.
func (g *consumerGroup) checkFetch(fetch *OffsetFetchGroup) error {
	if fetch.MemberID == nil && fetch.MemberEpoch < 0 {
		return nil
	}
	var member *consumerMember
	if fetch.MemberID != nil {
		member = g.members[*fetch.MemberID]
	}
	switch {
	case member == nil:
		return ErrUnknownMember
	case fetch.MemberEpoch == member.position.epoch:
		return nil
	case member.classic != nil:
		return ErrIllegalGeneration
	}
	return fmt.Errorf("%w: %d, the member has %d", ErrStaleMemberEpoch, fetch.MemberEpoch, member.position.epoch)
}

// checkOffsetDelete implements membership.
func (g *consumerGroup) checkOffsetDelete() error { return nil }

// isEmpty implements membership.
func (g *consumerGroup) isEmpty() bool { return len(g.order) == 0 }

// subscribes implements membership.
func (g *consumerGroup) subscribes(topic string) bool { return g.subscriptions.include(topic) }

// emptySinceMillis implements membership: as in Kafka, each commit's own time counts.
func (g *consumerGroup) emptySinceMillis() int64 { return 0 }

// appendTombstones implements membership.
func (g *consumerGroup) appendTombstones(m *Machine, c call) {
	m.timers.disarm(&g.target)
	for _, member := range slices.Clone(g.order) {
		g.appendMemberTombstones(c, member)
		g.drop(member)
	}
	for _, kind := range [...]int16{keyConsumerTargetMetadata, keyConsumerMetadata} {
		c.effects.Append(consumerTombstone(c, kind, g.group.id, ""))
	}
}

func (g *consumerGroup) appendMemberTombstones(c call, member *consumerMember) {
	for _, kind := range [...]int16{keyConsumerPosition, keyConsumerTargetMember, keyConsumerMember} {
		c.effects.Append(consumerTombstone(c, kind, g.group.id, member.id))
	}
	if regex := member.regex; regex != "" && g.subscriptions.regexMembers(regex) == 1 {
		c.effects.Append(consumerTombstone(c, keyConsumerRegex, g.group.id, regex))
	}
}

// append adds a record to the step's batch.
func (g *consumerGroup) append(c call, record coord.Record) {
	record.TimestampMillis = c.nowMillis
	c.effects.Append(record)
}
