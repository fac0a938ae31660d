package broker

import (
	"math"
	"testing"

	"ringlog/meta"
)

// What Kafka would expire at once or keep for ever is noticed, and nothing else.
func TestClockSkew(t *testing.T) {
	const now, hour, day = 1_800_000_000_000, 3_600_000, 86_400_000
	week := meta.TopicConfig{Delete: true, RetentionMillis: 7 * day}
	moments := meta.TopicConfig{Delete: true, RetentionMillis: 100}
	for _, row := range []struct {
		name         string
		config       meta.TopicConfig
		maxTimestamp int64
		want         int64
	}{
		{"now", week, now, 0},
		{"two days back, of seven", week, now - 2*day, 0},
		{"at retention.ms", week, now - 7*day, 0},
		{"past retention.ms", week, now - 7*day - 1, -7*day - 1},
		{"past retention.ms of moments", moments, now - 1000, 0},
		{"minutes back, of moments", moments, now - 2*60_000, -2 * 60_000},
		{"kept for ever", meta.TopicConfig{Delete: true, RetentionMillis: -1}, 0, 0},
		{"not deleted", meta.TopicConfig{RetentionMillis: 1}, 0, 0},
		{"no timestamp", week, -1, 0},
		{"an hour ahead", week, now + hour, 0},
		{"more", week, now + hour + 1, hour + 1},
		{"the end of time", week, math.MaxInt64, math.MaxInt64 - now},
	} {
		if got := clockSkew(&row.config, row.maxTimestamp, now); got != row.want {
			t.Errorf("%s: %d, want %d", row.name, got, row.want)
		}
	}
}
