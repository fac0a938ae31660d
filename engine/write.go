package engine

import (
	"fmt"
	"io"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/plan"
)

// logWrites turns the bytes of one log's tail into writes and keeps track of
// what has completed. Writes are submitted in order of position, complete in
// any order, and count in order: completed rises over an unbroken run only (rule 2).
//
//	position   completed      submitted         next
//	  ────────────┼───────────────┼───────────────┼──▶
//	   written    │   in flight   │    gathers    │
type logWrites struct {
	ends      deque[mark] // ends of the batches between submitted and next; of those in one block the last
	submitted mark        // behind the last byte submitted; offset is not used
	boundary  mark        // the last batch end at or below submitted
	chunk     *chunk
	first     *write // in flight, oldest first
	last      *write
	count     int
	tailBlock bool // a write of the block that is not full is in flight: nothing else starts
	limited   bool // the next one waits for a checkpoint with a higher limit
	queued    bool // in shard.writable
}

// write is one write in flight.
type write struct {
	op       disk.Operation
	log      *Log
	segment  *segmentFile
	memory   *buffer.Buffer // of the chunk that it is written from; nil for a tail block
	private  []byte         // the copy of a tail block; nil otherwise
	boundary mark           // the last batch end at or below its end
	done     bool
	short    int   // times in a row that it moved less than a block
	back     int64 // bytes that count as write-back
	next     *write
}

// push adds the end of a batch. A write ends at a block or at the end of all data, so of the
// batches that end in one block only the last can be the last one in a write.
func (w *logWrites) push(end mark) {
	if n := w.ends.count; n > 0 {
		if last := w.ends.at(n - 1); last.segment == end.segment && plan.RoundUp(last.position) == plan.RoundUp(end.position) {
			*last = end
			return
		}
	}
	w.ends.push(end)
}

// wantWrites queues the log to be looked at for writes at the end of the turn.
func (l *Log) wantWrites() {
	if !l.writes.queued {
		l.writes.queued = true
		l.shard.writable = append(l.shard.writable, l)
	}
}

// writeLogs submits what the queued logs may write.
func (s *shard) writeLogs() {
	for i, l := range s.writable {
		s.writable[i] = nil
		l.writes.queued = false
		l.route()
	}
	s.writable = s.writable[:0]
}

// mayWrite says what of a log may be written to its segments now: full blocks
// whatever they make, and the block that is not full. ok is false for nothing at all.
func (l *Log) mayWrite(idle bool) (full, tail, ok bool) {
	switch {
	case !l.shard.journal.enabled(), l.way == direct && l.config.relaxed():
		return idle, idle, true // a relaxed log does not wait for a flush to go on
	case l.way == direct:
		return l.directAll, l.directAll, true
	case l.back.allowed == backAll:
		return true, true, true
	}
	return true, false, l.back.allowed == backFull
}

// submitWrites starts as many writes as are worth it now.
func (l *Log) submitWrites() {
	w := &l.writes
	w.limited = false
	idle := w.count == 0
	for l.failed == nil && l.closed == nil && w.chunk != nil && w.count < plan.WritesMax && (!w.tailBlock || l.shard.faults.overlapTailBlock) {
		full, tail, ok := l.mayWrite(idle)
		if !ok {
			return
		}
		c := w.chunk
		if w.submitted.segment != c.segment {
			w.submitted = mark{segment: c.segment, total: w.submitted.total}
		}
		end, last := c.dataEnd, true
		if c.next != nil && c.next.segment == c.segment {
			end, last = c.next.start, false
		}
		from := plan.RoundDown(w.submitted.position)
		if w.submitted.position >= c.dataEnd || from >= end {
			if c.next == nil {
				l.submittedAll()
				return
			}
			w.chunk = c.next
			continue
		}
		piece := plan.Piece{From: from, Bytes: end - from, Sealed: c.next != nil || c.segment != l.active, Last: last, Idle: full, Tail: tail}
		bytes, tailBlock := piece.Next()
		if bytes == 0 {
			l.submittedAll()
			return
		}
		if from+bytes > c.segment.limit && !l.shard.faults.ignoreLimit {
			w.limited = true
			l.shard.keeper.wantCheckpoint(l.shard)
			return
		}
		if l.backs() && !l.shard.journal.pace.allow(l, bytes) {
			return
		}
		l.submitWrite(c, from, bytes, tailBlock)
		if tailBlock || l.back.allowed == backAll && w.boundary.offset >= l.back.due {
			l.submittedAll()
		}
	}
}

