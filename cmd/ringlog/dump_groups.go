package main

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetsTopic is the topic of committed offsets and groups, whose records are Kafka's own.
const offsetsTopic = "__consumer_offsets"

// groupRecord says in words what a record of the topic of committed offsets is; "" when it is not known.
func groupRecord(key, value []byte) string {
	if len(key) < 2 {
		return ""
	}
	version := binary.BigEndian.Uint16(key)
	switch version {
	case 0, 1:
		var k kmsg.OffsetCommitKey
		if err := k.ReadFrom(key); err != nil {
			return ""
		}
		return fmt.Sprintf("group %q, topic %q, partition %d: %s", k.Group, k.Topic, k.Partition, committedOffset(value))
	case 2:
		var k kmsg.GroupMetadataKey
		if err := k.ReadFrom(key); err != nil {
			return ""
		}
		return fmt.Sprintf("group %q: %s", k.Group, groupMetadata(value))
	}
	return fmt.Sprintf("of a group whose coordinator assigns (KIP-848), key version %d", version)
}

func committedOffset(value []byte) string {
	if value == nil {
		return "the offset is gone"
	}
	var v kmsg.OffsetCommitValue
	if err := v.ReadFrom(value); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("offset %d, leader epoch %d, metadata %q, committed %s", v.Offset, v.LeaderEpoch, v.Metadata, timeText(v.CommitTimestamp))
}

func groupMetadata(value []byte) string {
	if value == nil {
		return "it is gone"
	}
	var v kmsg.GroupMetadataValue
	if err := v.ReadFrom(value); err != nil {
		return err.Error()
	}
	protocol := ""
	if v.Protocol != nil {
		protocol = *v.Protocol
	}
	return fmt.Sprintf("generation %d, %s, protocol %q of type %q", v.Generation, count(len(v.Members), "member"), protocol, v.ProtocolType)
}
