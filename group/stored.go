package group

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/coord"
	"ringlog/meta"
)

// Records have Kafka's own formats. The key begins with its version, which says what kind of record it
// is; the value begins with the version of its layout.
//
//	key                                     value
//	0, 1  group, topic, partition           the committed offset, or a tombstone
//	2     group                             the metadata of a classic group
//	3-8, 16                                 the records of a consumer group (KIP-848)
//
// Message definitions come from kmsg, whose schema is Kafka's.
const (
	keyOffsetCommit    = 1
	keyOffsetCommitMax = 1 // 0 has the same layout and comes from very old brokers
	keyGroupMetadata   = 2
)

// The value version of offsets: 1 has the time of expiry that old clients can ask for, 3 is the last one that every
// tool reads, 4 adds the topic's id, which tells a commit for a topic from one for an earlier topic of that name.
const (
	valueOffsetCommitExpiry  = 1
	valueOffsetCommitPlain   = 3
	valueOffsetCommitTopicID = 4
)

// keyVersion returns the version at the head of a key.
func keyVersion(key []byte) (int16, bool) {
	if len(key) < 2 {
		return 0, false
	}
	version := int16(binary.BigEndian.Uint16(key))
	return version, version >= 0
}

// offsetKey returns the key of a group's offset for a partition.
func offsetKey(group, topic string, partition int32) []byte {
	key := kmsg.OffsetCommitKey{Version: keyOffsetCommit, Group: group, Topic: topic, Partition: partition}
	return key.AppendTo(make([]byte, 0, 2+2+len(group)+2+len(topic)+4))
}

// offsetRecord returns the record of a committed offset.
func offsetRecord(group, topic string, id meta.TopicID, at *committed) coord.Record {
	value := kmsg.OffsetCommitValue{
		Version: valueOffsetCommitPlain, Offset: at.offset, LeaderEpoch: at.leaderEpoch,
		Metadata: at.metadata, CommitTimestamp: at.commitMillis, ExpireTimestamp: -1, TopicID: id,
	}
	switch {
	case at.expireMillis != 0:
		value.Version, value.ExpireTimestamp = valueOffsetCommitExpiry, at.expireMillis
	case !id.IsZero():
		value.Version = valueOffsetCommitTopicID
	}
	const fixedBytes = 2 + 8 + 4 + 3 + 8 + 24 // with the length of the metadata and the tagged topic id
	return coord.Record{
		Key:             offsetKey(group, topic, at.partition),
		Value:           value.AppendTo(make([]byte, 0, fixedBytes+len(at.metadata))),
		TimestampMillis: at.commitMillis,
	}
}

// offsetTombstone returns the record that makes the log forget an offset.
func offsetTombstone(group, topic string, partition int32, nowMillis int64) coord.Record {
	return coord.Record{Key: offsetKey(group, topic, partition), TimestampMillis: nowMillis}
}

// readOffset decodes a record of a committed offset; at is nil when it is a tombstone.
func readOffset(record coord.Record) (key kmsg.OffsetCommitKey, id meta.TopicID, at *committed, err error) {
	if err := key.ReadFrom(record.Key); err != nil {
		return key, id, nil, fmt.Errorf("%w: the key of a committed offset: %w", ErrRecord, err)
	}
	if record.Value == nil {
		return key, id, nil, nil
	}
	var value kmsg.OffsetCommitValue
	if err := value.ReadFrom(record.Value); err != nil {
		return key, id, nil, fmt.Errorf("%w: the offset of group %q for %s-%d: %w", ErrRecord, key.Group, key.Topic, key.Partition, err)
	}
	if value.Version > valueOffsetCommitTopicID {
		return key, id, nil, fmt.Errorf("%w: the offset of group %q for %s-%d has version %d of its layout, known are up to %d",
			ErrRecord, key.Group, key.Topic, key.Partition, value.Version, valueOffsetCommitTopicID)
	}
	at = &committed{partition: key.Partition, offset: value.Offset, leaderEpoch: -1, commitMillis: value.CommitTimestamp, metadata: value.Metadata}
	if value.Version >= valueOffsetCommitPlain {
		at.leaderEpoch = value.LeaderEpoch
	}
	if value.Version == valueOffsetCommitExpiry {
		at.expireMillis = max(value.ExpireTimestamp, 0)
	}
	return key, value.TopicID, at, nil
}
