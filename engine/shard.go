package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/plan"
)

const (
	// shortWritesMax and shortReadsMax bound how often an operation may move less
	// than a block before that counts as a failure.
	shortWritesMax = 16
	shortReadsMax  = 4
	// waitMax bounds the shard's sleep, so that a clock that jumped is noticed.
	waitMax = 10 * time.Second
	// messagesPerTurn bounds how long a turn takes messages before it submits
	// what they caused: the disk must not idle while a burst is sequenced.
	messagesPerTurn = 1024
)

// shard owns a disk and the logs on it. It is plain functions without threads:
// whoever calls turn over and over drives it, the loop of an Engine on a locked
// thread or a Stepper in a test, and a run is a function of what came in, what
// the disk answered and what the clocks said.
//
//	turn:  take messages ─▶ timers ─▶ jobs ─▶ writes, frames ─▶ flushes ─▶ disk.Wait ─▶ complete ─▶ report frontiers
//
// Everything below belongs to the goroutine that calls turn.
type shard struct {
	engine    *Engine
	number    int
	disk      disk.Disk
	options   Options
	logger    *slog.Logger
	inbox     inbox
	counters  counters
	faults    faults
	halted    atomic.Bool   // the engine is over: end at the end of this turn
	now       time.Duration // Options.Monotonic at the turn's begin
	nowMillis int64         // Options.NowMillis at the turn's begin

	finished []*disk.Operation
	taken    []message // messages of this turn, from takenAt on not handled yet
	takenAt  int
	timers   timers

	jobs      []*job // all that live, in order of their start
	readyJobs []*job
	watchers  []*job // in job.until

	logs     []*Log // open ones, in order of opening
	leaving  []*Log // being deleted: closed, and not durably gone
	writable []*Log // have bytes to write and may write them now
	changed  []*Log // have frontiers to report at the end of the turn
	starved  []*Log // wait for memory, first come first served
	// unanswered is how many bytes of appends are in the tail and have no answer yet, of all logs.
	unanswered int64
	appendedAt time.Duration // when the last one came
	names      map[LogID]*Log
	event      Event    // reused by every Step
	effects    []Effect // reused by every Step
	zeros      []byte   // what prewrite writes
	scratch    scratch
	info       disk.Info

	tail     tailCache
	commit   commit
	journal  commitJournal
	reads    readers
	joins    joins
	files    fileCache
	indexes  indexCache
	keeper   keeper
	cleaner  cleaner
	reserve  reserve
	space    watermark
	scrubber scrubber
	device   deviceWatch
	short    error             // the lack of space for which the checkpoint, and with it the journal's trim, waits; nil for none
	arrivals map[LogID]*moving // logs that are on their way here
	fullSaid time.Duration     // when it may be said again that there is no space
	opening  map[LogID]bool    // being opened, created or deleted by a job

	openedBefore map[LogID]bool // not with success: what was renamed then may be in memory only

	err     error // why the whole shard is poisoned, or nil
	closing bool  // no log is opened any more
	// flushesLater: side files are written and not flushed, because everything will be.
	flushesLater bool
	ending       bool  // everything is at rest: the next turn closes the disk
	closed       bool  // it is over
	counted      bool  // the engine counts it no more among those that run
	owed         int64 // bytes of cache to be given up for other shards
	ahead        int64 // see lookAhead
	begged       bool  // the other shards were asked for memory since some came back last
}

// newShard makes a shard without a disk.
func newShard(e *Engine, number int) *shard {
	s := &shard{
		engine: e, number: number, options: e.options, logger: e.options.Logger, faults: e.options.faults,
		names:   make(map[LogID]*Log),
		opening: make(map[LogID]bool),

		openedBefore: make(map[LogID]bool),
		arrivals:     make(map[LogID]*moving),
	}
	s.tail.init(s)
	s.journal.shard, s.reserve.shard, s.space.shard, s.cleaner.shard = s, s, s, s
	s.reads.init(s)
	s.joins.init(s)
	s.scrubber.init(s)
	s.device.init(s)
	s.files.init(max(e.options.FilesOpenMax/e.options.Shards, filesOpenMin))
	return s
}

// openDisk gives the shard its disk, on the thread that will drive it.
func (s *shard) openDisk() error {
	d, err := s.options.OpenDisk()
	if err != nil {
		return fmt.Errorf("engine: open the disk: %w", err)
	}
	s.disk, s.info = d, d.Info()
	s.inbox.wake = d.Wake
	s.now, s.nowMillis = s.options.Monotonic(), s.options.NowMillis()
	s.tail.missesUntil(s.now) // what came before this start is in no memory
	return nil
}

