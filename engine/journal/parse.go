package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"ringlog/engine/segment"
)

// Errors of Parse. It also returns segment.ErrNewerFormat and
// *segment.CorruptError.
var (
	// ErrNoFrame is returned when no frame of this store begins at the block.
	ErrNoFrame = errors.New("journal: no frame begins here")
	// ErrShort is returned, as a *ShortError, when the frame is longer than the
	// bytes at hand.
	ErrShort = errors.New("journal: the frame is longer than what was read")
)

// ShortError says how many bytes Parse needs. It unwraps to ErrShort. The header
// that says so is intact.
type ShortError struct {
	Bytes int // the whole frame, from its first byte
}

// Error says how long the frame is.
func (e *ShortError) Error() string { return fmt.Sprintf("%v: %d bytes are needed", ErrShort, e.Bytes) }

// Unwrap returns ErrShort.
func (e *ShortError) Unwrap() error { return ErrShort }

// Frame is one that was read. It refers to the bytes that Parse was given.
type Frame struct {
	Header
	bytes  int  // with padding
	tabled bool // the table can be read
	rows   []row
	whole  bool // and all batches
}

// row is one entry as the table has it.
type row struct {
	entry Entry
	data  []byte
	crc   uint32
	whole bool
}

// Parse reads the frame that begins with data, which may be longer than the
// frame; data begins at a block of the ring. The error is
//
//   - ErrNoFrame: no frame of this store begins here (or its first bytes are
//     damaged, which is the same);
//   - a *ShortError: the frame has more bytes than data;
//   - segment.ErrNewerFormat;
//   - a *segment.CorruptError: the header or the table is damaged. If only the
//     table is, the frame is returned too, with its Header and Bytes, without entries
//     and not whole.
//
// Damaged batches are no error: At and Whole tell.
func Parse(data []byte, store [16]byte) (Frame, error) {
	f, err := Skim(data, store)
	if err == nil {
		f.checkBatches()
	}
	return f, err
}

// Skim is Parse without a look at the batches, which is most of the work: what it returns
// has its Header, Bytes and entries, none of which counts as whole yet. Clone makes up
// for it.
func Skim(data []byte, store [16]byte) (Frame, error) {
	var f Frame
	if len(data) < headerBytes {
		return f, &ShortError{Bytes: BlockBytes}
	}
	if !bytes.Equal(data[:len(magic)], magic[:]) || !bytes.Equal(data[atStore:atStore+len(store)], store[:]) {
		return f, ErrNoFrame
	}
	if crc, stored := crc32.Checksum(data[:atHeaderCRC], castagnoli), binary.LittleEndian.Uint32(data[atHeaderCRC:]); crc != stored {
		return f, corrupt(atHeaderCRC, "header checksum %08x, computed %08x", stored, crc)
	}
	if version := binary.LittleEndian.Uint16(data[atVersion:]); version > formatVersion {
		return f, fmt.Errorf("%w: a journal frame has format %d, this program reads up to %d", segment.ErrNewerFormat, version, formatVersion)
	} else if version == 0 || binary.LittleEndian.Uint16(data[atVersion+2:]) != 0 {
		return f, corrupt(atVersion, "format %d", version)
	}
	var h Header
	x := h.take(data)
	if !h.sound() {
		return f, corrupt(atSequence, "frame %d says that %d is flushed and %d needed", h.Sequence, h.Flushed, h.From)
	}
	if !x.sound() {
		return f, corrupt(atEntries, "%d entries announced, in %d bytes with a table of %d", x.entries, x.dataBytes, x.tableBytes)
	}
	length := frameBytes(x.bytes())
	if len(data) < length {
		return f, &ShortError{Bytes: length}
	}
	f = Frame{Header: h, bytes: length}
	table := data[headerBytes+x.dataBytes : x.bytes()]
	if crc := crc32.Checksum(table, castagnoli); crc != x.tableCRC {
		return f, corrupt(atTableCRC, "table checksum %08x, computed %08x", x.tableCRC, crc)
	}
	rows, err := parseTable(table, x.entries, data[headerBytes:headerBytes+x.dataBytes])
	if err != nil {
		return f, err
	}
	f.rows, f.tabled = rows, true
	return f, nil
}

