package engine

import (
	"errors"
	"fmt"

	"ringlog/buffer"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
	"ringlog/record"
)

// errNoMemory is returned to a read that has something already when there is no
// memory for more: it is answered with what it has.
var errNoMemory = errors.New("engine: no memory for another part of a read")

// doubtsMax is how often a read that met other bytes than there should be is repeated when the segment
// turns out to be whole.
const doubtsMax = 2

// errDoubted is returned for bytes that are not what was written, in a segment that has no damage.
var errDoubted = errors.New("engine: a read returned other bytes than are stored")

// doubted is that error, which is ErrCorrupt to everybody else.
func (l *Log) doubted(f *segmentFile, position int64, bad error) error {
	return fmt.Errorf("%w: %w", errDoubted, &segment.CorruptError{File: f.path(), Offset: position, Reason: bad.Error()})
}

// readPart fills p, a part of the worker's read, from what was read ahead for it, or from disk.
func (w *coldWorker) readPart(p *ReadPart) error {
	c := &w.read.state.cold
	if w.read.restores() {
		return w.readAgain(p)
	}
	q := &w.readers.cold.streams
	s := q.find(p.Log, p.Offset)
	if s == nil {
		return w.readDisk(p, c, nil)
	}
	s.busy = true
	err := w.readStream(p, c, s)
	s.busy = false
	if s.dropped {
		q.free(s)
	} else {
		q.use(s)
	}
	return err
}

// readDisk fills p, a part of c, from disk with up to what both may take; one batch
// may exceed that when c has nothing yet. While it waits for memory it holds nothing of
// the log. A consumer that goes on where it stopped has a stream s: that knows the place,
// and takes what is read beyond the limit.
func (w *coldWorker) readDisk(p *ReadPart, c *coldRead, s *stream) error {
	l, j := p.Log, w.job
	limit := min(p.BytesMax, c.left)
	want := int64(coldBytesMax)
	if s == nil {
		want = plan.RoundUp(min(int64(limit)+2*int64(l.config.IndexIntervalBytes), coldBytesMax))
	}
	for doubts := 0; ; {
		b, err := w.memory(c, want)
		switch {
		case errors.Is(err, errNoMemory):
			return nil // no bytes and no error: the client asks again
		case err != nil:
			return err
		case !j.shard.owns(l):
			b.Release()
			return nil // it has moved
		}
		need, err := w.readDiskInto(p, c, s, b, limit)
		if p.Bytes > 0 {
			c.held += int64(len(b.Bytes()))
		}
		b.Release()
		if errors.Is(err, errDoubted) && doubts < doubtsMax {
			doubts++
			continue
		}
		if need <= want || err != nil {
			return err
		}
		want = need
	}
}

// readDiskInto is readDisk with memory; need is 0, or what the first batch needs.
func (w *coldWorker) readDiskInto(p *ReadPart, c *coldRead, s *stream, b *buffer.Buffer, limit int) (need int64, err error) {
	l, j := p.Log, w.job
	if _, err := p.available(); err != nil || l.passed(p.Offset) {
		return 0, err // closed, or deleted by retention, while the read waited
	}
	known := s != nil && !s.dropped
	f := l.segmentOf(p.Offset)
	if known {
		s.settle()
		f = s.place.segment
	}
	l.jobs++
	f.pins++
	defer func() {
		l.jobs--
		f.pins--
	}()
	if err := l.openToRead(j, f); err != nil {
		return 0, err
	}
	from := mark{segment: f}
	if known {
		from = s.place
	} else {
		x, err := l.indexOf(j, f)
		if err != nil {
			return 0, err
		}
		if err := l.damagedAt(p.Offset); err != nil {
			return 0, err // building the index has met it
		}
		from.position, from.offset = x.Find(p.Offset)
	}
	if err := l.openToRead(j, f); err != nil {
		return 0, err // building the index may have taken its place among the open files
	}
	return w.readDiskAt(p, s, b, from, limit, c.empty)
}

// segmentOf returns the segment that holds offset, or, when there is a gap, the first batch behind it.
func (l *Log) segmentOf(offset int64) *segmentFile {
	i := l.segmentAt(offset)
	for offset >= l.segments[i].NextOffset && i+1 < len(l.segments) {
		i++
	}
	return l.segments[i]
}

