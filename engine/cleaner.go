package engine

import (
	"errors"
	"fmt"
	"math"
	"time"

	"ringlog/engine/compact"
	"ringlog/engine/segment"
)

const (
	// cleanRetryMin and cleanRetryMax bound how long a log that could not be compacted waits for the
	// next try: twice as long each time.
	cleanRetryMin = time.Minute
	cleanRetryMax = time.Hour
	// cleanMemoryWait is how long a pass waits for memory that consumers have, before it looks again.
	cleanMemoryWait = 50 * time.Millisecond
)

// errCleanStopped ends a pass that is in somebody's way: the log is cut, moves or closes, or
// retention took a segment. It begins again some time.
var errCleanStopped = errors.New("engine: the compaction was in the way of something else")

// logCleaning is the state of a log's compaction. What it is of the log itself is in its segments'
// summaries: how often each was written anew, and when its tombstones may go.
type logCleaning struct {
	cleaned  int64 // no key has two records below it
	pass     uint32
	running  bool
	failed   error // why the last pass failed: it is tried again, and until then counted as uncleanable
	failures int   // in a row
	retryAt  time.Duration
	doubtful []*segmentFile // made by a swap whose manifest failed: a crash may bring them back
}

// take reads what the manifest has of it.
func (c *logCleaning) take(m *segment.Manifest) {
	c.cleaned = m.Cleaned
	for i := range m.Segments {
		c.pass = max(c.pass, m.Segments[i].Pass)
	}
}

// cleaner compacts the logs of a shard, one at a time, the dirtiest first. It has no thread:
// its clock is the shard's, its work a job, whose computing is done by a goroutine (offload). So it cannot die
// alone; a log whose compaction fails is named, counted, and tried again.
type cleaner struct {
	shard   *shard
	timer   timer
	running bool
	now     *Log          // that is being compacted
	readyAt time.Duration // when it may read or write again (Options.CleanBytesPerSecond)
}

// arm starts the clock, when there is a log to compact.
func (c *cleaner) arm() {
	if c.timer.index == 0 && !c.shard.closing {
		c.shard.timers.set(&c.timer, c.shard.now+c.shard.options.CleanInterval, c)
	}
}

// expire looks for the next log.
func (c *cleaner) expire(s *shard) {
	if s.closing || s.err != nil {
		return
	}
	for _, l := range s.logs {
		if l.config.Compact {
			c.arm()
			break
		}
	}
	c.next()
}

// next compacts the log that needs it most, if one does: first what is overdue, then the
// dirtiest, then those with expired tombstones.
func (c *cleaner) next() {
	s := c.shard
	var chosen *Log
	var decided compact.Decision
	var gauges cleanGauges
	for _, l := range s.logs {
		if !l.config.Compact {
			continue
		}
		if l.usable() == nil && l.sealable() != nil {
			l.flushMoved() // what was complete before a restart is sealed by the next flush, and there may be none
		}
		l.enterActive()
		d, _ := l.decideClean()
		gauges.note(l, d)
		if d.Reason == compact.None || l.cleaning.running || l.mayNotClean() != nil || l.cleaning.failed != nil && s.now < l.cleaning.retryAt {
			continue
		}
		if chosen == nil || urgency(d) > urgency(decided) {
			chosen, decided = l, d
		}
	}
	gauges.publish(&s.counters)
	if c.running || chosen == nil || s.closing || s.err != nil {
		return
	}
	c.start(chosen, decided)
}

// urgency orders decisions.
func urgency(d compact.Decision) float64 {
	switch d.Reason {
	case compact.Overdue:
		return 2 + float64(d.OverdueMillis)
	case compact.Dirty:
		return 1 + d.Ratio/2
	}
	return 0
}

// start compacts a log, and then the next one.
func (c *cleaner) start(l *Log, d compact.Decision) {
	s := c.shard
	c.running, c.now, l.cleaning.running = true, l, true
	l.jobs++
	s.start("compact "+l.label, func(j *job) {
		began := s.now
		p := cleanPass{log: l, gen: l.gen, decision: d}
		err := p.run(j)
		l.jobs--
		l.cleaning.running = false
		c.running, c.now = false, nil
		s.counters.cleanNanos.Add(int64(s.now - began))
		l.cleanEnded(&p, err)
		if !j.abandoned && err == nil {
			c.next()
		}
	})
}

