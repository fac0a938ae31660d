// Package layout names the bytes of a stored format: which field lies where, and what it
// says. The decoders of a format make the list as they read, so that it cannot differ from
// what they understand; package dump prints it, and tests pin formats with it. Nothing here is
// on a hot path: a decoder that nobody asks for names makes none.
package layout

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Field is one field of a format.
type Field struct {
	Name  string
	At    int // of its first byte, from the first of the whole
	Bytes int
	Value string // what it says, for people; empty when the bytes say it all
}

// bytesPerLine is how many bytes stand in a line; linesMax how many lines a field may take.
const (
	bytesPerLine = 16
	linesMax     = 8
)

// Write prints data, of which fields name the parts, one field after the other. base is the
// position of data[0] in its file. Bytes that no field names are shown as such.
func Write(w io.Writer, base int64, data []byte, fields []Field) error {
	width := 0
	for i := range fields {
		width = max(width, len(fields[i].Name))
	}
	p := printer{w: w, base: base, data: data, width: width}
	for i := range fields {
		f := &fields[i]
		if before := min(f.At, len(data)); before > p.at {
			p.field(Field{Name: "(no field)", At: p.at, Bytes: before - p.at})
		}
		p.field(*f)
	}
	if p.at < len(data) {
		p.field(Field{Name: "(no field)", At: p.at, Bytes: len(data) - p.at})
	}
	return p.err
}

// printer is the state of Write. The first error sticks.
type printer struct {
	w     io.Writer
	base  int64
	data  []byte
	width int
	at    int // behind the last field
	err   error
}

func (p *printer) field(f Field) {
	from := min(f.At, len(p.data))
	to := min(f.At+f.Bytes, len(p.data))
	lines := (to - from + bytesPerLine - 1) / bytesPerLine
	for n := range max(min(lines, linesMax), 1) {
		start := from + n*bytesPerLine
		name, value := "", ""
		if n == 0 {
			name, value = f.Name, f.Value
		}
		p.line(start, p.data[start:min(start+bytesPerLine, to)], name, value)
	}
	if lines > linesMax {
		p.printf("%12s  … %d more bytes\n", "", to-from-linesMax*bytesPerLine)
	}
	p.at = max(p.at, to)
}

func (p *printer) line(at int, part []byte, name, value string) {
	text := fmt.Sprintf("%12d  %-*s  %-*s  %s", p.base+int64(at), 3*bytesPerLine-1, fmt.Sprintf("% x", part), p.width, name, value)
	p.printf("%s\n", strings.TrimRight(text, " "))
}

func (p *printer) printf(format string, values ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, values...)
	}
}

// Millis writes a time in Unix milliseconds with what it is in UTC; what is negative is no time.
func Millis(millis int64) string {
	if millis < 0 {
		return fmt.Sprint(millis)
	}
	return fmt.Sprintf("%d (%s)", millis, time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05.000Z"))
}

// Zeros says of padding whether it is what it should be.
func Zeros(padding []byte) string {
	for _, b := range padding {
		if b != 0 {
			return "not all zero"
		}
	}
	return "zeros"
}

// Text quotes bytes that may be text, cut to some length.
func Text(b []byte) string {
	const bytesMax = 64
	if len(b) > bytesMax {
		return fmt.Sprintf("%q…", b[:bytesMax])
	}
	return fmt.Sprintf("%q", b)
}
