package engine

import (
	"sort"
	"time"

	"ringlog/engine/plan"
)

const (
	// trimRetry is how long a trim that failed waits before the next one.
	trimRetry = time.Second
	// trimRepeat is how often it is said again that trims fail.
	trimRepeat = time.Minute
)

// trimmer makes room in the journal (rule 8): it sees that segments have what the
// oldest frames hold, flushes them all at once, records that in the checkpoint, and only
// then lets the space be used again.
//
//	bytes due ─▶ written back (paced) ─▶ one syncfs ─▶ checkpoint ─▶ from rises
type trimmer struct {
	running  bool
	notUntil time.Duration // after a failure
	sayFrom  time.Duration // when a failure may be said again
	age      timer
}

// expire only makes the shard turn: the oldest frame is old now.
func (t *trimmer) expire(*shard) {}

// expectAge sees that the shard wakes up when the oldest frame gets old.
func (t *trimmer) expectAge(s *shard) {
	if t.age.index == 0 && len(s.journal.live) > 0 {
		s.timers.set(&t.age, max(s.journal.live[0].at+plan.TrimAge, s.now+trimRetry), t)
	}
}

// startTrim starts a trim when one is due.
func (s *shard) startTrim() {
	q := &s.journal
	t := &q.trim
	if !q.enabled() || t.running || s.err != nil || s.closed || s.ending || s.now < t.notUntil {
		return
	}
	if bytes := q.ring().Trim(); bytes > 0 {
		s.trimTo(q.from + uint64(bytes))
	}
}

// trimTo starts the job that makes everything below a position superfluous.
func (s *shard) trimTo(position uint64) {
	q := &s.journal
	q.trim.running = true
	s.start("trim the journal", func(j *job) {
		err := q.runTrim(j, position)
		q.trim.running = false
		if err != nil && !isClosed(err) && s.err == nil {
			q.trim.notUntil = s.now + trimRetry
			s.timers.set(&q.trim.age, q.trim.notUntil, &q.trim)
			if s.now >= q.trim.sayFrom {
				q.trim.sayFrom = s.now + trimRepeat
				s.logger.Error("the journal cannot be trimmed: when it is full appends are refused for as long as space is missing", "shard", s.number, "error", err)
			}
			s.shortOf(err)
			return
		}
		q.trim.expectAge(s)
	})
}

// shortOf takes that a lack of space keeps the journal from being trimmed: whoever waits for
// that is refused, and may try again, until a checkpoint is written.
func (s *shard) shortOf(err error) {
	if isShortage(err) {
		s.short = err
		s.tail.released = true // those that starve hear of it
	}
}

func (q *commitJournal) runTrim(j *job, position uint64) error {
	s := q.shard
	began := s.now
	if s.short != nil {
		// What is written back may wait for the checkpoint that found no space.
		if err := s.keeper.checkpointNow(j); err != nil {
			return err
		}
	}
	i := sort.Search(len(q.live), func(i int) bool { return q.live[i].position >= position })
	below := q.liveFrom + uint64(i)
	var logs []*Log
	for _, l := range s.logs {
		if l.entries.count > 0 && l.entries.front().sequence < below {
			logs = append(logs, l)
			q.pace.demand(l, l.journaled.offset)
		}
	}
	at := 0 // those before it are done
	err := j.until(func() bool {
		for at < len(logs) && (logs[at].completed.offset >= logs[at].back.due || logs[at].usable() != nil) {
			at++
		}
		return at == len(logs) || s.err != nil || s.short != nil
	})
	if err != nil {
		return err
	}
	if s.short != nil {
		return s.short
	}
	for _, l := range logs {
		if l.failed != nil && l.closed == nil && s.err == nil {
			// What is read back has to be there first.
			if err := j.until(func() bool { return l.inFlight == 0 || s.err != nil }); err != nil {
				return err
			}
			if s.err != nil {
				break
			}
			if s.faults.forgetSpill {
				l.entries = deque[entryMark]{}
			} else if err := q.spill(j, l); err != nil {
				return err
			}
		}
	}
	if s.err != nil {
		return s.err
	}
	if s.faults.trimBeforeSync {
		for _, l := range logs {
			l.flushedTo(l.completed)
		}
	} else if err := s.syncEverything(j); err != nil {
		return err
	}
	if err := s.keeper.checkpointNow(j); err != nil {
		return err
	}
	s.counters.trims.Add(1)
	s.counters.trimNanos.Add(int64(s.now - began))
	return nil
}

// oldest is the sequence of the oldest frame that some log needs, or of the next
// frame when none does.
func (q *commitJournal) oldest() uint64 {
	oldest := q.sequence
	for _, logs := range [...][]*Log{q.shard.logs, q.shard.leaving} {
		for _, l := range logs {
			if l.entries.count > 0 {
				oldest = min(oldest, l.entries.front().sequence)
			}
		}
	}
	return oldest
}

// oldestUnwritten is oldest with the segments' writes in the place of their flushes: the
// rule that is broken for a test.
func (q *commitJournal) oldestUnwritten() uint64 {
	oldest := q.sequence
	for _, l := range q.shard.logs {
		for i := range l.entries.count {
			if e := l.entries.at(i); e.end > l.completed.offset {
				oldest = min(oldest, e.sequence)
				break
			}
		}
	}
	return oldest
}

// positionOf is where the frame of a sequence lies.
func (q *commitJournal) positionOf(sequence uint64) uint64 {
	if sequence >= q.sequence {
		return q.head
	}
	return q.live[sequence-q.liveFrom].position
}

// release gives the space below a frame back to the ring. REQUIRES: the checkpoint on
// disk says that nothing below it is needed.
func (q *commitJournal) releaseTo(sequence uint64) {
	if sequence <= q.liveFrom {
		return
	}
	q.from = q.positionOf(sequence)
	left := copy(q.live, q.live[sequence-q.liveFrom:])
	q.live = q.live[:left]
	q.liveFrom = sequence
	q.shard.tail.released = true // appends that waited for room try again
}

// trimAll makes the journal empty, for a close in order.
func (q *commitJournal) trimAll(j *job) error {
	s := q.shard
	q.pace.hurry = true
	for q.used() > 0 && s.err == nil {
		// Together: while one is waited for the other must not begin again. What waits for a
		// frame goes first: it would need another round.
		err := j.until(func() bool {
			q.flushNow()
			return !q.trim.running && len(q.ready) == 0 && q.first == nil || s.err != nil || s.short != nil
		})
		if err != nil {
			return err
		}
		if s.short != nil {
			return s.short // what is not in the journal goes to the segments
		}
		if q.used() == 0 || s.err != nil {
			break
		}
		q.trim.running = true
		err = q.runTrim(j, q.head)
		q.trim.running = false
		if err != nil {
			return err
		}
	}
	return nil
}
