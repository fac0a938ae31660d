package journal

import (
	"fmt"
	"hash/crc32"
)

// Builder makes frames, one after the other, each in memory of the caller. It
// allocates nothing once its table has grown to the size that the frames need. The
// zero value is ready for Begin.
type Builder struct {
	memory  []byte // nil between Finish and Begin
	end     int    // of the data in memory
	table   []byte // rows of the entries that are complete
	entries int
	open    bool // the last entry's row is not in the table yet
	entry   Entry
	start   int    // of its data
	crc     uint32 // of its data
}

// Begin begins a frame in memory, a whole number of blocks that is aligned as
// the disk wants it. The memory is the builder's until Finish and must not change
// until the write of what Finish returns has ended.
func (b *Builder) Begin(memory []byte) {
	if len(memory) == 0 || len(memory)%BlockBytes != 0 || len(memory) > FrameBytesMax {
		panic(fmt.Sprintf("journal: a frame in %d bytes of memory", len(memory)))
	}
	b.memory, b.end, b.table, b.entries, b.open = memory, headerBytes, b.table[:0], 0, false
}

// Room returns how many bytes of data one more entry may have, 0 when none
// fits.
func (b *Builder) Room() int {
	return max(0, b.free()-rowBytesMax)
}

// free is what is left behind the data for more of it, with the rows of all
// entries begun.
func (b *Builder) free() int {
	free := len(b.memory) - b.end - len(b.table)
	if b.open {
		free -= rowBytesMax
	}
	return free
}

// Entry begins an entry. Ask Room first. It panics when the offsets are not in
// order, and when the entry begun before has no data.
func (b *Builder) Entry(e Entry) {
	b.closeEntry()
	if !e.sound() {
		panic(fmt.Sprintf("journal: entry of offsets %d to %d behind %d", e.FirstOffset, e.LastOffset, e.PreviousEnd))
	}
	if b.free() < rowBytesMax {
		panic("journal: no room for an entry")
	}
	e.Durable = bounded(e.Durable, e.PreviousEnd)
	e.HighWatermark = bounded(e.HighWatermark, e.PreviousEnd)
	b.entry, b.open, b.start, b.crc = e, true, b.end, 0
	b.entries++
}

// Append copies data, whole batches, into the entry begun last. All data of an
// entry must fit the Room that there was before it.
func (b *Builder) Append(data []byte) {
	if !b.open || len(data) > b.free() {
		panic(fmt.Sprintf("journal: %d bytes do not fit the frame", len(data)))
	}
	b.crc = crc32.Update(b.crc, castagnoli, data)
	b.end += copy(b.memory[b.end:], data)
}

// closeEntry puts the row of the entry begun last into the table.
func (b *Builder) closeEntry() {
	if !b.open {
		return
	}
	if b.end == b.start {
		panic("journal: an entry without data")
	}
	b.table = appendRow(b.table, &b.entry, b.end-b.start, b.crc)
	b.open = false
}

// Entries returns how many entries were begun.
func (b *Builder) Entries() int { return b.entries }

// Bytes returns how much data was appended.
func (b *Builder) Bytes() int { return b.end - headerBytes }

// Finish returns the whole frame, a part of the memory of Begin and a multiple of
// BlockBytes, its padding zeroed. A frame without entries is one too: it says
// what was flushed. It panics when the header contradicts itself.
func (b *Builder) Finish(h Header) []byte {
	b.closeEntry()
	if !h.sound() {
		panic(fmt.Sprintf("journal: frame %d says that %d is flushed and %d needed", h.Sequence, h.Flushed, h.From))
	}
	x := extent{entries: b.entries, dataBytes: b.Bytes(), tableBytes: len(b.table), tableCRC: crc32.Checksum(b.table, castagnoli)}
	frame := b.memory[:frameBytes(x.bytes())]
	copy(frame[b.end:], b.table)
	clear(frame[x.bytes():])
	h.put(frame, x)
	b.memory = nil
	return frame
}
