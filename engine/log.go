package engine

import (
	"fmt"
	"sync/atomic"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/segment"
)

// Log is one open log: the batches of one replica of one partition. A *Log is a
// handle for any goroutine; what it may be asked directly is below, everything
// else goes through the Engine.
type Log struct {
	id    LogID
	label string

	// home is the number of the shard to which what is asked of the log is sent.
	home atomic.Int32

	// published is a copy of the frontiers for other goroutines, each an atomic
	// of its own: see Frontiers for what that means.
	published struct {
		start, highWatermark, durable, written, next atomic.Int64
	}

	// Everything below belongs to the shard.
	shard          *shard
	directory      string
	config         LogConfig
	replica        Replica
	gen            uint64 // raised by every truncation
	epochs         []segment.Epoch
	epochLead      int32 // the highest epoch given by Lead since the log was opened; -1 before
	failed         error // why it is poisoned, or nil; the first error stays
	closed         error // why it is closed, or nil
	sealed         error // why it takes no more appends while it closes, or nil
	settled        bool  // nothing will be written any more: the checkpoint may say so
	retaining      bool  // a retention job runs
	cleaning       logCleaning
	fence          error    // why recovery fenced the log, or nil
	damages        []damage // ranges that were found corrupt; readers of others go on
	damagesCounted int64    // of them in counters.damages
	damageLock     jobLock  // held by the job that looks for them
	scrubbed       uint64   // the pass of its shard's scrubber that has looked at it
	cut            cutting  // the truncation under way
	leaving        bool     // it is about to live on another shard: appends wait

	// Segments, ascending; the last is active. prepared space for the next one
	// is coming, and spares are freed segments that become coming ones.
	segments []*segmentFile
	active   *segmentFile
	coming   *segmentFile
	spares   []*segmentFile
	number   int // of the last prepared file's name

	// Frontiers. start ≤ highWatermark; durable and written are published
	// values, capped at the first segment whose name is not durable (rule 6);
	// flushed and completed are the same without the cap. Invariant:
	// durable ≤ written ≤ next, flushed ≤ completed ≤ submitted ≤ next.
	start         int64 // ahead of startDurable while the manifest with it is written
	startDurable  int64 // what everybody else is told
	highWatermark int64
	durable       int64 // D = max(S, J)
	written       int64
	flushed       mark // S: everything below is flushed in the segments
	completed     mark // W: everything below has a completed write
	next          mark // where the next batch goes, in active
	isChanged     bool // in shard.changed

	tail   logTail
	writes logWrites
	space  logSpace
	lazy   logLazy
	logJournal
	side     logSide
	waiting  appendQueue // appends that wait for room
	starving bool        // in shard.starved
	parked   parkedParts // readers that wait for the high watermark
	streams  *stream     // consumers behind the tail that go on where they stopped
	metaLock jobLock     // held by the job that changes files and manifest
	meta     pair        // log.meta
	jobs     int         // that work on this log: it is not given up before they end

	dirtyCounted int64  // of it in counters.dirtyBytes
	flushWaiters []*job // resumed when flushed or durable rises
	settleTo     int64  // what lies below is flushed to the segments for its own sake: somebody waits for it
}

// mark is a place in a log: the offset, and where it lies.
type mark struct {
	segment  *segmentFile
	position int64 // in the segment's file
	offset   int64
	total    int64 // bytes appended up to here since the log was opened: for distances across segments
	batches  int64 // and batches
}

// segmentFile is one segment of an open log, or prepared space for one.
type segmentFile struct {
	segment.Summary // Bytes and NextOffset of the active segment are those of Log.next

	log      *Log
	name     string // in the log's directory
	renamed  bool   // the file has its final name, durably: the manifest may name it
	named    bool   // the manifest names it, durably
	file     disk.File
	isOpen   bool
	prepared int64 // bytes reserved in the file
	limit    int64 // no write may pass it before a checkpoint with a higher one is durable
	recycled bool  // the file holds older batches behind the end

	writesDone    uint64         // writes that have completed
	writesFlushed uint64         // those of them that a finished flush covers
	pins          int            // jobs that use the file: it is neither closed, reused nor removed
	leases        atomic.Int32   // pieces of answers that may have to be read again: it is not reused
	revoked       bool           // they cannot be any more
	gone          bool           // retention or truncation took it out of the log
	indexed       bool           // in shard.indexes
	index         *segment.Index // nil when it is not in memory

	lruPrevious, lruNext     *segmentFile // in shard.files, while isOpen
	indexPrevious, indexNext *segmentFile // in shard.indexes, while sealed and index != nil
}

func (f *segmentFile) path() string { return f.log.directory + "/" + f.name }

// ID returns the log's id.
func (l *Log) ID() LogID { return l.id }

// Label returns the name for people: "orders-3".
func (l *Log) Label() string { return l.label }

// Frontiers returns the log's positions as of the last turn of its shard. Safe
// for use by any goroutine. They are read one by one, lower ones first, so
// that each is at most the next one even when they move meanwhile.
func (l *Log) Frontiers() Frontiers {
	return Frontiers{
		Start:         l.published.start.Load(),
		HighWatermark: l.published.highWatermark.Load(),
		Durable:       l.published.durable.Load(),
		Written:       l.published.written.Load(),
		Next:          l.published.next.Load(),
	}
}

// frontiers are the shard's own values.
func (l *Log) frontiers() Frontiers {
	return Frontiers{Start: l.startDurable, HighWatermark: l.highWatermark, Durable: l.durable, Written: l.written, Next: l.next.offset}
}

