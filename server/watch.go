package server

import (
	"errors"
	"time"

	"ringlog/buffer"
)

// ErrEngineEnded is what Run returns, and Failed receives, when the storage engine
// has ended by itself: its disk is gone.
var ErrEngineEnded = errors.New("server: the storage engine has ended")

// watch waits for parts that end by themselves. The metadata controller is not
// one that the broker cannot live without: data flows on, and health says so.
func (s *Server) watch() {
	controller := s.controller.Failed()
	for {
		select {
		case <-s.stopping:
			return
		case <-s.engine.Ended():
			select {
			case <-s.stopping: // its end is Shutdown's doing
			default:
				s.failed <- errors.Join(ErrEngineEnded, s.engine.Err())
			}
			return
		case <-controller:
			controller = nil // it has logged why
		}
	}
}

// trimInterval is how often idle memory is looked for.
const trimInterval = time.Minute

// trim gives memory back to the system when an interval passed in which no
// request came: pages that are only warm are of no use to an idle broker.
func (s *Server) trim() {
	ticker := time.NewTicker(trimInterval)
	defer ticker.Stop()
	last := int64(-1)
	for {
		select {
		case <-s.stopping:
			return
		case <-ticker.C:
		}
		requests := s.listener.Metrics().Requests.Load()
		if requests == last {
			for _, pool := range []*buffer.Pool{s.pools.frames, s.pools.tail, s.pools.cold} {
				pool.Trim()
			}
		}
		last = requests
	}
}
