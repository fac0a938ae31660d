package record

import "errors"

const (
	recordBytesMin = 7 // length, attributes, two deltas, two lengths, header count
	headerBytesMin = 2 // key length, value length
)

// Record is one record of a batch. Its slices point into the bytes that it was
// read from, and live no longer.
//
//	length     varint   bytes that follow
//	attributes int8     unused
//	timestamp  varlong  minus the batch's base timestamp
//	offset     varint   minus the batch's base offset
//	key        varint length (negative: null), bytes
//	value      varint length (negative: null), bytes
//	headers    varint count, then for each: varint length and bytes of its
//	           key, varint length (negative: null) and bytes of its value
type Record struct {
	Offset         int64
	OffsetDelta    int32
	Attributes     int8
	Timestamp      int64 // milliseconds since 1970; the batch's with LogAppendTime
	TimestampDelta int64
	Key            []byte // nil: null
	Value          []byte // nil: null, a tombstone
	HeaderCount    int

	headers []byte // as encoded; parseRecord has checked all of them
}

// Header is one header of a record.
type Header struct {
	Key   []byte
	Value []byte // nil: null
}

// Headers walks the headers of a record.
type Headers struct {
	rest []byte
	left int
}

// Headers returns a cursor before the first header.
func (r *Record) Headers() Headers { return Headers{rest: r.headers, left: r.HeaderCount} }

// Next returns the next header; ok is false behind the last one.
func (h *Headers) Next() (header Header, ok bool) {
	if h.left == 0 {
		return Header{}, false
	}
	h.left--
	c := cursor{rest: h.rest}
	header.Key = c.bytes()
	header.Value = c.bytes()
	h.rest = c.rest
	return header, true
}

// Why a record cannot be read.
var (
	errRecordVarint      = errors.New("a varint is damaged or cut off")
	errRecordLength      = errors.New("length is negative or larger than what is there")
	errRecordField       = errors.New("a field reaches past the end of the record")
	errRecordHeaderCount = errors.New("number of headers is negative or larger than what is there")
	errRecordHeaderKey   = errors.New("a header has a null key")
	errRecordTrailing    = errors.New("bytes are left between the last field and the end of the record")
)

// parseRecord reads the body of a record: what follows its length. It fills
// what can be known without the batch. Sizes are bounded by len(body); nothing
// is allocated.
func parseRecord(body []byte, r *Record) error { return parseRecordFields(body, r, nil) }

// parseRecordFields is parseRecord, which tells visit, unless it is nil, behind each
// field how many bytes are left: so Annotate finds where they lie.
func parseRecordFields(body []byte, r *Record, visit func(left int)) error {
	if len(body) == 0 {
		return errRecordField
	}
	r.Attributes = int8(body[0])
	c := cursor{rest: body[1:], visit: visit}
	r.TimestampDelta = c.varlong()
	r.OffsetDelta = c.varint()
	r.Key = c.bytes()
	r.Value = c.bytes()
	count := c.varint()
	if c.err != nil {
		return c.err
	}
	if count < 0 || int(count) > len(c.rest)/headerBytesMin {
		return errRecordHeaderCount
	}
	r.HeaderCount, r.headers = int(count), c.rest
	for range count {
		key := c.bytes()
		c.bytes()
		if c.err != nil {
			return c.err
		}
		if key == nil {
			return errRecordHeaderKey
		}
	}
	if len(c.rest) != 0 {
		return errRecordTrailing
	}
	return nil
}

// cursor decodes fields one after the other; the first error sticks.
type cursor struct {
	rest  []byte
	err   error
	visit func(left int) // nil, but for Annotate
}

func (c *cursor) varint() int32 {
	value, n := varint(c.rest)
	if n <= 0 {
		c.fail(errRecordVarint)
		return 0
	}
	c.pass(n)
	return value
}

func (c *cursor) varlong() int64 {
	value, n := varlong(c.rest)
	if n <= 0 {
		c.fail(errRecordVarint)
		return 0
	}
	c.pass(n)
	return value
}

// bytes returns a field of varint length; nil when the length is negative,
// which Kafka takes for null whatever the number.
func (c *cursor) bytes() []byte {
	length := int(c.varint())
	if length < 0 {
		c.pass(0)
		return nil
	}
	if length > len(c.rest) {
		c.fail(errRecordField)
		return nil
	}
	field := c.rest[:length:length]
	c.pass(length)
	return field
}

// pass goes over a field.
func (c *cursor) pass(n int) {
	c.rest = c.rest[n:]
	if c.visit != nil && c.err == nil {
		c.visit(len(c.rest))
	}
}

// fail leaves nothing to read, so that every later field fails as well and the
// callers need to look only once.
func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.rest = nil
}
