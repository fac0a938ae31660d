package loop_test

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"go.uber.org/goleak"

	"ringlog/buffer"
	"ringlog/frontend"
	"ringlog/frontend/frontendtest"
	"ringlog/net/loop"
	"ringlog/net/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen starts a listener with two loops that ends with the test.
func listen(t testing.TB, protocol frontend.Protocol, options stream.Options) *loop.Listener {
	t.Helper()
	options.Protocol = protocol
	if options.Pool == nil {
		options.Pool = buffer.NewPool(t.Name(), 16<<20)
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	l, err := loop.Listen(context.Background(), "127.0.0.1:0", loop.Options{Options: options, LoopCount: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if open, light := l.Metrics().ConnectionsOpen.Load(), l.Metrics().ConnectionsLight.Load(); open != 0 || light != 0 {
			t.Errorf("after the end %d connections are open, %d of them light", open, light)
		}
		if err := options.Pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func dial(t testing.TB, l *loop.Listener) *net.TCPConn {
	t.Helper()
	return frontendtest.DialLines(t, l.Addr())
}
