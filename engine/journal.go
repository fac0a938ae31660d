package engine

import (
	"fmt"
	"io"
	"math"
	"time"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/journal"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
)

// way is how a log's appends are on their way to become durable. A log is in one
// way at a time (rule 3).
type way uint8

const (
	resting    way = iota // nothing is
	journaling            // entries of it are in frames that are not flushed yet
	direct                // they are written to the segment, and flushed there
)

// logJournal is what the journal keeps of a log.
type logJournal struct {
	way       way
	directAll bool  // direct has just begun: the whole dirty tail goes, its last block too
	ready     bool  // in commitJournal.ready
	counted   int64 // bytes of it in commitJournal.waiting

	journaled mark             // everything below is in a frame, or flushed in the segments
	inFlight  int              // entries in frames that are not flushed
	entries   deque[entryMark] // those that reach above S

	// The run of entries that ends at journaled: where it begins, and how far it is
	// written and durable (J). Without an entry all three are at journaled.
	entriesFrom, entriesWritten, entriesDurable int64

	back logBack
}

// entryMark is one entry: the log's end behind it, and its frame.
type entryMark struct {
	end      int64
	sequence uint64
}

// frame is one frame on its way to the device.
type frame struct {
	ops      []frameWrite // the pieces that it is written in, side by side
	left     int          // of them
	err      error        // of one of them
	buffer   []byte       // from commitJournal.buffers; nil once it is written
	sequence uint64
	flushBy  time.Duration // when it is to be flushed at the latest
	entries  []framed
	written  bool
	next     *frame
}

// frameWrite is one piece of a frame on its way to the device.
type frameWrite struct {
	op    disk.Operation
	frame *frame
	short int // times in a row that it moved less than a block
}

// framed is an entry of a frame: the log's end behind it.
type framed struct {
	log *Log
	gen uint64
	end int64
}

// frameMark is where a frame that is still needed lies, and since when.
type frameMark struct {
	position uint64
	at       time.Duration
}

// commitJournal is the journal of a shard: one ring of frames, written one after
// the other, flushed back to back. It is why a commit of ten thousand logs costs one
// write and one flush.
//
//	append ─▶ log in ready ─▶ frame: bytes are copied from the tail ─▶ write ─▶ flush ─▶ J rises
//
// Positions are virtual: they only rise, and lie in the file at their remainder by
// its size. The segments get their bytes later: writeback.go.
type commitJournal struct {
	shard *shard
	file  disk.File
	size  int64 // of the ring; 0: there is no journal
	store [16]byte
	run   uint64

	builder    journal.Builder
	frameBytes int64
	buffers    [][]byte // for frames, idle
	memory     []*buffer.Buffer

	head     uint64 // position of the next frame
	from     uint64 // position of the oldest frame that is needed, as the checkpoint on disk has it
	sequence uint64 // of the next frame
	live     []frameMark
	liveFrom uint64 // sequence of live[0]

	first, last *frame // not flushed yet, oldest first
	idle        *frame // for reuse
	writing     int    // frames being written
	writtenTo   uint64 // all frames up to this sequence are written
	flushedTo   uint64 // and flushed

	flush        disk.Operation
	flushing     bool
	flushBy      time.Duration // when one of the frames is to be flushed at the latest
	flushTimer   timer
	flushCovers  uint64
	flushStarted time.Duration

	ready   []*Log // have bytes for a frame
	waiting int64  // how many, about

	pace pacer
	trim trimmer
}

func (q *commitJournal) enabled() bool { return q.size > 0 }

// used is how many bytes of the ring cannot be overwritten.
func (q *commitJournal) used() int64 { return int64(q.head - q.from) }

// ring describes the journal to those who decide.
func (q *commitJournal) ring() plan.Ring {
	r := plan.Ring{Bytes: q.size, Used: q.used(), Hungry: len(q.shard.starved) > 0 || q.shard.owed > 0}
	if len(q.live) > 0 {
		r.AgeOfOldest = q.shard.since(q.live[0].at)
	}
	return r
}

// fileOffset is where a position lies in the file.
func (q *commitJournal) fileOffset(position uint64) int64 {
	return segment.RingHeadBytes + int64(position%uint64(q.size))
}

// full says that appends wait for a trim.
func (q *commitJournal) full() bool { return q.enabled() && q.ring().Full() }

// pending is how many bytes of the log are on no way yet.
func (l *Log) pending() int64 { return l.next.total - l.journaled.total }

// takeFlushed begins a new run of entries where the segments end, if they have
// overtaken the last one.
func (l *Log) takeFlushed() {
	if l.flushed.offset > l.journaled.offset {
		l.restartRun(l.flushed)
	}
}

func (l *Log) restartRun(at mark) {
	l.journaled = at
	l.entriesFrom, l.entriesWritten, l.entriesDurable = at.offset, at.offset, at.offset
}

