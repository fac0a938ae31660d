package replica

import "ringlog/engine"

// parked is a produce that waits for the high watermark.
type parked struct {
	append       *engine.Append
	baseOffset   int64 // the answer, with
	maxTimestamp int64 // that of the batch that is stored
	end          int64 // offset after its last record: answered when the high watermark reaches it
}

// parkedMin is the capacity that a queue starts with, a power of two.
const parkedMin = 16

// parkedQueue is a ring of parked produces in the order of their ends. It
// doubles when full and allocates nothing else. Its bound is above it: the
// frontend's limit on the bytes of requests in flight.
type parkedQueue struct {
	ring  []parked // its length is a power of two, or zero
	head  int      // index of the oldest
	count int
}

// push adds p at the end.
func (q *parkedQueue) push(p parked) {
	if q.count == len(q.ring) {
		q.grow()
	}
	q.ring[(q.head+q.count)&(len(q.ring)-1)] = p
	q.count++
}

// front returns the oldest. REQUIRES: count > 0.
func (q *parkedQueue) front() *parked { return &q.ring[q.head] }

// back returns the newest. REQUIRES: count > 0.
func (q *parkedQueue) back() *parked {
	return &q.ring[(q.head+q.count-1)&(len(q.ring)-1)]
}

// popFront removes the oldest and returns it. REQUIRES: count > 0.
func (q *parkedQueue) popFront() parked {
	p := q.ring[q.head]
	q.ring[q.head] = parked{} // keep no pointer to a group that may be reused
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.count--
	return p
}

// popBack removes the newest and returns it. REQUIRES: count > 0.
func (q *parkedQueue) popBack() parked {
	last := q.back()
	p := *last
	*last = parked{}
	q.count--
	return p
}

func (q *parkedQueue) grow() {
	ring := make([]parked, max(parkedMin, 2*len(q.ring)))
	n := copy(ring, q.ring[q.head:])
	copy(ring[n:], q.ring[:q.head])
	q.ring, q.head = ring, 0
}
