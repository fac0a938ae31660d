package engine

import (
	"time"

	"ringlog/engine/plan"
)

// allowance says what write-back may write of a log.
type allowance uint8

const (
	backNone allowance = iota
	backFull           // full blocks
	backAll            // up to logBack.due, the block that is not full too
)

// logBack is what write-back keeps of a log.
type logBack struct {
	allowed allowance
	due     int64 // offset up to which its bytes must reach the segments
	queued  bool  // in pacer.queue
	listed  bool  // in pacer.due
	waiting bool  // in pacer.waiting
}

// pacer writes to the segments what the journal has made durable, in large pieces
// and no faster than needed: a flush is of the whole device, so whatever else the
// device has to do makes commits slower (rule 14).
type pacer struct {
	queue   []*Log // have journaled bytes to write back; oldest first
	due     []*Log // those that a trim waits for
	waiting []*Log // may write, and found the allowance used up

	inFlight  int64 // bytes of write-back being written
	allowance int64 // bytes that may be written now
	at        time.Duration
	timer     timer
	hurry     bool // the shard closes

	rate      int64 // bytes/s that enter the journal
	rateAt    time.Duration
	rateBytes int64
}

// rateWindow is the time over which the journal's rate is measured.
const rateWindow = 50 * time.Millisecond

// expire only makes the shard turn.
func (p *pacer) expire(*shard) {}

// add queues a log that has got an entry.
func (p *pacer) add(l *Log) {
	if !l.back.queued {
		l.back.queued = true
		p.queue = append(p.queue, l)
	}
}

// demand makes everything of l below offset due.
func (p *pacer) demand(l *Log, offset int64) {
	l.back.due = max(l.back.due, offset)
	if !l.back.listed && l.back.due > l.completed.offset {
		l.back.listed = true
		p.due = append(p.due, l)
	}
}

// writeBack lets logs write, as the pace allows.
func (s *shard) writeBack() {
	q := &s.journal
	p := &q.pace
	if len(p.queue)+len(p.due)+len(p.waiting) == 0 || s.err != nil {
		return
	}
	now := plan.Pace{Ring: q.ring(), JournalRate: p.measure(s), Trimming: len(p.due)+len(p.waiting) > 0, Hurry: p.hurry}
	p.refill(s, now)
	p.serve(s, &p.waiting, now, func(l *Log) { l.back.waiting = false })
	p.serve(s, &p.due, now, func(l *Log) { l.back.listed, l.back.allowed = false, backAll })
	if now.Ring.Trim() == 0 || len(p.due) == 0 {
		p.serve(s, &p.queue, now, func(l *Log) {
			l.back.queued = false
			if l.back.allowed == backNone && l.journaled.total-l.writes.submitted.total >= plan.BackBytesMin {
				l.back.allowed = backFull
			}
		})
	}
	if len(p.due)+len(p.waiting) > 0 && p.allowance <= 0 {
		wait := time.Duration(float64(-p.allowance+plan.BackBytesMin) / float64(max(now.Rate(), 1)) * float64(time.Second))
		s.timers.set(&p.timer, s.now+max(wait, 200*time.Microsecond), p)
	}
}

// measure returns how fast bytes enter the journal.
func (p *pacer) measure(s *shard) int64 {
	if dt := s.now - p.rateAt; dt >= rateWindow {
		bytes := s.counters.frameBytes.Load()
		rate := int64(float64(bytes-p.rateBytes) / dt.Seconds())
		p.rate = (p.rate + rate) / 2
		p.rateAt, p.rateBytes = s.now, bytes
	}
	return p.rate
}

// refill adds what the time since the last call allows.
func (p *pacer) refill(s *shard, now plan.Pace) {
	p.allowance += int64(float64(now.Rate()) * (s.now - p.at).Seconds())
	p.allowance = min(p.allowance, now.Burst())
	p.at = s.now
}

// spent says whether nothing more may be written now. Beside no commit one write at
// a time always may: there is nobody to be slowed down.
func (p *pacer) spent(q *commitJournal, now plan.Pace) bool {
	if p.inFlight == 0 && q.first == nil && len(q.ready) == 0 {
		return false
	}
	return p.allowance <= 0 || p.inFlight >= now.InFlightMax()
}

// serve takes logs from a list, oldest first, while something may be written.
func (p *pacer) serve(s *shard, list *[]*Log, now plan.Pace, admit func(l *Log)) {
	taken, n := 0, len(*list)
	for taken < n && !p.spent(&s.journal, now) {
		l := (*list)[taken]
		(*list)[taken] = nil
		taken++
		admit(l)
		if l.usable() == nil && l.back.allowed != backNone {
			l.submitWrites()
		}
	}
	if taken > 0 {
		left := copy(*list, (*list)[taken:])
		clear((*list)[left:])
		*list = (*list)[:left]
	}
}

// allow says whether the log may submit a write of bytes for write-back now; else it
// is called again when it may.
func (p *pacer) allow(l *Log, bytes int64) bool {
	q := &l.shard.journal
	now := plan.Pace{Ring: q.ring(), JournalRate: p.rate, Trimming: len(p.due) > 0 || l.back.allowed == backAll, Hurry: p.hurry}
	if p.spent(q, now) {
		if !l.back.waiting {
			l.back.waiting = true
			p.waiting = append(p.waiting, l)
		}
		return false
	}
	p.allowance = max(p.allowance-bytes, -now.Burst())
	p.inFlight += bytes
	return true
}
