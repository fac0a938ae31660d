package engine

import (
	"errors"
	"fmt"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/plan"
	"ringlog/record"
)

const (
	// coldJobsMax bounds the reads from disk under way; the others wait in order.
	coldJobsMax = 16
	// coldBytesMax bounds what one part takes from disk at a time: enough for the
	// device's full rate, little enough that many laggards fit into memory.
	coldBytesMax = 1 << 20
	// coldShare is the share of the cold memory, one part in so many, up to which a
	// read goes on taking more once it has something.
	coldShare = 4
)

// errNoMemory is returned to a read that has something already when there is no
// memory for more: it is answered with what it has.
var errNoMemory = errors.New("engine: no memory for another part of a read")

// coldRead is a read one of whose parts lies behind the tail.
type coldRead struct {
	read  *Read
	part  int // the first part that is not served yet
	left  int // bytes that the read may still take
	empty bool
	held  int64 // bytes of the cold memory that its batches lie in
	next  *coldRead
}

// coldQueue is the reads that wait for a job, and the number of jobs. What is
// read never enters the tail cache, so that a consumer that lags by days cannot
// push one at the tail onto the disk.
type coldQueue struct {
	head, tail *coldRead
	running    []*coldRead
	hungry     []*job // wait for memory
}

func (q *coldQueue) push(c *coldRead) {
	if q.tail == nil {
		q.head = c
	} else {
		q.tail.next = c
	}
	q.tail = c
}

// startCold starts jobs for waiting reads, up to the bound.
func (r *readers) startCold() {
	q := &r.cold
	if r.released {
		r.released = false
		for i, j := range q.hungry {
			q.hungry[i] = nil
			r.shard.wakeJob(j)
		}
		q.hungry = q.hungry[:0]
	}
	for q.head != nil && len(q.running) < coldJobsMax {
		c := q.head
		if q.head = c.next; q.head == nil {
			q.tail = nil
		}
		q.running = append(q.running, c)
		r.shard.start("cold read", func(j *job) {
			r.serve(j, c)
			r.finish(c)
		})
	}
}

// finish answers a cold read, unless the shard's end has.
func (r *readers) finish(c *coldRead) {
	for i, other := range r.cold.running {
		if other == c {
			r.cold.running = append(r.cold.running[:i], r.cold.running[i+1:]...)
			r.done(c.read)
			return
		}
	}
}

// end answers all cold reads with ErrClosed.
func (q *coldQueue) end(r *readers) {
	for ; q.head != nil; q.head = q.head.next {
		q.running = append(q.running, q.head)
	}
	q.tail = nil
	running := q.running
	q.running = nil
	for _, c := range running {
		for i := c.part; i < len(c.read.Parts); i++ {
			if p := &c.read.Parts[i]; p.Err == nil {
				p.Err = ErrClosed
			}
		}
		r.done(c.read)
	}
}

// serve fills the parts from c.part on, in order. Only a read that has nothing yet
// waits for memory: what the others hold is given back when they are answered,
// so readers that wait for each other, or one for itself, would wait for ever.
func (r *readers) serve(j *job, c *coldRead) {
	for ; c.part < len(c.read.Parts); c.part++ {
		p := &c.read.Parts[c.part]
		if !r.shard.owns(p.Log) {
			continue // it has moved while the read waited: the client asks again
		}
		restores := c.read.state.restores.file != nil
		if !restores && !p.gatherTail(&c.left, &c.empty) {
			continue
		}
		err := p.Log.readCold(j, p, c)
		if j.abandoned {
			return
		}
		if errors.Is(err, errNoMemory) || errors.Is(err, errMoved) {
			continue // no bytes and no error: the client asks again
		}
		p.Err = err
		p.took(&c.left, &c.empty)
		r.shard.counters.coldReads.Add(1)
		r.shard.counters.coldReadBytes.Add(int64(p.Bytes))
	}
}

// readCold fills p, a part of c, from disk with up to what both may take; one batch
// may exceed that when c has nothing yet. While it waits for memory it holds nothing of
// the log.
func (l *Log) readCold(j *job, p *ReadPart, c *coldRead) error {
	limit := min(p.BytesMax, c.left)
	want := plan.RoundUp(min(int64(limit)+2*int64(l.config.IndexIntervalBytes), coldBytesMax))
	if c.read.state.restores.file != nil {
		want = plan.RoundUp(int64(limit)) + plan.BlockBytes
	}
	for {
		b, err := j.shard.reads.memory(j, c, want)
		if err != nil {
			return err
		}
		if !j.shard.owns(l) {
			b.Release()
			return errMoved
		}
		need, err := l.readColdInto(j, p, b, limit, c.empty)
		if p.Bytes > 0 {
			c.held += int64(len(b.Bytes()))
		}
		b.Release()
		if need <= want || err != nil {
			return err
		}
		want = need
	}
}

