package meta

import (
	"encoding/binary"
	"fmt"
	"math"
)

// encoder appends values to dst.
type encoder struct{ dst []byte }

func (e *encoder) unsigned(v uint64) { e.dst = binary.AppendUvarint(e.dst, v) }
func (e *encoder) signed(v int64)    { e.dst = binary.AppendVarint(e.dst, v) }
func (e *encoder) count(n int)       { e.unsigned(uint64(n)) }
func (e *encoder) id(id [16]byte)    { e.dst = append(e.dst, id[:]...) }

func (e *encoder) boolean(v bool) {
	if v {
		e.dst = append(e.dst, 1)
	} else {
		e.dst = append(e.dst, 0)
	}
}

func (e *encoder) text(s string) {
	e.count(len(s))
	e.dst = append(e.dst, s...)
}

func (e *encoder) optionalText(s *string) {
	e.boolean(s != nil)
	if s != nil {
		e.text(*s)
	}
}

func (e *encoder) int32s(list []int32) {
	e.count(len(list))
	for _, v := range list {
		e.signed(int64(v))
	}
}

func (e *encoder) texts(m map[string]string) {
	e.count(len(m))
	for _, key := range sortedKeys(m) {
		e.text(key)
		e.text(m[key])
	}
}

// decoder reads values from data. The first fault sticks: everything after it
// reads as zero, and finish reports it. No count makes it allocate more than a small
// multiple of the bytes that are there.
type decoder struct {
	what    string
	version byte // of the frame
	data    []byte
	at      int
	err     *CorruptionError
}

func (d *decoder) fail(cause string) {
	if d.err == nil {
		d.err = &CorruptionError{What: d.what, Offset: d.at, Cause: cause}
	}
	d.at = len(d.data)
}

// finish returns the first fault, or that bytes are left over.
func (d *decoder) finish() error {
	if d.err == nil && d.at < len(d.data) {
		d.fail("there are bytes behind its end")
	}
	if d.err != nil {
		return d.err
	}
	return nil
}

func (d *decoder) take(n int) []byte {
	if n > len(d.data)-d.at {
		d.fail("it is cut off")
		return nil
	}
	taken := d.data[d.at : d.at+n]
	d.at += n
	return taken
}

func (d *decoder) unsigned() uint64 {
	v, n := binary.Uvarint(d.data[d.at:])
	if n <= 0 {
		d.fail("a number is cut off or too long")
		return 0
	}
	d.at += n
	return v
}

func (d *decoder) signed() int64 {
	v, n := binary.Varint(d.data[d.at:])
	if n <= 0 {
		d.fail("a number is cut off or too long")
		return 0
	}
	d.at += n
	return v
}

func (d *decoder) int32() int32 {
	v := d.signed()
	if v < math.MinInt32 || v > math.MaxInt32 {
		d.fail("a number does not fit its field")
		return 0
	}
	return int32(v)
}

func (d *decoder) int16() int16 {
	v := d.signed()
	if v < math.MinInt16 || v > math.MaxInt16 {
		d.fail("a number does not fit its field")
		return 0
	}
	return int16(v)
}

// enum reads a number of a closed set that ends at most.
func (d *decoder) enum(what string, most uint64) uint8 {
	v := d.unsigned()
	if v > most {
		d.fail(fmt.Sprintf("there is no %s %d", what, v))
		return 0
	}
	return uint8(v)
}

// count reads how many elements follow, each of at least elementBytes.
func (d *decoder) count(elementBytes int) int {
	n := d.unsigned()
	if n > uint64((len(d.data)-d.at)/elementBytes) {
		d.fail("a count is larger than what follows")
		return 0
	}
	return int(n)
}

func (d *decoder) id() (id [16]byte) {
	copy(id[:], d.take(len(id)))
	return id
}

func (d *decoder) boolean() bool {
	raw := d.take(1)
	if raw == nil {
		return false
	}
	if raw[0] > 1 {
		d.fail("a yes or no is neither")
	}
	return raw[0] == 1
}

func (d *decoder) text() string { return string(d.take(d.count(1))) }

func (d *decoder) optionalText() *string {
	if !d.boolean() {
		return nil
	}
	s := d.text()
	return &s
}

func (d *decoder) int32s() []int32 {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	list := make([]int32, n)
	for i := range list {
		list[i] = d.int32()
	}
	return list
}

func (d *decoder) texts() map[string]string {
	n := d.count(2)
	if n == 0 {
		return nil
	}
	m := make(map[string]string, n)
	before := ""
	for i := range n {
		key := d.text()
		if i > 0 && key <= before {
			d.fail("the keys of a map are out of order")
			return nil
		}
		m[key], before = d.text(), key
	}
	return m
}
