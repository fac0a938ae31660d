package engine

import (
	"testing"

	"ringlog/engine/disk"
)

// Memory of replaced files comes back, aligned and large enough; little of it is kept, and
// of that the largest.
func TestScratchIsUsedAgain(t *testing.T) {
	var m scratch
	first := m.take(3 * disk.BlockBytes)
	if len(first) != 3*disk.BlockBytes || !disk.Aligned(first) {
		t.Fatalf("%d bytes, aligned %t", len(first), disk.Aligned(first))
	}
	m.give(first)
	if again := m.take(4 * disk.BlockBytes); &again[0] != &first[0] {
		t.Error("what fits is not used again")
	}
	for range 2 * scratchesMax {
		m.give(disk.AlignedBytes(disk.BlockBytes))
	}
	m.give(disk.AlignedBytes(scratchBytesMax))
	m.give(disk.AlignedBytes(2 * scratchBytesMax))
	largest := 0
	for _, memory := range m.free {
		largest = max(largest, cap(memory))
	}
	if len(m.free) != scratchesMax || largest != scratchBytesMax {
		t.Errorf("%d are kept, the largest of %d bytes; want %d and %d", len(m.free), largest, scratchesMax, scratchBytesMax)
	}
}