// readDiskAt reads from a batch that is indexed on, skips to the one that holds
// the offset of p, and puts batches into p. need is 0, or the size of the buffer that would
// hold the first batch.
func (w *coldWorker) readDiskAt(p *ReadPart, s *stream, b *buffer.Buffer, from mark, limit int, first bool) (need int64, err error) {
	l, f := p.Log, from.segment
	start, end, gen := plan.RoundDown(from.position), f.Bytes, l.gen
	below := min(l.highWatermark, l.tail.startOffset(l))
	data := b.Bytes()[:min(int64(len(b.Bytes())), plan.RoundUp(end)-start)]
	if err := w.fill(f.file, data, start); err != nil {
		return 0, unreadable(f, start, err)
	}
	if _, err := p.available(); err != nil || l.passed(p.Offset) || l.gen != gen || l.cut.active {
		return 0, err // closed, deleted or cut under the read: what was read may be anything
	}
	data = data[:min(int64(len(data)), end-start)]
	x := window{
		log: l, data: data, at: from.position - start, next: from.offset, rest: end - start - int64(len(data)),
		offset: p.Offset, below: min(l.highWatermark, f.NextOffset), limit: limit, first: first,
	}
	at, to, need, bad := x.choose()
	if bad != nil {
		if s != nil && !s.dropped {
			w.readers.cold.streams.drop(s) // its place may be what is wrong
		}
		if err := l.findDamage(w.job, f, p.Offset); err != nil {
			return 0, err
		}
		return 0, l.doubted(f, start+at, bad)
	}
	if to == at {
		return need, nil
	}
	p.addCold(f, b, start, at, to)
	next := mark{segment: f, position: start + to, offset: lastOffset(data[at:to]) + 1}
	if s == nil {
		w.readers.cold.streams.begin(l, next)
	} else if !s.dropped {
		s.place, s.ahead = next, next
		s.keep(b, start, to, wholeBatches(data, to, next.offset, below))
	}
	return need, nil
}

// lastOffset is the last one of whole batches.
func lastOffset(batches []byte) int64 {
	last := int64(-1)
	for len(batches) > 0 {
		batch := record.Batch(batches)
		last = batch.LastOffset()
		batches = batches[batch.SizeBytes():]
	}
	return last
}

// addCold appends the bytes [from, to) of b, which holds the segment f from position start on, a
// piece at a time.
func (p *ReadPart) addCold(f *segmentFile, b *buffer.Buffer, start, from, to int64) {
	data := b.Bytes()
	for from < to {
		offset, end := record.Batch(data[from:]).BaseOffset(), from
		for end < to {
			size := int64(record.Batch(data[end:]).SizeBytes())
			if end > from && end-from+size > pieceBytesMax {
				break
			}
			end += size
		}
		p.add(piece{memory: b, from: int32(from), to: int32(end), cold: true, file: f, position: start + from, offset: offset})
		from = end
	}
}

// window is a piece of a segment in which a read looks for its batches.
type window struct {
	log    *Log
	data   []byte
	at     int64 // where in data a batch begins
	next   int64 // its offset
	rest   int64 // bytes of the segment behind data
	offset int64 // the first one wanted
	below  int64 // batches must end below this offset
	limit  int   // bytes
	first  bool  // one batch may exceed the limit
}

// choose returns the bytes [from, to) of data that answer the read. need, when
// not 0, says how long data would have to be to hold the first batch. bad says
// why the bytes at from, which should be that batch, are not.
func (w *window) choose() (from, to, need int64, bad error) {
	from = -1
	for to = w.at; to < int64(len(w.data)); {
		batch, _, err := record.Next(w.data[to:])
		if errors.Is(err, record.ErrShort) && from < 0 {
			if need := w.needed(to); need > 0 {
				return 0, 0, need, nil
			}
		}
		if err == nil {
			err = batch.Check()
		}
		if err == nil {
			err = w.log.follows(batch, w.next)
		}
		size := int64(len(batch))
		switch {
		case err != nil && from < 0:
			return to, to, 0, err
		case err != nil:
			return from, to, 0, nil // what is before it is good; the next read meets it first
		case batch.LastOffset() < w.offset:
			to += size
			w.next = batch.LastOffset() + 1
			continue
		case batch.LastOffset() >= w.below && from < 0:
			return to, to, 0, nil
		case batch.LastOffset() >= w.below:
			return from, to, 0, nil
		case from < 0 && size > int64(w.limit):
			if !w.first {
				size = 0
			}
			return to, to + size, 0, nil
		case from >= 0 && to+size-from > int64(w.limit):
			return from, to, 0, nil
		}
		if from < 0 {
			from = to
		}
		to += size
		w.next = batch.LastOffset() + 1
	}
	if from < 0 && w.rest > 0 {
		// Indexed more sparsely than the configuration says: look further.
		return 0, 0, plan.RoundUp(int64(len(w.data)) + min(int64(len(w.data)), w.rest)), nil
	}
	if from < 0 {
		from = to
	}
	return from, to, 0, nil
}

// needed returns how long data would have to be to hold the batch at position at,
// or 0 when no batch can be that long.
func (w *window) needed(at int64) int64 {
	size := int64(record.HeaderBytes)
	if int64(len(w.data))-at >= record.PrefixBytes {
		size = max(size, int64(record.Batch(w.data[at:]).SizeBytes()))
	}
	if size > walkBytesMax || at+size > int64(len(w.data))+w.rest {
		return 0
	}
	return plan.RoundUp(at + size)
}