// route puts what a log has to write on its way.
func (l *Log) route() {
	q := &l.shard.journal
	if !q.enabled() {
		l.submitWrites()
		return
	}
	if l.way == direct {
		l.submitWrites()
		if l.writes.chunk == nil {
			l.directAll = false // there is nothing that it could write
		}
		l.leaveDirect() // when it had nothing left to write, nothing else comes back here
		return
	}
	if l.failed != nil || l.closed != nil {
		return
	}
	if l.back.allowed != backNone {
		l.submitWrites()
	}
	l.takeFlushed()
	pending := l.pending()
	switch {
	case pending == 0:
	case !q.directly(pending):
		q.offer(l, pending)
	case l.inFlight == 0 || l.shard.faults.directInFlight:
		l.goDirect()
	}
	// Else it has more than a frame should take and an entry on its way: it is looked
	// at again when that is durable.
}

// directly says on which way pending bytes of one log go.
func (q *commitJournal) directly(pending int64) bool {
	return plan.Route{Bytes: pending, Unanswered: q.shard.unanswered, FrameBytes: q.frameBytes}.Direct()
}

// goDirect writes the log's whole dirty tail to its segments.
func (l *Log) goDirect() {
	l.way, l.directAll = direct, true
	l.shard.journal.uncount(l)
	l.submitWrites()
	l.shard.commit.want(l) // what was written back before
}

// leaveDirect ends direct when everything that was written so is flushed.
func (l *Log) leaveDirect() {
	early := l.shard.faults.leaveDirectEarly
	if l.way != direct || l.directAll || !early && (l.writes.count > 0 || l.flushed.offset < l.completed.offset) {
		return
	}
	l.way = resting
	l.takeFlushed()
	if early {
		l.restartRun(l.completed)
	}
	if l.pending() > 0 {
		l.wantWrites()
	}
}

// offer queues a log for the next frame.
func (q *commitJournal) offer(l *Log, pending int64) {
	q.waiting += pending - l.counted
	l.counted = pending
	if !l.ready {
		l.ready = true
		q.ready = append(q.ready, l)
	}
}

func (q *commitJournal) uncount(l *Log) {
	q.waiting -= l.counted
	l.counted = 0
}

// buildFrames fills and submits as many frames as are worth it now.
func (s *shard) buildFrames() {
	q := &s.journal
	for len(q.ready) > 0 && s.err == nil {
		gather := plan.Gather{Bytes: max(q.waiting, 1), InFlight: q.writing, FrameBytes: q.frameBytes}
		if !gather.Start() || len(q.buffers) == 0 || q.size-q.used() < 2*q.frameBytes {
			return
		}
		q.buildFrame()
	}
}

// buildFrame fills one frame from the logs that are ready, first come first served.
func (q *commitJournal) buildFrame() {
	f := q.newFrame()
	f.sequence, f.flushBy = q.sequence, q.shard.now+plan.RelaxedFlushAge
	q.builder.Begin(f.buffer)
	q.pace.pieceBytes = plan.BackBytes(q.size, len(q.shard.logs))
	taken := 0
	for _, l := range q.ready {
		if !q.addEntry(f, l) {
			break
		}
		taken++
	}
	left := copy(q.ready, q.ready[taken:])
	clear(q.ready[left:])
	q.ready = q.ready[:left]
	if len(f.entries) == 0 {
		q.buffers = append(q.buffers, f.buffer)
		q.release(f)
		return
	}
	h := journal.Header{Store: q.store, Run: q.run, Sequence: f.sequence, Flushed: q.flushedTo, From: q.liveFrom}
	if q.shard.faults.claimFlushed {
		h.Flushed = f.sequence - 1
	}
	data := q.builder.Finish(h)
	q.submit(f, data)
}

// addEntry puts what waits of l into the frame; false when it does not fit.
func (q *commitJournal) addEntry(f *frame, l *Log) bool {
	l.takeFlushed()
	pending := l.pending()
	usable := l.failed == nil && l.closed == nil && l.way != direct && pending > 0
	if usable && q.directly(pending) {
		usable = false // it has grown meanwhile
		if l.inFlight == 0 {
			l.wantWrites()
		}
	}
	if !usable {
		l.ready = false
		q.uncount(l)
		return true
	}
	if int64(q.builder.Room()) < pending {
		return false
	}
	l.ready = false
	q.uncount(l)
	q.builder.Entry(journal.Entry{
		LogID: l.id, Gen: l.gen, PreviousEnd: l.journaled.offset, FirstOffset: l.journaled.offset, LastOffset: l.next.offset - 1,
		Epoch: l.lastEpoch(), Durable: min(l.durable, l.journaled.offset), HighWatermark: min(l.highWatermark, l.journaled.offset),
	})
	l.copyPending(&q.builder)
	q.shard.counters.journalAppends.Add(l.next.batches - l.journaled.batches)
	q.shard.counters.journalAppendBytes.Add(pending)
	l.journaled = l.next
	l.way = journaling
	l.inFlight++
	l.entries.push(entryMark{end: l.next.offset, sequence: f.sequence})
	f.flushBy = min(f.flushBy, l.flushBy())
	f.entries = append(f.entries, framed{log: l, gen: l.gen, end: l.next.offset})
	if l.journaled.total-l.writes.submitted.total >= q.pace.pieceBytes {
		q.pace.add(l)
	}
	return true
}

