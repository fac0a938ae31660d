package plan

import (
	"testing"
	"time"
)

// A scan has the whole device while nobody appends, and a quarter of its depth beside appends.
func TestColdReadsMakeRoomForAppends(t *testing.T) {
	for _, row := range []struct {
		since       time.Duration
		depth, step int64
	}{
		{0, 512 << 10, 256 << 10},
		{99 * time.Millisecond, 512 << 10, 256 << 10},
		{100 * time.Millisecond, 2 << 20, 1 << 20},
		{time.Hour, 2 << 20, 1 << 20},
	} {
		c := Cold{SinceAppend: row.since}
		if c.DepthBytes() != row.depth || c.StepBytes() != row.step {
			t.Errorf("%v after an append: %d bytes in steps of %d", row.since, c.DepthBytes(), c.StepBytes())
		}
	}
}
