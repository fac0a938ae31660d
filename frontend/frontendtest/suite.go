package frontendtest

import (
	"context"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringlog/buffer"
	"ringlog/frontend"
)

// Config is what a story wants of the server. Zero means the server's default.
type Config struct {
	Protocol                      frontend.Protocol
	Pool                          *buffer.Pool
	FrameBytesMax                 int
	InFlightRequestsMax           int
	InFlightBytesPerConnectionMax int64
	IdleTimeout                   time.Duration
	FrameTimeout                  time.Duration
	WriteTimeout                  time.Duration
	MemoryTimeout                 time.Duration
}

// Server is a running carrier.
type Server interface {
	Addr() net.Addr
	// Shutdown lets replies that are owed leave until ctx ends.
	Shutdown(ctx context.Context) error
	// Close ends everything at once. Both return when no goroutine is left, and
	// Close after Shutdown does nothing.
	Close() error
}

// Start starts a carrier on 127.0.0.1. It ends the test when it cannot.
type Start func(t testing.TB, config Config) Server

const frameBytesMax = 16 << 20

// scene is one running server and its judge.
type scene struct {
	t        *testing.T
	protocol *Protocol
	pool     *buffer.Pool
	server   Server
}

// newScene starts a server; at the end of the test the server is closed, what
// is held is completed late, and all accounts must balance.
func newScene(t *testing.T, start Start, poolBytes int64, adjust func(*Config)) *scene {
	t.Helper()
	s := &scene{t: t, protocol: NewProtocol(t, frameBytesMax), pool: buffer.NewPool(t.Name(), poolBytes)}
	config := Config{Protocol: s.protocol, Pool: s.pool, FrameBytesMax: min(frameBytesMax, s.pool.MaxBytes())}
	if adjust != nil {
		adjust(&config)
	}
	s.server = start(t, config)
	t.Cleanup(func() {
		if err := s.server.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		s.protocol.ReleaseHeld(1 << 30)
		s.protocol.Verify(t, s.pool)
		if err := s.pool.Close(); err != nil {
			t.Errorf("pool: %v", err)
		}
	})
	return s
}

func (s *scene) dial(token uint64) *Client {
	s.t.Helper()
	return Dial(s.t, s.server.Addr(), token)
}

// Run tells every story to a carrier.
func Run(t *testing.T, start Start) {
	for _, story := range []struct {
		name string
		tell func(*testing.T, Start)
	}{
		{"replies leave in request order whatever the order of completion", orderUnderRandomCompletion},
		{"a late-bound request begins when every earlier reply was written", lateBinding},
		{"frames arrive whole however they were cut", anyCut},
		{"a frame that is sent byte by byte is one frame", byteByByte},
		{"large frames and replies pass unchanged", largeFrames},
		{"requests without an answer leave nothing between the others", silentRequests},
		{"a claim above the limit ends the connection before it costs memory", oversizeClaim},
		{"a claim costs memory only as its bytes arrive", claimWithoutBytes},
		{"a half frame does not hold a connection for ever", halfFrame},
		{"a connection is not blamed for what the server did not read", stalledConnection},
		{"a connection with nothing half read holds no memory", quietConnections},
		{"an idle connection is closed, a waiting one is not", idleConnection},
		{"a reader that does not read is closed and harms nobody", slowReader},
		{"a spent pool stops the reading and recovers", spentPool},
		{"large frames that are never finished leave small ones their memory", unfinishedLargeFrames},
		{"the requests in flight of one connection are bounded", requestBudget},
		{"the bytes in flight of one connection are bounded", byteBudget},
		{"replies before a malformed frame are still written", malformedFrame},
		{"a session can hang up", sessionHangsUp},
		{"connections that come and go in storms mix nothing up", closingStorm},
		{"memory that was released never reaches the wire", poisonedMemory},
		{"a reply completed after the connection is gone is released once", lateCompletion},
		{"shutdown lets the replies that are owed leave", shutdownDrains},
		{"shutdown ends when its context does", shutdownExpires},
	} {
		t.Run(story.name, func(t *testing.T) {
			ignore := goleak.IgnoreCurrent()
			t.Run("story", func(t *testing.T) { story.tell(t, start) }) // its clean-up runs before we look
			goleak.VerifyNone(t, ignore)
		})
	}
}
