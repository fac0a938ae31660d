package server

import (
	"context"
	"fmt"
	"net"

	"ringlog/net/loop"
	"ringlog/net/stream"
)

// listener is what serves clients: net/loop or net/stream.
type listener interface {
	Addr() net.Addr
	Metrics() *stream.Metrics
	SetLimits(connectionsMax, perAddressMax int)
	Shutdown(ctx context.Context) error
}

// defaultNetworkEngine is event loops where there are any.
var defaultNetworkEngine = func() string {
	if loop.Supported {
		return NetworkLoop
	}
	return NetworkStream
}()

// checkNetwork says what is wrong with the choice of who serves clients.
func (c *Config) checkNetwork() error {
	switch {
	case c.NetworkEngine != NetworkLoop && c.NetworkEngine != NetworkStream:
		return fmt.Errorf("%s: %q is not %s or %s", networkEngineSetting, c.NetworkEngine, NetworkLoop, NetworkStream)
	case c.NetworkEngine == NetworkLoop && !loop.Supported:
		return fmt.Errorf("%s: %s is not supported on this platform, use %s", networkEngineSetting, NetworkLoop, NetworkStream)
	case c.NetworkLoops < 1 || c.NetworkLoops > loop.LoopCountMax:
		return fmt.Errorf("%s: %d is not between 1 and %d", networkLoopsSetting, c.NetworkLoops, loop.LoopCountMax)
	}
	return nil
}

// listen begins to serve clients at the configured address.
func (s *Server) listen(ctx context.Context, options stream.Options) (listener, error) {
	addr := s.config.listen.String()
	if s.config.NetworkEngine == NetworkLoop {
		l, err := loop.Listen(ctx, addr, loop.Options{Options: options, LoopCount: s.config.NetworkLoops})
		if err != nil {
			return nil, err // not l: a nil *loop.Listener would be a listener
		}
		return l, nil
	}
	l, err := stream.Listen(ctx, addr, options)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// busyThreads is how many threads the broker keeps busy by itself: those that are locked
// to shards, and the event loops, which wait in system calls of their own.
func (c *Config) busyThreads() int {
	threads := c.Shards
	if c.NetworkEngine == NetworkLoop {
		threads += c.NetworkLoops
	}
	return threads
}
