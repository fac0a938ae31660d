package cuttest

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"ringlog/engine"
)

// user does with one log after another what users do. It belongs to one goroutine.
type user struct {
	number int32
	dice   *rand.Rand
	*run
	ledgers []*Ledger // the log that it uses is the last; the others are deleted, or were about to be
	logs    int32     // how many it has had
	epoch   int32     // that it led under last
	log     *engine.Log
	flight  []*request
	failed  error // the first append's: nothing behind it may succeed
	counts  *counts
}

// counts is what all users did.
type counts struct{ acknowledged, created, deleted, truncated, raised atomic.Int64 }

func (c *counts) String() string {
	return fmt.Sprintf("%d batches acknowledged, %d logs created and %d deleted, %d truncations, %d starts raised",
		c.acknowledged.Load(), c.created.Load(), c.deleted.Load(), c.truncated.Load(), c.raised.Load())
}

// request is one append group on its way.
type request struct {
	engine.AppendGroup
	batches  []*Batch
	run      *run
	dark     bool // it was submitted after the cut
	unsure   bool // it was answered while the power was being cut, or later
	answered chan struct{}
}

// Consumed implements engine.AppendOwner.
func (q *request) Consumed(*engine.AppendGroup) {}

// Answered implements engine.AppendOwner.
func (q *request) Answered(*engine.AppendGroup) {
	q.unsure = q.run.cutting.Load()
	close(q.answered)
}

func (r *run) newRequest() *request {
	q := &request{run: r, dark: r.isCut(), answered: make(chan struct{})}
	q.Owner = q
	return q
}

// errOver ends a user's work: the power is going.
var errOver = errors.New("cuttest: the power is cut")

const (
	inFlightMax = 4
	// logEndMax is the offset where a log has grown enough and is soon deleted.
	logEndMax = 400
)

// work uses logs until the power is cut, and then tries once more: nobody may be
// told that something happened after that.
func (u *user) work() error {
	for !u.isCut() {
		err := u.act()
		if err == nil {
			continue
		}
		if err = u.excuse(err); err != nil {
			return err
		}
	}
	if err := u.excuse(u.settle(0)); err != nil || u.log == nil {
		return err
	}
	u.failed = nil
	u.submit()
	return u.excuse(u.settle(0))
}

// excuse forgives what a cut explains, and waits for its end.
func (u *user) excuse(err error) error {
	var broken *promiseError
	if err == nil || errors.As(err, &broken) || !u.cutting.Load() {
		return err
	}
	<-u.cut
	return nil
}

// answered says of an answer that has just come whether it is a promise. One
// that came while the power was being cut is none (see package loopfs), and one
// to something that was asked for after it must not come at all.
func (u *user) answered(what string, l *Ledger, dark bool) error {
	switch {
	case dark:
		return &promiseError{fmt.Errorf("%s was %s after the cut", l.Label, what)}
	case u.cutting.Load():
		return errOver
	}
	return nil
}

// promiseError is what nothing excuses.
type promiseError struct{ error }

// act does one thing.
func (u *user) act() error {
	if u.log == nil {
		return u.create()
	}
	l := u.ledgers[len(u.ledgers)-1]
	switch n := u.dice.IntN(40); {
	case l.end > logEndMax && n < 10 || n == 0:
		return u.delete(l)
	case n == 1:
		return u.truncate(l)
	case n == 2:
		return u.raise(l)
	default:
		u.submit()
		if err := u.settle(inFlightMax); u.failed == nil || err != nil {
			return err
		}
		return u.settle(0) // what is behind the one that failed
	}
}

// submit appends a few batches of the log's producer.
func (u *user) submit() {
	l := u.ledgers[len(u.ledgers)-1]
	q := u.newRequest()
	for range 1 + u.dice.IntN(3) {
		b := l.Make(time.Now().UnixMilli())
		q.batches = append(q.batches, b)
		q.Appends = append(q.Appends, engine.Append{Log: u.log, Batch: b.Bytes()})
	}
	u.flight = append(u.flight, q)
	u.engine.Append(&q.AppendGroup)
}

