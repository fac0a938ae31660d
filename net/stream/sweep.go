package stream

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Bounds of how often the sweep goroutine looks at the connections: a quarter
// of the shortest timeout, between these.
const (
	sweepEveryMin = 5 * time.Millisecond
	sweepEveryMax = time.Second
)

// progress is how a connection shows that it moves, without a clock: the reader and
// the writer count, the sweep goroutine compares what it sees with what it saw.
type progress struct {
	reads   atomic.Uint64 // reads that brought bytes; by the reader
	frames  atomic.Uint64 // frames delivered and allocation steps filled; by the reader
	writes  atomic.Uint64 // odd while a batch is being written; by the writer
	partial atomic.Bool   // whether part of a frame is there; by the reader
	stalled atomic.Bool   // whether we are the reason that nothing is read; by the reader
	spoke   atomic.Bool   // whether a whole frame ever came; by the reader

	// seen is owned by the sweep goroutine.
	seen struct {
		reads, frames, writes lastChange
	}
}

// lastChange remembers since when a counter has had its value.
type lastChange struct {
	value uint64
	since time.Time
}

// unchanged returns for how long the counter has had this value.
func (l *lastChange) unchanged(now time.Time, value uint64) time.Duration {
	if l.since.IsZero() || l.value != value {
		l.value, l.since = value, now
	}
	return now.Sub(l.since)
}

// restart counts from now.
func (l *lastChange) restart(now time.Time) { l.since = now }

// countedTime is the clock of all timeouts: real time, less the pauses of this
// process. A machine that stood still for a minute, or a debugger, must not make
// every peer overdue whose bytes have waited in the kernel meanwhile.
type countedTime struct {
	now, tick time.Time
}

// advance moves the clock to a tick, by stepMax at most, and returns what it shows.
func (c *countedTime) advance(tick time.Time, stepMax time.Duration) time.Time {
	if c.tick.IsZero() {
		c.now = tick
	} else {
		c.now = c.now.Add(min(tick.Sub(c.tick), stepMax))
	}
	c.tick = tick
	return c.now
}

// overdue returns why the connection has to go, or nil. REQUIRES: called by
// the sweep goroutine.
func (c *connection) overdue(now time.Time) error {
	options := &c.listener.options
	p := &c.progress
	writes := p.writes.Load()
	if waited := p.seen.writes.unchanged(now, writes); writes%2 == 1 && waited > options.WriteTimeout {
		return fmt.Errorf("%w: a batch of replies took %v", ErrSlowReader, waited)
	}
	reads, frames := p.reads.Load(), p.frames.Load()
	idle := p.seen.reads.unchanged(now, reads)
	unfinished := p.seen.frames.unchanged(now, frames)
	partial := p.partial.Load()
	if p.stalled.Load() {
		// The peer is not to blame for the time that we did not read.
		p.seen.reads.restart(now)
		p.seen.frames.restart(now)
		return nil
	}
	if !partial {
		p.seen.frames.restart(now)
	} else if unfinished > options.FrameTimeout {
		return fmt.Errorf("%w: %v", ErrUnfinishedFrame, unfinished)
	}
	if c.pending.Load() > 0 {
		p.seen.reads.restart(now)
	} else if idle > options.FirstFrameTimeout && !p.spoke.Load() && !partial {
		return fmt.Errorf("%w: %v", ErrSilent, idle)
	} else if idle > options.IdleTimeout {
		return fmt.Errorf("%w: %v", ErrIdle, idle)
	}
	return nil
}

// sweep closes overdue connections until the listener stops.
func (l *Listener) sweep() {
	shortest := min(l.options.IdleTimeout, l.options.FirstFrameTimeout, l.options.FrameTimeout, l.options.WriteTimeout)
	every := max(sweepEveryMin, min(sweepEveryMax, shortest/4))
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var clock countedTime
	var overdue []*connection
	var reasons []error
	for {
		var now time.Time
		select {
		case <-l.stopped:
			return
		case tick := <-ticker.C:
			now = clock.advance(tick, 2*every)
		}
		l.mu.Lock()
		for c := range l.mu.connections {
			if reason := c.overdue(now); reason != nil {
				overdue, reasons = append(overdue, c), append(reasons, reason)
			}
		}
		l.mu.Unlock()
		for i, c := range overdue {
			if errors.Is(reasons[i], ErrSlowReader) {
				// What the kernel still holds for this peer goes too, now.
				// Only a writer goroutine can be late, so there is a socket.
				_ = c.socket.SetLinger(0) // fails only when it is closed already
			}
			c.Close(reasons[i])
		}
		clear(overdue)
		overdue, reasons = overdue[:0], reasons[:0]
	}
}
