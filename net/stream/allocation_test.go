//go:build !race && !invariants

package stream_test

import (
	"testing"

	"ringlog/frontend/frontendtest"
	"ringlog/net/stream"
)

// A request and its reply cost the carrier no allocation, alone or in a pipeline.
func TestRoundTripDoesNotAllocate(t *testing.T) {
	for _, depth := range []int{1, 64} {
		c := dial(t, listen(t, &frontendtest.Lines{}, stream.Options{}))
		turn := frontendtest.RoundTripper(t, c, depth)
		for range 200 {
			turn() // until turns, blocks and lists have their size
		}
		if allocations := testing.AllocsPerRun(500, turn); allocations >= 1 {
			t.Errorf("depth %d: %v allocations per round", depth, allocations)
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, depth := range []struct {
		name  string
		count int
	}{{"depth=1", 1}, {"depth=64", 64}} {
		b.Run(depth.name, func(b *testing.B) {
			turn := frontendtest.RoundTripper(b, dial(b, listen(b, &frontendtest.Lines{}, stream.Options{})), depth.count)
			b.ReportAllocs()
			for b.Loop() {
				turn()
			}
			b.ReportMetric(float64(b.N)*float64(depth.count)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