// backs says whether what the log writes is write-back.
func (l *Log) backs() bool { return l.shard.journal.enabled() && l.way != direct }

// submittedAll takes that everything is submitted that may be written now.
func (l *Log) submittedAll() {
	l.directAll = false
	if l.back.allowed == backFull || l.writes.boundary.offset >= l.back.due {
		l.back.allowed = backNone
	}
}

// submitWrite starts one write of [from, from+bytes) from chunk c.
func (l *Log) submitWrite(c *chunk, from, bytes int64, tail bool) {
	s := l.shard
	w := s.commit.newWrite()
	end := min(from+bytes, c.dataEnd)
	for q := &l.writes.ends; q.count > 0 && q.front().segment == c.segment && q.front().position <= end; {
		l.writes.boundary = q.pop()
	}
	l.writes.submitted = mark{segment: c.segment, position: end, total: l.writes.boundary.total + end}
	if b := l.writes.boundary; b.segment == c.segment {
		l.writes.submitted.total -= b.position
	}
	if l.backs() {
		w.back = bytes
	}
	w.log, w.segment, w.boundary = l, c.segment, l.writes.boundary
	w.op = disk.Operation{Kind: disk.Write, File: c.segment.file, Offset: from, Owner: w}
	if tail {
		w.private = s.commit.takeBlock()
		n := copy(w.private, c.at(from, end))
		clear(w.private[n:])
		w.op.Buffer = w.private
		l.writes.tailBlock = true
	} else {
		w.memory = c.buffer.Retain()
		w.op.Buffer = c.at(from, from+bytes)
	}
	if l.writes.last == nil {
		l.writes.first = w
	} else {
		l.writes.last.next = w
	}
	l.writes.last = w
	l.writes.count++
	c.segment.pins++
	s.counters.writes.Add(1)
	s.counters.writeBytes.Add(int64(len(w.op.Buffer)))
	s.counters.backBytes.Add(w.back)
	s.submit(&w.op)
}

// wrote takes a write that the disk has finished.
func (l *Log) wrote(w *write) {
	s := l.shard
	if w.op.Err == nil && w.op.Done < len(w.op.Buffer) && !s.faults.countShortWrites {
		if l.rewrite(w) {
			return
		}
	}
	err := w.op.Err
	w.done = true
	w.segment.pins--
	if w.private != nil {
		l.writes.tailBlock = false
	}
	if err == nil {
		w.segment.writesDone++
	}
	s.journal.pace.inFlight -= w.back
	s.commit.releaseMemory(w)
	if s.faults.releaseOutOfOrder && err == nil && w.boundary.offset > l.completed.offset {
		l.completed = w.boundary
	}
	l.popWrites(err)
	if err != nil {
		l.fail(err)
	}
	if l.failed != nil {
		l.tail.settle(l)
		return
	}
	l.advance()
	if l.config.relaxed() || s.journal.enabled() {
		l.tail.cleaned(l)
	}
	l.leaveDirect()
	s.commit.want(l)
	l.wantWrites()
}

// rewrite submits what a short write left, and returns false when that makes
// no progress; w.op.Err then says so.
func (l *Log) rewrite(w *write) bool {
	done := w.op.Done &^ (disk.BlockBytes - 1)
	if done > 0 {
		w.short = 0
	} else if w.short++; w.short > shortWritesMax {
		w.op.Err = fmt.Errorf("engine: write of %s at %d: %w", w.segment.path(), w.op.Offset, io.ErrShortWrite)
		return false
	}
	w.op.Buffer = w.op.Buffer[done:]
	w.op.Offset += int64(done)
	l.shard.counters.shortWrites.Add(1)
	l.shard.submit(&w.op)
	return true
}

// popWrites takes the finished writes off the front of the run. After a failure
// they no longer count.
func (l *Log) popWrites(failed error) {
	q := &l.writes
	for q.first != nil && q.first.done {
		w := q.first
		q.first = w.next
		if q.first == nil {
			q.last = nil
		}
		q.count--
		if failed == nil && w.op.Err == nil && l.failed == nil && w.boundary.offset > l.completed.offset {
			l.completed = w.boundary
			l.noteDirty()
		}
		l.shard.commit.freeWrite(w)
	}
}
