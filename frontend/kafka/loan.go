package kafka

import (
	"fmt"
	"sync/atomic"

	"ringlog/broker"
)

// lender owns the memory of a reply's cuts, and can do without it while the reply waits.
type lender interface {
	// Return takes all of it back, what lies before a slice for good.
	Return(part, piece int)
	// Lend gives one slice again; nil when it has to be restored first.
	Lend(part, piece int) []byte
	// Restore brings a slice back into memory, and calls done once, by another goroutine.
	Restore(part, piece int, done func(error))
}

var _ lender = (*broker.Fetch)(nil)

// loan is a reply's side of a frontend.Loan.
//
//	idle ──Lend: not in memory──▶ restoring ──▶ restored ──Lend──▶ idle
//	                                  │
//	                        the connection is gone ──▶ abandoned ──▶ the reply is put back
type loan struct {
	owner    lender
	cutOf    []int // of each part, its place in cuts; -1 for the encoder's own bytes
	state    atomic.Uint32
	ready    func()
	err      error       // of the restoring, until the next Lend
	restored func(error) // the method value of onRestored, bound once
}

const (
	loanIdle uint32 = iota
	loanRestoring
	loanRestored
	loanAbandoned
)

// Return implements frontend.Loan. The encoder's own bytes stay: some 50 for each partition.
func (r *reply) Return(first int) {
	for ; first < len(r.parts); first++ {
		if at := r.loan.cutOf[first]; at >= 0 {
			r.loan.owner.Return(r.cuts[at].part, r.cuts[at].piece)
			return
		}
	}
	last := &r.cuts[len(r.cuts)-1]
	r.loan.owner.Return(last.part, last.piece+1)
}

// Lend implements frontend.Loan.
func (r *reply) Lend(first, bytesMax int, ready func()) (count int, err error) {
	l := &r.loan
	switch l.state.Load() {
	case loanRestoring:
		return 0, nil // woken by something else
	case loanRestored:
		l.state.Store(loanIdle)
		if l.err != nil {
			return 0, fmt.Errorf("kafka: a fetch that was begun cannot be finished: %w", l.err)
		}
	}
	bytes := 0
	for i := first; i < len(r.parts) && (count == 0 || bytes+len(r.parts[i]) <= bytesMax); i++ {
		if at := l.cutOf[i]; at >= 0 {
			c := &r.cuts[at]
			slice := l.owner.Lend(c.part, c.piece)
			if slice == nil {
				if count == 0 {
					l.ready = ready
					l.state.Store(loanRestoring)
					l.owner.Restore(c.part, c.piece, l.restored)
				}
				return count, nil
			}
			r.parts[i] = slice
		}
		bytes += len(r.parts[i])
		count++
	}
	return count, nil
}

// onRestored is called when a slice is in memory again, or never will be.
func (r *reply) onRestored(err error) {
	l := &r.loan
	ready := l.ready
	l.err, l.ready = err, nil
	if l.state.CompareAndSwap(loanRestoring, loanRestored) {
		ready()
		return
	}
	r.put()
}

// abandon reports that a slice is still being restored: the reply has to wait for it.
func (l *loan) abandon() bool { return l.state.CompareAndSwap(loanRestoring, loanAbandoned) }

func (l *loan) reset() {
	l.owner, l.err, l.cutOf = nil, nil, l.cutOf[:0]
	l.state.Store(loanIdle)
}
