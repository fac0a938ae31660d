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

// commit makes written bytes durable: one flush at a time, back to back, for all
// logs at once; writes go on meanwhile. There is no timer: what arrives while a
// flush runs is the next group. (Measured at 300 MB/s: p50 0.85 ms back to back,
// 1.28 with a timer of 1 ms.)
//
// A flush captures, when it is submitted, how far each log has completed; when
// it returns, that much is durable and not a byte more (rule 2). A commit journal
// would stand here, in front of the segment writes, and captures would name its frames.
type commit struct {
	op        disk.Operation
	inFlight  bool
	way       plan.Way
	startedAt time.Duration
	logs      []*Log         // have completed batches that are not flushed
	captured  []capture      // by the flush in flight
	files     []*segmentFile // pinned by it
	syncs     []*syncWait    // jobs that wait for the next flush of everything
	syncing   []*syncWait    // those that the flush in flight serves

	idleWrites *write   // for reuse
	blocks     [][]byte // of 4 KiB, for reuse
}

// capture is what one flush makes durable of one log.
type capture struct {
	log *Log
	to  mark
}

// logLazy is what a relaxed log needs to be flushed in time.
type logLazy struct {
	log    *Log
	since  time.Duration // when the oldest unflushed batch completed
	wanted bool          // flush it whatever flush.messages says
	listed bool          // in commit.logs
	timer  timer
}

func (z *logLazy) expire(*shard) { z.wanted = true }

// want notes that a log may have something to flush.
func (c *commit) want(l *Log) {
	if l.lazy.listed || l.completed.offset <= l.flushed.offset {
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

// wantsFlush says whether a log's completed batches should be durable now.
func (l *Log) wantsFlush() bool {
	if l.failed != nil || l.closed != nil {
		return false
	}
	if !l.config.relaxed() {
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

// startFlush submits the next flush if one is wanted and none is in flight.
func (s *shard) startFlush() {
	c := &s.commit
	if c.inFlight || len(c.logs)+len(c.syncs) == 0 || s.err != nil {
		return
	}
	var choice plan.Flush
	var one *Log
	for _, l := range c.logs {
		if l.wantsFlush() {
			choice.Logs++
			choice.Files += l.unflushedFiles()
			one = l
		}
	}
	choice.Files += len(c.syncs)
	choice.Logs += len(c.syncs)
	c.way = choice.Choose()
	if c.way == plan.None {
		return
	}
	c.op = disk.Operation{Kind: disk.Flush, Owner: c}
	c.syncing, c.syncs = c.syncs, c.syncing[:0]
	for _, w := range c.syncing {
		c.op.File = w.file.file
		w.file.unflushed = false
	}
	if c.way == plan.OneFile {
		if one != nil {
			c.capture(one)
		}
	} else {
		if !s.faults.flushOneFile {
			c.op.Kind = disk.SyncFilesystem
		}
		for _, l := range c.logs {
			c.capture(l) // relaxed ones too: it costs them nothing
		}
	}
	if len(c.files) > 0 {
		c.op.File = c.files[0].file
	}
	c.inFlight = true
	c.startedAt = s.now
	s.counters.flushes.Add(1)
	s.submit(&c.op)
}

// unflushedFiles counts the files of l with completed writes that no flush covers.
func (l *Log) unflushedFiles() int {
	n := 0
	for i := len(l.segments) - 1; i >= 0 && l.segments[i].BaseOffset >= l.flushed.segment.BaseOffset; i-- {
		if l.segments[i].unflushed {
			n++
		}
	}
	return n
}

// capture notes what the flush that is about to be submitted covers of l.
func (c *commit) capture(l *Log) {
	if l.failed != nil || l.closed != nil {
		return
	}
	before := len(c.files)
	for i := len(l.segments) - 1; i >= 0 && l.segments[i].BaseOffset >= l.flushed.segment.BaseOffset; i-- {
		if f := l.segments[i]; f.unflushed {
			f.unflushed = false
			f.pins++
			c.files = append(c.files, f)
		}
	}
	if len(c.files) == before {
		return
	}
	c.captured = append(c.captured, capture{log: l, to: l.completed})
	l.lazy.wanted = false
	l.lazy.since = l.shard.now
}

// flushed takes the flush that the disk has finished.
func (c *commit) flushed(s *shard) {
	took := s.now - c.startedAt
	s.counters.flushNanos.Add(int64(took))
	c.inFlight = false
	for i, f := range c.files {
		f.pins--
		c.files[i] = nil
	}
	c.files = c.files[:0]
	for i, w := range c.syncing {
		w.done, w.err = true, c.op.Err
		s.wakeJob(w.job)
		c.syncing[i] = nil
	}
	c.syncing = c.syncing[:0]
	if err := c.op.Err; err != nil {
		c.failed(s, err)
	}
	for i := range c.captured {
		k := &c.captured[i]
		if s.faults.flushCoversInFlight && k.log.writes.boundary.offset > k.to.offset {
			k.to = k.log.writes.boundary
		}
		k.log.flushedTo(k.to)
		*k = capture{}
	}
	c.captured = c.captured[:0]
	kept := c.logs[:0]
	for _, l := range c.logs {
		if l.completed.offset > l.flushed.offset && l.failed == nil && l.closed == nil {
			kept = append(kept, l)
			continue
		}
		l.lazy.listed = false
		s.timers.clear(&l.lazy.timer)
	}
	clear(c.logs[len(kept):])
	c.logs = kept
	s.tail.released = true
}

// failed takes a failed flush: nobody knows what of it reached the device, and
// asking again would be told that all is well (rule 13). A flush of everything
// names no file, so it poisons every log.
func (c *commit) failed(s *shard, err error) {
	captured := c.captured
	c.captured = nil
	switch {
	case s.faults.retryFailedFlush:
		for i := range captured {
			captured[i].log.active.unflushed = true
		}
	case c.way == plan.Everything:
		s.poison(err)
	case len(captured) > 0:
		captured[0].log.fail(err)
	}
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

// flushedTo takes that everything below to is durable.
func (l *Log) flushedTo(to mark) {
	if l.failed != nil || l.closed != nil || to.offset <= l.flushed.offset {
		return
	}
	l.flushed = to
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
