package engine

import (
	"fmt"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/plan"
)

// blocksStep is how many blocks are allocated at a time. There are at most two for
// each log: its tail block in flight, and the one that it keeps while it is quiet.
const blocksStep = 64

// commit makes bytes that were written to segments durable. (What makes small
// appends durable without that is in journal.go.) Flushes run back to back, for all logs
// that wait for one at once; writes go on meanwhile. There is no timer: what arrives
// while a flush runs is the next group. (Measured at 300 MB/s: p50 0.85 ms back to
// back, 1.28 with a timer of 1 ms.)
//
// There are at most two rounds at a time: the front one, for logs whose appends
// wait, and the back one, of a trim of the journal.
type commit struct {
	front round
	back  round
	logs  []*Log      // have completed batches that a front round is to flush
	syncs []*syncWait // jobs that wait for the next front round

	idleWrites *write   // for reuse
	blocks     [][]byte // of 4 KiB, for reuse
}

// round is one flush of several files, as one operation a file or as one for all.
// It captures, when it is submitted, how far each log has completed; when all of it
// has returned, that much is durable and not a byte more (rule 2).
type round struct {
	ops       []disk.Operation // in use: as many as pending was at first
	way       plan.Way
	pending   int // operations in flight
	startedAt time.Duration
	captured  []capture
	files     []flushing  // pinned; of EachFile the i-th is flushed by the i-th operation
	syncing   []*syncWait // jobs that it serves
	job       *job        // that waits for it, or nil
	err       error       // of a round that a job waits for
}

// capture is what one flush makes durable of one log.
type capture struct {
	log *Log
	to  mark
}

// flushing is a file in a round, and how many of its writes had completed.
type flushing struct {
	file   *segmentFile
	writes uint64
}

// unflushed says whether a write has completed that no finished flush covers.
func (f *segmentFile) unflushed() bool { return f.writesDone > f.writesFlushed }

// logLazy is what a relaxed log needs to be flushed in time.
type logLazy struct {
	log    *Log
	since  time.Duration // when the oldest unflushed batch completed
	wanted bool          // flush it whatever flush.messages says
	listed bool          // in commit.logs
	timer  timer
}

func (z *logLazy) expire(*shard) { z.wanted = true }

// want notes that a log may have something for a front round.
func (c *commit) want(l *Log) {
	if l.lazy.listed || l.completed.offset <= l.flushed.offset || !l.flushesItself() {
		return
	}
	s := l.shard
	l.lazy.listed = true
	l.lazy.since = s.now
	c.logs = append(c.logs, l)
	if l.config.relaxed() && l.config.FlushMillis > 0 {
		l.lazy.log = l
		s.timers.set(&l.lazy.timer, s.now+time.Duration(l.config.FlushMillis)*time.Millisecond, &l.lazy)
	}
}

// flushesItself says whether the log's written bytes are flushed for its own sake:
// what the journal has made durable can wait for the next trim.
func (l *Log) flushesItself() bool {
	return !l.shard.journal.enabled() || l.way == direct || l.settleTo > l.flushed.offset
}

// wantsFlush says whether a log's completed batches should be durable now.
func (l *Log) wantsFlush() bool {
	if l.failed != nil || l.closed != nil || !l.flushesItself() {
		return false
	}
	if !l.config.relaxed() || l.settleTo > l.flushed.offset {
		return l.completed.offset > l.flushed.offset
	}
	return plan.Lazy{
		Records:       l.completed.offset - l.flushed.offset,
		FlushMessages: l.config.FlushMessages,
		AgeMillis:     l.shard.since(l.lazy.since).Milliseconds(),
		FlushMillis:   l.config.FlushMillis,
		Wanted:        l.lazy.wanted,
	}.Due()
}

// startFlush submits the next front round if one is wanted and none is in flight.
func (s *shard) startFlush() {
	c := &s.commit
	r := &c.front
	if r.pending > 0 || len(c.logs)+len(c.syncs) == 0 || s.err != nil {
		return
	}
	choice := plan.Flush{FilesMax: s.options.FilesFlushMax, Logs: len(c.syncs), Files: len(c.syncs)}
	for _, l := range c.logs {
		if l.wantsFlush() {
			choice.Logs++
			choice.Files += l.unflushedFiles()
		}
	}
	r.way = choice.Choose()
	if r.way == plan.None {
		return
	}
	r.syncing, c.syncs = c.syncs, r.syncing[:0]
	for _, w := range r.syncing {
		r.add(w.file)
	}
	for _, l := range c.logs {
		// With one operation for everything, relaxed ones too: it costs them nothing.
		if r.way == plan.Everything || l.wantsFlush() {
			r.capture(l)
		}
	}
	s.submitRound(r)
}

