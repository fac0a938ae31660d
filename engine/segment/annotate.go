package segment

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"ringlog/internal/layout"
)

// trace collects the fields that a cursor reads.
type trace struct {
	fields []layout.Field
	prefix string // of the element that is being read
}

// note names the bytes that were read last.
func (c *cursor) note(name string, bytes int, value string) {
	c.trace.fields = append(c.trace.fields, layout.Field{
		Name: c.trace.prefix + name, At: storedHeaderBytes + c.at - bytes, Bytes: bytes, Value: value,
	})
}

// explain replaces what was said of the last field.
func (t *trace) explain(value string) { t.fields[len(t.fields)-1].Value = value }

// element says that the fields to come are of the i-th element of a list; no name ends it.
func (c *cursor) element(of string, i int) {
	switch {
	case c.trace == nil:
	case of == "":
		c.trace.prefix = ""
	default:
		c.trace.prefix = of + " " + strconv.Itoa(i) + ": "
	}
}

// Annotate names the fields of a stored file of any kind, as its decoder reads them; they end at
// the first that cannot be read. The error is what the decoder says.
func Annotate(file []byte) (kind Kind, fields []layout.Field, err error) {
	if len(file) < storedHeaderBytes {
		return kind, nil, &CorruptError{File: "stored file", Reason: fmt.Sprintf("%d bytes are less than a header", len(file))}
	}
	kind = Kind(file[:4])
	length := binary.LittleEndian.Uint32(file[8:])
	fields = []layout.Field{
		{Name: "magic", At: 0, Bytes: 4, Value: layout.Text(file[:4]) + ", " + kind.String()},
		{Name: "version", At: 4, Bytes: 2, Value: strconv.Itoa(int(binary.LittleEndian.Uint16(file[4:])))},
		{Name: "zero", At: 6, Bytes: 2},
		{Name: "body length", At: 8, Bytes: 4, Value: strconv.FormatUint(uint64(length), 10)},
		{Name: "CRC-32C", At: 12, Bytes: 4},
	}
	c, err := openStored(file, kind, versionsMax[kind])
	if err != nil {
		return kind, fields, err
	}
	fields[4].Value = "holds"
	t := &trace{fields: fields}
	c.trace = t
	switch kind {
	case KindManifest:
		_, err = decodeManifest(&c)
	case KindCheckpoint:
		_, err = decodeCheckpoint(&c)
	case KindIndex, KindTimeIndex:
		_, err = decodeHalf(&c)
	case KindSnapshot:
		_, err = decodeSnapshot(&c)
	case KindRing:
		_, err = decodeRing(&c)
	case KindPlacement:
		_, err = decodePlacement(&c)
	}
	if end := storedHeaderBytes + len(c.body); err == nil && end < len(file) {
		t.fields = append(t.fields, layout.Field{Name: "padding", At: end, Bytes: len(file) - end, Value: layout.Zeros(file[end:])})
	}
	return kind, t.fields, err
}

// versionsMax are the versions that this program reads; a kind that is not here is none of ours.
var versionsMax = map[Kind]uint16{
	KindManifest: manifestVersion, KindCheckpoint: checkpointVersion, KindIndex: indexVersion, KindTimeIndex: indexVersion,
	KindSnapshot: snapshotVersion, KindRing: ringVersion, KindPlacement: placementVersion,
}

// KindOf returns the kind of a stored file by its magic; ok is false when it is none.
func KindOf(file []byte) (kind Kind, ok bool) {
	if len(file) < len(kind) {
		return kind, false
	}
	kind = Kind(file[:4])
	return kind, versionsMax[kind] > 0
}
