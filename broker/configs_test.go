package broker

import (
	"math"
	"testing"

	"ringlog/engine"
	"ringlog/meta"
)

// Kafka's topic configurations: 0 is a value of its own, and -1 no limit. The engine fills in its
// default where it gets 0, so it never gets it for these.
func TestATopicsZeroIsNotTheEnginesDefault(t *testing.T) {
	for _, c := range []struct {
		topic meta.TopicConfig
		want  engine.LogConfig
	}{
		{meta.TopicConfig{}, engine.LogConfig{RetentionMillis: 1, RetentionBytes: 1, FileDeleteMillis: 1, DirtyRatioMin: math.SmallestNonzeroFloat64, TombstoneMillis: 1}},
		{meta.TopicConfig{RetentionMillis: -1, RetentionBytes: -1, FileDeleteMillis: 60_000, DirtyRatioMin: 0.5, TombstoneMillis: 3},
			engine.LogConfig{RetentionMillis: -1, RetentionBytes: -1, FileDeleteMillis: 60_000, DirtyRatioMin: 0.5, TombstoneMillis: 3}},
		{meta.TopicConfig{RetentionMillis: 5, RetentionBytes: 7, FileDeleteMillis: 9, Compact: true, DirtyRatioMin: 1, TombstoneMillis: 1, CompactionLagMinMillis: 2, CompactionLagMaxMillis: 4},
			engine.LogConfig{RetentionMillis: 5, RetentionBytes: 7, FileDeleteMillis: 9, Compact: true, DirtyRatioMin: 1, TombstoneMillis: 1, CompactionLagMinMillis: 2, CompactionLagMaxMillis: 4}},
	} {
		if got := logConfig(&c.topic); got != c.want {
			t.Errorf("%+v becomes %+v, want %+v", c.topic, got, c.want)
		}
	}
}
