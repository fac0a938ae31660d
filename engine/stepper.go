package engine

import (
	"context"
	"strings"
	"time"
)

// Stepper is an Engine without a goroutine: nothing happens but in Turn, and in
// the methods that wait, which do turns until they have their answer. With
// disks, clocks and callers that are functions of a seed, a whole run is one.
// It is for tests and simulations; all calls come from one goroutine.
type Stepper struct{ *Engine }

// NewStepper opens a data directory to be driven by the caller.
func NewStepper(options Options) (*Stepper, error) {
	e, err := newEngine(options)
	if err != nil {
		return nil, err
	}
	for i, s := range e.shards {
		if err := s.openDisk(); err != nil {
			for _, opened := range e.shards[:i] {
				_ = opened.disk.Close() // the first error is the one that tells
			}
			return nil, err
		}
	}
	e.notified()
	s := &Stepper{Engine: e}
	e.drive = s.Turn
	if err := e.begin(context.Background()); err != nil {
		return nil, err
	}
	return s, nil
}

// Turn does one turn of each shard, in order. A shard waits for its disk if something is in
// flight there, and returns at once otherwise. The error is that a disk has ended.
func (s *Stepper) Turn() error {
	select {
	case <-s.done:
		return ErrClosed
	default:
	}
	for _, shard := range s.shards {
		if shard.closed {
			continue
		}
		wait := time.Duration(0)
		if shard.disk.InFlight() > 0 {
			wait = -1
		}
		err := shard.turn(wait)
		if err != nil || shard.closed {
			s.finish(shard, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Idle says that nothing would happen without new input, a disk or a clock.
func (s *Stepper) Idle() bool {
	for _, shard := range s.shards {
		if !shard.closed && (shard.disk.InFlight() > 0 || !shard.idle()) {
			return false
		}
	}
	return true
}

// NextTimer returns when, on Options.Monotonic, a shard has something to do
// by the clock alone; ok is false when none has.
func (s *Stepper) NextTimer() (at time.Duration, ok bool) {
	for _, shard := range s.shards {
		if next, some := shard.timers.next(); some && (!ok || next < at) {
			at, ok = next, true
		}
	}
	return at, ok
}

// Doing calls see with what the shards are doing at this moment, for a test that counts
// what it interrupts; of jobs that each log has only the kind.
func (s *Stepper) Doing(see func(what string)) {
	for _, shard := range s.shards {
		for _, j := range shard.jobs {
			kind, _, ofLog := strings.Cut(j.name, " ")
			if ofLog && !strings.HasPrefix(j.name, "trim ") {
				see(kind)
			} else {
				see(j.name)
			}
		}
		q := &shard.journal
		if q.writing > 0 {
			see("writing frames")
			if q.head > uint64(q.size) {
				see("reusing the ring")
			}
		}
		if q.flushing {
			see("flushing the journal")
		}
		if q.pace.inFlight > 0 {
			see("writing back")
		}
		for _, l := range shard.logs {
			if l.way == direct {
				see("going direct")
				break
			}
		}
	}
}

// Abandon ends the shards where they stand, as a crash does; whatever waits is
// answered with ErrClosed. The disks are left as they are, and must do nothing more
// with the operations that they have.
func (s *Stepper) Abandon() {
	for _, shard := range s.shards {
		logs := shard.logs
		s.finish(shard, ErrClosed)
		for _, l := range logs {
			for w := l.writes.first; w != nil; w = w.next {
				shard.commit.releaseMemory(w)
			}
		}
	}
}