// unflushedFiles counts the files of l with completed writes that no flush covers.
func (l *Log) unflushedFiles() int {
	n := 0
	for i := len(l.segments) - 1; i >= 0 && l.segments[i].BaseOffset >= l.flushed.segment.BaseOffset; i-- {
		if l.segments[i].unflushed() {
			n++
		}
	}
	return n
}

// capture notes what the round that is about to be submitted covers of l. Files that
// another round is flushing are flushed again: which of them ends first is open.
func (r *round) capture(l *Log) {
	if l.failed != nil || l.closed != nil || l.completed.offset <= l.flushed.offset {
		return
	}
	before := len(r.files)
	for i := len(l.segments) - 1; i >= 0 && l.segments[i].BaseOffset >= l.flushed.segment.BaseOffset; i-- {
		if f := l.segments[i]; f.unflushed() {
			r.add(f)
		}
	}
	if len(r.files) == before {
		return
	}
	r.captured = append(r.captured, capture{log: l, to: l.completed})
	l.lazy.wanted = false
	l.lazy.since = l.shard.now
}

// add pins f for the time of the round.
func (r *round) add(f *segmentFile) {
	f.pins++
	r.files = append(r.files, flushing{file: f, writes: f.writesDone})
}

// submitRound submits the operations of a round that has its files.
func (s *shard) submitRound(r *round) {
	r.startedAt, r.err = s.now, nil
	s.counters.flushes.Add(1)
	if r.way == plan.Everything && !s.faults.flushOneFile {
		r.take(1)
		r.ops[0] = disk.Operation{Kind: disk.SyncFilesystem, File: s.anyFile(r), Owner: r}
		s.submit(&r.ops[0])
		return
	}
	n := len(r.files)
	if r.way == plan.Everything {
		n = min(n, 1) // the rule that is broken for a test
	}
	if n == 0 {
		r.take(1)
		r.ops[0] = disk.Operation{Kind: disk.Flush, File: s.anyFile(r), Owner: r}
		s.submit(&r.ops[0])
		return
	}
	r.take(n)
	for i := range n {
		r.ops[i] = disk.Operation{Kind: disk.Flush, File: r.files[i].file.file, Owner: r}
		s.submit(&r.ops[i])
	}
}

// take makes room for n operations, which are pending from now on.
func (r *round) take(n int) {
	r.pending = n
	if cap(r.ops) < n {
		r.ops = make([]disk.Operation, n)
	}
	r.ops = r.ops[:n]
}

// anyFile is a file that was written, for the flush behind a syncfs (rule 14).
func (s *shard) anyFile(r *round) disk.File {
	if len(r.files) > 0 {
		return r.files[0].file.file
	}
	return s.journal.file
}

// returned takes one operation of the round; the last one ends it.
func (r *round) returned(s *shard) {
	if r.pending--; r.pending > 0 {
		return
	}
	s.counters.flushNanos.Add(int64(s.now - r.startedAt))
	s.counters.flushTimes.count(s.now - r.startedAt)
	err := r.outcome(s)
	for i := range r.files {
		f := &r.files[i]
		f.file.pins--
		if err == nil {
			f.file.writesFlushed = max(f.file.writesFlushed, f.writes)
		}
		*f = flushing{}
	}
	r.files = r.files[:0]
	for i, w := range r.syncing {
		w.done = true
		s.wakeJob(w.job)
		r.syncing[i] = nil
	}
	r.syncing = r.syncing[:0]
	for i := range r.captured {
		k := &r.captured[i]
		if s.faults.flushCoversInFlight && k.log.writes.boundary.offset > k.to.offset {
			k.to = k.log.writes.boundary
		}
		k.log.flushedTo(k.to) // of a log that has failed: nothing
		*k = capture{}
	}
	r.captured = r.captured[:0]
	s.commit.keepWanting(s)
	s.tail.released = true
	if r.job != nil {
		r.err = err
		s.wakeJob(r.job)
		r.job = nil
	}
}

