package engine

import (
	"fmt"
	"sync/atomic"
	"time"

	"ringlog/record"
)

// readState is what the shard keeps of a Read.
type readState struct {
	read     *Read
	deadline time.Duration // on Options.Monotonic; set by Engine.Read
	timer    timer
	parked   atomic.Int32 // number of the shard where it is parked, plus one; a Cancel that comes late may look at it
	total    int          // sum of the parts' counted

	lead  *shard // where it was sent
	split bool   // its parts lie on several shards
	call  bool   // of a leg: it waits for bytes and does not take them
	fed   bool   // of a leg: the read has bytes already, so that no batch may exceed the bound

	cold  coldRead
	piece piece    // that is read again at its place, without a reference; see piece.go
	again *restore // of a read whose pieces are read again; kept for reuse

	// In spareReads, under its lock.
	spare                    bool
	sparePrevious, spareNext *Read
}

// expire answers a read whose time is up, with what there is.
func (r *readState) expire(s *shard) { s.reads.gather(r.read) }

// Release gives back the memory that the batches lie in. It is called once,
// after Done, by any goroutine; the slices are gone with it.
func (r *Read) Release() {
	if r.state.lead != nil {
		r.state.lead.engine.spare.remove(r)
	}
	for i := range r.Parts {
		r.Parts[i].release()
	}
}

// parkedParts is the parts of reads that wait for one log's high watermark.
type parkedParts struct {
	head, tail *ReadPart
}

func (q *parkedParts) push(p *ReadPart) {
	p.parked = true
	p.prev, p.next = q.tail, nil
	if q.tail == nil {
		q.head = p
	} else {
		q.tail.next = p
	}
	q.tail = p
}

