package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// BuilderOptions are the header fields of a batch to be built.
type BuilderOptions struct {
	Codec       Codec
	BaseOffset  int64
	LeaderEpoch int32

	// ProducerID, ProducerEpoch and BaseSequence are written only when
	// Idempotent is set; otherwise the fields say that there is none.
	Idempotent    bool
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32

	Transactional bool
	Control       bool

	// LogAppendTimeMillis, when not zero, stamps the batch with it.
	LogAppendTimeMillis int64

	// DeleteHorizonMillis, when not zero, is the time from which on
	// compaction may drop tombstones and markers of the batch (KIP-534).
	DeleteHorizonMillis int64
}

// Builder builds batches of format 2. It is reused, by Reset, without
// allocating once its memory has grown; it belongs to one goroutine.
//
//	Reset ──▶ Append ... Append ──▶ Build ──▶ Reset ...
type Builder struct {
	options       BuilderOptions
	plain         []byte // header and records, uncompressed
	compressed    []byte // header and records, when a codec is set
	count         int32
	lastDelta     int32
	baseTimestamp int64
	maxTimestamp  int64
}

// recordsBytesMax keeps the batch length within its 32 bits.
const recordsBytesMax = math.MaxInt32 - HeaderBytes

// Reset starts an empty batch. A batch that Build returned before is gone.
func (b *Builder) Reset(options BuilderOptions) {
	b.options = options
	b.plain = append(b.plain[:0], make([]byte, HeaderBytes)...)
	b.count, b.lastDelta = 0, -1
	b.baseTimestamp, b.maxTimestamp = NoTimestamp, NoTimestamp
	if options.DeleteHorizonMillis != 0 {
		b.baseTimestamp = options.DeleteHorizonMillis
	}
}

// Count returns how many records were appended.
func (b *Builder) Count() int { return int(b.count) }

// PlainBytes returns the size of the batch so far, uncompressed.
func (b *Builder) PlainBytes() int { return max(len(b.plain), HeaderBytes) }

// Append adds a record at the next offset, with its timestamp in milliseconds
// since 1970. A nil key or value is null. All slices are copied. It panics when
// the batch would not fit its 32-bit length: callers bound batches far below.
func (b *Builder) Append(timestampMillis int64, key, value []byte, headers ...Header) {
	b.AppendAt(b.lastDelta+1, timestampMillis, key, value, headers...)
}

// AppendAt adds a record at an offset delta of its own, larger than those
// before: compaction leaves gaps.
func (b *Builder) AppendAt(offsetDelta int32, timestampMillis int64, key, value []byte, headers ...Header) {
	if offsetDelta <= b.lastDelta {
		panic(fmt.Sprintf("record: offset delta %d after %d", offsetDelta, b.lastDelta))
	}
	if b.count == 0 && b.options.DeleteHorizonMillis == 0 {
		b.baseTimestamp = timestampMillis
	}
	timestampDelta := timestampMillis - b.baseTimestamp
	length := 1 + varintBytes(timestampDelta) + varintBytes(int64(offsetDelta)) +
		fieldBytes(key) + fieldBytes(value) + varintBytes(int64(len(headers)))
	for i := range headers {
		length += varintBytes(int64(len(headers[i].Key))) + len(headers[i].Key) + fieldBytes(headers[i].Value)
	}
	if len(b.plain)+length+varintBytesMax > recordsBytesMax {
		panic("record: batch does not fit its 32-bit length")
	}
	dst := appendVarint(b.plain, int32(length))
	dst = append(dst, 0) // attributes
	dst = appendVarlong(dst, timestampDelta)
	dst = appendVarint(dst, offsetDelta)
	dst = appendField(dst, key)
	dst = appendField(dst, value)
	dst = appendVarint(dst, int32(len(headers)))
	for i := range headers {
		dst = appendVarint(dst, int32(len(headers[i].Key)))
		dst = append(dst, headers[i].Key...)
		dst = appendField(dst, headers[i].Value)
	}
	b.plain = dst
	b.count++
	b.lastDelta = offsetDelta
	b.maxTimestamp = max(b.maxTimestamp, timestampMillis)
}

