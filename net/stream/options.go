package stream

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"net"
	"time"

	"ringlog/buffer"
	"ringlog/frontend"
)

// prefixBytesMax bounds Protocol.PrefixBytes, and is how much of a frame a
// connection keeps outside of the pool while it waits for memory.
const prefixBytesMax = 64

// Options configure a Listener. Zero means the default that the field names.
type Options struct {
	// Protocol makes the sessions. Required.
	Protocol frontend.Protocol
	// Pool gives the memory for frames. Required; may be shared by listeners.
	Pool *buffer.Pool

	// FrameBytesMax is the largest frame, prefix included. A larger claim
	// closes the connection before anything is allocated for it. Default 100 MiB,
	// or what the pool can hold (FrameBytesMaxOf) when that is less.
	FrameBytesMax int
	// InFlightBytesPerConnectionMax bounds the bytes of a connection's requests
	// that wait for their answer; one request may exceed it alone. Default 32 MiB.
	InFlightBytesPerConnectionMax int64
	// InFlightRequestsMax bounds the same requests by count. Default 1024.
	InFlightRequestsMax int

	// ConnectionsMax bounds the open connections. Default 10,000. The last sixteenth of them is
	// for addresses that have few. When all are in use, a newcomer takes the place of the
	// one that has been there for longest without ever sending a whole frame.
	ConnectionsMax int
	// ConnectionsPerAddressMax bounds those of one remote IP address. Default
	// ConnectionsMax.
	ConnectionsPerAddressMax int

	// IdleTimeout closes a connection on which nothing came and nothing is
	// pending. Default 10 minutes.
	IdleTimeout time.Duration
	// FirstFrameTimeout closes a connection on which nothing ever came: all clients begin to
	// speak at once. Default 30 s, or IdleTimeout if that is less.
	FirstFrameTimeout time.Duration
	// FrameTimeout closes a connection whose frame does not arrive whole, or
	// does not fill the next step of its allocation, in time. Default 30 s.
	FrameTimeout time.Duration
	// WriteTimeout closes a slow reader: one to whom a batch of replies could
	// not be written in time. Default 30 s.
	WriteTimeout time.Duration
	// MemoryTimeout is how long, up to twice as long, a connection may wait
	// for pool memory while it holds a partial frame. Default 5 s.
	MemoryTimeout time.Duration
	// LingerTimeout is how long a connection that we end politely is read and
	// discarded after its last reply, so that a reset does not overtake
	// the reply. Default 1 s.
	LingerTimeout time.Duration

	// Loops carry the connections that are light. Default none: every connection has
	// goroutines of its own from the start. Package loop sets it.
	Loops Loops

	// Logger gets rare events only. Default slog.Default().
	Logger *slog.Logger
	// Metrics are counted into when given, so that listeners can share them.
	Metrics *Metrics
	// Events are called when they happen.
	Events Events
}

// Events are optional hooks. They run on the listener's goroutines and must not block.
type Events struct {
	// Opened is called when a connection was accepted.
	Opened func(remote net.Addr)
	// Closed is called when a connection is gone and its Session knows.
	Closed func(remote net.Addr, reason error)
	// Refused is called when a connection was turned away by a limit.
	Refused func(remote net.Addr, reason error)
}

// FrameBytesMaxOf is the largest frame that arrives through a pool of so many bytes
// when nothing else is in it: the largest power of two in its half. While such
// a frame grows into its last block, that, the block before, of half its size at
// most, and the reserve for small frames are needed at once.
func FrameBytesMaxOf(poolBytes int64) int {
	const block = 128 << 20 // the most that package buffer gives in one piece
	return min(1<<(bits.Len64(uint64(poolBytes/2))-1), block)
}

// EnsureDefaults fills in what is zero.
func (o *Options) EnsureDefaults() {
	setDefault(&o.InFlightBytesPerConnectionMax, 32<<20)
	setDefault(&o.InFlightRequestsMax, 1024)
	setDefault(&o.ConnectionsMax, 10_000)
	setDefault(&o.ConnectionsPerAddressMax, o.ConnectionsMax)
	setDefault(&o.IdleTimeout, 10*time.Minute)
	setDefault(&o.FirstFrameTimeout, min(30*time.Second, o.IdleTimeout))
	setDefault(&o.FrameTimeout, 30*time.Second)
	setDefault(&o.WriteTimeout, 30*time.Second)
	setDefault(&o.MemoryTimeout, 5*time.Second)
	setDefault(&o.LingerTimeout, time.Second)
	if o.FrameBytesMax == 0 && o.Pool != nil {
		o.FrameBytesMax = min(100<<20, FrameBytesMaxOf(o.Pool.LimitBytes()))
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = new(Metrics)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports everything that is wrong with options whose defaults are
// filled in.
func (o *Options) Validate() error {
	var faults []error
	require := func(ok bool, format string, arguments ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, arguments...))
		}
	}
	require(o.Protocol != nil, "Protocol is missing")
	require(o.Pool != nil, "Pool is missing")
	if o.Protocol != nil {
		n := o.Protocol.PrefixBytes()
		require(n > 0 && n <= prefixBytesMax, "Protocol.PrefixBytes is %d, not 1 to %d", n, prefixBytesMax)
	}
	if o.Pool != nil {
		require(o.FrameBytesMax <= o.Pool.MaxBytes(),
			"FrameBytesMax is %d but pool %s gives at most %d in one piece", o.FrameBytesMax, o.Pool.Name(), o.Pool.MaxBytes())
	}
	require(o.FrameBytesMax > 0, "FrameBytesMax is %d", o.FrameBytesMax)
	require(o.InFlightBytesPerConnectionMax > 0, "InFlightBytesPerConnectionMax is %d", o.InFlightBytesPerConnectionMax)
	require(o.InFlightRequestsMax > 0, "InFlightRequestsMax is %d", o.InFlightRequestsMax)
	require(o.ConnectionsMax > 0, "ConnectionsMax is %d", o.ConnectionsMax)
	require(o.ConnectionsPerAddressMax > 0, "ConnectionsPerAddressMax is %d", o.ConnectionsPerAddressMax)
	for _, timeout := range []struct {
		name  string
		value time.Duration
	}{
		{"IdleTimeout", o.IdleTimeout}, {"FirstFrameTimeout", o.FirstFrameTimeout}, {"FrameTimeout", o.FrameTimeout}, {"WriteTimeout", o.WriteTimeout},
		{"MemoryTimeout", o.MemoryTimeout}, {"LingerTimeout", o.LingerTimeout},
	} {
		require(timeout.value > 0, "%s is %v", timeout.name, timeout.value)
	}
	return errors.Join(faults...)
}
