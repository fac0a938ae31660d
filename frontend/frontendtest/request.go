package frontendtest

import (
	"sync/atomic"

	"ringlog/buffer"
	"ringlog/frontend"
)

// parkedSweep is how many parked requests a session gathers before it forgets
// those that were answered.
const parkedSweep = 256

// request is one request of the test protocol until it is answered.
type request struct {
	session *session
	frame   *buffer.Buffer
	data    []byte // the frame's bytes, ours until the frame is released
	payload []byte // what is echoed
	id      uint64

	turn  frontend.Turn
	taken chan struct{} // closed when turn is set; nil when Turn was called without onTurn
	bound atomic.Bool   // whether its turn came, or was given up
}

// complete answers the request. The header comes from the heap; the payload is sliced from the frame,
// and both are poisoned when the carrier says that it no longer needs them.
func (r *request) complete() {
	p := r.session.protocol
	header := appendReplyHeader(make([]byte, 0, replyHeaderBytes), r.id, r.session.token, r.payload)
	var released atomic.Int32
	p.turnsCompleted.Add(1)
	r.turn.Complete(frontend.Reply{
		Parts: [][]byte{header, r.payload[:len(r.payload)/2], r.payload[len(r.payload)/2:]},
		Release: func() {
			if released.Add(1) != 1 {
				p.violated("the reply of request %d was released twice", r.id)
				return
			}
			poison(header)
			poison(r.payload)
			r.releaseFrame()
			p.repliesReleased.Add(1)
		},
	})
}

// releaseFrame poisons this frame's bytes, and no others, and gives up the reference.
func (r *request) releaseFrame() {
	poison(r.data)
	r.frame.Release()
}

func poison(b []byte) {
	for i := range b {
		b[i] = poisonByte
	}
}

// receiveAtTurn takes a turn that begins its work only when its place comes.
func (s *session) receiveAtTurn(r *request, inline bool) {
	p := s.protocol
	place := s.taken.Load() // the number of turns before this one
	r.taken = make(chan struct{})
	r.turn = s.take(func() { // onTurn may run before take has returned
		if !r.bound.CompareAndSwap(false, true) {
			if !s.closed.Load() {
				p.violated("onTurn of request %d was called twice", r.id)
			}
			return
		}
		pending := s.conn.Pending() // read first: taken may only grow after
		if written := s.taken.Load() - int64(pending); written < place {
			p.violated("onTurn of place %d was called when %d replies were written", place, written)
		}
		if inline {
			<-r.taken // the session is about to close it
			r.complete()
			return
		}
		p.later <- func() {
			<-r.taken
			r.complete()
		}
	})
	close(r.taken)
	if len(s.parked) == parkedSweep {
		kept := s.parked[:0]
		for _, parked := range s.parked {
			if !parked.bound.Load() {
				kept = append(kept, parked)
			}
		}
		clear(s.parked[len(kept):])
		s.parked = kept
	}
	s.parked = append(s.parked, r)
}

// Closed implements frontend.Session: what is parked is answered into the void.
func (s *session) Closed(reason error) {
	defer s.enter("Closed")()
	p := s.protocol
	if s.closed.Swap(true) {
		p.violated("Closed was called twice")
		return
	}
	if reason == nil {
		p.violated("Closed was called without a reason")
	}
	for _, r := range s.parked {
		if r.bound.CompareAndSwap(false, true) {
			r.complete()
		}
	}
	s.parked = nil
	p.mu.Lock()
	p.mu.reasons = append(p.mu.reasons, reason)
	p.mu.Unlock()
	p.sessionsClosed.Add(1)
}

// take takes the next turn.
func (s *session) take(onTurn func()) frontend.Turn {
	s.protocol.turnsTaken.Add(1)
	s.taken.Add(1)
	return s.conn.Turn(onTurn)
}
