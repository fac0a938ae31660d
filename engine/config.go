package engine

import (
	"log/slog"
	"math"
	"time"

	"ringlog/engine/plan"
	"ringlog/engine/segment"
)

// Defaults of LogConfig (Kafka 4.4, but for FlushMessages) and of Options.
const (
	defaultSegmentBytes       = 1 << 30
	defaultSegmentMillis      = 7 * 24 * 3600 * 1000
	defaultRetentionMillis    = 7 * 24 * 3600 * 1000
	defaultIndexIntervalBytes = 4096
	defaultFileDeleteMillis   = 60_000
	defaultDirtyRatioMin      = 0.5
	defaultTombstoneMillis    = 24 * 3600 * 1000

	defaultCheckpointInterval = 5 * time.Second
	defaultRetentionInterval  = 5 * time.Minute
	defaultCleanInterval      = 15 * time.Second
	defaultCleanKeyBytes      = 128 << 20
	defaultFilesOpenMax       = 4096
	filesOpenMin              = 16
	defaultScrubInterval      = 7 * 24 * time.Hour

	segmentBytesMin = 4096

	// FreeBytesDefault in Options.FreeBytesMin lets the size of the file system decide.
	FreeBytesDefault = -1

	// JournalBytesMin and JournalBytesMax bound Options.JournalBytes: what a start finds in
	// the journals is in memory until it is merged.
	JournalBytesMin = plan.JournalBytesMin
	JournalBytesMax = 4 << 30
)

// withDefaults replaces zero values and brings the rest into bounds.
func (c LogConfig) withDefaults() LogConfig {
	if c.SegmentBytes == 0 {
		c.SegmentBytes = defaultSegmentBytes
	}
	c.SegmentBytes = min(max(c.SegmentBytes, segmentBytesMin), segment.SegmentBytesMax)
	if c.SegmentMillis <= 0 {
		c.SegmentMillis = defaultSegmentMillis
	}
	if c.RetentionMillis == 0 {
		c.RetentionMillis = defaultRetentionMillis
	}
	if c.RetentionBytes == 0 {
		c.RetentionBytes = -1
	}
	if c.IndexIntervalBytes <= 0 {
		c.IndexIntervalBytes = defaultIndexIntervalBytes
	}
	if c.FlushMessages <= 0 {
		c.FlushMessages = 1
	}
	if c.FlushMillis < 0 || c.FlushMillis > math.MaxInt64/int64(time.Millisecond) {
		c.FlushMillis = 0 // Kafka's default, the largest number, is never by time too
	}
	if c.FileDeleteMillis <= 0 {
		c.FileDeleteMillis = defaultFileDeleteMillis
	}
	if c.DirtyRatioMin == 0 {
		c.DirtyRatioMin = defaultDirtyRatioMin
	}
	if c.CompactionLagMaxMillis <= 0 {
		c.CompactionLagMaxMillis = math.MaxInt64
	}
	if c.TombstoneMillis == 0 {
		c.TombstoneMillis = defaultTombstoneMillis
	}
	if c.Compact { // what is not in a sealed segment is not compacted
		c.SegmentMillis = min(c.SegmentMillis, c.CompactionLagMaxMillis)
	}
	return c
}

func (c LogConfig) relaxed() bool { return c.FlushMessages > 1 }

// started is when the system's monotonic clock reads zero.
var started = time.Now()

// withDefaults replaces zero values.
func (o Options) withDefaults() Options {
	if o.CheckpointInterval <= 0 {
		o.CheckpointInterval = defaultCheckpointInterval
	}
	if o.RetentionInterval <= 0 {
		o.RetentionInterval = defaultRetentionInterval
	}
	if o.ScrubInterval <= 0 {
		o.ScrubInterval = defaultScrubInterval
	}
	if o.CleanInterval <= 0 {
		o.CleanInterval = defaultCleanInterval
	}
	if o.CleanKeyBytes <= 0 {
		o.CleanKeyBytes = defaultCleanKeyBytes
	}
	if o.Shards <= 0 {
		o.Shards = 1
	}
	if o.FilesOpenMax <= 0 {
		o.FilesOpenMax = defaultFilesOpenMax
	}
	o.FilesOpenMax = max(o.FilesOpenMax, filesOpenMin)
	if o.JournalBytes > 0 {
		o.JournalBytes = min(max(o.JournalBytes, JournalBytesMin), JournalBytesMax)
	}
	if o.FilesFlushMax <= 0 {
		o.FilesFlushMax = plan.FilesFlushMax
	}
	if o.NewStore == nil {
		o.NewStore = newStore
	}
	if o.NowMillis == nil {
		o.NowMillis = func() int64 { return time.Now().UnixMilli() }
	}
	if o.Monotonic == nil {
		o.Monotonic = func() time.Duration { return time.Since(started) }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
