//go:build !linux

package loop

import (
	"context"
	"net"

	"ringlog/net/stream"
)

// Supported says whether Listen works on this platform.
const Supported = false

// Listener serves connections by event loops.
type Listener struct{}

// Listen returns ErrUnsupported.
func Listen(context.Context, string, Options) (*Listener, error) { return nil, ErrUnsupported }

// Addr returns the address that the listener listens at.
func (*Listener) Addr() net.Addr { return nil }

// Metrics returns the counters.
func (*Listener) Metrics() *stream.Metrics { return nil }

// SetLimits does nothing.
func (*Listener) SetLimits(int, int) {}

// Shutdown does nothing.
func (*Listener) Shutdown(context.Context) error { return nil }

// Close does nothing.
func (*Listener) Close() error { return nil }
