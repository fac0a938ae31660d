package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strconv"

	"ringlog/internal/layout"
)

// Errors of stored files.
var (
	// ErrCorrupt is returned when stored bytes are not what was written.
	ErrCorrupt = errors.New("engine: stored data is corrupt")
	// ErrNewerFormat is returned when a file was written by a newer version of this program.
	ErrNewerFormat = errors.New("engine: data was written by a newer version")
)

// CorruptError says what is wrong with which stored file. It unwraps to ErrCorrupt.
type CorruptError struct {
	File   string // what it is, or its path
	Offset int64  // position in the file
	Reason string
}

// Error names the file, the position and the cause.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%v: %s at byte %d: %s", ErrCorrupt, e.File, e.Offset, e.Reason)
}

// Unwrap returns ErrCorrupt.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// Kind is the magic of a stored file: four letters.
type Kind [4]byte

// The kinds of stored files.
var (
	KindManifest   = Kind{'R', 'L', 'l', 'm'}
	KindCheckpoint = Kind{'R', 'L', 'c', 'p'}
	KindIndex      = Kind{'R', 'L', 'i', 'x'}
	KindTimeIndex  = Kind{'R', 'L', 't', 'x'}
	KindSnapshot   = Kind{'R', 'L', 's', 's'}
	KindRing       = Kind{'R', 'L', 'j', 'r'}
	KindPlacement  = Kind{'R', 'L', 'p', 'l'}
)

// String names the kind for errors.
func (k Kind) String() string {
	switch k {
	case KindManifest:
		return "log.meta"
	case KindCheckpoint:
		return "checkpoint"
	case KindIndex:
		return "offset index"
	case KindTimeIndex:
		return "time index"
	case KindSnapshot:
		return "snapshot"
	case KindRing:
		return "journal head"
	case KindPlacement:
		return "placement table"
	}
	return fmt.Sprintf("stored file %q", k[:])
}

const (
	storedHeaderBytes = 16
	storedBlockBytes  = 4096
	// storedBodyBytesMax bounds what a length field may claim: above the snapshot of
	// the largest producer table and the index of the largest segment.
	storedBodyBytesMax = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendStored appends the stored form of body to dst, padded with zeros to
// whole blocks counted from the start of what it appends, and returns dst.
func AppendStored(dst []byte, kind Kind, version uint16, body []byte) []byte {
	if len(body) > storedBodyBytesMax {
		panic(fmt.Sprintf("segment: %s of %d bytes", kind, len(body)))
	}
	start := len(dst)
	whole := (storedHeaderBytes + len(body) + storedBlockBytes - 1) &^ (storedBlockBytes - 1)
	dst = slices.Grow(dst, whole)
	dst = append(dst, kind[:]...)
	dst = binary.LittleEndian.AppendUint16(dst, version)
	dst = append(dst, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(body)))
	crc := crc32.Update(crc32.Checksum(dst[start:], castagnoli), castagnoli, body)
	dst = binary.LittleEndian.AppendUint32(dst, crc)
	dst = append(dst, body...)
	return append(dst, zeroBlock[:start+whole-len(dst)]...)
}

var zeroBlock [storedBlockBytes]byte

// ParseStored returns the body of a stored file of the kind, as a slice of
// file. It returns ErrNewerFormat when the version is above versionMax, even when
// the rest cannot be understood, and a *CorruptError otherwise.
func ParseStored(file []byte, kind Kind, versionMax uint16) (body []byte, version uint16, err error) {
	if len(file) < storedHeaderBytes {
		return nil, 0, &CorruptError{File: kind.String(), Reason: fmt.Sprintf("%d bytes are less than a header", len(file))}
	}
	if Kind(file[:4]) != kind {
		return nil, 0, &CorruptError{File: kind.String(), Reason: fmt.Sprintf("magic %q", file[:4])}
	}
	length := int(binary.LittleEndian.Uint32(file[8:]))
	if length > storedBodyBytesMax || length > len(file)-storedHeaderBytes {
		return nil, 0, &CorruptError{File: kind.String(), Offset: 8, Reason: fmt.Sprintf("%d bytes announced, %d there", length, len(file)-storedHeaderBytes)}
	}
	body = file[storedHeaderBytes : storedHeaderBytes+length]
	crc := crc32.Update(crc32.Checksum(file[:12], castagnoli), castagnoli, body)
	if stored := binary.LittleEndian.Uint32(file[12:]); crc != stored {
		return nil, 0, &CorruptError{File: kind.String(), Offset: 12, Reason: fmt.Sprintf("checksum %08x, computed %08x", stored, crc)}
	}
	version = binary.LittleEndian.Uint16(file[4:])
	if version > versionMax {
		return nil, version, fmt.Errorf("%w: %s has format %d, this program reads up to %d", ErrNewerFormat, kind, version, versionMax)
	}
	if version == 0 {
		return nil, 0, &CorruptError{File: kind.String(), Offset: 4, Reason: "format 0"}
	}
	return body, version, nil
}

