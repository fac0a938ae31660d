package engine

import (
	"slices"
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

	now         plan.Pace // as of the last turn, and what follows from it
	burst       int64
	inFlightMax int64
	pieceBytes  int64 // of a log gather before they are written back, as of the last frame
	hurry       bool  // the shard closes

	frameAt   time.Duration // when the last frame was submitted
	idleTurns int           // since then

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

// forget takes a log out of the queue of which the segments have everything: while the
// ring is nearly empty nothing else would.
func (p *pacer) forget(l *Log) {
	if l.back.queued {
		l.back.queued = false
		p.queue = slices.DeleteFunc(p.queue, func(queued *Log) bool { return queued == l })
	}
}

// idle says that nothing waits to be written back now.
func (p *pacer) idle() bool { return len(p.due)+len(p.waiting) == 0 }

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
	p.idleTurns++
	now := &p.now
	*now = plan.Pace{Ring: q.ring(), JournalRate: p.measure(s), Trimming: len(p.due)+len(p.waiting) > 0, Hurry: p.hurry}
	p.refill(s)
	p.serve(s, &p.waiting, func(l *Log) { l.back.waiting = false })
	p.serve(s, &p.due, func(l *Log) { l.back.listed, l.back.allowed = false, backAll })
	if len(p.due) == 0 {
		p.serve(s, &p.queue, func(l *Log) {
			l.back.queued = false
			if l.back.allowed == backNone && l.journaled.total-l.writes.submitted.total >= p.pieceBytes {
				l.back.allowed = backFull
			}
		})
	}
	if len(p.due)+len(p.waiting) > 0 && p.allowance <= 0 {
		wait := time.Duration(float64(-p.allowance+p.pieceBytes) / float64(max(now.Rate(), 1)) * float64(time.Second))
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
func (p *pacer) refill(s *shard) {
	rate := p.now.Rate()
	p.allowance += int64(float64(rate) * (s.now - p.at).Seconds())
	p.burst, p.inFlightMax = p.now.Burst(), p.now.InFlightMax()
	p.allowance = min(p.allowance, p.burst)
	p.at = s.now
}

// Beside no commit for this long, or for so many turns where the clock stands still,
// what a trim waits for is written back one write at a time whatever the allowance is.
const (
	quietTime  = 2 * time.Millisecond
	quietTurns = 64
)

// quiet says whether there is nobody whom a write would slow down. Between two commits
// of one producer there is: the next one is about to come.
func (p *pacer) quiet(s *shard) bool {
	q := &s.journal
	return q.writing == 0 && !q.flushing && (s.now-p.frameAt >= quietTime || p.idleTurns >= quietTurns)
}

// spent says whether nothing more may be written now.
func (p *pacer) spent(s *shard) bool {
	if p.allowance > 0 && p.inFlight < p.inFlightMax {
		return false
	}
	return p.inFlight > 0 || !p.now.Trimming || !p.quiet(s)
}

// serve takes logs from a list, oldest first, while something may be written.
func (p *pacer) serve(s *shard, list *[]*Log, admit func(l *Log)) {
	taken, n := 0, len(*list)
	for taken < n && !p.spent(s) {
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
	if p.spent(l.shard) {
		if !l.back.waiting {
			l.back.waiting = true
			p.waiting = append(p.waiting, l)
		}
		return false
	}
	p.allowance = max(p.allowance-bytes, -p.burst)
	p.inFlight += bytes
	return true
}
