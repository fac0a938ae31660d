package group

import (
	"encoding/binary"
	"fmt"

	"ringlog/coord"
)

// The records of a consumer group, by the versions of their keys: Kafka's schemas
// ConsumerGroup...Key and ...Value of group-coordinator, values of version 0. A key is the group
// and, but for 3, 4 and 6, the member or the regular expression, as strings behind 16 bits of length. Values are
// flexible (KIP-482): compact strings and arrays, tagged fields at the end of each struct.
//
//	3   ConsumerGroupMetadata            epoch i32; tag 0: hash of the topics subscribed to i64
//	4   ConsumerGroupPartitionMetadata   read over: Kafka before 4.1 kept there what the hash of 3 stands for
//	5   ConsumerGroupMemberMetadata      what a member says about itself
//	6   ...TargetAssignmentMetadata      epoch i32; tag 0: when it was computed i64
//	7   ...TargetAssignmentMember        [topic id, [partition]]
//	8   ...CurrentMemberAssignment       epoch i32, previous i32, state i8, assigned and revoking as in 7
//	16  ConsumerGroupRegularExpression   [topic], version i64, timestamp i64
const (
	keyConsumerMetadata          int16 = 3
	keyConsumerPartitionMetadata int16 = 4
	keyConsumerMember            int16 = 5
	keyConsumerTargetMetadata    int16 = 6
	keyConsumerTargetMember      int16 = 7
	keyConsumerPosition          int16 = 8
	keyConsumerRegex             int16 = 16
)

// valueConsumer is the version of all these values.
const valueConsumer int16 = 0

// isConsumerKey says whether a key of that version belongs to a consumer group's records.
func isConsumerKey(version int16) bool {
	return version >= keyConsumerMetadata && version <= keyConsumerPosition || version == keyConsumerRegex
}

// hasPart says whether keys of that version have a second string.
func hasPart(version int16) bool {
	return version != keyConsumerMetadata && version != keyConsumerPartitionMetadata && version != keyConsumerTargetMetadata
}

// consumerKey returns a key; part is the member or the expression, where the kind has one.
func consumerKey(version int16, group, part string) []byte {
	key := make([]byte, 0, 2+2+len(group)+2+len(part))
	key = binary.BigEndian.AppendUint16(key, uint16(version))
	key = appendString(key, group)
	if hasPart(version) {
		key = appendString(key, part)
	}
	return key
}

func appendString(dst []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(text))), text...)
}

// consumerTombstone has the log forget a record.
func consumerTombstone(c call, version int16, group, part string) coord.Record {
	return coord.Record{Key: consumerKey(version, group, part), TimestampMillis: c.nowMillis}
}

func consumerMetadataRecord(group string, epoch int32, hash int64) coord.Record {
	return consumerEpochRecord(keyConsumerMetadata, group, epoch, hash)
}

// consumerEpochRecord is a record with an epoch and one tagged number.
func consumerEpochRecord(version int16, group string, epoch int32, tagged int64) coord.Record {
	var v flexible
	v.int16(valueConsumer)
	v.int32(epoch)
	v.tags(tag{0, func(v *flexible) { v.int64(tagged) }})
	return coord.Record{Key: consumerKey(version, group, ""), Value: v.bytes}
}

func consumerMemberRecord(group string, member *consumerMember) coord.Record {
	var v flexible
	s := &member.subscription
	v.int16(valueConsumer)
	v.nullable(s.instance)
	v.nullable(s.rack)
	v.text(s.clientID)
	v.text(s.clientHost)
	v.texts(s.names)
	v.nullable(s.regex)
	v.int32(s.rebalanceTimeoutMillis)
	v.nullable(s.assignor)
	if s.classic == nil {
		v.tags()
	} else {
		v.tags(tag{0, s.classic.encode})
	}
	return coord.Record{Key: consumerKey(keyConsumerMember, group, member.id), Value: v.bytes}
}

// encode appends ClassicMemberMetadata, which a nullable struct's 1 precedes.
func (m *classicMembership) encode(v *flexible) {
	v.int8(1)
	v.int32(m.sessionTimeoutMillis)
	v.count(len(m.protocols))
	for _, protocol := range m.protocols {
		v.text(protocol.Name)
		v.count(len(protocol.Metadata))
		v.bytes = append(v.bytes, protocol.Metadata...)
		v.tags()
	}
	v.tags()
}

func consumerTargetMetadataRecord(group string, epoch int32, millis int64) coord.Record {
	return consumerEpochRecord(keyConsumerTargetMetadata, group, epoch, millis)
}

func consumerTargetRecord(group string, member *consumerMember) coord.Record {
	var v flexible
	v.int16(valueConsumer)
	v.partitions(member.target)
	v.tags()
	return coord.Record{Key: consumerKey(keyConsumerTargetMember, group, member.id), Value: v.bytes}
}

