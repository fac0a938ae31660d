package stream

import (
	"errors"
	"sync/atomic"

	"ringlog/frontend"
)

// Metrics count what a listener does. Every field may be read at any time; all
// but ConnectionsOpen and ConnectionsLight only grow.
type Metrics struct {
	// ConnectionsAccepted counts connections that were served.
	ConnectionsAccepted atomic.Int64
	// ConnectionsOpen is how many are served now.
	ConnectionsOpen atomic.Int64
	// ConnectionsLight is how many of them event loops carry.
	ConnectionsLight atomic.Int64
	// ConnectionsMoved counts those that moved from a loop to goroutines.
	ConnectionsMoved atomic.Int64
	// ConnectionsRefused counts connections turned away by ConnectionsMax.
	ConnectionsRefused atomic.Int64
	// ConnectionsRefusedByAddress counts those turned away by ConnectionsPerAddressMax.
	ConnectionsRefusedByAddress atomic.Int64
	// AcceptErrors counts failures to accept, such as a lack of file descriptors.
	AcceptErrors atomic.Int64

	// BytesIn and BytesOut count what was read from and written to sockets.
	BytesIn, BytesOut atomic.Int64
	// Requests counts whole frames given to sessions.
	Requests atomic.Int64
	// Replies counts replies written; Writes counts the writev batches they left in.
	Replies, Writes atomic.Int64

	// BudgetWaits counts how often reading stopped for a connection's own
	// limits of requests and bytes in flight.
	BudgetWaits atomic.Int64
	// MemoryWaits counts how often reading stopped because the pool was spent.
	MemoryWaits atomic.Int64

	// FramesTooLarge and FramesMalformed count connections closed for what came on them.
	FramesTooLarge, FramesMalformed atomic.Int64
	// SilentClosed counts connections closed because they never sent a whole frame: after
	// FirstFrameTimeout, or to make place for others.
	SilentClosed atomic.Int64
	// IdleClosed, UnfinishedFramesClosed, SlowReadersClosed and
	// MemoryTimeoutsClosed count connections closed by the timeout of that name.
	IdleClosed, UnfinishedFramesClosed, SlowReadersClosed, MemoryTimeoutsClosed atomic.Int64
}

// countClosed counts the reason for which a connection ended, when it is one
// that somebody should know of, and reports whether it was.
func (m *Metrics) countClosed(reason error) (notable bool) {
	for _, kind := range []struct {
		reason  error
		counter *atomic.Int64
	}{
		{frontend.ErrFrameTooLarge, &m.FramesTooLarge},
		{frontend.ErrMalformed, &m.FramesMalformed},
		{ErrIdle, &m.IdleClosed},
		{ErrSilent, &m.SilentClosed},
		{ErrUnfinishedFrame, &m.UnfinishedFramesClosed},
		{ErrSlowReader, &m.SlowReadersClosed},
		{ErrMemoryTimeout, &m.MemoryTimeoutsClosed},
	} {
		if errors.Is(reason, kind.reason) {
			kind.counter.Add(1)
			return kind.reason != ErrIdle
		}
	}
	return false
}
