package engine

import (
	"bytes"
	"testing"
)

func TestProduceIsAnsweredWhenDurableAndCanBeRead(t *testing.T) {
	r := newRig(t)
	r.start()
	r.open()
	var want [][]byte
	next := int64(0)
	for i := range 50 {
		b := batchOf(uint64(i), 1+i%3, 100+i*37, int64(1000+i))
		if base := r.produce(b); base != next {
			t.Fatalf("batch %d got offset %d, want %d", i, base, next)
		}
		next = b.LastOffset() + 1
		want = append(want, append([]byte(nil), b...))
	}
	if f := r.log.Frontiers(); f.HighWatermark != next || f.Durable != next || f.Next != next {
		t.Fatalf("frontiers %+v, want all %d", f, next)
	}
	check := func(when string) {
		t.Helper()
		got := r.readAll(0)
		if len(got) != len(want) {
			t.Fatalf("%s: %d batches, want %d", when, len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("%s: batch %d differs", when, i)
			}
		}
	}
	check("at the tail")
	r.crash()
	r.start()
	r.open()
	check("after a crash, from disk")
	r.close()
	r.start()
	r.open()
	check("after a clean close")
	r.close()
}
