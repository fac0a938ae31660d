package record

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Where the fields of a batch begin.
const (
	baseOffsetAt      = 0
	lengthAt          = 8
	leaderEpochAt     = 12
	magicAt           = 16
	crcAt             = 17
	attributesAt      = 21
	lastOffsetDeltaAt = 23
	baseTimestampAt   = 27
	maxTimestampAt    = 35
	producerIDAt      = 43
	producerEpochAt   = 51
	baseSequenceAt    = 53
	recordCountAt     = 57

	// HeaderBytes is the size of a batch without its records.
	HeaderBytes = 61

	// PrefixBytes is how much of a batch says how long it is: its base
	// offset and length.
	PrefixBytes = 12

	// Magic is the only format that this package knows.
	Magic = 2
)

const _ = uint(HeaderBytes - recordCountAt - 4) // the header ends with the record count

// The bits of the attributes.
const (
	codecMask        = 0x07
	bitLogAppendTime = 1 << 3 // KIP-32
	bitTransactional = 1 << 4 // KIP-98
	bitControl       = 1 << 5 // KIP-98
	bitDeleteHorizon = 1 << 6 // KIP-534
)

// NoTimestamp, NoProducerID, NoProducerEpoch and NoSequence are what the
// fields hold when they mean nothing.
const (
	NoTimestamp     int64 = -1
	NoProducerID    int64 = -1
	NoProducerEpoch int16 = -1
	NoSequence      int32 = -1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is a view of one whole batch: the bytes that [Next] returns or that
// Check accepted. Accessors read the header and need HeaderBytes bytes; they
// allocate nothing. The view owns nothing: it lives as long as its bytes.
type Batch []byte

// BaseOffset is the offset of the first record, also when that record is gone.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b[baseOffsetAt:])) }

// SizeBytes is the size of the whole batch as its length field states it.
func (b Batch) SizeBytes() int {
	return PrefixBytes + int(int32(binary.BigEndian.Uint32(b[lengthAt:])))
}

// LeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[leaderEpochAt:])) }

// Magic is the format's version.
func (b Batch) Magic() int8 { return int8(b[magicAt]) }

// CRC is the CRC-32C that the batch claims for the bytes from its attributes on.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[crcAt:]) }

// Attributes returns the raw attribute bits.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[attributesAt:])) }

// Codec is how the records are compressed; it may be one that is not Known.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & codecMask) }

// LogAppendTime reports whether MaxTimestamp is the broker's time of append
// and the timestamp of every record (KIP-32). If not, timestamps are the
// producer's.
func (b Batch) LogAppendTime() bool { return b.Attributes()&bitLogAppendTime != 0 }

// Transactional reports whether the batch is part of a transaction.
func (b Batch) Transactional() bool { return b.Attributes()&bitTransactional != 0 }

// Control reports whether the batch holds a control record, which is for
// brokers and clients and never handed to an application.
func (b Batch) Control() bool { return b.Attributes()&bitControl != 0 }

// DeleteHorizon returns the time in milliseconds from which on compaction may
// drop the tombstones and markers of the batch, when compaction has set one
// (KIP-534). It is stored in place of the base timestamp.
func (b Batch) DeleteHorizon() (millis int64, ok bool) {
	if b.Attributes()&bitDeleteHorizon == 0 {
		return NoTimestamp, false
	}
	return b.BaseTimestamp(), true
}

// LastOffsetDelta is the last offset minus the base offset. Compaction keeps
// it when it removes the record.
func (b Batch) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[lastOffsetDeltaAt:])) }

// LastOffset is the offset of the last record, also when that record is gone.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// BaseTimestamp is what the timestamp deltas of the records add to, in
// milliseconds since 1970.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[baseTimestampAt:])) }

// MaxTimestamp is the largest timestamp of the batch in milliseconds since
// 1970, or with LogAppendTime the timestamp of every record.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[maxTimestampAt:])) }

