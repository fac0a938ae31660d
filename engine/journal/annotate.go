package journal

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"ringlog/internal/layout"
)

// rowFieldNames are the fields of a row in the order in which they are read.
var rowFieldNames = []string{"log id", "generation", "previous end", "gap", "span", "leader epoch", "durable below it", "high watermark below it",
	"batch bytes", "CRC-32C of the batches"}

// Annotate names the fields of a frame that Parse or Skim returned, whose bytes begin data: header,
// the batches of each entry, a row for each, padding.
func Annotate(f *Frame, data []byte) []layout.Field {
	data = data[:f.Bytes()]
	x := new(Header).take(data)
	number := func(at int) string { return strconv.FormatUint(binary.LittleEndian.Uint64(data[at:]), 10) }
	fields := []layout.Field{
		{Name: "magic", At: 0, Bytes: atVersion, Value: layout.Text(data[:atVersion])},
		{Name: "version", At: atVersion, Bytes: 2, Value: strconv.Itoa(int(binary.LittleEndian.Uint16(data[atVersion:])))},
		{Name: "zero", At: atVersion + 2, Bytes: 2},
		{Name: "store id", At: atStore, Bytes: atRun - atStore},
		{Name: "run", At: atRun, Bytes: 8, Value: number(atRun)},
		{Name: "sequence", At: atSequence, Bytes: 8, Value: number(atSequence)},
		{Name: "flushed", At: atFlushed, Bytes: 8, Value: number(atFlushed)},
		{Name: "from", At: atFrom, Bytes: 8, Value: number(atFrom)},
		{Name: "metadata", At: atMetadata, Bytes: 8, Value: number(atMetadata)},
		{Name: "entries", At: atEntries, Bytes: 4, Value: strconv.Itoa(x.entries)},
		{Name: "data bytes", At: atDataBytes, Bytes: 4, Value: strconv.Itoa(x.dataBytes)},
		{Name: "table bytes", At: atTableBytes, Bytes: 4, Value: strconv.Itoa(x.tableBytes)},
		{Name: "CRC-32C of the table", At: atTableCRC, Bytes: 4, Value: holds(f.tabled)},
		{Name: "CRC-32C of the header", At: atHeaderCRC, Bytes: 4, Value: holds(true)},
	}
	at := headerBytes
	for i := range f.rows {
		r := &f.rows[i]
		fields = append(fields, layout.Field{Name: fmt.Sprintf("entry %d: batches", i), At: at, Bytes: len(r.data),
			Value: fmt.Sprintf("offsets %d to %d, checksum %s", r.entry.FirstOffset, r.entry.LastOffset, holds(r.whole))})
		at += len(r.data)
	}
	if f.tabled {
		fields, at = annotateTable(fields, data[:x.bytes()], at, len(f.rows))
	}
	if at < len(data) {
		fields = append(fields, layout.Field{Name: "padding", At: at, Bytes: len(data) - at, Value: layout.Zeros(data[at:])})
	}
	return fields
}

// annotateTable names the fields of each row; the table begins at position at and ends with data.
func annotateTable(fields []layout.Field, data []byte, at, rows int) ([]layout.Field, int) {
	for i := range rows {
		var e Entry
		n := 0
		c := rowCursor{rest: data[at:], visit: func(left int) {
			end := len(data) - left
			fields = append(fields, layout.Field{Name: fmt.Sprintf("entry %d: %s", i, rowFieldNames[n]), At: at, Bytes: end - at, Value: rowValue(n, data[at:end])})
			at = end
			n++
		}}
		c.row(&e)
	}
	return fields, at
}

// rowValue says what the n-th field of a row is.
func rowValue(n int, field []byte) string {
	switch {
	case n == 0:
		return fmt.Sprintf("%x", field)
	case n == len(rowFieldNames)-1:
		return ""
	}
	v, _ := binary.Uvarint(field)
	return strconv.FormatUint(v, 10)
}

func holds(whole bool) string {
	if whole {
		return "holds"
	}
	return "does not hold"
}
