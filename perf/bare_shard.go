package perf

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ringlog/engine/disk"
)

// bareShard is the one goroutine that owns the disk: it copies batches to the
// tails of their files, writes, flushes and acknowledges.
type bareShard struct {
	disk    disk.Disk
	durable bool
	files   []*bareFile
	// touched are files with something to submit or acknowledge in this turn.
	touched []*bareFile

	// answering are connections with replies that became due in this turn.
	answering []*bareConnection

	incoming struct {
		sync.Mutex
		requests []*bareRequest
		stop     bool
		failed   bool // nothing is taken any more
	}
	stopping bool // incoming.stop was seen
	// sleeping is set by the shard before it waits; whoever moves it back wakes it.
	sleeping atomic.Bool
	taken    []*bareRequest
	finished []*disk.Operation
}

// give hands a request to the shard: one wake per burst. After a failure it
// goes back at once.
func (s *bareShard) give(r *bareRequest) {
	s.incoming.Lock()
	failed := s.incoming.failed
	if !failed {
		s.incoming.requests = append(s.incoming.requests, r)
	}
	s.incoming.Unlock()
	if failed {
		r.connection.free <- r
		return
	}
	s.wake()
}

// stop makes run return when it has nothing left.
func (s *bareShard) stop() {
	s.incoming.Lock()
	s.incoming.stop = true
	s.incoming.Unlock()
	s.wake()
}

func (s *bareShard) wake() {
	if s.sleeping.Load() && s.sleeping.Swap(false) {
		s.disk.Wake()
	}
}

// run is the shard's loop, until stop or a failure of the disk. The disk's owner is
// whoever calls it.
func (s *bareShard) run() error {
	for {
		s.accept()
		s.advance()
		if s.stopping && s.disk.InFlight() == 0 {
			return nil
		}
		if err := s.wait(); err != nil {
			s.abandon()
			return fmt.Errorf("perf: bare server: %w", err)
		}
	}
}

// accept takes what came and queues it at the files.
func (s *bareShard) accept() {
	s.incoming.Lock()
	s.taken, s.incoming.requests = s.incoming.requests, s.taken[:0]
	s.stopping = s.incoming.stop
	s.incoming.Unlock()
	for _, r := range s.taken {
		f := s.files[r.partition]
		r.connection.order = append(r.connection.order, r)
		f.waiting = append(f.waiting, r)
		s.touch(f)
	}
}

// advance does all that the touched files can do now and answers what became due.
func (s *bareShard) advance() {
	for _, f := range s.touched {
		f.touched = false
		f.appendWaiting()
		f.submitWrites(s.disk)
		frontier := f.written
		if s.durable {
			f.submitFlush(s.disk)
			frontier = f.durable
		}
		count := 0
		for count < len(f.unanswered) && f.unanswered[count].end <= frontier {
			r := f.unanswered[count]
			r.done = true
			if c := r.connection; !c.answering {
				c.answering = true
				s.answering = append(s.answering, c)
			}
			count++
		}
		f.unanswered = append(f.unanswered[:0], f.unanswered[count:]...)
	}
	s.touched = s.touched[:0]
	for _, c := range s.answering {
		c.answering = false
		c.answer()
	}
	s.answering = s.answering[:0]
}

// wait hands what was submitted to the device and sleeps until something
// finishes or comes.
func (s *bareShard) wait() error {
	timeout := time.Duration(-1)
	s.sleeping.Store(true)
	if s.somethingCame() { // it may have come before sleeping was set
		timeout = 0
	}
	var err error
	s.finished, err = s.disk.Wait(s.finished[:0], timeout)
	s.sleeping.Store(false)
	if err != nil {
		return err
	}
	for _, op := range s.finished {
		if op.Err != nil {
			return op.Err
		}
		if op.Kind == disk.Write && op.Done != len(op.Buffer) {
			return fmt.Errorf("write of %d bytes stopped after %d", len(op.Buffer), op.Done)
		}
		f := op.Owner.(*bareFile)
		f.completed(op)
		s.touch(f)
	}
	return nil
}

func (s *bareShard) somethingCame() bool {
	s.incoming.Lock()
	defer s.incoming.Unlock()
	return len(s.incoming.requests) > 0 || s.incoming.stop != s.stopping
}

// abandon gives everything back unanswered after a failure.
func (s *bareShard) abandon() {
	s.incoming.Lock()
	s.incoming.failed = true
	requests := s.incoming.requests
	s.incoming.requests = nil
	s.incoming.Unlock()
	giveBack := func(requests []*bareRequest) {
		for _, r := range requests {
			_ = r.connection.socket.Close() // its peer waits in vain
			r.connection.free <- r
		}
	}
	giveBack(requests)
	for _, f := range s.files {
		for _, r := range append(f.waiting, f.unanswered...) {
			giveBack(r.connection.order) // with those that wait behind this one
			r.connection.order = nil
		}
	}
}

func (s *bareShard) touch(f *bareFile) {
	if !f.touched {
		f.touched = true
		s.touched = append(s.touched, f)
	}
}