// ProducerID is the producer's id; negative when it has none.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[producerIDAt:])) }

// HasProducerID reports whether the batch comes from an idempotent producer.
func (b Batch) HasProducerID() bool { return b.ProducerID() > NoProducerID }

// ProducerEpoch is the producer's epoch.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[producerEpochAt:])) }

// BaseSequence is the sequence number of the first record.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[baseSequenceAt:])) }

// LastSequence is the sequence number of the last record. Sequence numbers
// wrap to zero after 2^31-1.
func (b Batch) LastSequence() int32 {
	base := b.BaseSequence()
	if base == NoSequence {
		return NoSequence
	}
	return int32((int64(base) + int64(b.LastOffsetDelta())) & math.MaxInt32)
}

// RecordCount is how many records the batch holds. Compaction may leave none.
func (b Batch) RecordCount() int32 { return int32(binary.BigEndian.Uint32(b[recordCountAt:])) }

// Payload returns the records as stored: compressed, when Codec says so.
func (b Batch) Payload() []byte { return b[HeaderBytes:] }

// SetBaseOffset assigns offsets. The CRC does not cover it.
func (b Batch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[baseOffsetAt:], uint64(offset))
}

// SetLeaderEpoch states who appends. The CRC does not cover it.
func (b Batch) SetLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[leaderEpochAt:], uint32(epoch))
}

// SetLogAppendTime makes millis the timestamp of every record (KIP-32) and
// computes the CRC anew, which reads the whole batch.
func (b Batch) SetLogAppendTime(millis int64) {
	b.setAttributes(b.Attributes() | bitLogAppendTime)
	binary.BigEndian.PutUint64(b[maxTimestampAt:], uint64(millis))
	b.UpdateCRC()
}

// SetMaxTimestamp corrects the maximum timestamp of a batch whose records
// carry their own. It computes the CRC anew only when something changes.
func (b Batch) SetMaxTimestamp(millis int64) {
	if b.MaxTimestamp() == millis {
		return
	}
	binary.BigEndian.PutUint64(b[maxTimestampAt:], uint64(millis))
	b.UpdateCRC()
}

// Extend makes the batch stand for the offsets up to BaseOffset + lastOffsetDelta,
// those of batches behind it that compaction has dropped. It forgets its producer,
// whose sequence numbers would no longer be those of its records, so it is only for a
// batch that nobody's retry is answered from. It computes the CRC anew.
func (b Batch) Extend(lastOffsetDelta int32) {
	binary.BigEndian.PutUint32(b[lastOffsetDeltaAt:], uint32(lastOffsetDelta))
	producerID, producerEpoch, baseSequence := NoProducerID, NoProducerEpoch, NoSequence
	binary.BigEndian.PutUint64(b[producerIDAt:], uint64(producerID))
	binary.BigEndian.PutUint16(b[producerEpochAt:], uint16(producerEpoch))
	binary.BigEndian.PutUint32(b[baseSequenceAt:], uint32(baseSequence))
	b.UpdateCRC()
}

// ComputeCRC returns the CRC-32C of the bytes that the CRC covers.
func (b Batch) ComputeCRC() uint32 { return crc32.Checksum(b[attributesAt:], castagnoli) }

// UpdateCRC stores the CRC of the batch as it is now.
func (b Batch) UpdateCRC() { binary.BigEndian.PutUint32(b[crcAt:], b.ComputeCRC()) }

func (b Batch) setAttributes(attributes int16) {
	binary.BigEndian.PutUint16(b[attributesAt:], uint16(attributes))
}

// recordTimestamp returns the timestamp of a record of this batch. The sum
// wraps as Kafka's does; a Validator refuses what would wrap.
func (b Batch) recordTimestamp(delta int64) int64 {
	if b.LogAppendTime() {
		return b.MaxTimestamp()
	}
	return b.BaseTimestamp() + delta
}