// SetLastOffsetDelta makes the batch end at an offset delta past its last
// record: compaction keeps the range of offsets and sequence numbers when it
// removes records from the end, even all of them (KIP-98).
func (b *Builder) SetLastOffsetDelta(delta int32) {
	if delta < b.lastDelta {
		panic(fmt.Sprintf("record: last offset delta %d before that of a record, %d", delta, b.lastDelta))
	}
	b.lastDelta = delta
}

// Build compresses the records and completes the header. The batch is valid
// until the next Reset or Append. The error is ErrUnsupportedCompression for a
// codec that is not Known, or that of a compressor. An empty batch is built as
// compaction leaves one, not compressed; it panics when SetLastOffsetDelta did
// not say which offsets it stands for.
func (b *Builder) Build() (Batch, error) {
	if b.lastDelta < 0 {
		panic("record: a batch without records and without a range of offsets")
	}
	batch := b.plain
	codec := b.options.Codec
	if b.count == 0 {
		codec = CodecNone
	}
	if codec != CodecNone {
		b.compressed = append(b.compressed[:0], b.plain[:HeaderBytes]...)
		compressed, err := Compress(b.compressed, codec, b.plain[HeaderBytes:])
		if err != nil {
			return nil, err
		}
		b.compressed, batch = compressed, compressed
	}
	if len(batch) > math.MaxInt32 {
		return nil, fmt.Errorf("record: batch of %d bytes does not fit its 32-bit length", len(batch))
	}
	b.writeHeader(batch, codec)
	return batch, nil
}

func (b *Builder) writeHeader(batch Batch, codec Codec) {
	o := &b.options
	attributes, maxTimestamp := int16(codec), b.maxTimestamp
	if o.LogAppendTimeMillis != 0 {
		attributes |= bitLogAppendTime
		maxTimestamp = o.LogAppendTimeMillis
	}
	if o.Transactional {
		attributes |= bitTransactional
	}
	if o.Control {
		attributes |= bitControl
	}
	if o.DeleteHorizonMillis != 0 {
		attributes |= bitDeleteHorizon
	}
	producerID, producerEpoch, baseSequence := NoProducerID, NoProducerEpoch, NoSequence
	if o.Idempotent {
		producerID, producerEpoch, baseSequence = o.ProducerID, o.ProducerEpoch, o.BaseSequence
	}
	batch.SetBaseOffset(o.BaseOffset)
	binary.BigEndian.PutUint32(batch[lengthAt:], uint32(len(batch)-PrefixBytes))
	batch.SetLeaderEpoch(o.LeaderEpoch)
	batch[magicAt] = Magic
	batch.setAttributes(attributes)
	binary.BigEndian.PutUint32(batch[lastOffsetDeltaAt:], uint32(b.lastDelta))
	binary.BigEndian.PutUint64(batch[baseTimestampAt:], uint64(b.baseTimestamp))
	binary.BigEndian.PutUint64(batch[maxTimestampAt:], uint64(maxTimestamp))
	binary.BigEndian.PutUint64(batch[producerIDAt:], uint64(producerID))
	binary.BigEndian.PutUint16(batch[producerEpochAt:], uint16(producerEpoch))
	binary.BigEndian.PutUint32(batch[baseSequenceAt:], uint32(baseSequence))
	binary.BigEndian.PutUint32(batch[recordCountAt:], uint32(b.count))
	batch.UpdateCRC()
}

// fieldBytes returns the encoded size of a key or value.
func fieldBytes(field []byte) int {
	if field == nil {
		return 1
	}
	return varintBytes(int64(len(field))) + len(field)
}

func appendField(dst, field []byte) []byte {
	if field == nil {
		return appendVarint(dst, -1)
	}
	dst = appendVarint(dst, int32(len(field)))
	return append(dst, field...)
}