// publish makes the frontiers visible to other goroutines, higher ones first.
func (l *Log) publish() {
	l.published.next.Store(l.next.offset)
	l.published.written.Store(l.written)
	l.published.durable.Store(l.durable)
	l.published.highWatermark.Store(l.highWatermark)
	if l.shard.faults.publishStartEarly {
		l.startDurable = l.start
	}
	l.published.start.Store(l.startDurable)
}

// change queues the log for the report at the end of the turn.
func (l *Log) change() {
	if !l.isChanged {
		l.isChanged = true
		l.shard.changed = append(l.shard.changed, l)
	}
}

// advance derives the published frontiers from what is written and flushed.
func (l *Log) advance() {
	written, durable := l.durableRun()
	if l.shard.faults.acknowledgeWritten {
		durable = written
	}
	if !l.shard.faults.ackUnnamedSegment {
		if first := l.firstUnnamed(); first != nil {
			written, durable = min(written, first.BaseOffset), min(durable, first.BaseOffset)
		}
	}
	if written != l.written || durable != l.durable {
		l.written, l.durable = written, durable
		l.change()
	}
}

// durableRun returns what is written and what is durable, whatever the way: an
// unbroken run of journal entries counts when it begins where the segments end, or
// before (rule 1).
func (l *Log) durableRun() (written, durable int64) {
	written, durable = l.completed.offset, l.flushed.offset
	if l.entriesFrom <= written {
		written = max(written, l.entriesWritten)
	}
	if l.entriesFrom <= durable || l.shard.faults.leaveDirectEarly {
		durable = max(durable, l.entriesDurable)
	}
	return max(written, durable), durable
}

// firstUnnamed returns the first segment whose name is not durable, or nil.
func (l *Log) firstUnnamed() *segmentFile {
	for i := len(l.segments) - 1; i >= 0; i-- {
		if l.segments[i].named {
			if i+1 < len(l.segments) {
				return l.segments[i+1]
			}
			return nil
		}
	}
	if len(l.segments) > 0 {
		return l.segments[0]
	}
	return nil
}

// reportFrontiers tells the replica and then the readers.
func (l *Log) reportFrontiers() {
	if l.closed == nil && l.failed == nil {
		l.step(Event{Kind: EventAdvanced})
	}
	l.publish()
}

// step hands one event to the replica and carries out its effects. An
// EffectAppend is legal only in answer to EventProduce.
func (l *Log) step(event Event) {
	s := l.shard
	event.Frontiers = l.frontiers()
	s.event = event
	// Taken out for the time of the call: answering may run code that comes
	// back here for another log.
	effects := s.effects[:0]
	s.effects = nil
	effects = l.replica.Step(s.nowMillis, &s.event, effects)
	for i := range effects {
		l.carryOut(&effects[i], event.Append)
	}
	clear(effects)
	s.effects = effects[:0]
	s.event = Event{}
}

func (l *Log) carryOut(effect *Effect, produced *Append) {
	switch effect.Kind {
	case EffectAppend:
		if effect.Append != produced || produced == nil {
			panic(fmt.Sprintf("engine: the replica of %s appends what was not produced now", l.label))
		}
		l.append(produced, effect.Epoch)
	case EffectAnswer:
		effect.Append.BaseOffset, effect.Append.MaxTimestamp, effect.Append.Err = effect.Offset, effect.MaxTimestamp, effect.Err
		effect.Append.StartOffset = l.startDurable
		l.answer(effect.Append)
	case EffectHighWatermark:
		l.raiseHighWatermark(effect.Offset)
	default:
		panic(fmt.Sprintf("engine: effect of unknown kind %d", effect.Kind))
	}
}

// raiseHighWatermark lets readers see what is below offset.
func (l *Log) raiseHighWatermark(offset int64) {
	if offset > l.written || offset < l.start {
		panic(fmt.Sprintf("engine: the replica of %s puts the high watermark at %d; the log is written to %d and starts at %d",
			l.label, offset, l.written, l.start))
	}
	if offset == l.highWatermark {
		return
	}
	l.highWatermark = offset
	l.publish()
	l.shard.reads.wake(l)
}

// fail poisons the log: the first error wins, no append is accepted any more,
// readers keep what they may see (rule 13).
func (l *Log) fail(cause error) {
	if l.failed != nil || l.closed != nil {
		return
	}
	l.failed = fmt.Errorf("%w: %s: %w", ErrPoisoned, l.label, cause)
	l.shard.counters.poisoned.Add(1)
	l.noteDirty()
	l.shard.logger.Error("log is poisoned: it takes no appends until it is reopened", "log", l.label, "id", l.id, "error", cause)
	l.refuseWaiting(l.failed)
	l.step(Event{Kind: EventFailed, Err: l.failed})
	l.wakeFlushWaiters()
	l.tail.settle(l)
	l.publish()
}

// shut closes the log: everything parked is answered with err. Its files are
// the caller's.
func (l *Log) shut(err error) {
	if l.closed != nil {
		return
	}
	l.closed = fmt.Errorf("%w: %s", err, l.label)
	l.noteDirty()
	l.noteDamages()
	l.refuseWaiting(l.closed)
	if l.replica != nil {
		l.step(Event{Kind: EventClosing, Err: l.closed})
	}
	l.wakeFlushWaiters()
	l.shard.reads.shut(l)
	l.shard.reads.cold.streams.forget(l)
	l.shard.timers.clear(&l.lazy.timer)
	l.shard.timers.clear(&l.side.retry)
	l.shard.timers.clear(&l.space.retry)
	if l.failed != nil {
		l.shard.counters.poisoned.Add(-1)
	}
}

// usable returns why the log takes no appends and no changes, or nil.
func (l *Log) usable() error {
	if l.closed != nil {
		return l.closed
	}
	return l.failed
}

// since returns the monotonic time that passed since at.
func (s *shard) since(at time.Duration) time.Duration { return s.now - at }
