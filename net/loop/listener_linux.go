package loop

import (
	"context"
	"fmt"
	"net"

	"ringlog/net/stream"
)

// Supported says whether Listen works on this platform.
const Supported = true

// Listener serves the connections of one protocol at one address by event loops.
type Listener struct {
	connections *stream.Listener
	loops       *loops
}

// Listen starts to serve addr ("host:port"). ctx bounds only the listening
// itself (name resolution). Stop the listener with Shutdown or Close.
func Listen(ctx context.Context, addr string, options Options) (*Listener, error) {
	options.EnsureDefaults()
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("loop: options of listener %s: %w", addr, err)
	}
	loops, err := startLoops(options.LoopCount, options.Logger)
	if err != nil {
		return nil, fmt.Errorf("loop: event loops of listener %s: %w", addr, err)
	}
	options.Loops = loops
	connections, err := stream.Listen(ctx, addr, options.Options)
	if err != nil {
		loops.stop()
		return nil, err
	}
	return &Listener{connections: connections, loops: loops}, nil
}

// Addr returns the address that the listener listens at.
func (l *Listener) Addr() net.Addr { return l.connections.Addr() }

// Metrics returns the counters, also after Close.
func (l *Listener) Metrics() *stream.Metrics { return l.connections.Metrics() }

// SetLimits replaces Options.ConnectionsMax and ConnectionsPerAddressMax for connections that
// come from now on; those that are open stay. Both have to be above 0.
func (l *Listener) SetLimits(connectionsMax, perAddressMax int) {
	l.connections.SetLimits(connectionsMax, perAddressMax)
}

// Shutdown stops accepting and reading, lets the replies that are owed be
// completed and written until ctx ends, and then closes what is left. It
// returns when all goroutines have ended: nil, or the context's error when
// replies were cut off.
func (l *Listener) Shutdown(ctx context.Context) error {
	err := l.connections.Shutdown(ctx)
	l.loops.stop()
	return err
}

// Close ends everything at once and returns when all goroutines have ended.
func (l *Listener) Close() error {
	err := l.connections.Close()
	l.loops.stop()
	return err
}
