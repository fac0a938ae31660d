package engine

import (
	"sync"
	"sync/atomic"
)

// spareReads is the answers that wait for their consumers' sockets and hold cold memory
// meanwhile that could be read again. It is theirs until somebody needs it: then the one that has
// waited longest gives its memory up. So a consumer over a slow link costs no second read of the
// disk while there is memory, and nobody else's progress when there is none.
//
// It is the engine's, not a shard's: connections give back and take from their own
// goroutines, all shards share the memory.
type spareReads struct {
	// hungry counts the jobs that wait for cold memory: while there is one, nothing is kept.
	hungry atomic.Int32
	// given counts the reads that gave their memory up.
	given atomic.Int64

	mu struct {
		sync.Mutex
		oldest, newest *Read
		closed         bool // nothing is kept any more
	}
}

// add keeps the memory of r for as long as nobody wants it.
func (q *spareReads) add(r *Read) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.state.spare {
		return
	}
	if q.mu.closed || q.hungry.Load() > 0 {
		r.giveUp()
		q.given.Add(1)
		return
	}
	r.state.spare = true
	r.state.sparePrevious, r.state.spareNext = q.mu.newest, nil
	if q.mu.newest == nil {
		q.mu.oldest = r
	} else {
		q.mu.newest.state.spareNext = r
	}
	q.mu.newest = r
}

// remove takes r out again; what it held is its own, or given up.
func (q *spareReads) remove(r *Read) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.state.spare {
		q.unlinkLocked(r)
	}
}

// giveUp takes the memory of the read that has waited longest; false when there is none.
func (q *spareReads) giveUp() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.mu.oldest
	if r == nil {
		return false
	}
	q.unlinkLocked(r)
	r.giveUp()
	q.given.Add(1)
	return true
}

// close gives everything up, now and from now on.
func (q *spareReads) close() {
	q.mu.Lock()
	q.mu.closed = true
	q.mu.Unlock()
	for q.giveUp() {
	}
}

func (q *spareReads) unlinkLocked(r *Read) {
	s := &r.state
	if s.sparePrevious == nil {
		q.mu.oldest = s.spareNext
	} else {
		s.sparePrevious.state.spareNext = s.spareNext
	}
	if s.spareNext == nil {
		q.mu.newest = s.sparePrevious
	} else {
		s.spareNext.state.sparePrevious = s.sparePrevious
	}
	s.sparePrevious, s.spareNext, s.spare = nil, nil, false
}
