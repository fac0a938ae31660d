package engine

import (
	"context"
	"errors"
	"fmt"

	"ringlog/engine/plan"
)

// errMoved is returned inside the engine to a request that reached a shard which its log
// has left: it is sent again.
var errMoved = errors.New("engine: the log lives on another shard")

// moving is one log on its way from one shard to another (rule 17: only when S = next).
//
//	old shard   flush, save ─▶ home = new ─▶ everything sent before is handled ─▶ rest ─▶ close files ─▶ hand over
//	new shard                     │ what is sent from here on waits, in order                             └─▶ go on
//
// Nobody else sees more of it than a pause: the *Log stays, and with it the replica,
// the frontiers and the appends that wait.
type moving struct {
	log   *Log
	to    *shard
	block []byte // what the block in which the log ends holds
	err   error  // why it does not come, or nil

	// What waits on the new shard.
	waiting appendQueue
	reads   []*Read
}

// Move makes a log live on the shard of this number. Appends and reads wait meanwhile, or
// get an empty answer; the log goes on where it was. The error is ErrUnknownLog, why the log
// cannot be flushed, or that there is no such shard; the log then stays where it is. It returns
// when the new place is durable.
func (e *Engine) Move(ctx context.Context, id LogID, number int) error {
	if number < 0 || number >= len(e.shards) {
		return fmt.Errorf("engine: there is no shard %d", number)
	}
	l, ok := e.registry.get(id)
	if !ok {
		return fmt.Errorf("%w: %s", ErrUnknownLog, id)
	}
	to := e.shards[number]
	var from *shard
	err := e.callOwner(ctx, id, func(j *job) error {
		from = j.shard
		if from == to {
			return nil
		}
		return j.shard.moveAway(j, l, to)
	})
	if err != nil || from == to {
		return err
	}
	e.placement.put(id, number)
	if err := e.savePlacement(ctx); err != nil {
		return fmt.Errorf("engine: place %s on shard %d: %w", l.label, number, err)
	}
	// Its entry in the old shard's checkpoint stands until the new one's has it.
	saved := false
	err = e.call(ctx, to, func(j *job) error {
		if err := j.awaitArrival(id); err != nil {
			return err
		}
		to.keeper.wantCheckpoint(to)
		err := j.until(func() bool { return !to.keeper.writing })
		saved = err == nil && to.err == nil && !to.keeper.failing
		return err
	})
	if err != nil || !saved {
		return err
	}
	return e.call(ctx, from, func(*job) error {
		if _, back := from.names[id]; !back {
			from.keeper.forget(id)
		}
		return nil
	})
}

// moveAway is the old shard's part.
func (s *shard) moveAway(j *job, l *Log, to *shard) error {
	if err := s.mayMove(l); err != nil {
		return err
	}
	// Most of the work while the log goes on.
	if !s.faults.moveUnflushed {
		l.jobs++
		err := l.saveAll(j)
		l.jobs--
		if err != nil {
			return err
		}
	}
	if err := s.mayMove(l); err != nil {
		return err
	}
	m := &moving{log: l, to: to}
	passed := false
	l.leaving = true
	s.engine.redirect(m, s, &call{run: func(*job) error { passed = true; return nil }, ended: make(chan struct{})})
	err := j.until(func() bool { return passed })
	for err == nil && !l.atRest() {
		if err = l.usable(); err != nil {
			break // it has failed: it will never be at rest
		}
		if !s.faults.moveUnflushed {
			err = l.waitFlushed(j, l.next.offset)
		}
		if err == nil {
			s.journal.pace.forget(l)
			err = j.until(func() bool { return l.atRest() || l.usable() != nil || s.closing })
		}
		if s.closing && err == nil {
			err = ErrClosed
		}
	}
	if err != nil {
		s.keepLog(m, err)
		return err
	}
	return s.handOver(j, m)
}

// mayMove says why the log cannot begin to move from here, or nil.
func (s *shard) mayMove(l *Log) error {
	switch {
	case !s.owns(l):
		return errMoved
	case s.names[l.id] != l:
		return fmt.Errorf("%w: %s", ErrUnknownLog, l.id)
	case s.closing:
		return ErrClosed
	}
	return l.usable()
}

