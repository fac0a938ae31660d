package engine

import (
	"errors"
	"fmt"
	"math"

	"ringlog/buffer"
	"ringlog/engine/plan"
)

// pieceBytesMax bounds a piece of more than one batch, and so what is read again at a time for
// an answer whose memory was given up.
const pieceBytesMax = plan.PieceBytes

// ErrGivenUp is returned for a piece of an answer whose memory was given up and whose
// place in the log is gone: deleted, cut, or damaged.
var ErrGivenUp = errors.New("engine: the rest of an answer is gone")

// piece is one slice of ReadPart.Batches: where it lies in memory, and where it can be read again.
type piece struct {
	memory   *buffer.Buffer // one reference, or nil while it is given back
	weak     buffer.Weak    // finds memory again, if it is still there
	from, to int32          // in memory.Bytes()
	cold     bool           // memory of Options.Cold, that is nobody else's
	file     *segmentFile   // where it is stored, leased
	position int64          // in file
	offset   int64          // of its first batch
	gen      uint64         // the log's
}

func (p *piece) bytes() []byte { return p.memory.Bytes()[p.from:p.to:p.to] }

// add appends a piece, of whose memory it takes a reference, to the answer.
func (p *ReadPart) add(x piece) {
	x.memory.Retain()
	x.file.leases.Add(1)
	x.gen = p.Log.gen
	p.pieces = append(p.pieces, x)
	p.Batches = append(p.Batches, x.bytes())
	p.Bytes += int(x.to - x.from)
}

// Return gives the memory of the batches back before Release. Those before slice number slice of
// Parts[part].Batches are gone with it; the others may not be looked at until Lend has brought
// them again. Memory that nobody else has stays while nobody else wants it. One
// goroutine at a time calls Return, Lend and Release.
func (r *Read) Return(part, slice int) {
	if r.state.lead == nil {
		return // no engine's
	}
	r.state.lead.engine.spare.remove(r)
	cold := false
	for i := range r.Parts {
		pieces := r.Parts[i].pieces
		for k := range pieces {
			x := &pieces[k]
			switch {
			case i < part || i == part && k < slice:
				x.end()
			case x.memory == nil:
			case x.cold:
				cold = true
			default:
				x.weak = x.memory.Weak()
				x.memory.Release()
				x.memory = nil
			}
		}
	}
	if cold {
		r.state.lead.engine.spare.add(r)
	}
}

// Lend brings slice number slice of Parts[part].Batches back after Return, at another address maybe. False
// says that it is not in memory any more: see Engine.Restore.
func (r *Read) Lend(part, slice int) bool {
	p := &r.Parts[part]
	if slice >= len(p.pieces) {
		return true // of memory that is never given back
	}
	r.state.lead.engine.spare.remove(r)
	x := &p.pieces[slice]
	if x.memory == nil {
		if x.memory = x.weak.Retain(); x.memory == nil {
			return false
		}
		p.Batches[slice] = x.bytes()
	}
	return true
}

// end lets go of memory and file.
func (x *piece) end() {
	if x.memory != nil {
		x.memory.Release()
	}
	if x.file != nil {
		x.file.leases.Add(-1)
	}
	*x = piece{}
}

// release gives back everything of the part.
func (p *ReadPart) release() {
	for k := range p.pieces {
		p.pieces[k].end()
	}
	p.pieces = p.pieces[:0]
	clear(p.Batches)
	p.Batches = p.Batches[:0]
}

// giveUp gives back the memory that Return left. REQUIRES: spareReads.mu; the read is in its list.
func (r *Read) giveUp() {
	for i := range r.Parts {
		pieces := r.Parts[i].pieces
		for k := range pieces {
			if x := &pieces[k]; x.cold && x.memory != nil {
				x.memory.Release()
				x.memory, x.weak = nil, buffer.Weak{}
			}
		}
	}
}

// restore is a read of one piece, from the place that it was answered from.
type restore struct {
	Read
	engine *Engine
	of     *Read
	part   int
	slice  int
	tries  int
	done   func(error)
}

