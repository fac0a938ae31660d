package loop_test

import (
	"context"
	"log/slog"
	"testing"

	"ringlog/frontend/frontendtest"
	"ringlog/net/loop"
	"ringlog/net/stream"
)

func TestConformance(t *testing.T) {
	frontendtest.Run(t, func(t testing.TB, config frontendtest.Config) frontendtest.Server {
		l, err := loop.Listen(context.Background(), "127.0.0.1:0", loop.Options{
			LoopCount: 2,
			Options: stream.Options{
				Protocol:                      config.Protocol,
				Pool:                          config.Pool,
				FrameBytesMax:                 config.FrameBytesMax,
				InFlightRequestsMax:           config.InFlightRequestsMax,
				InFlightBytesPerConnectionMax: config.InFlightBytesPerConnectionMax,
				IdleTimeout:                   config.IdleTimeout,
				FrameTimeout:                  config.FrameTimeout,
				WriteTimeout:                  config.WriteTimeout,
				MemoryTimeout:                 config.MemoryTimeout,
				Logger:                        slog.New(slog.DiscardHandler),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return l
	})
}
