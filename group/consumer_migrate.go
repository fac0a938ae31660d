package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/group/assign"
	"ringlog/meta"
)

// MigrationPolicy says which kind of group may become the other while it has members
// (group.consumer.migration.policy).
type MigrationPolicy uint8

// The policies.
const (
	// MigrateBothWays: a classic group is upgraded by the first member of the consumer protocol, and is a classic
	// group again when the last of these has left.
	MigrateBothWays MigrationPolicy = iota
	MigrateUpgrade
	MigrateDowngrade
	MigrateNever
)

func (p MigrationPolicy) upgrades() bool { return p == MigrateBothWays || p == MigrateUpgrade }

func (p MigrationPolicy) downgrades() bool { return p == MigrateBothWays || p == MigrateDowngrade }

// migrationPolicies are the policies by what they are called.
var migrationPolicies = map[string]MigrationPolicy{
	"bidirectional": MigrateBothWays, "upgrade": MigrateUpgrade, "downgrade": MigrateDowngrade, "disabled": MigrateNever,
}

// ParseMigrationPolicy reads a value of group.consumer.migration.policy, in any case.
func ParseMigrationPolicy(text string) (MigrationPolicy, bool) {
	policy, known := migrationPolicies[strings.ToLower(text)]
	return policy, known
}

// consumerMetadata is what a member of the classic protocol says about itself as a consumer.
type consumerMetadata struct{ kmsg.ConsumerMemberMetadata }

func readConsumerMetadata(data []byte) (*consumerMetadata, error) {
	var metadata consumerMetadata
	if err := metadata.ReadFrom(data); err != nil {
		return nil, err
	}
	return &metadata, nil
}

// subscribed returns the subscription of a member that joins by the classic protocol.
func (m *consumerMetadata) subscribed(before *subscription, r *Join) subscription {
	after := *before
	if r.InstanceID != nil {
		after.instance = *r.InstanceID
	}
	if m.Rack != nil {
		after.rack = *m.Rack
	}
	after.clientID, after.clientHost = r.ClientID, r.ClientHost
	after.names, after.regex = sortedNames(m.Topics), ""
	after.rebalanceTimeoutMillis = r.RebalanceTimeoutMillis
	if r.RebalanceTimeoutMillis < 0 {
		after.rebalanceTimeoutMillis = r.SessionTimeoutMillis
	}
	after.classic = &classicMembership{sessionTimeoutMillis: r.SessionTimeoutMillis, protocols: r.Protocols}
	return after
}

// owned returns what the member says it owns, of topics that exist.
func (m *consumerMetadata) owned(image *meta.Image) assign.Partitions {
	var owned []assign.TopicPartitions
	for _, of := range m.OwnedPartitions {
		owned = appendNamed(owned, image, of.Topic, of.Partitions)
	}
	return assign.NewPartitions(owned)
}

func appendNamed(to []assign.TopicPartitions, image *meta.Image, name string, partitions []int32) []assign.TopicPartitions {
	topic, ok := image.Topic(name)
	if !ok {
		return to
	}
	there := slices.DeleteFunc(slices.Clone(partitions), func(partition int32) bool {
		_, exists := topic.Partition(partition)
		return !exists
	})
	return append(to, assign.TopicPartitions{Topic: topic.ID, Partitions: there})
}

// encodeConsumerAssignment writes partitions as the consumers of the classic protocol read them, in the version of
// the metadata that the member sent.
func encodeConsumerAssignment(image *meta.Image, metadata []byte, partitions assign.Partitions) []byte {
	const versionMax = 2
	assignment := kmsg.ConsumerMemberAssignment{}
	if version, ok := keyVersion(metadata); ok { // both begin with 16 bits of version
		assignment.Version = min(version, versionMax)
	}
	for _, of := range partitions {
		if topic, ok := image.TopicByID(of.Topic); ok {
			assignment.Topics = append(assignment.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: topic.Name, Partitions: of.Partitions})
		}
	}
	return assignment.AppendTo(nil)
}

// upgrade makes a consumer group of a classic group that has members, for one of the consumer protocol to join it.
// When it returns an error, nothing has changed.
func (m *Machine) upgrade(c call, g *group) (*consumerGroup, error) {
	classic := g.classic
	refuse := func(reason string) (*consumerGroup, error) {
		return nil, fmt.Errorf("%w: %q is a classic group and cannot become a consumer group: %s", ErrGroupNotFound, g.id, reason)
	}
	switch {
	case !m.config.Consumer.Migration.upgrades():
		return refuse("group.consumer.migration.policy does not allow it")
	case classic.protocolType != protocolTypeConsumer:
		return refuse("its members are no consumers")
	case len(classic.members) >= m.config.Consumer.MembersMax:
		return refuse("it has as many members as group.consumer.max.size allows")
	}
	upgraded := newConsumerGroup(m, g)
	upgraded.epoch, upgraded.assignmentEpoch = classic.generation, classic.generation
	owned := make([]assign.Partitions, len(classic.members))
	for n, member := range classic.members {
		var reason string
		if owned[n], reason = upgraded.addUpgraded(classic, member); reason != "" {
			return refuse(reason)
		}
	}
	for n, member := range classic.members {
		upgraded.holdUpgraded(upgraded.members[member.id], owned[n])
	}
	classic.dissolve(c)
	// The hash is none that subscriptions come to, so that the epoch rises with this very heartbeat: who waited for a
	// leader's assignment has none, even when the member that joins subscribes to nothing.
	upgraded.metadataHash = 0
	g.classic, g.consumer = nil, upgraded
	for _, member := range upgraded.order {
		m.timers.arm(&member.session, c.nowMillis+upgraded.sessionTimeoutMillis(member))
	}
	upgraded.storeAll(c)
	return upgraded, nil
}

