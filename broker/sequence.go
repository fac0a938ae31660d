package broker

import "sync"

// Sequence keeps the produces of one connection in order while some of them are checked
// elsewhere: what is started behind one that is not checked yet waits for it, unchecked. The
// zero value is ready; it must not be copied. It is bounded by what holds the frames of
// requests in flight, which is the connection's budget.
//
//	Start, nothing waits ── checked in place ──▶ engine
//	  │                 └── too much comes out ──▶ waits, and the sequence goes to the checkers
//	  │ others wait                                  │
//	  └──▶ waits behind them                         │ one produce a turn
//	                                                 ▼
//	                                              engine, in order
type Sequence struct {
	mu struct {
		sync.Mutex
		head, tail *Produce // linked by Produce.next
		// lent says that a checker has the sequence, or will: produces go to it.
		lent bool
	}
	next *Sequence // in the queue of checkers
}

// wait puts p behind what waits; false when nothing does, and the caller goes on with p
// itself. REQUIRES: called by the one goroutine that starts produces of the sequence.
func (s *Sequence) wait(p *Produce) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.lent {
		return false
	}
	s.pushLocked(p)
	return true
}

// lend makes p the first to wait, and whoever the caller gives the sequence to
// responsible for it. REQUIRES: wait was false.
func (s *Sequence) lend(p *Produce) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.lent = true
	s.pushLocked(p)
}

func (s *Sequence) pushLocked(p *Produce) {
	p.next = nil
	if s.mu.tail == nil {
		s.mu.head = p
	} else {
		s.mu.tail.next = p
	}
	s.mu.tail = p
}

// pop takes the first that waits. The sequence stays lent: what is started meanwhile
// still waits, so that it cannot overtake p. REQUIRES: one waits.
func (s *Sequence) pop() *Produce {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.mu.head
	s.mu.head = p.next
	if s.mu.head == nil {
		s.mu.tail = nil
	}
	p.next = nil
	return p
}

// giveBack ends the lending when nothing waits any more; true if so.
func (s *Sequence) giveBack() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.lent = s.mu.head != nil
	return !s.mu.lent
}
