package engine

import (
	"ringlog/engine/disk"
	"ringlog/engine/plan"
)

const (
	// scratchesMax and scratchBytesMax bound what a shard keeps of the memory of files that it
	// replaced: as much as the index of a large segment takes, for a few jobs at a time.
	scratchesMax    = 4
	scratchBytesMax = 256 << 10
)

// scratch is aligned memory for files that are written whole, used again: a log writes its
// indexes every few MiB, and at a gigabyte a second garbage of their size
// would set the pace of the collector, which empties all pools. Owner: the shard.
type scratch struct{ free [][]byte }

// take returns size bytes, a whole number of blocks, with any content.
func (m *scratch) take(size int) []byte {
	for i, spare := range m.free {
		if cap(spare) >= size {
			last := len(m.free) - 1
			m.free[i] = m.free[last]
			m.free = m.free[:last]
			return spare[:size]
		}
	}
	return disk.AlignedBytes(int(plan.PowerOfTwo(int64(size))))[:size]
}

// give takes memory back that no operation in flight refers to.
func (m *scratch) give(memory []byte) {
	if cap(memory) > scratchBytesMax {
		return
	}
	if len(m.free) < scratchesMax {
		m.free = append(m.free, memory)
		return
	}
	smallest := 0
	for i, spare := range m.free {
		if cap(spare) < cap(m.free[smallest]) {
			smallest = i
		}
	}
	if cap(m.free[smallest]) < cap(memory) {
		m.free[smallest] = memory
	}
}
