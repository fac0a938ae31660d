package model

// cachedMax bounds the writes of one place that completed without a flush. More
// would need more crashes than any scope has.
const cachedMax = 3

// place is one spot of the disk that is written whole or not at all: a block of
// a segment, a frame of the ring, a file that is replaced by a rename.
type place[T comparable] struct {
	durable T
	cached  [cachedMax]T // completed, not flushed, oldest first
	count   uint8        // of cached
	covered uint8        // of cached, by the flush in flight
	flight  T            // submitted, not completed
	flying  bool
}

// visible is what a read returns.
func (p *place[T]) visible() T {
	if p.count > 0 {
		return p.cached[p.count-1]
	}
	return p.durable
}

// latest is what was written last, as the writer remembers.
func (p *place[T]) latest() T {
	if p.flying {
		return p.flight
	}
	return p.visible()
}

func (p *place[T]) submit(v T) {
	if p.flying {
		panic("model: a place is written while it is being written")
	}
	p.flight, p.flying = v, true
}

func (p *place[T]) complete() {
	var none T
	if p.count == cachedMax {
		panic("model: more unflushed writes of a place than are modelled")
	}
	p.cached[p.count] = p.flight
	p.count++
	p.flight, p.flying = none, false
}

// write submits and completes.
func (p *place[T]) write(v T) {
	p.submit(v)
	p.complete()
}

// cover notes what a flush that is submitted now makes durable.
func (p *place[T]) cover() { p.covered = p.count }

// harden is the end of that flush.
func (p *place[T]) harden() {
	n := p.covered
	if n == 0 {
		return
	}
	p.durable = p.cached[n-1]
	var rest [cachedMax]T
	copy(rest[:], p.cached[n:p.count])
	p.cached, p.count, p.covered = rest, p.count-n, 0
}

// flush covers and hardens.
func (p *place[T]) flush() {
	p.cover()
	p.harden()
}

// replaced is the end of a replacement: temporary file, flush, rename and
// directory sync are over.
func (p *place[T]) replaced() { *p = place[T]{durable: p.flight} }

// outcomes is how many contents a crash may leave here. The first is that of
// what is durable or, after a kill, visible.
func (p *place[T]) outcomes(kill bool) int {
	n := 1
	if p.flying {
		n++
	}
	if !kill {
		n += int(p.count)
	}
	return n
}

// crash leaves the given outcome. What a kill leaves is as volatile as before.
func (p *place[T]) crash(kill bool, outcome int) {
	var none T
	flight := p.flight
	p.flight, p.flying, p.covered = none, false, 0
	if kill {
		if outcome > 0 {
			p.write(flight)
		}
		return
	}
	switch {
	case outcome == 0:
	case outcome <= int(p.count):
		p.durable = p.cached[outcome-1]
	default:
		p.durable = flight
	}
	p.cached, p.count = [cachedMax]T{}, 0
}
