//go:build !race && !invariants

package stream_test

import (
	"bytes"
	"io"
	"net"
	"testing"

	"ringlog/net/stream"
)

// A request and its reply cost the carrier no allocation, alone or in a pipeline.
func TestRoundTripDoesNotAllocate(t *testing.T) {
	for _, depth := range []int{1, 64} {
		c := dial(t, listen(t, &lineProtocol{}, stream.Options{}))
		turn := roundTripper(t, c, depth)
		for range 200 {
			turn() // until turns, blocks and lists have their size
		}
		if allocations := testing.AllocsPerRun(500, turn); allocations >= 1 {
			t.Errorf("depth %d: %v allocations per round", depth, allocations)
		}
	}
}

func roundTripper(t testing.TB, c net.Conn, depth int) func() {
	requests := bytes.Repeat(line(100), depth)
	replies := make([]byte, 3*depth)
	return func() {
		if _, err := c.Write(requests); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, replies); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, depth := range []struct {
		name  string
		count int
	}{{"depth=1", 1}, {"depth=64", 64}} {
		b.Run(depth.name, func(b *testing.B) {
			turn := roundTripper(b, dial(b, listen(b, &lineProtocol{}, stream.Options{})), depth.count)
			b.ReportAllocs()
			for b.Loop() {
				turn()
			}
			b.ReportMetric(float64(b.N)*float64(depth.count)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
