package loop

import (
	"context"
	"log/slog"
	"testing"

	"github.com/panjf2000/gnet/v2"
)

// wakeHandler tells when its loop was reached.
type wakeHandler struct {
	gnet.BuiltinEventEngine
	reached chan struct{}
}

func (h *wakeHandler) OnTraffic(c gnet.Conn) gnet.Action {
	_, _ = c.Discard(-1)
	h.reached <- struct{}{}
	return gnet.None
}

// BenchmarkWake compares the ways to wake a loop: ours, and gnet's own two.
func BenchmarkWake(b *testing.B) {
	h := &wakeHandler{reached: make(chan struct{}, 1)}
	client, err := gnet.NewClient(h, gnet.WithOptions(gnet.Options{NumEventLoop: 1, Logger: gnetLogger{slog.New(slog.DiscardHandler)}}))
	if err != nil {
		b.Fatal(err)
	}
	if err := client.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = client.Stop() }()
	bell, ear, err := newBell()
	if err != nil {
		b.Fatal(err)
	}
	defer bell.close()
	conn, err := client.Enroll(ear)
	if err != nil {
		b.Fatal(err)
	}
	runnable := gnet.RunnableFunc(func(context.Context) error {
		h.reached <- struct{}{}
		return nil
	})
	for _, way := range []struct {
		name string
		wake func()
	}{
		{"bell", bell.ring},
		{"Execute", func() { _ = conn.EventLoop().Execute(context.Background(), runnable) }},
		{"Wake", func() { _ = conn.Wake(nil) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				way.wake()
				<-h.reached
			}
		})
	}
}