// redirect makes whatever is sent to a log from now on go to its new shard. Behind
// all that was sent to the old one lies fence.
func (e *Engine) redirect(m *moving, from *shard, fence *call) {
	e.routing.Lock()
	defer e.routing.Unlock()
	m.log.home.Store(int32(m.to.number))
	m.to.inbox.send(message{moving: m})
	from.inbox.send(message{call: fence})
}

// atRest says whether nothing of the log is under way on its shard any more: all is flushed to its
// segments, and no job, operation or list of the shard knows it.
func (l *Log) atRest() bool {
	s := l.shard
	return l.usable() == nil && l.flushedAll() &&
		l.writes.count == 0 && !l.writes.queued && !l.lazy.listed && !l.isChanged &&
		l.jobs == 0 && !l.metaLock.held && !l.pinned() && len(l.flushWaiters) == 0 && !s.keeper.lock.held && !s.journal.trim.running &&
		l.inFlight == 0 && !l.ready
}

// flushedAll says that the segments have all of the log, durably, and that the journal's write-back
// has nothing to do for it.
func (l *Log) flushedAll() bool {
	return l.shard.faults.moveUnflushed ||
		l.flushed.offset == l.next.offset && l.durable == l.next.offset && l.outOfJournal()
}

// keepLog ends a move that cannot be: the log stays, and what waits elsewhere is told why.
func (s *shard) keepLog(m *moving, err error) {
	l := m.log
	l.leaving = false
	m.err = err
	m.block = nil
	s.engine.routing.Lock()
	l.home.Store(int32(s.number))
	m.to.inbox.send(message{moved: m})
	s.engine.routing.Unlock()
	if !s.closing {
		l.retryWaiting()
	}
}

// handOver takes the log out of the shard and gives it to the new one. Until it is
// there it is nobody's but this job's.
func (s *shard) handOver(j *job, m *moving) error {
	l := m.log
	s.letGo(l)
	if last := l.tail.last(); last != nil {
		if from := plan.RoundDown(l.next.position); from < l.next.position {
			m.block = append([]byte(nil), last.at(from, l.next.position)...)
		}
	}
	for _, f := range l.allFiles() {
		if err := s.files.close(j, f); isClosed(err) || j.abandoned {
			l.shut(ErrClosed)
			l.tail.drop(l)
			return ErrClosed
		}
		s.indexes.forget(f)
	}
	l.tail.drop(l)
	waiting := l.waiting.length()
	s.counters.waiting.Add(-waiting)
	if !m.to.inbox.send(message{moved: m}) {
		s.counters.waiting.Add(waiting)
		l.shut(ErrClosed)
		return ErrClosed
	}
	return nil
}

// letGo takes a log that is at rest out of everything that the shard keeps.
func (s *shard) letGo(l *Log) {
	entry, f := l.checkpointEntry()
	entry.Limit = max(entry.Limit, f.limit) // what this shard has allowed, the next one may use
	s.keeper.forget(l.id)
	s.keeper.setLoaded(append(s.keeper.loaded, entry))
	delete(s.names, l.id)
	s.logs = without(s.logs, l)
	if l.starving {
		l.starving = false
		s.starved = without(s.starved, l)
	}
	for _, t := range []*timer{&l.lazy.timer, &l.side.retry, &l.space.retry} {
		s.timers.clear(t)
	}
	s.reads.shut(l)
	s.reads.cold.streams.forget(l)
	s.counters.logs.Add(-1)
	s.counters.damages.Add(-l.damagesCounted)
	l.scrubbed = 0
}

// length is how many there are.
func (q *appendQueue) length() (n int64) {
	for a := q.head; a != nil; a = a.next {
		n++
	}
	return n
}

func without(logs []*Log, l *Log) []*Log {
	for i := range logs {
		if logs[i] == l {
			return append(logs[:i:i], logs[i+1:]...)
		}
	}
	return logs
}

// expect notes that a log is going to come.
func (s *shard) expect(m *moving) { s.arrivals[m.log.id] = m }