// cursor decodes a body. The first failure sticks; callers check err once. Each
// field is read by its name, so that Annotate shows what the decoders understand.
type cursor struct {
	kind    Kind
	version uint16
	body    []byte
	at      int
	err     error
	trace   *trace // nil: nobody wants the names
}

// openStored returns a cursor on the body of a stored file; see ParseStored.
func openStored(file []byte, kind Kind, versionMax uint16) (cursor, error) {
	body, version, err := ParseStored(file, kind, versionMax)
	return cursor{kind: kind, version: version, body: body}, err
}

func (c *cursor) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	if n < 0 || n > len(c.body)-c.at {
		c.fail("ends early")
		return nil
	}
	b := c.body[c.at : c.at+n]
	c.at += n
	return b
}

func (c *cursor) fail(reason string) {
	if c.err == nil {
		c.err = &CorruptError{File: c.kind.String(), Offset: int64(storedHeaderBytes + c.at), Reason: reason}
	}
}

func (c *cursor) id(name string) (id [16]byte) {
	b := c.take(len(id))
	copy(id[:], b)
	if c.trace != nil && b != nil {
		c.note(name, len(b), fmt.Sprintf("%x", b))
	}
	return id
}

func (c *cursor) text(name string, n int) string {
	text := string(c.take(n))
	if c.trace != nil {
		c.note(name, len(text), strconv.Quote(text))
	}
	return text
}

func (c *cursor) uint8(name string) uint8 {
	b := c.take(1)
	if b == nil {
		return 0
	}
	if c.trace != nil {
		c.note(name, 1, strconv.Itoa(int(b[0])))
	}
	return b[0]
}

func (c *cursor) uint16(name string) uint16 {
	b := c.take(2)
	if b == nil {
		return 0
	}
	v := binary.LittleEndian.Uint16(b)
	if c.trace != nil {
		c.note(name, 2, strconv.Itoa(int(v)))
	}
	return v
}

func (c *cursor) uint32(name string) uint32 {
	b := c.take(4)
	if b == nil {
		return 0
	}
	v := binary.LittleEndian.Uint32(b)
	if c.trace != nil {
		c.note(name, 4, strconv.FormatUint(uint64(v), 10))
	}
	return v
}

func (c *cursor) int64(name string) int64 {
	b := c.take(8)
	if b == nil {
		return 0
	}
	v := int64(binary.LittleEndian.Uint64(b))
	if c.trace != nil {
		c.note(name, 8, strconv.FormatInt(v, 10))
	}
	return v
}

// millis is int64 of a time.
func (c *cursor) millis(name string) int64 {
	v := c.int64(name)
	if c.trace != nil && c.err == nil {
		c.trace.explain(layout.Millis(v))
	}
	return v
}

// count reads a number of elements of elementBytes each and refuses one that the
// rest of the body cannot hold, before anybody allocates for it.
func (c *cursor) count(name string, elementBytes int) int {
	n := int64(c.uint32(name))
	if n*int64(elementBytes) > int64(len(c.body)-c.at) {
		c.fail(fmt.Sprintf("%d elements announced", n))
		return 0
	}
	return int(n)
}

// end refuses bytes behind the last field.
func (c *cursor) end() error {
	if c.err == nil && c.at != len(c.body) {
		c.fail("has bytes left over")
	}
	return c.err
}

func appendInt64(dst []byte, v int64) []byte {
	return binary.LittleEndian.AppendUint64(dst, uint64(v))
}

func appendCount(dst []byte, n int) []byte {
	if n > math.MaxUint32 {
		panic("segment: too many elements")
	}
	return binary.LittleEndian.AppendUint32(dst, uint32(n))
}