// settle hears the oldest answers until no more than some are missing.
func (u *user) settle(missing int) error {
	for len(u.flight) > missing {
		q := u.flight[0]
		u.flight = u.flight[1:]
		if err := u.hear(q); err != nil {
			return err
		}
	}
	return nil
}

// hear waits for the answer of a request and holds it against what is known.
func (u *user) hear(q *request) error {
	l := u.ledgers[len(u.ledgers)-1]
	select {
	case <-q.answered:
	case <-time.After(patience):
		return &promiseError{fmt.Errorf("an append to %s is not answered", l.Label)}
	}
	for i := range q.Appends {
		b, err := q.batches[i], q.Appends[i].Err
		switch {
		case err != nil:
			u.failed = cmp.Or(u.failed, err)
			continue
		case u.failed != nil:
			return &promiseError{fmt.Errorf("batch %d of %s was acknowledged behind one that failed: %w", b.number, l.Label, u.failed)}
		case q.dark:
			return &promiseError{fmt.Errorf("batch %d of %s was submitted after the cut and acknowledged", b.number, l.Label)}
		case q.unsure:
			continue
		}
		if err := l.Acknowledge(b, q.Appends[i].BaseOffset); err != nil {
			return &promiseError{err}
		}
		u.counts.acknowledged.Add(1)
	}
	if f := u.log.Frontiers(); !u.cutting.Load() {
		l.Observe(f)
	}
	if u.failed != nil && len(u.flight) == 0 {
		return u.failed
	}
	return nil
}

func (u *user) create() error {
	u.logs++
	var id engine.LogID
	binary.BigEndian.PutUint32(id[8:], uint32(u.number))
	binary.BigEndian.PutUint32(id[12:], uint32(u.logs))
	l := NewLedger(id, fmt.Sprintf("log-%d-%d", u.number, u.logs))
	l.Relaxed, l.Retains = u.dice.IntN(4) == 0, u.dice.IntN(3) == 0
	l.Created = Asked
	u.ledgers = append(u.ledgers, l)
	dark := u.isCut()
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	log, err := u.engine.Create(ctx, spec(l, true))
	if err != nil {
		return err
	}
	u.log = log
	if err := u.answered("created", l, dark); err != nil {
		return err
	}
	l.Created = Done
	u.counts.created.Add(1)
	return u.engine.Lead(ctx, l.ID, u.nextEpoch())
}

func (u *user) delete(l *Ledger) error {
	if err := u.settle(0); err != nil {
		return err
	}
	l.Deleted = Asked
	u.log = nil
	dark := u.isCut()
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	if err := u.engine.Delete(ctx, l.ID); err != nil {
		return err
	}
	if err := u.answered("deleted", l, dark); err != nil {
		return err
	}
	l.Deleted = Done
	u.counts.deleted.Add(1)
	return nil
}

func (u *user) truncate(l *Ledger) error {
	if err := u.settle(0); err != nil {
		return err
	}
	offset, ok := l.Cuttable(u.dice.IntN)
	if !ok {
		return nil
	}
	l.AskCut(offset)
	dark := u.isCut()
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	err := u.engine.Truncate(ctx, l.ID, offset)
	if errors.Is(err, engine.ErrOffsetOutOfRange) && l.Retains && !u.cutting.Load() {
		l.GotCut(true) // retention was quicker
		return nil
	}
	if err != nil {
		return err
	}
	if err := u.answered("truncated", l, dark); err != nil {
		return err
	}
	l.GotCut(false)
	u.counts.truncated.Add(1)
	return nil
}

func (u *user) raise(l *Ledger) error {
	if err := u.settle(0); err != nil {
		return err
	}
	f := u.log.Frontiers()
	if f.HighWatermark == f.Start {
		return nil
	}
	to := f.Start + u.dice.Int64N(f.HighWatermark-f.Start) + 1
	l.AskStart(to)
	dark := u.isCut()
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	if err := u.engine.AdvanceStart(ctx, l.ID, to); err != nil {
		return err
	}
	if err := u.answered("given a higher start", l, dark && !l.Retains); err != nil {
		return err // retention may have raised it before
	}
	l.GotStart(to)
	u.counts.raised.Add(1)
	return nil
}
