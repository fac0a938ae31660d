package server

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ringlog/engine"
)

// engineMetrics is what is exported of the storage engine without labels.
var engineMetrics = []metric{
	{"engine_appends_total", "Batches that got an offset.", counter, func(s *sample) float64 { return float64(s.engine.Appends) }},
	{"engine_append_bytes_total", "Bytes of batches that got an offset.", counter, func(s *sample) float64 { return float64(s.engine.AppendBytes) }},
	{"engine_writes_total", "Writes to segments.", counter, func(s *sample) float64 { return float64(s.engine.Writes) }},
	{"engine_write_bytes_total", "Bytes written to segments, in whole blocks.", counter, func(s *sample) float64 { return float64(s.engine.WriteBytes) }},
	{"engine_short_writes_total", "Writes that the device took in part and that were submitted again.", counter, func(s *sample) float64 { return float64(s.engine.ShortWrites) }},
	{"engine_flushes_total", "Rounds of flushes of segments, each for all logs that waited for one.", counter, func(s *sample) float64 { return float64(s.engine.Flushes) }},
	{"engine_flush_seconds_total", "Time that rounds of flushes of segments took, in seconds.", counter, func(s *sample) float64 { return s.engine.FlushTime.Seconds() }},
	{"engine_rolls_total", "Segments that were started because another was full or old.", counter, func(s *sample) float64 { return float64(s.engine.Rolls) }},
	{"engine_tail_evictions_total", "Pieces of the tail cache given up for new records.", counter, func(s *sample) float64 { return float64(s.engine.Evictions) }},
	{"engine_logs", "Open logs.", gauge, func(s *sample) float64 { return float64(s.engine.Logs) }},
	{"engine_poisoned_logs", "Logs that take no more records after a disk failure.", gauge, func(s *sample) float64 { return float64(s.engine.PoisonedLogs) }},
	{"engine_tail_bytes", "Memory of the tails of logs: dirty bytes and cache.", gauge, func(s *sample) float64 { return float64(s.engine.TailBytes) }},
	{"engine_index_bytes", "Memory of the indexes of sealed segments.", gauge, func(s *sample) float64 { return float64(s.engine.IndexBytes) }},
	{"engine_files_open", "Segment files that are open.", gauge, func(s *sample) float64 { return float64(s.engine.FilesOpen) }},
	{"engine_waiting_appends", "Batches that wait for memory, disk space or room in the commit journal.", gauge, func(s *sample) float64 { return float64(s.engine.WaitingAppends) }},
	{"engine_parked_reads", "Fetches that wait for records.", gauge, func(s *sample) float64 { return float64(s.engine.ParkedReads) }},
	{"engine_cache_window_seconds", "How far back memory reaches: a consumer that lags less than this is served without the disk, whatever it reads. The least of all shards; since the start while nothing had to be evicted.", gauge, func(s *sample) float64 { return s.engine.CacheWindow.Seconds() }},
	{"engine_tail_reads_total", "Partitions of fetches served from memory: hits.", counter, func(s *sample) float64 { return float64(s.engine.TailReads) }},
	{"engine_tail_read_bytes_total", "Bytes served from memory: hits.", counter, func(s *sample) float64 { return float64(s.engine.TailReadBytes) }},
	{"engine_cold_reads_total", "Partitions of fetches served from disk: misses.", counter, func(s *sample) float64 { return float64(s.engine.ColdReads) }},
	{"engine_cold_read_bytes_total", "Bytes served from disk: misses.", counter, func(s *sample) float64 { return float64(s.engine.ColdReadBytes) }},
	{"engine_cold_waits_total", "Times that a read from disk waited for memory.", counter, func(s *sample) float64 { return float64(s.engine.ColdWaits) }},
	{"engine_read_ahead_bytes_total", "Bytes read from disk before they were asked for.", counter, func(s *sample) float64 { return float64(s.engine.AheadBytes) }},
	{"engine_read_ahead_hit_bytes_total", "Of the bytes served from disk, those that had been read ahead.", counter, func(s *sample) float64 { return float64(s.engine.AheadHitBytes) }},
	{"engine_read_ahead_wasted_bytes_total", "Bytes read ahead and given up unused.", counter, func(s *sample) float64 { return float64(s.engine.AheadWasteBytes) }},
	{"engine_restored_bytes_total", "Bytes read again because a consumer had not read its answer while its memory was needed.", counter, func(s *sample) float64 { return float64(s.engine.RestoredBytes) }},
	{"engine_corruptions_total", "Stored ranges found corrupt.", counter, func(s *sample) float64 { return float64(s.engine.Corruptions) }},
	{"engine_damaged_ranges", "Stored ranges that are known to be damaged and are not served; those of logs that have closed since are not counted.", gauge, func(s *sample) float64 { return float64(s.engine.DamagedRanges) }},
	{"engine_read_errors_total", "Reads that the disk has failed.", counter, func(s *sample) float64 { return float64(s.engine.ReadErrors) }},
	{"engine_rereads_total", "Reads that were repeated because they returned other bytes than are stored: a sign of a bad controller, cable or memory.", counter, func(s *sample) float64 { return float64(s.engine.Rereads) }},
	{"engine_indexes_rebuilt_total", "Indexes of segments that were missing, damaged or wrong.", counter, func(s *sample) float64 { return float64(s.engine.IndexesRebuilt) }},
	{"engine_scrub_bytes_total", "Bytes of sealed segments that were read again in the background.", counter, func(s *sample) float64 { return float64(s.engine.ScrubBytes) }},
	{"engine_scrub_passes_total", "Times that all of them were, by all shards together.", counter, func(s *sample) float64 { return float64(s.engine.ScrubPasses) }},
	{"engine_scrub_last_pass_age_seconds", "Time since the last time that all of them were, or since the start.", gauge, func(s *sample) float64 { return s.engine.ScrubAge.Seconds() }},
	{"engine_scrub_progress", "Share of the present pass, or of the last one, that is done.", gauge, func(s *sample) float64 { return ratio(s.engine.ScrubDoneBytes, s.engine.ScrubTotalBytes) }},
	{"engine_oldest_operation_seconds", "For how long the oldest operation of the disk has been under way, within about a second.", gauge, func(s *sample) float64 { return s.engine.OldestOperation.Seconds() }},
	{"engine_slow_shards", "Shards whose disk has not answered for five seconds.", gauge, func(s *sample) float64 { return float64(s.engine.SlowShards) }},
	{"engine_slow_total", "Times that a disk did not answer for five seconds.", counter, func(s *sample) float64 { return float64(s.engine.SlowTimes) }},
	{"engine_checkpoints_total", "Recovery checkpoints written.", counter, func(s *sample) float64 { return float64(s.engine.Checkpoints) }},
	{"engine_segments_deleted_total", "Segments that retention removed.", counter, func(s *sample) float64 { return float64(s.engine.SegmentsDeleted) }},
	{"engine_compacted_logs", "Logs whose cleanup.policy contains compact.", gauge, func(s *sample) float64 { return float64(s.engine.CompactedLogs) }},
	{"engine_uncleanable_logs", "Of them, those whose last compaction failed: the log says why; they are tried again.", gauge, func(s *sample) float64 { return float64(s.engine.Uncleanable) }},
	{"engine_compaction_dirty_ratio_max", "The largest share of a compacted log that is not compacted yet.", gauge, func(s *sample) float64 { return s.engine.DirtyRatioMax }},
	{"engine_compaction_overdue_seconds", "For how long the oldest record has waited for compaction beyond max.compaction.lag.ms.", gauge, func(s *sample) float64 { return s.engine.CleanOverdue.Seconds() }},
	{"engine_compactions_total", "Compactions of a log that ended well.", counter, func(s *sample) float64 { return float64(s.engine.Cleans) }},
	{"engine_compaction_failures_total", "Compactions of a log that failed.", counter, func(s *sample) float64 { return float64(s.engine.CleanFailures) }},
	{"engine_compaction_seconds_total", "Time that compaction took.", counter, func(s *sample) float64 { return s.engine.CleanTime.Seconds() }},
	{"engine_compaction_read_bytes_total", "Bytes that compaction read.", counter, func(s *sample) float64 { return float64(s.engine.CleanReadBytes) }},
	{"engine_compaction_write_bytes_total", "Bytes that compaction wrote.", counter, func(s *sample) float64 { return float64(s.engine.CleanWriteBytes) }},
	{"engine_compaction_dropped_records_total", "Records that compaction dropped: a newer one of the key is there, or it was a tombstone whose time was up.", counter, func(s *sample) float64 { return float64(s.engine.CleanDropped) }},
	{"engine_recovered_bytes_total", "Bytes read to open logs.", counter, func(s *sample) float64 { return float64(s.engine.RecoveredBytes) }},
	{"engine_recovery_seconds_total", "Time that opening logs took, all logs together.", counter, func(s *sample) float64 { return s.engine.RecoveryTime.Seconds() }},
	{"engine_oldest_unflushed_seconds", "For how long the oldest batch that is written to a segment has waited for its flush.", gauge, func(s *sample) float64 { return s.engine.OldestUnflushed.Seconds() }},
	{"engine_relaxed_appends_total", "Batches for topics whose flush.messages is above 1.", counter, func(s *sample) float64 { return float64(s.engine.RelaxedAppends) }},
	{"engine_dirty_bytes", "Bytes of batches that are in memory and in no segment yet.", gauge, func(s *sample) float64 { return float64(s.engine.DirtyBytes) }},
	{"engine_write_back_bytes_total", "Bytes written to segments after the commit journal had made them durable, in whole blocks.", counter, func(s *sample) float64 { return float64(s.engine.BackBytes) }},
	{"engine_write_amplification", "Bytes that the device was given for each byte of a batch, since the start, without the zeros that prepare space; 0 before the first.", gauge, func(s *sample) float64 {
		return ratio(s.engine.DeviceBytes()-s.engine.PreparedBytes, s.engine.AppendBytes)
	}},
	{"engine_spills_total", "Files with journal entries of one log that were put aside because its segments could not take them.", counter, func(s *sample) float64 { return float64(s.engine.Spills) }},
	{"engine_poisoned_shards", "Shards that take no more records after a failure of their commit journal or file system.", gauge, func(s *sample) float64 { return float64(s.engine.PoisonedShards) }},
	{"engine_space_refusals_total", "Batches that were refused because the disk, or what may be used of it, is full.", counter, func(s *sample) float64 { return float64(s.engine.SpaceRefusals) }},
	{"engine_disk_bytes", "Size of the file system of the data directory, as long as some of it is kept free (ringlog.disk.free.min.bytes).", gauge, func(s *sample) float64 { return float64(s.engine.DiskBytes) }},
	{"engine_disk_free_bytes", "What of it the broker may still take.", gauge, func(s *sample) float64 { return float64(s.engine.DiskFreeBytes) }},
	{"engine_disk_free_min_bytes", "What of it is kept free: when less is, produces that need new space are refused.", gauge, func(s *sample) float64 { return float64(s.engine.DiskFreeMin) }},
	{"engine_disk_low", "Shards that refuse produces because less is free.", gauge, func(s *sample) float64 { return float64(s.engine.DiskLow) }},

	{"engine_journal_bytes", "Size of the commit journals of all shards, 0 without one.", gauge, func(s *sample) float64 { return float64(s.engine.JournalBytes) }},
	{"engine_journal_used_bytes", "Bytes of the commit journals that some segment still needs.", gauge, func(s *sample) float64 { return float64(s.engine.JournalUsedBytes) }},
	{"engine_journal_oldest_seconds", "For how long the oldest of them has been needed.", gauge, func(s *sample) float64 { return s.engine.OldestJournaled.Seconds() }},
	{"engine_journal_appends_total", "Batches that were put into the commit journal; the others go to their segments at once.", counter, func(s *sample) float64 { return float64(s.engine.JournalAppends) }},
	{"engine_journal_append_bytes_total", "Bytes of batches that were put into the commit journal.", counter, func(s *sample) float64 { return float64(s.engine.JournalAppendBytes) }},
	{"engine_journal_frames_total", "Frames written to the commit journal.", counter, func(s *sample) float64 { return float64(s.engine.Frames) }},
	{"engine_journal_entries_total", "Entries in these frames: one for each log and frame.", counter, func(s *sample) float64 { return float64(s.engine.FrameEntries) }},
	{"engine_journal_fulls_total", "Times that the commit journal was so full that appends waited.", counter, func(s *sample) float64 { return float64(s.engine.JournalFulls) }},
	{"engine_journal_full_seconds_total", "Time that the commit journal was so full that appends waited.", counter, func(s *sample) float64 { return s.engine.JournalFullTime.Seconds() }},
	{"engine_journal_trims_total", "Times that space of the commit journal was made free for reuse.", counter, func(s *sample) float64 { return float64(s.engine.Trims) }},
	{"engine_journal_trim_seconds_total", "Time that this took, write-back, flush and checkpoint included.", counter, func(s *sample) float64 { return s.engine.TrimTime.Seconds() }},
}

