//go:build linux && !race && !invariants

package loop_test

import (
	"testing"

	"ringlog/buffer"
	"ringlog/frontend"
	"ringlog/frontend/frontendtest"
	"ringlog/net/stream"
)

// replier answers from a goroutine of its own, as shards do.
func replier(t testing.TB) *frontendtest.Lines {
	turns := make(chan frontend.Turn, 1024)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for turn := range turns {
			frontendtest.AnswerLine(turn)
		}
	}()
	t.Cleanup(func() {
		close(turns)
		<-done
	})
	return &frontendtest.Lines{OnLine: func(conn frontend.Conn, frame *buffer.Buffer, _ []byte) error {
		frame.Release()
		turns <- conn.Turn(nil)
		return nil
	}}
}

// A request and its reply cost no allocation, alone or in a pipeline, answered by the loop
// itself or by somebody who has to wake it.
func TestRoundTripDoesNotAllocate(t *testing.T) {
	for name, protocol := range map[string]*frontendtest.Lines{"at once": {}, "elsewhere": replier(t)} {
		for _, depth := range []int{1, 64} {
			l := listen(t, protocol, stream.Options{})
			turn := frontendtest.RoundTripper(t, dial(t, l), depth)
			for range 200 {
				turn() // until turns, blocks and lists have their size
			}
			if allocations := testing.AllocsPerRun(500, turn); allocations >= 1 {
				t.Errorf("%s, depth %d: %v allocations per round", name, depth, allocations)
			}
			if light := l.Metrics().ConnectionsLight.Load(); light != 1 {
				t.Errorf("%s, depth %d: the connection moved, which is not what is tested", name, depth)
			}
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, shape := range []struct {
		name      string
		elsewhere bool
		depth     int
	}{{"at once/depth=1", false, 1}, {"at once/depth=64", false, 64}, {"elsewhere/depth=1", true, 1}, {"elsewhere/depth=64", true, 64}} {
		b.Run(shape.name, func(b *testing.B) {
			protocol := &frontendtest.Lines{}
			if shape.elsewhere {
				protocol = replier(b)
			}
			turn := frontendtest.RoundTripper(b, dial(b, listen(b, protocol, stream.Options{})), shape.depth)
			b.ReportAllocs()
			for b.Loop() {
				turn()
			}
			b.ReportMetric(float64(b.N)*float64(shape.depth)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
