package journal

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// BlockBytes is the unit of the ring: frames begin at a multiple of it and are
// a multiple of it long.
const BlockBytes = 4096

// FrameBytesMax bounds a frame, so that lengths fit every int and a header
// that claims more is refused.
const FrameBytesMax = 256 << 20

const formatVersion = 1

var magic = [4]byte{'R', 'L', 'j', 'f'}

// Header says what a frame is.
type Header struct {
	// Store is of the data directory: a random secret, so that the bytes of clients
	// can never pass for a frame.
	Store [16]byte
	// Run is raised, durably, at each start of the shard. What a run left behind its
	// end can so never pass for the next one's.
	Run uint64
	// Sequence numbers the frames without gaps, from 1, over all runs; a new run
	// may leave some out, but only before its first frame.
	Sequence uint64
	// Flushed is the highest sequence known to be flushed when this frame was built,
	// 0 for none; everything below it was flushed too.
	Flushed uint64
	// From is the lowest sequence that some segment still needed, never one of an
	// earlier run. It may be raised as soon as the checkpoint that says so is durable.
	From uint64
	// Metadata is the version of the metadata image: an opaque number from above.
	Metadata uint64
}

// sound says whether a header is one that a writer can have meant.
func (h *Header) sound() bool {
	return h.Sequence > 0 && h.Sequence < math.MaxUint64 && h.Flushed < h.Sequence && h.From <= h.Sequence
}

// Entry says whose batches an entry has, and what was true of the log when
// the frame was built.
type Entry struct {
	LogID       [16]byte
	Gen         uint64
	PreviousEnd int64 // the log's end before this entry
	FirstOffset int64 // of the batches; above PreviousEnd in a log with a gap, which nothing makes today
	LastOffset  int64 // the last offset of the last batch
	Epoch       int32 // leader epoch of the last batch
	// Durable and HighWatermark are lower bounds: an end of the log below Durable is
	// corruption. Neither is recorded above PreviousEnd.
	Durable       int64
	HighWatermark int64
}

// sound says whether the offsets are in order. LastOffset + 1 must be an offset
// too.
func (e *Entry) sound() bool {
	return e.PreviousEnd >= 0 && e.FirstOffset >= e.PreviousEnd && e.LastOffset >= e.FirstOffset && e.LastOffset < math.MaxInt64
}

// Positions in a header; numbers are little-endian.
const (
	atVersion    = 4
	atStore      = 8
	atRun        = 24
	atSequence   = 32
	atFlushed    = 40
	atFrom       = 48
	atMetadata   = 56
	atEntries    = 64
	atDataBytes  = 68
	atTableBytes = 72
	atTableCRC   = 76
	atHeaderCRC  = 80
	headerBytes  = 84
)

// HeaderBytes is the length of a frame's header: the first entry's batches lie behind it, those of
// the others behind them without gaps.
const HeaderBytes = headerBytes

// A row is 28 to 85 bytes, 36 or so as a rule: fixed fields of 8 bytes would make it
// 76, which is 7 % of an entry of one kilobyte. As varints the distances need
// no limit either, and nothing is ever rounded.
const (
	logIDBytes  = 16
	rowBytesMin = logIDBytes + 8*1 + 4
	rowBytesMax = logIDBytes + 10 + 5*9 + 2*5 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// extent is what a header says of the rest of its frame.
type extent struct {
	entries, dataBytes, tableBytes int
	tableCRC                       uint32
}

// bytes is the length of the frame without its padding.
func (x *extent) bytes() int { return headerBytes + x.dataBytes + x.tableBytes }

// sound says whether a frame of that extent can be. As unsigned numbers, because
// four bytes can be negative where an int has no more.
func (x *extent) sound() bool {
	return uint(x.dataBytes) <= FrameBytesMax && uint(x.tableBytes) <= FrameBytesMax && x.bytes() <= FrameBytesMax &&
		uint(x.entries) <= uint(x.tableBytes/rowBytesMin)
}

// frameBytes rounds up to whole blocks.
func frameBytes(bytes int) int { return (bytes + BlockBytes - 1) &^ (BlockBytes - 1) }

// put writes the header to the front of a frame.
func (h *Header) put(frame []byte, x extent) {
	le := binary.LittleEndian
	copy(frame, magic[:])
	le.PutUint16(frame[atVersion:], formatVersion)
	le.PutUint16(frame[atVersion+2:], 0)
	copy(frame[atStore:], h.Store[:])
	le.PutUint64(frame[atRun:], h.Run)
	le.PutUint64(frame[atSequence:], h.Sequence)
	le.PutUint64(frame[atFlushed:], h.Flushed)
	le.PutUint64(frame[atFrom:], h.From)
	le.PutUint64(frame[atMetadata:], h.Metadata)
	le.PutUint32(frame[atEntries:], uint32(x.entries))
	le.PutUint32(frame[atDataBytes:], uint32(x.dataBytes))
	le.PutUint32(frame[atTableBytes:], uint32(x.tableBytes))
	le.PutUint32(frame[atTableCRC:], x.tableCRC)
	le.PutUint32(frame[atHeaderCRC:], crc32.Checksum(frame[:atHeaderCRC], castagnoli))
}

// take reads what put wrote.
func (h *Header) take(frame []byte) (x extent) {
	le := binary.LittleEndian
	copy(h.Store[:], frame[atStore:])
	h.Run = le.Uint64(frame[atRun:])
	h.Sequence = le.Uint64(frame[atSequence:])
	h.Flushed = le.Uint64(frame[atFlushed:])
	h.From = le.Uint64(frame[atFrom:])
	h.Metadata = le.Uint64(frame[atMetadata:])
	x.entries = int(le.Uint32(frame[atEntries:]))
	x.dataBytes = int(le.Uint32(frame[atDataBytes:]))
	x.tableBytes = int(le.Uint32(frame[atTableBytes:]))
	x.tableCRC = le.Uint32(frame[atTableCRC:])
	return x
}

// appendRow appends the row of an entry with that much data.
func appendRow(table []byte, e *Entry, dataBytes int, dataCRC uint32) []byte {
	table = append(table, e.LogID[:]...)
	table = binary.AppendUvarint(table, e.Gen)
	table = binary.AppendUvarint(table, uint64(e.PreviousEnd))
	table = binary.AppendUvarint(table, uint64(e.FirstOffset-e.PreviousEnd))
	table = binary.AppendUvarint(table, uint64(e.LastOffset-e.FirstOffset))
	table = binary.AppendUvarint(table, uint64(uint32(e.Epoch)))
	table = binary.AppendUvarint(table, uint64(e.PreviousEnd-e.Durable))
	table = binary.AppendUvarint(table, uint64(e.PreviousEnd-e.HighWatermark))
	table = binary.AppendUvarint(table, uint64(dataBytes))
	return binary.LittleEndian.AppendUint32(table, dataCRC)
}

// bounded brings an offset that is a lower bound into the range that a row can say,
// never upwards of what was true.
func bounded(offset, previousEnd int64) int64 { return max(0, min(offset, previousEnd)) }