// shardMetrics is what shows how evenly the shards of the engine are loaded.
var shardMetrics = []struct {
	description *prometheus.Desc
	kind        prometheus.ValueType
	value       func(m *engine.Metrics) int64
}{
	{shardDescription("logs", "Open logs, by shard."), gauge, func(m *engine.Metrics) int64 { return m.Logs }},
	{shardDescription("append_bytes_total", "Bytes of batches that got an offset, by shard."), counter, func(m *engine.Metrics) int64 { return m.AppendBytes }},
	{shardDescription("flushes_total", "Rounds of flushes of segments, by shard."), counter, func(m *engine.Metrics) int64 { return m.Flushes }},
	{shardDescription("commits_total", "Flushes of the commit journal, by shard."), counter, func(m *engine.Metrics) int64 { return m.Commits }},
	{shardDescription("dirty_bytes", "Bytes of batches that are in memory and in no segment yet, by shard."), gauge, func(m *engine.Metrics) int64 { return m.DirtyBytes }},
	{shardDescription("journal_used_bytes", "Bytes of the commit journal that some segment still needs, by shard."), gauge, func(m *engine.Metrics) int64 { return m.JournalUsedBytes }},
	{shardDescription("poisoned", "Whether the shard takes no more records: 1 after a failure of its commit journal or file system."), gauge, func(m *engine.Metrics) int64 { return m.PoisonedShards }},
}