// copyPending appends the log's bytes from journaled on to the entry begun last.
func (l *Log) copyPending(b *journal.Builder) {
	held := l.tail.held()
	for i := l.tail.find(l.journaled.offset); i < len(held); i++ {
		c := held[i]
		from := c.dataStart
		if c.segment == l.journaled.segment {
			from = max(from, l.journaled.position)
		}
		if from < c.dataEnd {
			b.Append(c.at(from, c.dataEnd))
		}
	}
}

// submit writes a finished frame behind the last one. A frame does not straddle the
// end of the file: what is left there is skipped.
func (q *commitJournal) submit(f *frame, data []byte) {
	s := q.shard
	size := uint64(q.size)
	if rest := size - q.head%size; rest < uint64(len(data)) {
		q.head += rest
	}
	f.cut(data, q.file, q.fileOffset(q.head))
	q.live = append(q.live, frameMark{position: q.head, at: s.now})
	q.head += uint64(len(data))
	q.sequence++
	q.writing++
	if q.last == nil {
		q.first = f
	} else {
		q.last.next = f
	}
	q.last = f
	s.counters.frames.Add(1)
	s.counters.frameEntries.Add(int64(len(f.entries)))
	s.counters.frameBytes.Add(int64(len(data)))
	if q.first == f {
		q.flushBy = f.flushBy
	}
	q.flushBy = min(q.flushBy, f.flushBy)
	q.pace.frameAt, q.pace.idleTurns = s.now, 0
	q.trim.expectAge(s)
	for i := range f.ops {
		s.submit(&f.ops[i].op)
	}
}

// cut prepares the pieces of a frame: one large write alone leaves most of a
// device idle.
func (f *frame) cut(data []byte, file disk.File, offset int64) {
	pieces := plan.FramePieces(len(data))
	if cap(f.ops) < plan.FramePiecesMax {
		f.ops = make([]frameWrite, plan.FramePiecesMax)
	}
	f.ops, f.left = f.ops[:pieces], pieces
	size := int(plan.RoundUp(int64((len(data) + pieces - 1) / pieces)))
	for i := range f.ops {
		from := min(i*size, len(data))
		to := min(from+size, len(data))
		f.ops[i] = frameWrite{frame: f}
		f.ops[i].op = disk.Operation{Kind: disk.Write, File: file, Buffer: data[from:to], Offset: offset + int64(from), Owner: &f.ops[i]}
	}
}

// wrote takes a piece of a frame that the disk has written.
func (q *commitJournal) wrote(w *frameWrite) {
	s, f := q.shard, w.frame
	if w.op.Err == nil && w.op.Done < len(w.op.Buffer) && q.rewrite(w) {
		return
	}
	if w.op.Err != nil && f.err == nil {
		f.err = w.op.Err
	}
	w.op.Buffer = nil
	if f.left--; f.left > 0 {
		return
	}
	q.writing--
	q.buffers = append(q.buffers, f.buffer)
	f.buffer = nil
	if err := f.err; err != nil {
		s.poison(fmt.Errorf("the commit journal cannot be written: %w", err))
		return
	}
	f.written = true
	if s.faults.acknowledgeWritten {
		q.releaseWritten(f)
	}
	for f := q.first; f != nil && f.written; f = f.next {
		if f.sequence > q.writtenTo {
			q.writtenTo = f.sequence
			q.releaseWritten(f)
		}
	}
}

// releaseWritten lets relaxed logs go on: what is written is enough for them. The
// others would only be told twice.
func (q *commitJournal) releaseWritten(f *frame) {
	for i := range f.entries {
		e := &f.entries[i]
		if l := e.log; l.gen == e.gen && l.usable() == nil && (l.config.relaxed() || q.shard.faults.acknowledgeWritten) {
			l.entriesWritten = max(l.entriesWritten, e.end)
			l.advance()
		}
	}
}

