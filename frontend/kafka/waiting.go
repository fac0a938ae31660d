package kafka

import (
	"slices"
	"sync"
	"sync/atomic"

	"ringlog/buffer"
)

// Requests are decoded when their turn has come, so that a client that sends a thousand
// behind one that takes long has one of them in the form that is many times as large as its
// bytes. Until then they wait as bytes: small ones copied, since a small frame may
// keep a large block from the pool; others in their frame, where the pool bounds them.
const (
	// copiedBytesMax is the largest body that is copied out of its frame.
	copiedBytesMax = 4 << 10
	// copiesBytesMax bounds the copies of all connections; what is more waits in its frame.
	copiesBytesMax = 16 << 20
)

// waiting is a request that waits for its turn. The zero value is none.
type waiting struct {
	body  []byte
	frame *buffer.Buffer // nil when body is a copy
}

// waitingRequests are those of one session: what of them is still there when the connection
// ends is given back then, since their turns never come.
type waitingRequests struct {
	copies *atomic.Int64 // bytes, of all sessions
	mu     struct {
		sync.Mutex
		closed   bool
		requests map[*waiting]struct{}
	}
}

// add keeps the body of r for w, and takes over the reference to its frame.
func (s *waitingRequests) add(w *waiting, r *request) {
	w.body, w.frame = r.body, r.frame
	if size := int64(len(r.body)); size <= copiedBytesMax {
		if s.copies.Add(size) <= copiesBytesMax {
			w.body, w.frame = slices.Clone(r.body), nil
			r.frame.Release()
		} else {
			s.copies.Add(-size)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.requests == nil {
		s.mu.requests = make(map[*waiting]struct{})
	}
	s.mu.requests[w] = struct{}{}
}

// take returns the body of a request whose turn has come, for the caller to give back by
// release; false when the connection is gone.
func (s *waitingRequests) take(w *waiting) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return false
	}
	delete(s.mu.requests, w)
	return true
}

// release gives back what a request waited in.
func (s *waitingRequests) release(w *waiting) {
	if w.frame != nil {
		w.frame.Release()
	} else {
		s.copies.Add(-int64(len(w.body)))
	}
	*w = waiting{}
}

// close gives back what still waits. REQUIRES: add is not called any more.
func (s *waitingRequests) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
	for w := range s.mu.requests {
		s.release(w)
	}
	s.mu.requests = nil
}
