package record

import (
	"errors"
	"io"
	"sync"
)

const (
	windowBytes     = 32 << 10 // first size of the window over decompressed bytes
	windowKeepBytes = 1 << 20  // the largest window that stays in the pool
)

// errRecordMissing says that the records end before the header's count.
var errRecordMissing = errors.New("the bytes end before the last record")

// stream yields the records of one batch, one after the other: slices of the
// batch itself, or of a window that moves over what is being decompressed. The
// window is as large as the largest record and grows with what arrives, not
// with what a record's length claims.
type stream struct {
	window   []byte // window[position:end] is not read yet
	position int
	end      int
	before   int64 // bytes that went out of the window at its front

	source *decoder // nil: the window is the whole payload
	pooled *[]byte  // the memory of the window, when source is not nil
	atEnd  bool     // source has nothing more

	length      int // of the record whose length is read and whose body is not
	lengthBytes int // that its length took; 0: none is read
}

var windowPool = sync.Pool{New: func() any {
	b := make([]byte, windowBytes)
	return &b
}}

// open starts on the records of batch. limit bounds what comes out of
// compressed ones.
func (s *stream) open(batch Batch, limit int64) error {
	*s = stream{}
	payload := batch.Payload()
	if batch.Codec() == CodecNone {
		s.window, s.end, s.atEnd = payload, len(payload), true
		return nil
	}
	source, err := openDecoder(batch.Codec(), payload, limit)
	if err != nil {
		return err
	}
	s.source = source
	s.pooled = windowPool.Get().(*[]byte)
	s.window = *s.pooled
	return nil
}

// close returns what the stream borrowed. Records that it yielded are gone.
func (s *stream) close() {
	if s.source != nil {
		s.source.close()
		if cap(s.window) <= windowKeepBytes {
			*s.pooled = s.window
		}
		windowPool.Put(s.pooled)
	}
	*s = stream{}
}

// readBytes is how far into the (decompressed) records the stream has read.
func (s *stream) readBytes() int64 { return s.before + int64(s.position) }

// nextLength reads the length of the next record and returns how many bytes
// the record takes in all. It may be called again before take.
func (s *stream) nextLength() (int, error) {
	if s.lengthBytes == 0 {
		if err := s.fill(varintBytesMax); err != nil {
			return 0, err
		}
		length, n := varint(s.window[s.position:s.end])
		switch {
		case n < 0:
			return 0, errRecordVarint
		case n == 0 && s.position == s.end:
			return 0, errRecordMissing
		case n == 0:
			return 0, errRecordVarint
		case length < 0 || (s.atEnd && int(length) > s.end-s.position-n):
			return 0, errRecordLength
		}
		s.length, s.lengthBytes = int(length), n
	}
	return s.lengthBytes + s.length, nil
}

// take returns the body of the record whose length was read. It is valid until
// the next call.
func (s *stream) take() ([]byte, error) {
	size := s.lengthBytes + s.length
	if err := s.fill(size); err != nil {
		return nil, err
	}
	if s.end-s.position < size {
		return nil, errRecordLength
	}
	body := s.window[s.position+s.lengthBytes : s.position+size : s.position+size]
	s.position += size
	s.lengthBytes = 0
	return body, nil
}

// pass is take and parseRecord for a record that need not be kept: it is checked on
// its way through the window, which stays as small as it is however large the
// record. Key and Value are not nil when they are not null, and have no bytes;
// the headers cannot be walked.
func (s *stream) pass(r *Record) error {
	s.position += s.lengthBytes
	s.lengthBytes = 0
	p := passage{stream: s, left: s.length}
	p.record(r)
	return p.err
}

// next is nextLength and take.
func (s *stream) next() ([]byte, error) {
	if _, err := s.nextLength(); err != nil {
		return nil, err
	}
	return s.take()
}

// ended reports whether nothing follows the last record.
func (s *stream) ended() (bool, error) {
	if err := s.fill(1); err != nil {
		return false, err
	}
	return s.position == s.end, nil
}

// fill brings at least count unread bytes into the window, or all there are.
func (s *stream) fill(count int) error {
	for s.end-s.position < count && !s.atEnd {
		if s.end == len(s.window) {
			s.makeRoom(count)
		}
		n, err := s.source.Read(s.window[s.end:])
		s.end += n
		if err == io.EOF {
			s.atEnd = true
		} else if err != nil {
			return err
		}
	}
	return nil
}

// makeRoom moves what is unread to the front of the window, and doubles the
// window when it is full of one record. The old memory goes to the collector:
// a record that was yielded is not valid any more by now.
func (s *stream) makeRoom(count int) {
	unread := s.window[s.position:s.end]
	if len(unread) == len(s.window) {
		larger := make([]byte, min(2*len(s.window), max(count, len(s.window)+1)))
		copy(larger, unread)
		s.window = larger
	} else {
		copy(s.window, unread)
	}
	s.before += int64(s.position)
	s.position, s.end = 0, len(unread)
}