// addUpgraded adds a member of a classic group with what it was assigned, or says why it cannot. It returns what the member
// said it owns when it joined.
func (g *consumerGroup) addUpgraded(classic *classicGroup, from *classicMember) (owned assign.Partitions, reason string) {
	image := g.machine.image
	protocols := from.protocols
	if len(protocols) == 0 {
		return nil, "a member has no protocol"
	}
	data := protocols[0].Metadata
	if chosen := from.metadata(classic.protocol); chosen != nil {
		data = chosen
	}
	metadata, err := readConsumerMetadata(data)
	if err != nil {
		return nil, "the metadata of member " + from.id + " cannot be read"
	}
	var assigned []assign.TopicPartitions
	if len(from.assignment) > 0 {
		var assignment kmsg.ConsumerMemberAssignment
		if err := assignment.ReadFrom(from.assignment); err != nil {
			return nil, "the assignment of member " + from.id + " cannot be read"
		}
		if len(assignment.UserData) > 0 {
			return nil, "its assignor keeps data of its own, which would be lost"
		}
		for _, of := range assignment.Topics {
			assigned = appendNamed(assigned, image, of.Topic, of.Partitions)
		}
	}
	member := g.add(from.id)
	join := &Join{ClientID: from.clientID, ClientHost: from.clientHost, SessionTimeoutMillis: from.sessionTimeoutMillis,
		RebalanceTimeoutMillis: from.rebalanceTimeoutMillis, Protocols: protocols}
	if from.instanceID != "" {
		join.InstanceID = &from.instanceID
	}
	g.setSubscription(member, metadata.subscribed(&member.subscription, join))
	member.stored = true
	g.move(member, position{epoch: classic.generation, previous: classic.generation})
	g.holdUpgraded(member, assign.NewPartitions(assigned))
	return metadata.owned(image), ""
}

// holdUpgraded has a member of a classic group hold partitions that nobody holds yet: assignors of clients may have given one
// to two members. First come assignments, then what members said they own: one that has not asked for its
// assignment yet still has that, whatever its assignment is.
func (g *consumerGroup) holdUpgraded(member *consumerMember, partitions assign.Partitions) {
	to := member.position
	to.assigned = to.assigned.Union(partitions.Filter(func(topic meta.TopicID, partition int32) bool { return g.owner(topic, partition) == nil }))
	member.target = to.assigned
	g.move(member, to)
}

// storeAll stores a group of which nothing is stored yet.
func (g *consumerGroup) storeAll(c call) {
	for _, member := range g.order {
		g.append(c, consumerMemberRecord(g.group.id, member))
	}
	g.append(c, consumerMetadataRecord(g.group.id, g.epoch, g.metadataHash))
	for _, member := range g.order {
		g.append(c, consumerTargetRecord(g.group.id, member))
	}
	g.append(c, consumerTargetMetadataRecord(g.group.id, g.assignmentEpoch, g.assignedMillis))
	for _, member := range g.order {
		g.append(c, consumerPositionRecord(g.group.id, member))
	}
}

// dissolve ends a classic group whose members live on elsewhere: who waits is told to join again.
func (g *classicGroup) dissolve(c call) {
	for _, member := range g.members {
		g.answerJoin(c, member, &JoinAnswer{Err: ErrRebalanceInProgress, MemberID: member.id, Generation: noGeneration})
		g.answerSync(c, member, &SyncAnswer{Err: ErrRebalanceInProgress})
		g.machine.timers.disarm(&member.session)
	}
	g.appendTombstones(g.machine, c)
}

// maybeDowngrade makes a classic group of a consumer group in which, without those who leave, only members of the classic
// protocol are left, and reports whether it did. The members go on with what they own, and rebalance.
func (g *consumerGroup) maybeDowngrade(c call, leaving []*consumerMember) bool {
	m := g.machine
	var staying []*consumerMember
	for _, member := range g.order {
		if slices.Contains(leaving, member) {
			continue
		}
		if member.classic == nil {
			return false
		}
		staying = append(staying, member)
	}
	if len(staying) == 0 || len(staying) > m.config.MembersMax || !m.config.Consumer.Migration.downgrades() {
		return false
	}
	classic := newClassicGroup(m, g.group, c.nowMillis)
	classic.protocolType, classic.generation = protocolTypeConsumer, g.epoch
	for _, member := range staying {
		classic.insert(g.downgraded(classic, member))
	}
	g.appendTombstones(m, c)
	g.group.classic, g.group.consumer = classic, nil
	classic.protocol = classic.selectProtocol()
	classic.computeTopics()
	classic.enter(StateStable, c.nowMillis)
	for _, member := range classic.members {
		classic.refresh(c, member)
	}
	stored := classic.store(c)
	if len(leaving) > 0 || !stored {
		classic.rebalance(c, cause{Cause: CauseMemberLeft})
	}
	return true
}

// downgraded returns a member as the classic group has it. Its assignment is what it holds, with what it was to give up: it
// may still have that, and a group that is upgraded again at once must not take it for free.
func (g *consumerGroup) downgraded(classic *classicGroup, from *consumerMember) *classicMember {
	member := classic.newMember(from.id, from.instance)
	member.take(&Join{ClientID: from.clientID, ClientHost: from.clientHost, SessionTimeoutMillis: from.classic.sessionTimeoutMillis,
		RebalanceTimeoutMillis: from.rebalanceTimeoutMillis, Protocols: from.classic.protocols})
	member.assignment = encodeConsumerAssignment(g.machine.image, from.classic.protocols[0].Metadata, from.position.assigned.Union(from.position.revoking))
	return member
}
