package main

import (
	"math"
	"testing"
)

// kafka-map 1M: adding partitions rehomes keys by hash modulo the number of partitions.
func TestTheShareOfKeysThatMoveIsExact(t *testing.T) {
	for _, c := range []struct {
		from, to int
		percent  float64
	}{{6, 12, 50}, {12, 13, 92}, {16, 24, 67}, {1, 2, 50}, {5, 5, 0}} {
		moved, hashes := 0, 100*c.from*c.to
		for hash := range hashes {
			if hash%c.from != hash%c.to {
				moved++
			}
		}
		want := float64(moved) / float64(hashes)
		if got := keysMoved(c.from, c.to); math.Abs(got-want) > 1e-9 || math.Round(100*got) != c.percent {
			t.Errorf("from %d to %d: %.4f, counted %.4f, known as %v %%", c.from, c.to, got, want, c.percent)
		}
	}
}