func (q *parkedParts) remove(p *ReadPart) {
	if p.prev == nil {
		q.head = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		q.tail = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next, p.parked = nil, nil, false
}

// readers serves reads: at once when there is enough, else parked until a high
// watermark rises or the time is up. A part at the tail is slices of the tail's
// chunks, no byte is copied; one behind it is read from disk by a job (cold.go).
type readers struct {
	shard    *shard
	cold     coldQueue
	ended    bool
	hasty    bool // nothing is parked any more: Hasten
	released bool // the cold pool may have memory again
}

func (r *readers) init(s *shard) {
	r.shard = s
	r.cold.streams.readers = r
}

// take begins a read.
func (r *readers) take(read *Read) {
	state := &read.state
	state.read, state.total = read, 0
	state.parked.Store(0)
	if read.restores() {
		read.Parts[0].restart(read)
		state.cold = coldRead{left: read.BytesMax, empty: true}
		r.cold.push(read)
		return
	}
	refused := false
	for i := range read.Parts {
		p := &read.Parts[i]
		p.restart(read)
		count, err := p.available()
		refused = refused || err != nil
		p.counted = count
		state.total += count
	}
	now := r.shard.options.Monotonic()
	if refused || r.hasty || state.total >= read.want() || state.deadline <= now {
		r.gather(read)
		return
	}
	for i := range read.Parts {
		read.Parts[i].Log.parked.push(&read.Parts[i])
	}
	state.parked.Store(int32(r.shard.number) + 1)
	if !state.call {
		r.shard.counters.parked.Add(1)
	}
	r.shard.timers.set(&state.timer, state.deadline, state)
}

// restart readies a part to be answered.
func (p *ReadPart) restart(read *Read) {
	p.read, p.parked, p.counted = read, false, 0
	p.Batches, p.pieces, p.Bytes, p.Err = p.Batches[:0], p.pieces[:0], 0, nil
}

// restores says that one piece is read again.
func (r *Read) restores() bool { return r.state.piece.file != nil }

// want is how many bytes make an answer.
func (r *Read) want() int { return min(r.BytesMin, r.BytesMax) }

// cancel answers a parked read now.
func (r *readers) cancel(read *Read) {
	if r.holds(read) && read.state.read == read {
		r.gather(read)
	}
}

// holds says whether a read is parked here.
func (r *readers) holds(read *Read) bool {
	return read.state.parked.Load() == int32(r.shard.number)+1
}

// unpark takes a read out of all lists.
func (r *readers) unpark(read *Read) {
	if !r.holds(read) {
		return
	}
	read.state.parked.Store(0)
	if !read.state.call {
		r.shard.counters.parked.Add(-1)
	}
	r.shard.timers.clear(&read.state.timer)
	for i := range read.Parts {
		if p := &read.Parts[i]; p.parked {
			p.Log.parked.remove(p)
		}
	}
}

// wake looks again at the reads that wait for l: its high watermark or start moved.
func (r *readers) wake(l *Log) {
	for p := l.parked.head; p != nil; {
		following := p.next
		count, err := p.available()
		read := p.read
		read.state.total += count - p.counted
		p.counted = count
		if err != nil || read.state.total >= read.want() {
			// Answering takes all parts of the read out of the list, and so
			// perhaps the following one.
			for following != nil && following.read == read {
				following = following.next
			}
			r.gather(read)
		}
		p = following
	}
}

// shut answers the reads that wait for a log that closes.
func (r *readers) shut(l *Log) {
	for l.parked.head != nil {
		r.gather(l.parked.head.read)
	}
}

// available returns how many bytes the part could have now, as far as that is
// cheap to know: of a part behind the tail it says BytesMax.
func (p *ReadPart) available() (int, error) {
	l := p.Log
	if l.closed != nil {
		return 0, l.closed
	}
	if p.Offset < l.startDurable || p.Offset > l.next.offset {
		return 0, fmt.Errorf("%w: %d of %s, which has [%d, %d)", ErrOffsetOutOfRange, p.Offset, l.label, l.startDurable, l.next.offset)
	}
	if p.Offset >= l.highWatermark || l.passed(p.Offset) {
		return 0, nil
	}
	if err := l.damagedAt(p.Offset); err != nil {
		return 0, err
	}
	if p.Offset < l.tail.startOffset(l) {
		return p.BytesMax, nil
	}
	bytes := 0
	l.walkTail(p.Offset, min(p.BytesMax, p.read.BytesMax), true, func(_ *chunk, from, to int64) { bytes += int(to - from) })
	return bytes, nil
}

// passed says that a new start is above offset and not durable yet: until it is, and readers are told
// of it, they get neither records, which may be gone from the log already, nor an error.
func (l *Log) passed(offset int64) bool { return offset < l.start }

// walkTail calls visit with the file ranges of chunks that hold the batches from
// offset on, below the high watermark and within limit bytes, a piece at a time; first lets one
// batch exceed the limit. REQUIRES: offset is in the tail and below the high watermark.
func (l *Log) walkTail(offset int64, limit int, first bool, visit func(c *chunk, from, to int64)) {
	held := l.tail.held()
	taken := 0
	for i := l.tail.find(offset); i < len(held); i++ {
		c := held[i]
		from := c.dataStart
		if offset > c.baseOffset {
			from = c.positionOf(offset)
		}
		to, more := from, true
		for to < c.dataEnd {
			batch := record.Batch(c.bytes[to-c.start:])
			size := batch.SizeBytes()
			if batch.LastOffset() >= l.highWatermark || taken+size > limit && !(first && taken == 0) {
				more = false
				break
			}
			if to > from && to-from+int64(size) > pieceBytesMax {
				visit(c, from, to)
				from = to
			}
			taken += size
			to += int64(size)
		}
		if to > from {
			visit(c, from, to)
		}
		if !more {
			return
		}
	}
}

// positionOf returns the file position of the batch of c that holds offset, or
// the first one behind it.
func (c *chunk) positionOf(offset int64) int64 {
	at := c.dataStart
	if x := c.segment.index; x != nil {
		if position, _ := x.Find(offset); position > at && position < c.dataEnd {
			at = position
		}
	}
	for at < c.dataEnd {
		batch := record.Batch(c.bytes[at-c.start:])
		if batch.LastOffset() >= offset {
			break
		}
		at += int64(batch.SizeBytes())
	}
	return at
}

// gather answers a read with what there is: parts at the tail at once; when one
// lies behind it, a job takes over from there.
func (r *readers) gather(read *Read) {
	r.unpark(read)
	if read.state.call {
		r.done(read)
		return
	}
	left, empty := read.BytesMax, !read.state.fed
	for i := range read.Parts {
		p := &read.Parts[i]
		cold := p.gatherTail(&left, &empty)
		if cold {
			read.state.cold = coldRead{part: i, left: left, empty: empty}
			r.cold.push(read)
			return
		}
	}
	r.done(read)
}

// gatherTail fills the part from memory. left is what the whole read may still
// take, empty whether it has nothing yet; cold says that the part lies behind the tail.
func (p *ReadPart) gatherTail(left *int, empty *bool) (cold bool) {
	l := p.Log
	p.Batches, p.pieces, p.Bytes = p.Batches[:0], p.pieces[:0], 0
	_, p.Err = p.available()
	if p.Err != nil || p.Offset >= l.highWatermark || l.passed(p.Offset) || *left <= 0 && !*empty {
		return false
	}
	if p.Offset < l.tail.startOffset(l) {
		return true
	}
	l.walkTail(p.Offset, min(p.BytesMax, *left), *empty, func(c *chunk, from, to int64) {
		p.add(piece{
			memory: c.buffer, from: int32(from - c.start), to: int32(to - c.start),
			file: c.segment, position: from, offset: record.Batch(c.at(from, to)).BaseOffset(),
		})
	})
	p.took(left, empty)
	counters := &l.shard.counters
	counters.tailReads.Add(1)
	counters.tailReadBytes.Add(int64(p.Bytes))
	return false
}

func (p *ReadPart) took(left *int, empty *bool) {
	*left -= p.Bytes
	*empty = *empty && p.Bytes == 0
}

// done gives the read back to its owner.
func (r *readers) done(read *Read) {
	for i := range read.Parts {
		p := &read.Parts[i]
		switch {
		case p.Log == nil:
		case r.shard.owns(p.Log):
			p.Frontiers = p.Log.frontiers()
		default:
			p.Frontiers = p.Log.Frontiers()
		}
		p.read = nil
	}
	read.state.read = nil
	read.Done(read)
}

// end answers everything when the shard is over.
func (r *readers) end() {
	r.ended = true
	r.cold.end(r)
}
