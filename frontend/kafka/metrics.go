package kafka

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// Metrics counts what the sessions of a Protocol did. All fields only grow but
// Sessions.
type Metrics struct {
	// Sessions is the number of connections that are open.
	Sessions atomic.Int64
	// Requests counts requests with a known API key, by key.
	Requests [apiKeyLimit]atomic.Int64
	// Errors counts partitions, topics and requests answered with an error, by API key.
	Errors [apiKeyLimit]atomic.Int64
	// Malformed counts frames that closed their connection because they could
	// not be decoded or were larger than allowed.
	Malformed atomic.Int64
	// Unsupported counts frames that closed their connection because of their
	// API key or version.
	Unsupported atomic.Int64
	// UnacknowledgedFailures counts produces with acks=0 that failed and so
	// closed their connection.
	UnacknowledgedFailures atomic.Int64
	// OffsetsCommitted counts partitions whose offset was answered as committed.
	OffsetsCommitted atomic.Int64
	// SkewedBatches counts batches that were stored although their timestamps lie too far from the
	// broker's clock to be believed.
	SkewedBatches atomic.Int64
	// Panics counts handlers that hit a fault of ours. Anything above zero is a bug.
	Panics atomic.Int64
}

// logIntervalMin is the time between two warnings about peers: who sends
// garbage must not fill the disk with our complaints.
const logIntervalMin = time.Second

// clockLogIntervalMin is the time between two warnings about clocks of producers, which are wrong
// all the time when they are wrong.
const clockLogIntervalMin = time.Minute

// clientTextBytesMax is how much of a string that a peer chose goes into a log line.
const clientTextBytesMax = 128

// logger is a slog.Logger with a rate limit for what peers can provoke.
type logger struct {
	*slog.Logger
	interval  time.Duration
	lastNanos atomic.Int64
	skipped   atomic.Int64
}

// limited calls write at most once in interval, with the number of calls
// skipped since.
func (l *logger) limited(write func(log *logger, skipped int64)) {
	now := time.Now().UnixNano()
	last := l.lastNanos.Load()
	if now-last < int64(l.interval) || !l.lastNanos.CompareAndSwap(last, now) {
		l.skipped.Add(1)
		return
	}
	write(l, l.skipped.Swap(0))
}

// clip shortens text that a peer chose. slog quotes what is not printable.
func clip(text string) string {
	if len(text) > clientTextBytesMax {
		return text[:clientTextBytesMax] + "..."
	}
	return text
}