func consumerPositionRecord(group string, member *consumerMember) coord.Record {
	var v flexible
	at := &member.position
	v.int16(valueConsumer)
	v.int32(at.epoch)
	v.int32(at.previous)
	v.int8(int8(at.state))
	v.partitions(at.assigned)
	v.partitions(at.revoking)
	v.tags()
	return coord.Record{Key: consumerKey(keyConsumerPosition, group, member.id), Value: v.bytes}
}

func consumerRegexRecord(group string, regex *topicRegex, imageIndex uint64, nowMillis int64) coord.Record {
	var v flexible
	v.int16(valueConsumer)
	v.texts(regex.matches)
	v.int64(int64(imageIndex))
	v.int64(nowMillis)
	v.tags()
	return coord.Record{Key: consumerKey(keyConsumerRegex, group, regex.text), Value: v.bytes}
}

// replayConsumer takes a record of a consumer group.
func (m *Machine) replayConsumer(version int16, record coord.Record) error {
	key := reader{rest: record.Key[2:]}
	id, part := key.shortText(), ""
	if hasPart(version) {
		part = key.shortText()
	}
	if key.failed {
		return fmt.Errorf("%w: the key of a consumer group, version %d", ErrRecord, version)
	}
	if version == keyConsumerPartitionMetadata {
		return nil
	}
	if record.Value == nil {
		m.replayConsumerTombstone(version, id, part)
		return nil
	}
	g := m.makeGroup(id)
	if g.consumer == nil {
		g.consumer = newConsumerGroup(m, g)
	}
	// A later version of a value has more tagged fields and nothing else that is new: Kafka evolves these so.
	value := reader{rest: record.Value}
	if layout := value.int16(); layout != valueConsumer && !value.failed {
		return fmt.Errorf("%w: consumer group %q, key version %d: the value has version %d, known is %d", ErrRecord, id, version, layout, valueConsumer)
	}
	g.consumer.replay(version, part, &value)
	if value.failed {
		return fmt.Errorf("%w: consumer group %q, key version %d: the value is cut short", ErrRecord, id, version)
	}
	return nil
}

func (g *consumerGroup) replay(version int16, part string, value *reader) {
	switch version {
	case keyConsumerMetadata:
		g.epoch = value.int32()
		value.tags(func(tag uint64, v *reader) {
			if tag == 0 {
				g.metadataHash = v.int64()
			}
		})
	case keyConsumerTargetMetadata:
		g.assignmentEpoch = value.int32()
		value.tags(func(tag uint64, v *reader) {
			if tag == 0 {
				g.assignedMillis = v.int64()
			}
		})
	case keyConsumerMember:
		s := value.subscription()
		if !value.failed {
			member := g.member(part)
			member.stored = true
			g.setSubscription(member, s)
		}
	case keyConsumerTargetMember:
		g.member(part).target = value.partitions()
	case keyConsumerPosition:
		at := position{epoch: value.int32(), previous: value.int32(), state: memberState(value.int8()), assigned: value.partitions(), revoking: value.partitions()}
		if !value.failed {
			g.move(g.member(part), at)
		}
	case keyConsumerRegex:
		matches := value.texts()
		if at, found := g.subscriptions.findRegex(part); found {
			g.subscriptions.regexes[at].matches, g.subscriptions.regexes[at].resolved = matches, true
			return
		}
		// Members come before it in the log, but a compacted log may have the newest of theirs behind it.
		regex := g.subscriptions.makeRegex(part)
		regex.matches, regex.resolved = matches, true
	}
}

// member returns the member of that id, made when it is not there.
func (g *consumerGroup) member(id string) *consumerMember {
	if member := g.members[id]; member != nil {
		return member
	}
	return g.add(id)
}

// replayConsumerTombstone takes back what a record said; a member is gone when the last of its records is, and
// a group with its epoch.
func (m *Machine) replayConsumerTombstone(version int16, id, part string) {
	found := m.group(id)
	if found == nil || found.consumer == nil {
		return
	}
	g := found.consumer
	member := g.members[part]
	switch {
	case version == keyConsumerMetadata:
		for len(g.order) > 0 {
			g.drop(g.order[0])
		}
		found.consumer = nil
		m.maybeRemove(found)
	case version == keyConsumerTargetMetadata:
		g.assignmentEpoch, g.assignedMillis = 0, 0
	case version == keyConsumerRegex:
		if at, known := g.subscriptions.findRegex(part); known {
			g.subscriptions.regexes[at].matches, g.subscriptions.regexes[at].resolved = nil, false
		}
	case member == nil:
	case version == keyConsumerPosition:
		g.move(member, position{})
	case version == keyConsumerTargetMember:
		member.target = nil
	case version == keyConsumerMember:
		g.drop(member)
	}
}