// arrived takes a log over, or the word that it does not come, and goes on with what waited.
func (s *shard) arrived(m *moving) {
	l := m.log
	delete(s.arrivals, l.id)
	if m.err == nil {
		s.adopt(m)
	}
	for a := m.waiting.head; a != nil; a = m.waiting.head {
		m.waiting.pop()
		s.counters.waiting.Add(-1)
		switch {
		case m.err != nil:
			a.refuse(m.err)
		case l.waiting.head != nil || !l.tryAppend(a):
			l.waiting.push(a)
			s.counters.waiting.Add(1)
		}
	}
	for _, read := range m.reads {
		if m.err != nil {
			refuseRead(read, m.err)
		} else {
			s.handle(message{read: read})
		}
	}
}

// adopt makes the log one of this shard's.
func (s *shard) adopt(m *moving) {
	l := m.log
	l.shard = s
	l.leaving = false
	s.names[l.id] = l
	s.logs = append(s.logs, l)
	s.counters.logs.Add(1)
	s.counters.damages.Add(l.damagesCounted)
	s.counters.waiting.Add(l.waiting.length())
	if len(m.block) > 0 {
		l.keepBlock(m.block)
	}
	s.keeper.dirty = true
	s.tail.missesUntil(s.now) // its tail stayed behind
	if l.config.Compact {
		s.cleaner.arm()
	}
	switch {
	case s.err != nil:
		l.fail(s.err)
	case s.closing:
		l.sealed = fmt.Errorf("%w: %s", ErrClosed, l.label)
		l.refuseWaiting(l.sealed)
	default:
		// What its timers would have tried again.
		if l.firstUnnamed() != nil {
			l.nameSegments()
		}
		l.flushMoved()
		l.retryWaiting()
		if l.space.full != nil {
			l.prepare()
		}
	}
}

// refuse answers an append that no log has seen.
func (a *Append) refuse(err error) {
	group := a.group
	a.group, a.Err = nil, err
	group.answered()
	group.consumed()
}

// hold keeps an append for a log that is on its way to this shard; false when none is.
func (s *shard) hold(a *Append) bool {
	if len(s.arrivals) == 0 {
		return false
	}
	m := s.arrivals[a.Log.id]
	if m == nil {
		return false
	}
	m.waiting.push(a)
	s.counters.waiting.Add(1)
	return true
}

// holdRead keeps a read of a log that is on its way to this shard; false when none is.
func (s *shard) holdRead(read *Read) bool {
	if len(s.arrivals) == 0 {
		return false
	}
	for i := range read.Parts {
		if m := s.arrivals[read.Parts[i].Log.id]; m != nil {
			m.reads = append(m.reads, read)
			return true
		}
	}
	return false
}

// cancelHeld answers a read that is kept for a log on its way, with nothing; false when it
// is none of these.
func (s *shard) cancelHeld(read *Read) bool {
	for _, m := range s.arrivals {
		for i, held := range m.reads {
			if held == read {
				m.reads = append(m.reads[:i], m.reads[i+1:]...)
				read.answerEmpty()
				return true
			}
		}
	}
	return false
}

// answerEmpty gives a read back with nothing.
func (r *Read) answerEmpty() {
	for i := range r.Parts {
		p := &r.Parts[i]
		p.Batches, p.Bytes, p.Err, p.Frontiers = p.Batches[:0], 0, nil, p.Log.Frontiers()
	}
	r.Done(r)
}

// abandonArrivals answers what waits for logs that will not come any more.
func (s *shard) abandonArrivals() {
	for len(s.arrivals) > 0 {
		for _, m := range s.arrivals {
			m.err = ErrClosed
			s.arrived(m)
			break
		}
	}
}

// awaitArrival waits until a log is not on its way here any more.
func (j *job) awaitArrival(id LogID) error {
	return j.until(func() bool { return j.shard.arrivals[id] == nil })
}

// owns says whether l lives here and is not about to leave. Whoever finds that it is not leaves
// everything of it alone but its published frontiers.
func (s *shard) owns(l *Log) bool {
	return len(s.engine.shards) == 1 || int(l.home.Load()) == s.number
}
