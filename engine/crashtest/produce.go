package crashtest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"ringlog/engine"
)

// request is one append on its way. It owns the memory that the engine reads
// the batch from, and spoils it as soon as it may.
type request struct {
	life  *life
	log   *logLife
	batch *submission
	want  int64 // the offset that a retry must be answered with, or anyOffset
	group engine.AppendGroup
	err   error
	ended bool
}

const anyOffset = -1

// send hands b to the engine.
func (l *life) send(g *logLife, b *submission, want int64) *request {
	r := &request{life: l, log: g, batch: b, want: want}
	r.group.Appends = []engine.Append{{Log: g.log, Batch: bytes.Clone(b.bytes)}}
	r.group.Owner = r
	b.outstanding++
	b.anew = b.anew || b.number < g.fresh
	l.unanswered++
	l.stepper.Append(&r.group)
	return r
}

// Consumed implements engine.AppendOwner.
func (r *request) Consumed(group *engine.AppendGroup) {
	clear(group.Appends[0].Batch)
}

// Answered implements engine.AppendOwner.
func (r *request) Answered(group *engine.AppendGroup) {
	r.ended = true
	r.life.unanswered--
	a := &group.Appends[0]
	r.err = a.Err
	r.batch.outstanding--
	if r.err = r.take(a); r.err != nil && a.Err == nil {
		_ = r.life.x.fail(r.err)
	}
}

// take notes the answer. The error is the answer's, or a broken promise.
func (r *request) take(a *engine.Append) error {
	g, b := r.log, r.batch
	switch {
	case a.Err == nil:
	case errors.Is(a.Err, engine.ErrPoisoned):
		if !r.life.faulty {
			_ = r.life.x.fail(fmt.Errorf("%s is poisoned and the disk never failed: %w", g.label, a.Err))
		}
		if g.poisoned == "" {
			g.poisoned = a.Err.Error()
		} else if g.poisoned != a.Err.Error() {
			_ = r.life.x.fail(fmt.Errorf("%s is poisoned by %q and by %q", g.label, g.poisoned, a.Err))
		}
		return a.Err
	case errors.Is(a.Err, engine.ErrClosed):
		return a.Err // it may be in the log or not
	default:
		if _, placed := g.find(b); !placed && b.outstanding == 0 {
			b.gone = true
		}
		r.life.refused(g, b)
		return a.Err
	}
	if g.poisoned != "" {
		return fmt.Errorf("batch %d of %s is acknowledged after the log was poisoned: %s", b.number, g.label, g.poisoned)
	}
	if r.want != anyOffset && a.BaseOffset != r.want {
		return fmt.Errorf("a retry of batch %d of %s, which is at %d, is answered %d", b.number, g.label, r.want, a.BaseOffset)
	}
	if err := g.place(a.BaseOffset, b); err != nil {
		return err
	}
	r.life.acked++
	g.acknowledged(a.BaseOffset + int64(b.records))
	return nil
}

// refused starts the producer of b over: what it sent behind b is out of order.
func (l *life) refused(g *logLife, b *submission) {
	for i := range g.producers {
		if g.producers[i].id == b.producer {
			g.producers[i] = producer{id: l.x.newProducerID()}
		}
	}
}

// produce sends a new batch of a producer (0 or 1) or of none.
func (l *life) produce(g *logLife, slot int, records int32, valueBytes int) *request {
	id, sequence := int64(-1), int32(-1)
	if slot < len(g.producers) {
		p := &g.producers[slot]
		id, sequence = p.id, p.next
		p.next += records
	}
	b := l.x.submissions.make(g.id, id, sequence, records, valueBytes, startMillis+l.clock.Milliseconds())
	if id >= 0 {
		g.producers[slot].sent = append(g.producers[slot].sent, b)
	}
	l.x.note(l, "append batch %d: %d records of %d bytes to %s, producer %d from sequence %d", b.number, records, valueBytes, g.label, id, sequence)
	return l.send(g, b, anyOffset)
}

// produceAtLast sends a batch to a log whose disk is healthy again. A full disk
// must have been forgotten by itself; a failed one never is.
func (l *life) produceAtLast(g *logLife) error {
	var r *request
	for range 3 {
		r = l.produce(g, len(g.producers), 1, 10)
		if err := l.until(func() bool { return r.ended }); err != nil {
			return err
		}
		if !errors.Is(r.err, engine.ErrNoSpace) {
			break
		}
		l.clock += time.Second // the engine looks again by the clock
		if err := l.settle(); err != nil {
			return err
		}
	}
	if errors.Is(r.err, engine.ErrPoisoned) && l.faulty {
		return nil
	}
	return r.err
}

// batchesRemembered is how many batches of a producer can be sent again (KIP-98).
const batchesRemembered = 5

// retryAll sends the last five of each producer again: each must be answered
// with its offset, none appended. Then each producer goes on.
func (l *life) retryAll(g *logLife) error {
	end := g.log.Frontiers().Next
	for i := range g.producers {
		sent := g.producers[i].sent
		for _, b := range sent[max(0, len(sent)-batchesRemembered):] {
			base, ok := g.find(b)
			if !ok {
				continue
			}
			r := l.send(g, b, base)
			if err := l.until(func() bool { return r.ended }); err != nil {
				return err
			}
			if r.err != nil {
				return fmt.Errorf("a retry of batch %d, which is at %d, is refused: %w", b.number, base, r.err)
			}
		}
	}
	if next := g.log.Frontiers().Next; next != end {
		return fmt.Errorf("retries were appended: the log went from %d to %d", end, next)
	}
	for i := range g.producers {
		records, valueBytes := int32(2), 50
		if i == 0 { // perhaps what a lost batch left behind fits on this one
			records = 1
			var err error
			if valueBytes, err = l.upToBlock(g); err != nil {
				return err
			}
		}
		r := l.produce(g, i, records, valueBytes)
		if err := l.until(func() bool { return r.ended }); err != nil {
			return err
		}
		if r.err != nil {
			return fmt.Errorf("the next sequence of producer %d is refused: %w", r.batch.producer, r.err)
		}
		if base, _ := g.find(r.batch); base != end {
			return fmt.Errorf("the next batch is at %d of a log that ended at %d", base, end)
		}
		end += int64(records)
	}
	return nil
}
