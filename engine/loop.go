package engine

import (
	"context"
	"runtime"
)

// New opens a data directory and drives each shard with a goroutine locked to its
// thread, on which the shard's disk is opened, used and closed (a ring belongs to one
// thread). Logs are opened one by one with Open and Create.
func New(options Options) (*Engine, error) {
	e, err := newEngine(options)
	if err != nil {
		return nil, err
	}
	opened := make(chan error)
	proceed := make(chan bool)
	for _, s := range e.shards {
		go func() {
			// Never unlocked: the thread goes with the goroutine, and its ring's
			// pending work with it.
			runtime.LockOSThread()
			err := s.openDisk()
			opened <- err
			if err != nil {
				return
			}
			if <-proceed {
				e.loop(s)
			} else {
				_ = s.disk.Close() // another one's error is the one that tells
				opened <- nil
			}
		}()
	}
	waiting := 0
	for range e.shards {
		if openErr := <-opened; openErr == nil {
			waiting++
		} else {
			err = openErr
		}
	}
	if err == nil {
		e.notified()
	}
	for range waiting {
		proceed <- err == nil
		if err != nil {
			<-opened
		}
	}
	if err != nil {
		return nil, err
	}
	if err := e.begin(context.Background()); err != nil {
		_ = e.Close(context.Background()) // the first error is the one that tells
		return nil, err
	}
	return e, nil
}

// loop does turns until the shard is over.
func (e *Engine) loop(s *shard) {
	// A ring locks its thread once more at its first Wait, and a coroutine cannot be
	// resumed under another count of locks than it was made under: that Wait
	// comes before the first job.
	if finished, err := s.disk.Wait(nil, 0); err != nil || len(finished) > 0 {
		e.options.Logger.Error("the engine cannot use its disk and ends", "shard", s.number, "error", err)
		e.finish(s, err)
		return
	}
	for {
		err := s.turn(-1)
		if err != nil {
			e.options.Logger.Error("the engine has lost its disk and ends", "shard", s.number, "error", err)
		} else if !s.closed && s.halted.Load() {
			s.abort()
		}
		if err != nil || s.closed {
			e.finish(s, err)
			return
		}
	}
}

// abort ends the shard because the engine has lost the disk of another one. What is in
// flight comes back first: its memory is somebody else's after that.
func (s *shard) abort() {
	for s.disk.InFlight() > 0 {
		var err error
		s.finished, err = s.disk.Wait(s.finished[:0], -1)
		for _, op := range s.finished {
			s.complete(op)
		}
		if err != nil {
			break
		}
	}
	s.closeDisk()
}
