package plan

import (
	"math/bits"
	"time"
)

const (
	// PieceBytes is the size of a write of a busy log, and WritesMax how many of
	// a log are in flight: the knee of the measured device (measured 2026-11,
	// overwriting: 3.1 GB/s at 8 × 256 KiB, 0.4-0.9 at smaller pieces or depth 1).
	PieceBytes = 256 << 10
	WritesMax  = 8
)

// Piece is what decides which bytes of a log to write next. All positions are
// in one segment file.
type Piece struct {
	From   int64 // block that holds the first byte not yet submitted
	Bytes  int64 // data from there to the end of the chunk
	Sealed bool  // no byte will be added to this chunk
	Last   bool  // nothing of the segment follows this chunk
	// Idle: no write of the log was in flight when this round began, or its bytes
	// are due. Then the round takes all full blocks; else only what makes a good
	// write, and the rest gathers.
	Idle bool
	// Tail: the block that is not full goes too.
	Tail bool
}

// Next returns how many bytes to write at From; 0 is none. tail says that it is
// the one block that is not full, which is written from a private copy (rule 18)
// and after which the log writes nothing more until it has completed.
//
// In an idle round the tail block goes out beside the full blocks before it: they
// do not overlap, and what counts as written is a prefix, so a tail block that
// arrives first proves nothing. Alone in a round of its own it would cost every
// small commit one more trip to the device.
func (p Piece) Next() (bytes int64, tail bool) {
	full := RoundDown(p.Bytes)
	switch {
	case full >= PieceBytes:
		return PieceBytes, false
	case full > 0 && (p.Idle || p.Sealed):
		return full, false
	case full == 0 && p.Bytes > 0 && (p.Tail || p.Sealed && p.Last):
		return BlockBytes, true
	}
	return 0, false
}

// Sizes of the chunks that hold a log's tail in memory.
const (
	ChunkBytesMin = 4 << 10
	ChunkBytesMax = 1 << 20

	chunkSoon = 20 * time.Millisecond
	// A chunk up to chunkSmall that lasted less than this was too small: making one costs
	// as much as copying some batches into it (measured at 10,000 logs of 13 batches/s).
	chunkSmall     = 16 << 10
	chunkSmallSoon = 500 * time.Millisecond
	chunkLate      = 2 * time.Second
)

// ChunkBytes returns the size of a log's next chunk, given the size of the last
// one, how long it lasted, and what must fit.
func ChunkBytes(last int64, lasted time.Duration, need int64) int64 {
	switch {
	case last < ChunkBytesMin:
		last = ChunkBytesMin
	case lasted < chunkSoon, last < chunkSmall && lasted < chunkSmallSoon:
		last *= 4
	case lasted > chunkLate:
		last /= 4
	}
	return max(min(max(last, ChunkBytesMin), ChunkBytesMax), PowerOfTwo(need))
}

// PowerOfTwo returns the smallest power of two that is at least n.
func PowerOfTwo(n int64) int64 {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len64(uint64(n-1))
}
