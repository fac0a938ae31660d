package engine

import (
	"fmt"
	"testing"

	"ringlog/engine/disk"
	"ringlog/engine/segment"
	"ringlog/record"
)

// What the engine itself costs per batch, on a disk that takes no time:
// sequencing, the copy, bookkeeping of writes and flushes, the answer.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 256 << 10} {
		for _, together := range []int{1, 32} {
			b.Run(fmt.Sprintf("%dKiB/%d", size>>10, together), func(b *testing.B) { benchmarkAppend(b, size, together) })
		}
	}
}

func benchmarkAppend(b *testing.B, size, together int) {
	r := newRig(b)
	r.opened = func() (disk.Disk, error) { return new(instantDisk), nil }
	// Offsets fit into an index of 31 bits, so that a long run rolls now and then.
	r.config = LogConfig{SegmentBytes: segment.SegmentBytesMax}
	r.start()
	r.open()
	owner := new(counting)
	batch := record.Batch(rawBatch(1, 1, size-record.HeaderBytes, 1))
	groups := make([]AppendGroup, together)
	for i := range groups {
		groups[i] = AppendGroup{Owner: owner, Appends: make([]Append, 1)}
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		before := owner.answered
		for i := range groups {
			groups[i].Appends[0] = Append{Log: r.log, Batch: batch}
			r.step.Append(&groups[i])
		}
		for owner.answered < before+together {
			if err := r.step.Turn(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.SetBytes(int64(size * together))
	if owner.failed > 0 {
		b.Fatalf("%d appends failed", owner.failed)
	}
}