// keepWanting drops the logs that have nothing left to flush.
func (c *commit) keepWanting(s *shard) {
	kept := c.logs[:0]
	for _, l := range c.logs {
		if l.completed.offset > l.flushed.offset && l.failed == nil && l.closed == nil && l.flushesItself() {
			kept = append(kept, l)
			continue
		}
		l.lazy.listed = false
		s.timers.clear(&l.lazy.timer)
	}
	clear(c.logs[len(kept):])
	c.logs = kept
}

// outcome returns the round's error, after failing what it concerns: nobody
// knows what of a failed flush reached the device, and asking again would be told
// that all is well (rule 13). A flush of everything names no file, so it poisons
// every log.
func (r *round) outcome(s *shard) error {
	var first error
	for i := range r.ops {
		op := &r.ops[i]
		if op.Err == nil {
			continue
		}
		if first == nil {
			first = op.Err
		}
		for k, w := range r.syncing {
			if k == i || r.way == plan.Everything {
				w.err = op.Err
			}
		}
		switch {
		case s.faults.retryFailedFlush:
		case r.way == plan.Everything:
			s.poison(op.Err)
		case i < len(r.files):
			if l := r.files[i].file.log; !l.opening() {
				l.fail(op.Err)
			}
		}
	}
	for i := range r.ops {
		r.ops[i] = disk.Operation{}
	}
	if first != nil && s.faults.retryFailedFlush {
		r.captured = r.captured[:0]
	}
	return first
}

// syncEverything makes all that has completed durable by one syncfs, in the
// back round. REQUIRES: called by one job at a time.
func (s *shard) syncEverything(j *job) error {
	r := &s.commit.back
	r.way, r.job = plan.Everything, j
	for _, l := range s.logs {
		r.capture(l)
	}
	s.submitRound(r)
	for r.job != nil {
		if err := j.park(); err != nil {
			return err
		}
	}
	return r.err
}

// syncWait is a job that waits for a flush of its file.
type syncWait struct {
	job  *job
	file *segmentFile
	done bool
	err  error
}

// syncAll makes everything that f holds durable. Jobs that ask at the same time share
// one flush: ten thousand logs are recovered with a few of them.
func (s *shard) syncAll(j *job, f *segmentFile) error {
	w := &syncWait{job: j, file: f}
	s.commit.syncs = append(s.commit.syncs, w)
	f.pins++
	defer func() { f.pins-- }()
	for !w.done {
		if s.err != nil {
			return fmt.Errorf("%w: %w", ErrPoisoned, s.err)
		}
		if err := j.park(); err != nil {
			return err
		}
	}
	return w.err
}

// flushedTo takes that everything below to is durable in the segments.
func (l *Log) flushedTo(to mark) {
	if l.failed != nil || l.closed != nil || to.offset <= l.flushed.offset {
		return
	}
	l.flushed = to
	l.dropEntries()
	l.leaveDirect()
	l.tail.cleaned(l)
	l.advance()
	l.flushMoved()
}

// newWrite returns a write to fill in.
func (c *commit) newWrite() *write {
	w := c.idleWrites
	if w == nil {
		w = new(write)
	} else {
		c.idleWrites = w.next
	}
	*w = write{}
	return w
}

func (c *commit) freeWrite(w *write) {
	*w = write{next: c.idleWrites}
	c.idleWrites = w
}

// releaseMemory gives back what w was written from.
func (c *commit) releaseMemory(w *write) {
	if w.memory != nil {
		w.memory.Release()
		w.memory = nil
	}
	if w.private != nil {
		c.blocks = append(c.blocks, w.private)
		w.private = nil
	}
	w.op.Buffer = nil
}

// takeBlock returns a block of memory; what it holds is arbitrary.
func (c *commit) takeBlock() []byte {
	if len(c.blocks) == 0 {
		slab := disk.AlignedBytes(blocksStep * plan.BlockBytes)
		for i := 0; i < len(slab); i += plan.BlockBytes {
			c.blocks = append(c.blocks, slab[i:i+plan.BlockBytes:i+plan.BlockBytes])
		}
	}
	block := c.blocks[len(c.blocks)-1]
	c.blocks = c.blocks[:len(c.blocks)-1]
	return block
}