func shardDescription(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(metricNamePrefix+"shard_"+name, help, []string{"shard"}, nil)
}

// deviceBytes tells what the device was given to write. With appended bytes it is the amplification.
var deviceBytes = prometheus.NewDesc(metricNamePrefix+"engine_device_bytes_total",
	"Bytes that the device was given to write, by what for: the commit journal, segments, zeros that prepare space, and all other files.", []string{"kind"}, nil)

// engineHistograms is how long flushes take.
var engineHistograms = []struct {
	description *prometheus.Desc
	times       func(m *engine.Metrics) (*engine.Durations, time.Duration)
}{
	{prometheus.NewDesc(metricNamePrefix+"engine_journal_flush_seconds", "Time that a flush of the commit journal took: a commit of all logs that had waited for it.", nil, nil),
		func(m *engine.Metrics) (*engine.Durations, time.Duration) { return &m.CommitTimes, m.CommitTime }},
	{prometheus.NewDesc(metricNamePrefix+"engine_segment_flush_seconds", "Time that a round of flushes of segments took.", nil, nil),
		func(m *engine.Metrics) (*engine.Durations, time.Duration) { return &m.FlushTimes, m.FlushTime }},
}

// engineDescriptions lists what of the engine has labels or classes.
func engineDescriptions() []*prometheus.Desc {
	list := []*prometheus.Desc{deviceBytes}
	for _, m := range shardMetrics {
		list = append(list, m.description)
	}
	for _, h := range engineHistograms {
		list = append(list, h.description)
	}
	return list
}