// restoreTries bounds how often a piece is asked for again because its log has moved.
const restoreTries = 4

// Restore implements API.
func (e *Engine) Restore(read *Read, part, slice int, done func(error)) {
	again := read.state.again
	if again == nil {
		again = &restore{engine: e}
		again.Parts = make([]ReadPart, 1)
		again.Done = again.answered
		read.state.again = again
	}
	again.of, again.part, again.slice, again.tries, again.done = read, part, slice, 0, done
	again.send()
}

func (a *restore) send() {
	x := &a.of.Parts[a.part].pieces[a.slice]
	a.tries++
	p := &a.Parts[0]
	*p = ReadPart{Log: a.of.Parts[a.part].Log, Offset: x.offset, BytesMax: int(x.to - x.from), Batches: p.Batches[:0], pieces: p.pieces[:0]}
	a.BytesMax, a.BytesMin, a.Wait = p.BytesMax, 0, 0
	a.state.piece = *x
	a.engine.Read(&a.Read)
}

// answered puts what was read in the place of what was given up.
func (a *restore) answered(*Read) {
	p, x := &a.Parts[0], &a.of.Parts[a.part].pieces[a.slice]
	if p.Err == nil && len(p.pieces) == 0 && a.tries < restoreTries {
		a.send() // the log was on its way
		return
	}
	err := p.Err
	if err == nil && (len(p.pieces) != 1 || p.Bytes != int(x.to-x.from)) {
		err = fmt.Errorf("%w: %d of %d bytes at offset %d of %s", ErrGivenUp, p.Bytes, x.to-x.from, x.offset, p.Log.label)
	}
	if err == nil { // the lease stays
		got := &p.pieces[0]
		x.memory, x.from, x.to, x.cold = got.memory.Retain(), got.from, got.to, true
		a.of.Parts[a.part].Batches[a.slice] = x.bytes()
	}
	a.Release()
	done := a.done
	a.done = nil
	done(err)
}

// readAgain reads the piece that p restores: from the file that it was answered from, also
// when that has left the log since.
func (w *coldWorker) readAgain(p *ReadPart) error {
	l, x := p.Log, &p.read.state.piece
	start, size := plan.RoundDown(x.position), int64(p.BytesMax)
	b, err := w.memory(&p.read.state.cold, plan.RoundUp(x.position+size-start))
	if err != nil {
		return err
	}
	defer b.Release()
	if !w.job.shard.owns(l) {
		return nil // it has moved
	}
	f := x.file
	if err := l.lends(x); err != nil {
		return err
	}
	l.jobs++
	f.pins++
	defer func() {
		l.jobs--
		f.pins--
	}()
	if err := l.openToRead(w.job, f); err != nil {
		return err
	}
	data := b.Bytes()[:plan.RoundUp(x.position+size-start)]
	if err := w.fill(f.file, data, start); err != nil {
		return unreadable(f, start, err)
	}
	if err := l.lends(x); err != nil {
		return err
	}
	from := x.position - start
	v := window{log: l, data: data[:from+size], at: from, next: x.offset, offset: x.offset, below: math.MaxInt64, limit: int(size), first: true}
	at, to, _, bad := v.choose()
	if bad != nil {
		// Nothing when it is not damaged after all: it is asked for again (restoreTries).
		return l.findDamage(w.job, f, x.offset)
	}
	p.addCold(f, b, start, at, to)
	l.shard.counters.restored.Add(to - at)
	return nil
}

// lends returns why a piece of an earlier answer cannot be read again, or nil.
func (l *Log) lends(x *piece) error {
	switch {
	case l.closed != nil:
		return l.closed
	case x.gen != l.gen || l.cut.active || x.file.revoked:
		return fmt.Errorf("%w: offset %d of %s was cut or deleted", ErrGivenUp, x.offset, l.label)
	}
	return l.damagedAt(x.offset)
}
