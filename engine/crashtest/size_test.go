package crashtest

import (
	"testing"

	"ringlog/engine"
	"ringlog/engine/disk"
)

// appendBig counts on knowing how large a batch becomes.
func TestBlockOverhead(t *testing.T) {
	s := newSubmissions()
	for _, valueBytes := range []int{64, 600, 4000, 2*disk.BlockBytes - blockOverhead} {
		b := s.make(engine.LogID{}, 1, 0, 1, valueBytes, startMillis)
		if got := len(b.bytes) - valueBytes; got != blockOverhead {
			t.Errorf("a batch with a value of %d bytes takes %d more, want %d", valueBytes, got, blockOverhead)
		}
	}
}