// turn is one iteration. wait bounds how long it sleeps when there is nothing to
// do; 0 polls. The error is that the disk is broken or closed: the shard is over.
func (s *shard) turn(wait time.Duration) error {
	s.now, s.nowMillis = s.options.Monotonic(), s.options.NowMillis()
	s.takeMessages()
	for target := s.timers.expired(s.now); target != nil; target = s.timers.expired(s.now) {
		target.expire(s)
	}
	s.settle()

	timeout := s.sleepFor(wait)
	var err error
	s.finished, err = s.disk.Wait(s.finished[:0], timeout)
	s.now = s.options.Monotonic()
	for i, op := range s.finished {
		s.finished[i] = nil
		s.complete(op)
	}
	if err == nil {
		err = s.hurry()
	}
	if err != nil {
		return fmt.Errorf("engine: shard %d: %w", s.number, err)
	}
	s.settle()
	s.noteUnflushed()
	s.journal.note()
	s.device.note()
	if s.ending {
		s.closeDisk()
	}
	return nil
}

// hurry does first what somebody waits for: answers leave, and the device gets the
// next flush, before the next frame is built. (Measured at 384 logs: building a frame
// of 200 KiB takes as long as writing it.)
func (s *shard) hurry() error {
	s.report()
	flushing, rounds := s.journal.flushing, s.commit.front.pending
	s.startJournalFlush()
	s.startFlush()
	if s.journal.flushing == flushing && s.commit.front.pending == rounds {
		return nil
	}
	if len(s.journal.ready)+len(s.writable) == 0 && s.takenAt == len(s.taken) && s.inbox.empty() {
		return nil // the wait that follows hands it over as soon
	}
	var err error
	s.finished, err = s.disk.Wait(s.finished[:0], 0)
	for i, op := range s.finished {
		s.finished[i] = nil
		s.complete(op)
	}
	return err
}

// closeDisk gives the disk back after an orderly close. Jobs that still wait, such
// as slow removals, end before: the disk unlocks its thread when it closes, and a coroutine
// cannot be resumed under another lock than it was made under.
func (s *shard) closeDisk() {
	s.abandonJobs()
	if err := s.disk.Close(); err != nil {
		s.logger.Warn("the disk does not close cleanly", "shard", s.number, "error", err)
	}
	s.end()
}

// settle carries out everything that can be done without waiting.
func (s *shard) settle() {
	for {
		s.runJobs()
		s.feedStarved()
		s.writeLogs()
		s.buildFrames()
		s.startJournalFlush()
		s.startFlush()
		s.writeBack()
		s.startTrim()
		s.report()
		s.reads.startCold()
		if len(s.readyJobs) == 0 && len(s.changed) == 0 && len(s.writable) == 0 && !s.watch() {
			break
		}
	}
	s.begMemory()
	s.giveMemory()
}

// noteUnflushed publishes since when the oldest written batch waits for its flush.
func (s *shard) noteUnflushed() {
	oldest := time.Duration(0)
	if len(s.commit.logs) > 0 {
		oldest = s.commit.logs[0].lazy.since
	}
	s.counters.unflushedSince.Store(int64(oldest))
}

// watch lets the jobs in job.until look at their conditions, and says whether
// one of them went on.
func (s *shard) watch() bool {
	n := len(s.watchers)
	if n == 0 {
		return false
	}
	for _, j := range s.watchers {
		s.wakeJob(j)
	}
	s.watchers = s.watchers[:0]
	s.runJobs()
	return len(s.watchers) < n
}

// sleepFor returns the timeout of this turn's wait.
func (s *shard) sleepFor(wait time.Duration) time.Duration {
	if wait == 0 || s.takenAt < len(s.taken) {
		return 0
	}
	timeout := waitMax
	if wait > 0 {
		timeout = min(timeout, wait)
	}
	if at, ok := s.timers.next(); ok {
		timeout = min(timeout, max(at-s.now, 0))
	}
	if timeout == 0 || !s.inbox.sleep() {
		return 0
	}
	return timeout
}

// takeMessages handles what was sent, in order, up to a bound.
func (s *shard) takeMessages() {
	if s.takenAt == len(s.taken) {
		clear(s.taken)
		s.taken, s.takenAt = s.inbox.take(s.taken), 0
	}
	looked := s.takenAt
	for end := min(s.takenAt+messagesPerTurn, len(s.taken)); s.takenAt < end; {
		if s.takenAt == looked {
			looked = min(looked+aheadMax, end)
			s.lookAhead(s.taken[s.takenAt:looked])
		}
		m := s.taken[s.takenAt]
		s.takenAt++
		s.handle(m)
	}
}