// checkBatches compares the batches of each entry with their checksum.
func (f *Frame) checkBatches() {
	f.whole = f.tabled
	for i := range f.rows {
		r := &f.rows[i]
		r.whole = crc32.Checksum(r.data, castagnoli) == r.crc
		f.whole = f.whole && r.whole
	}
}

// Clone returns the frame with memory of its own, its batches checked there.
func (f *Frame) Clone() Frame {
	bytes := 0
	for i := range f.rows {
		bytes += len(f.rows[i].data)
	}
	c, memory := *f, make([]byte, 0, bytes)
	c.rows = make([]row, len(f.rows))
	for i, r := range f.rows {
		from := len(memory)
		memory = append(memory, r.data...)
		r.data = memory[from:len(memory):len(memory)]
		c.rows[i] = r
	}
	c.checkBatches()
	return c
}

// parseTable reads a table whose checksum holds.
func parseTable(table []byte, entries int, data []byte) ([]row, error) {
	rows := make([]row, entries)
	at, start := 0, headerBytes+len(data)
	for i := range rows {
		r := &rows[i]
		c := rowCursor{rest: table[at:]}
		dataBytes, crc := c.row(&r.entry)
		r.crc = crc
		if c.bad || !r.entry.sound() || dataBytes == 0 || dataBytes > uint64(len(data)) {
			return nil, corrupt(start+at, "entry %d makes no sense", i)
		}
		at = len(table) - len(c.rest)
		r.data, data = data[:dataBytes:dataBytes], data[dataBytes:]
	}
	if at != len(table) || len(data) != 0 {
		return nil, corrupt(start+at, "%d bytes of the table and %d of the data belong to no entry", len(table)-at, len(data))
	}
	return rows, nil
}

// rowCursor reads the fields of a row. The first failure sticks.
type rowCursor struct {
	rest  []byte
	bad   bool
	visit func(left int) // nil, but for Annotate: called behind each field
}

func (c *rowCursor) take(n int) []byte {
	if c.bad = c.bad || n > len(c.rest); c.bad {
		return nil
	}
	b := c.rest[:n]
	c.pass(n)
	return b
}

// pass goes over a field.
func (c *rowCursor) pass(n int) {
	c.rest = c.rest[n:]
	if c.visit != nil {
		c.visit(len(c.rest))
	}
}

func (c *rowCursor) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(c.rest)
	if c.bad = c.bad || n <= 0 || v > most; c.bad {
		return 0
	}
	c.pass(n)
	return v
}

// row reads what appendRow wrote. Distances that lead out of the offsets are
// bad; their order is for sound.
func (c *rowCursor) row(e *Entry) (dataBytes uint64, dataCRC uint32) {
	copy(e.LogID[:], c.take(logIDBytes))
	e.Gen = c.uvarint(math.MaxUint64)
	e.PreviousEnd = int64(c.uvarint(math.MaxInt64))
	e.FirstOffset = e.PreviousEnd + int64(c.uvarint(uint64(math.MaxInt64-e.PreviousEnd)))
	e.LastOffset = e.FirstOffset + int64(c.uvarint(uint64(math.MaxInt64-e.FirstOffset)))
	e.Epoch = int32(uint32(c.uvarint(math.MaxUint32)))
	e.Durable = e.PreviousEnd - int64(c.uvarint(uint64(e.PreviousEnd)))
	e.HighWatermark = e.PreviousEnd - int64(c.uvarint(uint64(e.PreviousEnd)))
	dataBytes = c.uvarint(FrameBytesMax)
	if b := c.take(4); b != nil {
		dataCRC = binary.LittleEndian.Uint32(b)
	}
	return dataBytes, dataCRC
}

func corrupt(at int, format string, values ...any) error {
	return &segment.CorruptError{File: "journal frame", Offset: int64(at), Reason: fmt.Sprintf(format, values...)}
}

// Len returns the number of entries.
func (f *Frame) Len() int { return len(f.rows) }

// Bytes returns the length of the frame, padding included.
func (f *Frame) Bytes() int { return f.bytes }

// At returns the i-th entry and its batches, a slice of what Parse was given.
// whole says that their checksum holds; if not, the entry is still what was written.
func (f *Frame) At(i int) (e Entry, data []byte, whole bool) {
	r := &f.rows[i]
	return r.entry, r.data, r.whole
}

// Whole says whether every entry is.
func (f *Frame) Whole() bool { return f.whole }