// cleanEnded takes the end of a pass.
func (l *Log) cleanEnded(p *cleanPass, err error) {
	s, c := l.shard, &l.cleaning
	if isClosed(err) || errors.Is(err, errCleanStopped) {
		return
	}
	if err == nil {
		if c.failed != nil {
			s.logger.Info("a log can be compacted again", "log", l.label)
		}
		c.failed, c.failures = nil, 0
		s.counters.cleans.Add(1)
		s.logger.Debug("a log is compacted", "log", l.label, "reason", p.decision.Reason, "to", c.cleaned,
			"segments", p.segments, "bytes_read", p.bytesBefore, "bytes", p.bytesAfter, "dropped", p.dropped)
		return
	}
	wait := min(cleanRetryMin<<min(c.failures, 10), cleanRetryMax)
	c.failed, c.retryAt = fmt.Errorf("engine: compact %s: %w", l.label, err), s.now+wait
	c.failures++
	s.counters.cleanFailures.Add(1)
	s.logger.Error("a log cannot be compacted: it grows, and keeps records that newer ones have replaced", "log", l.label, "error", err, "pause", wait)
}

// mayNotClean says what stands in the way of compaction, or nil.
func (l *Log) mayNotClean() error {
	if l.usable() != nil || l.sealed != nil || l.cut.active || l.leaving || l.shard.closing || !l.config.Compact || !l.shard.owns(l) {
		return errCleanStopped
	}
	return nil
}

// enterActive moves the positions of a log whose active segment is empty from the end of the
// segment before into it: the same place under another name. A log that is quiet since it was
// rolled would otherwise never let its last records be compacted.
func (l *Log) enterActive() {
	w := &l.writes
	if l.usable() != nil || l.flushed.segment == l.active || l.next.position > 0 || l.flushed.offset != l.next.offset ||
		!l.active.named || w.count > 0 || w.ends.count > 0 {
		return
	}
	l.completed, l.flushed = l.next, l.next
	w.submitted, w.boundary = l.next, l.next
	if w.chunk = l.tail.last(); w.chunk != nil && w.chunk.segment != l.active {
		w.chunk = nil // the next append makes the first one of this segment
	}
}

// decideClean says what is to be compacted, and of which segments: those that are sealed, committed, and lie
// before the one that flushes have reached, so that no frontier points into a file that is swapped.
func (l *Log) decideClean() (compact.Decision, compact.Log) {
	of := compact.Log{NowMillis: l.shard.nowMillis, Cleaned: l.cleaning.cleaned}
	below := min(l.flushed.segment.BaseOffset, l.durable, l.highWatermark)
	for _, f := range l.segments {
		if !f.Sealed || !f.named || f.NextOffset > below {
			break
		}
		of.Segments = append(of.Segments, compact.Segment{
			BaseOffset: f.BaseOffset, NextOffset: f.NextOffset, Bytes: f.Bytes,
			CreatedMillis: f.CreatedMillis, AppendedMillis: f.AppendedMillis, HorizonMillis: f.HorizonMillis,
		})
	}
	return of.Decide(l.cleanPolicy()), of
}

func (l *Log) cleanPolicy() compact.Policy {
	return compact.Policy{
		DirtyRatioMin: l.config.DirtyRatioMin, LagMinMillis: l.config.CompactionLagMinMillis,
		LagMaxMillis: l.config.CompactionLagMaxMillis, SegmentBytes: l.config.SegmentBytes,
	}
}

// cleanGauges is how the compacted logs of a shard stand.
type cleanGauges struct {
	logs, uncleanable int64
	ratio             float64
	overdue           int64
}

func (g *cleanGauges) note(l *Log, d compact.Decision) {
	g.logs++
	if l.cleaning.failed != nil {
		g.uncleanable++
	}
	g.ratio, g.overdue = max(g.ratio, d.Ratio), max(g.overdue, d.OverdueMillis)
}

func (g *cleanGauges) publish(c *counters) {
	c.compactedLogs.Store(g.logs)
	c.uncleanable.Store(g.uncleanable)
	c.dirtyRatio.Store(math.Float64bits(g.ratio))
	c.cleanOverdue.Store(g.overdue)
}

// pace waits until so many more bytes may be read or written (log.cleaner.io.max.bytes.per.second).
func (c *cleaner) pace(p *cleanPass, bytes int64) error {
	s := c.shard
	rate := s.options.CleanBytesPerSecond / int64(len(s.engine.shards))
	if s.options.CleanBytesPerSecond > 0 {
		c.readyAt = max(c.readyAt, s.now) + time.Duration(float64(bytes)/float64(max(rate, 1))*float64(time.Second))
	}
	if wait := c.readyAt - s.now; wait > 0 {
		return p.sleep(wait)
	}
	return p.stopped()
}

// sleep waits for d, or until the pass must end, which it says.
func (p *cleanPass) sleep(d time.Duration) error {
	s, w := p.job.shard, sleeper{job: p.job}
	s.timers.set(&w.timer, s.now+d, &w)
	defer s.timers.clear(&w.timer)
	for !w.fired {
		if err := p.stopped(); err != nil {
			return err
		}
		s.watchers = append(s.watchers, p.job)
		if err := p.job.park(); err != nil {
			return err
		}
	}
	return p.stopped()
}