// collectEngine sends what engineDescriptions lists.
func collectEngine(m *engine.Metrics, out chan<- prometheus.Metric) {
	for kind, bytes := range map[string]int64{"journal": m.FrameBytes, "segment": m.WriteBytes, "prepared": m.PreparedBytes, "other": m.OtherBytes} {
		out <- prometheus.MustNewConstMetric(deviceBytes, counter, float64(bytes), kind)
	}
	for n := range m.Shards {
		for _, of := range shardMetrics {
			out <- prometheus.MustNewConstMetric(of.description, of.kind, float64(of.value(&m.Shards[n])), strconv.Itoa(n))
		}
	}
	for _, h := range engineHistograms {
		times, sum := h.times(m)
		out <- histogram(h.description, times, sum)
	}
}

// histogram turns durations into Prometheus' form, where each class counts those below it too.
func histogram(description *prometheus.Desc, times *engine.Durations, sum time.Duration) prometheus.Metric {
	classes := make(map[float64]uint64, len(times)-1)
	below := uint64(0)
	for class, count := range times[:len(times)-1] {
		below += uint64(count)
		classes[engine.DurationLimit(class).Seconds()] = below
	}
	return prometheus.MustNewConstHistogram(description, uint64(times.Count()), sum.Seconds(), classes)
}

// ratio is a divided by b, 0 when there is nothing to divide by.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