// rewrite submits what a short write left; false when that makes no progress.
func (q *commitJournal) rewrite(w *frameWrite) bool {
	done := w.op.Done &^ (disk.BlockBytes - 1)
	if done > 0 {
		w.short = 0
	} else if w.short++; w.short > shortWritesMax {
		w.op.Err = fmt.Errorf("engine: write of the journal at %d: %w", w.op.Offset, io.ErrShortWrite)
		return false
	}
	w.op.Buffer = w.op.Buffer[done:]
	w.op.Offset += int64(done)
	q.shard.counters.shortWrites.Add(1)
	q.shard.submit(&w.op)
	return true
}

// flushBy is until when an entry of the log is to be flushed: at once, but of a
// relaxed log when flush.messages and flush.ms say so, or somebody waits for it.
func (l *Log) flushBy() time.Duration {
	s := l.shard
	if !l.config.relaxed() || l.lazy.wanted || l.next.offset-l.durable >= l.config.FlushMessages {
		return s.now
	}
	if l.config.FlushMillis > 0 {
		return s.now + time.Duration(l.config.FlushMillis)*time.Millisecond
	}
	return s.now + plan.RelaxedFlushAge
}

// flushNow sees that what is written is flushed: somebody waits for more than the
// log's configuration asks for.
func (q *commitJournal) flushNow() { q.flushBy = 0 }

// expire only makes the shard turn: a flush is due.
func (q *commitJournal) expire(*shard) {}

// startJournalFlush flushes what is written, if no flush is in flight and one is due. It
// covers the frames whose write, and that of all before them, had completed (rule 2).
func (s *shard) startJournalFlush() {
	q := &s.journal
	if q.flushing || q.writtenTo <= q.flushedTo || s.err != nil {
		return
	}
	if q.flushBy > s.now {
		if q.flushTimer.index == 0 {
			s.timers.set(&q.flushTimer, q.flushBy, q)
		}
		return
	}
	s.timers.clear(&q.flushTimer)
	q.flushing, q.flushCovers, q.flushStarted = true, q.writtenTo, s.now
	if s.faults.flushCoversInFlight {
		q.flushCovers = q.sequence - 1
	}
	q.flush = disk.Operation{Kind: disk.Flush, File: q.file, Owner: q}
	s.submit(&q.flush)
}

// flushed takes a flush of the journal that the disk has finished.
func (q *commitJournal) flushed() {
	s := q.shard
	took := s.now - q.flushStarted
	q.flushing = false
	s.counters.commits.Add(1)
	s.counters.commitNanos.Add(int64(took))
	s.counters.commitTimes.count(took)
	if err := q.flush.Err; err != nil {
		s.poison(fmt.Errorf("the commit journal cannot be flushed: %w", err))
		return
	}
	q.flushedTo = max(q.flushedTo, q.flushCovers)
	for q.first != nil && q.first.sequence <= q.flushCovers && q.first.written {
		f := q.first
		if q.first = f.next; q.first == nil {
			q.last = nil
		}
		for i := range f.entries {
			e := &f.entries[i]
			e.log.entryDurable(e)
		}
		q.release(f)
	}
	q.flushBy = math.MaxInt64
	for f := q.first; f != nil; f = f.next {
		q.flushBy = min(q.flushBy, f.flushBy)
	}
}

// entryDurable takes that an entry of the log is flushed.
func (l *Log) entryDurable(e *framed) {
	l.inFlight--
	if l.gen != e.gen || l.usable() != nil {
		return
	}
	before := l.entriesDurable
	l.entriesDurable = max(before, e.end)
	if l.completed.offset > before {
		l.tail.cleaned(l)
	}
	l.advance()
	l.shard.keeper.dirty = true
	if len(l.flushWaiters) > 0 {
		l.wakeFlushWaiters()
	}
	if l.inFlight > 0 {
		return
	}
	if l.way == journaling {
		l.way = resting
	}
	if l.pending() > 0 && !l.ready {
		l.wantWrites()
	}
}

// outOfJournal says that no list, frame or entry of the shard's journal knows the log.
func (l *Log) outOfJournal() bool {
	return l.inFlight == 0 && !l.ready && l.way != direct && l.entries.count == 0 &&
		!l.back.queued && !l.back.listed && !l.back.waiting
}

// dropEntries forgets entries that the segments have made superfluous.
func (l *Log) dropEntries() {
	for l.entries.count > 0 && l.entries.front().end <= l.flushed.offset {
		l.entries.pop()
	}
}

func (q *commitJournal) newFrame() *frame {
	f := q.idle
	if f == nil {
		f = new(frame)
	} else {
		q.idle = f.next
	}
	*f = frame{entries: f.entries[:0], ops: f.ops[:0]}
	n := len(q.buffers) - 1
	f.buffer = q.buffers[n]
	q.buffers = q.buffers[:n]
	return f
}

func (q *commitJournal) release(f *frame) {
	clear(f.entries)
	*f = frame{entries: f.entries[:0], ops: f.ops[:0], next: q.idle}
	q.idle = f
}
