package group

import (
	"bytes"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/coord"
)

// groupMetadataBytesMax bounds a group's record: some 50,000 members with usual subscriptions. The topic's own
// max.message.bytes, by which Kafka bounds it, would be enough for 4,000.
const groupMetadataBytesMax = 16 << 20

const (
	// valueGroupMetadata is the version of the layout that is written: the last one before the flexible
	// one, as Kafka writes it, so that older brokers and tools read it.
	valueGroupMetadata = 3
	// valueGroupMetadataMax is the latest that is read.
	valueGroupMetadataMax = 4
)

// groupMetadataKey returns the key of a classic group's record.
func groupMetadataKey(id string) []byte {
	key := kmsg.GroupMetadataKey{Version: keyGroupMetadata, Group: id}
	return key.AppendTo(nil)
}

// groupMetadataTombstone returns the record that makes the log forget a classic group.
func groupMetadataTombstone(id string, nowMillis int64) coord.Record {
	return coord.Record{Key: groupMetadataKey(id), TimestampMillis: nowMillis}
}

// store appends the group as it is. It says whether the record has room in a batch of the log: a group of
// thousands of members with large subscriptions may not.
func (g *classicGroup) store(c call) bool {
	value := g.stored()
	if len(value) > groupMetadataBytesMax {
		return false
	}
	c.effects.Append(coord.Record{Key: groupMetadataKey(g.group.id), Value: value, TimestampMillis: c.nowMillis})
	return true
}

// stored returns the value of the group's record.
func (g *classicGroup) stored() []byte {
	value := kmsg.GroupMetadataValue{
		Version: valueGroupMetadata, ProtocolType: g.protocolType, Generation: g.generation,
		CurrentStateTimestamp: g.sinceMillis, Members: make([]kmsg.GroupMetadataValueMember, len(g.members)),
	}
	if g.protocol != "" {
		value.Protocol = &g.protocol
	}
	if g.leader != nil {
		value.Leader = &g.leader.id
	}
	for i, member := range g.members {
		stored := &value.Members[i]
		*stored = kmsg.GroupMetadataValueMember{
			MemberID: member.id, ClientID: member.clientID, ClientHost: member.clientHost,
			RebalanceTimeoutMillis: member.rebalanceTimeoutMillis, SessionTimeoutMillis: member.sessionTimeoutMillis,
			Subscription: member.metadata(g.protocol), Assignment: member.assignment,
		}
		if member.instanceID != "" {
			stored.InstanceID = &member.instanceID
		}
	}
	return value.AppendTo(nil)
}

// replayClassic takes a record of a classic group: the whole group, or the word that it is gone.
func (m *Machine) replayClassic(record coord.Record) error {
	var key kmsg.GroupMetadataKey
	if err := key.ReadFrom(record.Key); err != nil {
		return fmt.Errorf("%w: the key of a group's metadata: %w", ErrRecord, err)
	}
	if record.Value == nil {
		if g := m.group(key.Group); g != nil {
			g.classic = nil
			m.maybeRemove(g)
		}
		return nil
	}
	var value kmsg.GroupMetadataValue
	if err := value.ReadFrom(record.Value); err != nil {
		return fmt.Errorf("%w: the metadata of group %q: %w", ErrRecord, key.Group, err)
	}
	if value.Version < 0 || value.Version > valueGroupMetadataMax {
		return fmt.Errorf("%w: the metadata of group %q has version %d of its layout, known are up to %d", ErrRecord, key.Group, value.Version, valueGroupMetadataMax)
	}
	g := m.makeGroup(key.Group)
	g.classic, g.consumer = m.restoreClassic(g, &value), nil
	return nil
}

// restoreClassic makes a group of what was stored. Sessions are not running yet: see loaded.
func (m *Machine) restoreClassic(g *group, value *kmsg.GroupMetadataValue) *classicGroup {
	classic := newClassicGroup(m, g, value.CurrentStateTimestamp)
	classic.protocolType, classic.generation = value.ProtocolType, value.Generation
	if value.Protocol != nil {
		classic.protocol = *value.Protocol
	}
	for i := range value.Members {
		stored := &value.Members[i]
		if classic.byID[stored.MemberID] != nil {
			continue // no coordinator writes that
		}
		member := classic.newMember(stored.MemberID, instanceOf(stored.InstanceID))
		member.take(&Join{
			ClientID: stored.ClientID, ClientHost: stored.ClientHost,
			SessionTimeoutMillis: stored.SessionTimeoutMillis, RebalanceTimeoutMillis: stored.RebalanceTimeoutMillis,
			Protocols: []Protocol{{Name: classic.protocol, Metadata: bytes.Clone(stored.Subscription)}},
		})
		member.assignment = bytes.Clone(stored.Assignment)
		classic.insert(member)
		if value.Leader != nil && *value.Leader == member.id {
			classic.leader = member
		}
	}
	if len(classic.members) > 0 {
		classic.state = StateStable
	}
	classic.computeTopics()
	return classic
}