// readColdInto is readCold with memory; need is 0, or what the first batch needs.
func (l *Log) readColdInto(j *job, p *ReadPart, b *buffer.Buffer, limit int, first bool) (need int64, err error) {
	if p.read.state.restores.file != nil {
		return 0, l.readAgain(j, p, b)
	}
	offset := p.Offset
	if _, err := p.available(); err != nil || l.passed(offset) {
		return 0, err // closed, or deleted by retention, while the read waited
	}
	i := l.segmentAt(offset)
	for offset >= l.segments[i].NextOffset && i+1 < len(l.segments) {
		i++ // a gap between segments: the next batch is the one
	}
	f := l.segments[i]
	l.jobs++
	f.pins++
	defer func() {
		l.jobs--
		f.pins--
	}()
	x, err := l.indexOf(j, f)
	if err != nil {
		return 0, err
	}
	if err := l.shard.files.open(j, f); err != nil {
		return 0, err
	}
	position, base := x.Find(offset)
	return l.readColdAt(j, p, f, b, mark{segment: f, position: position, offset: base}, limit, first)
}

// memory gets a buffer of the cold pool, waiting until there is one. A read that has
// something already does not wait (errNoMemory), gets nothing before those who do,
// and no more than its share.
func (r *readers) memory(j *job, c *coldRead, want int64) (*buffer.Buffer, error) {
	pool := r.shard.options.Cold
	if want > int64(pool.MaxBytes()) {
		return nil, fmt.Errorf("%w: a batch of %d bytes", buffer.ErrTooLarge, want)
	}
	if !c.empty {
		if len(r.cold.hungry) > 0 || c.held+want > pool.LimitBytes()/coldShare {
			return nil, errNoMemory
		}
		if b := pool.TryGet(int(want)); b != nil {
			return b, nil
		}
		return nil, errNoMemory
	}
	spare := &r.shard.engine.spare
	spare.hungry.Add(1)
	defer spare.hungry.Add(-1)
	for {
		if b := pool.TryGet(int(want)); b != nil {
			return b, nil
		}
		if spare.giveUp() {
			continue
		}
		r.cold.hungry = append(r.cold.hungry, j)
		if err := j.park(); err != nil {
			return nil, err
		}
	}
}

// readColdAt reads from a batch that is indexed on, skips to the one that holds
// the offset of p, and puts batches into p. need is 0, or the size of the buffer that would
// hold the first batch.
func (l *Log) readColdAt(j *job, p *ReadPart, f *segmentFile, b *buffer.Buffer, from mark, limit int, first bool) (need int64, err error) {
	start, end, gen := plan.RoundDown(from.position), f.Bytes, l.gen
	data := b.Bytes()[:min(int64(len(b.Bytes())), plan.RoundUp(end)-start)]
	if err := j.readPieces(f.file, data, start); err != nil {
		return 0, fmt.Errorf("engine: read %s at %d: %w", f.path(), start, err)
	}
	if _, err := p.available(); err != nil || l.gen != gen || l.cut.active {
		return 0, err // closed, deleted or cut under the read: what was read may be anything
	}
	data = data[:min(int64(len(data)), end-start)]
	w := window{
		log: l, data: data, at: from.position - start, next: from.offset, rest: end - start - int64(len(data)),
		offset: p.Offset, below: min(l.highWatermark, f.NextOffset), limit: limit, first: first,
	}
	at, to, need, bad := w.choose()
	if bad != nil {
		return 0, l.noteDamage(f, start+at, p.Offset, bad)
	}
	if to > at {
		p.addCold(f, b, start, at, to)
	}
	return need, nil
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
		if err == nil && batch.BaseOffset() != w.next {
			err = errMisplaced
		}
		if err == nil {
			// Epochs that ended below the start offset are forgotten.
			if known := w.log.epochAt(w.next + 1); known >= 0 && known != batch.LeaderEpoch() {
				err = errOtherEpoch
			}
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

// readPieces fills data with several reads in flight; all of it must be there.
func (j *job) readPieces(file disk.File, data []byte, offset int64) error {
	if len(data) <= readPieceBytes {
		n, err := j.readAll(file, data, offset)
		if err == nil && n < len(data) {
			clear(data[n:])
		}
		return err
	}
	ops := make([]disk.Operation, (len(data)+readPieceBytes-1)/readPieceBytes)
	for i := range ops {
		from := i * readPieceBytes
		piece := data[from:min(from+readPieceBytes, len(data))]
		ops[i] = disk.Operation{Kind: disk.Read, File: file, Buffer: piece, Offset: offset + int64(from)}
		j.submit(&ops[i])
	}
	if err := j.join(); err != nil {
		return err
	}
	for i := range ops {
		op := &ops[i]
		if op.Err != nil {
			return op.Err
		}
		if op.Done < len(op.Buffer) {
			n, err := j.readAll(file, op.Buffer, op.Offset) // a short read, or the end
			if err != nil {
				return err
			}
			clear(op.Buffer[n:])
		}
	}
	return nil
}