func (s *shard) handle(m message) {
	switch {
	case m.group != nil:
		s.takeGroup(m.group)
	case m.read != nil && m.read.state.split:
		s.joins.take(m.read)
	case m.read != nil && s.holdRead(m.read):
	case m.read != nil:
		s.reads.take(m.read)
	case m.cancel != nil:
		if !s.joins.cancel(m.cancel) && !s.cancelHeld(m.cancel) {
			s.reads.cancel(m.cancel)
		}
	case m.call != nil:
		m.call.begin(s)
	case m.leg != nil:
		m.leg.joined.took(m.leg)
	case m.recall != nil:
		m.recall.recalled()
	case m.moving != nil:
		s.expect(m.moving)
	case m.moved != nil:
		s.arrived(m.moved)
	case m.begged > 0:
		s.owed = m.begged
		s.giveMemory()
	default:
		s.tail.released = true
		s.reads.released = true
		s.begged = false
	}
}

func (s *shard) submit(op *disk.Operation) {
	s.device.submitted(op)
	s.disk.Submit(op)
}

// complete hands a finished operation to what submitted it.
func (s *shard) complete(op *disk.Operation) {
	s.device.completed(op)
	s.doubtFlush(op)
	switch owner := op.Owner.(type) {
	case *write:
		owner.log.wrote(owner)
	case *round:
		owner.returned(s)
	case *frameWrite:
		s.journal.wrote(owner)
	case *commitJournal:
		owner.flushed()
	case *job:
		if owner.pending--; owner.pending == 0 {
			s.wakeJob(owner)
		}
	default:
		panic(fmt.Sprintf("engine: a finished %s has no owner", op.Kind))
	}
}

// doubtFlush fails a flush that succeeded after a flush of everything has failed,
// here or on another shard: what that one lost may have been what this one was for, and nobody
// would be told a second time (rule 13).
func (s *shard) doubtFlush(op *disk.Operation) {
	switch op.Kind {
	case disk.SyncFilesystem:
		if err := op.Err; err != nil && !isClosed(err) && !s.faults.retryFailedFlush {
			s.engine.syncFailed.CompareAndSwap(nil, &err)
		}
	case disk.Flush, disk.SyncDirectory:
	default:
		return
	}
	if failed := s.engine.syncFailed.Load(); failed != nil && op.Err == nil {
		op.Err = *failed
	}
}

// report tells the replicas of all logs whose frontiers moved, once each.
func (s *shard) report() {
	for i := 0; i < len(s.changed); i++ {
		l := s.changed[i]
		s.changed[i] = nil
		l.isChanged = false
		l.reportFrontiers()
	}
	s.changed = s.changed[:0]
}

// poison ends all logs: a flush of everything failed and names no file, or the
// journal is broken.
func (s *shard) poison(cause error) {
	if s.err == nil {
		s.err = fmt.Errorf("shard %d: %w", s.number, cause)
		s.counters.shardPoisoned.Store(1)
		s.logger.Error("a flush of the file system or the commit journal failed: every log of the shard is poisoned until restart",
			"shard", s.number, "error", cause)
	}
	for _, l := range s.logs {
		l.fail(cause)
	}
	for _, w := range s.commit.syncs {
		s.wakeJob(w.job)
	}
}

// end closes the shard after its disk is gone: nothing waits for ever.
func (s *shard) end() {
	if s.closed {
		return
	}
	s.closed, s.closing = true, true
	for _, m := range append(s.taken[s.takenAt:], s.inbox.close()...) {
		switch {
		case m.group != nil:
			m.group.refuse(s.number, ErrClosed)
		case m.read != nil:
			refuseRead(m.read, ErrClosed)
		case m.leg != nil:
			m.leg.joined.orphaned()
		case m.recall != nil:
			m.recall.done(nil)
		case m.moved != nil:
			s.arrived(m.moved) // closed with the others below
		case m.call != nil:
			m.call.finish(ErrClosed)
		}
	}
	s.taken, s.takenAt = nil, 0
	s.abandonJobs()
	s.abandonArrivals()
	for _, l := range s.logs {
		l.shut(ErrClosed)
	}
	s.reads.end()
	s.tail.end()
	s.journal.end()
}

func refuseRead(read *Read, err error) {
	for i := range read.Parts {
		part := &read.Parts[i]
		part.Batches, part.Bytes, part.Err = part.Batches[:0], 0, err
	}
	read.Done(read)
}

// roundUp is the whole blocks that n bytes take.
func roundUp(n int64) int64 { return plan.RoundUp(n) }

// isShortage says whether err is a lack of space or of file descriptors, which ends
// by itself. Nothing was done when it is: descriptors are missed by opening alone,
// before the first byte is written or flushed.
func isShortage(err error) bool {
	return isFull(err) || errors.Is(err, errProcessFiles) || errors.Is(err, errSystemFiles)
}
