package record

// passage is a cursor over one record that passes through a stream's window: what
// it has read is gone. The first error sticks, and leaves nothing to read.
type passage struct {
	stream *stream
	left   int // bytes of the record that are not read yet
	err    error
}

// present stands for a field that is not null.
var present = []byte{}

// record reads what parseRecord reads, and refuses what it refuses.
func (p *passage) record(r *Record) {
	if p.left == 0 {
		p.fail(errRecordField)
		return
	}
	*r = Record{Attributes: int8(p.byte())}
	r.TimestampDelta = p.varlong()
	r.OffsetDelta = int32(p.varint())
	r.Key = p.bytes()
	r.Value = p.bytes()
	count := int(p.varint())
	if p.err != nil {
		return
	}
	if count < 0 || count > p.left/headerBytesMin {
		p.fail(errRecordHeaderCount)
		return
	}
	for ; count > 0 && p.err == nil; count-- {
		key := p.bytes()
		p.bytes()
		if p.err == nil && key == nil {
			p.fail(errRecordHeaderKey)
		}
	}
	if p.err == nil && p.left != 0 {
		p.fail(errRecordTrailing)
	}
}

// ahead returns the next count bytes, or what the record still has when that is less.
func (p *passage) ahead(count int) []byte {
	count = min(count, p.left)
	s := p.stream
	if err := s.fill(count); err != nil {
		p.fail(err)
		return nil
	}
	if s.end-s.position < count { // the record is longer than the records
		p.fail(errRecordLength)
		return nil
	}
	return s.window[s.position : s.position+count]
}

// advance passes over count bytes of what ahead returned.
func (p *passage) advance(count int) {
	p.stream.position += count
	p.left -= count
}

func (p *passage) byte() byte {
	b := p.ahead(1)
	if len(b) == 0 {
		p.fail(errRecordField)
		return 0
	}
	p.advance(1)
	return b[0]
}

func (p *passage) varint() int32 {
	value, n := varint(p.ahead(varintBytesMax))
	if n <= 0 {
		p.fail(errRecordVarint)
		return 0
	}
	p.advance(n)
	return value
}

func (p *passage) varlong() int64 {
	value, n := varlong(p.ahead(varlongBytesMax))
	if n <= 0 {
		p.fail(errRecordVarint)
		return 0
	}
	p.advance(n)
	return value
}

// bytes passes over a field of varint length; nil when it is null.
func (p *passage) bytes() []byte {
	length := int(p.varint())
	switch {
	case p.err != nil || length < 0:
		return nil
	case length > p.left:
		p.fail(errRecordField)
		return nil
	}
	for length > 0 && p.err == nil {
		piece := len(p.ahead(min(length, windowBytes)))
		p.advance(piece)
		length -= piece
	}
	return present
}

func (p *passage) fail(err error) {
	if p.err == nil {
		p.err = err
	}
	p.left = 0
}
