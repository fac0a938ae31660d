package engine

import (
	"math"
	"sync/atomic"
	"time"
)

// counters are written by the shard and read by anybody.
type counters struct {
	appends, appendBytes     atomic.Int64
	writes, writeBytes       atomic.Int64
	shortWrites              atomic.Int64
	flushes, flushNanos      atomic.Int64
	frames, frameEntries     atomic.Int64
	frameBytes               atomic.Int64
	commits, commitNanos     atomic.Int64
	trims, trimNanos         atomic.Int64
	rolls, evictions         atomic.Int64
	logs, poisoned           atomic.Int64
	tailBytes                atomic.Int64
	indexBytes               atomic.Int64
	filesOpen                atomic.Int64
	waiting, parked          atomic.Int64
	windowFrom               atomic.Int64 // on Options.Monotonic
	tailReads, tailReadBytes atomic.Int64
	coldReads, coldReadBytes atomic.Int64
	coldWaits                atomic.Int64
	aheadReads, aheadBytes   atomic.Int64
	aheadHits, aheadWasted   atomic.Int64
	restored                 atomic.Int64
	corruptions, damages     atomic.Int64 // found, and fenced now
	readErrors, rereads      atomic.Int64
	indexesRebuilt           atomic.Int64
	checkpoints              atomic.Int64
	segmentsDeleted          atomic.Int64
	filesRemoved             atomic.Int64
	unflushedSince           atomic.Int64 // on Options.Monotonic, 0 for nothing
	recoveredBytes           atomic.Int64
	recoveredNanos           atomic.Int64

	relaxedAppends                     atomic.Int64
	journalAppends, journalAppendBytes atomic.Int64 // that went into entries
	commitTimes, flushTimes            durationCounters
	backBytes                          atomic.Int64
	preparedBytes, otherBytes          atomic.Int64
	dirtyBytes                         atomic.Int64
	spills                             atomic.Int64
	spaceRefusals                      atomic.Int64
	cleans, cleanFailures, cleanNanos  atomic.Int64
	cleanReadBytes, cleanWriteBytes    atomic.Int64
	cleanDropped, segmentsCleaned      atomic.Int64
	compactedLogs, uncleanable         atomic.Int64
	cleanOverdue                       atomic.Int64  // milliseconds
	dirtyRatio                         atomic.Uint64 // a float64
	space                              diskGauges
	shardPoisoned                      atomic.Int64 // 0 or 1
	journal                            journalGauges
	scrub                              scrubGauges
	device                             deviceGauges
}

// scrubGauges is how far the scrubber of a shard has come.
type scrubGauges struct {
	bytes, passes atomic.Int64
	since         atomic.Int64 // when the last full pass ended, or the shard began, on Options.Monotonic
	done, total   atomic.Int64 // bytes of the present pass, or of the last one
}

// journalGauges is how the journal of a shard stands, as of its last turn.
type journalGauges struct {
	bytes, used atomic.Int64
	neededSince atomic.Int64 // the oldest frame that is needed, on Options.Monotonic; 0 for none
	fulls       atomic.Int64
	fullNanos   atomic.Int64 // of the times that are over
	fullSince   atomic.Int64 // on Options.Monotonic, 0 while it is not full
}

// note publishes how the journal stands at the end of a turn.
func (q *commitJournal) note() {
	if !q.enabled() {
		return
	}
	g, now := &q.shard.counters.journal, int64(q.shard.now)
	ring := q.ring()
	g.bytes.Store(ring.Bytes)
	g.used.Store(ring.Used)
	needed := int64(0)
	if len(q.live) > 0 {
		needed = max(int64(q.live[0].at), 1)
	}
	g.neededSince.Store(needed)
	switch since := g.fullSince.Load(); {
	case ring.Full() && since == 0:
		g.fulls.Add(1)
		g.fullSince.Store(max(now, 1))
	case !ring.Full() && since != 0:
		g.fullNanos.Add(now - since)
		g.fullSince.Store(0)
	}
}

// noteDirty counts what of the log is in memory and in no segment.
func (l *Log) noteDirty() {
	dirty := l.next.total - l.completed.total
	if l.usable() != nil {
		dirty = 0
	}
	l.shard.counters.dirtyBytes.Add(dirty - l.dirtyCounted)
	l.dirtyCounted = dirty
}

// Metrics is a snapshot of what the engine counts. Fields without "total" in
// their comment are values of the moment.
type Metrics struct {
	Appends         int64         // total batches that got an offset
	AppendBytes     int64         // total
	Writes          int64         // total writes to segments
	WriteBytes      int64         // total, whole blocks
	ShortWrites     int64         // total writes that had to be submitted again
	Flushes         int64         // total rounds of flushes of segments
	FlushTime       time.Duration // total time that they took
	FlushTimes      Durations     `json:"-"` // the same, by how long
	OldestUnflushed time.Duration // for how long the oldest written batch has waited for its flush
	Rolls           int64         // total
	Evictions       int64         // total chunks of tail cache given up
	Logs            int64         // open
	PoisonedLogs    int64
	TailBytes       int64 // memory of tails, dirty and cache
	IndexBytes      int64 // memory of the indexes of sealed segments
	FilesOpen       int64
	WaitingAppends  int64 // that wait for memory, disk space, or room in the journal
	ParkedReads     int64
	// CacheWindow is how far back memory reaches: whatever was appended in the last CacheWindow is
	// read from memory, of every log. A consumer that lags more may be read from disk. It is the least of all shards, begins
	// at 0 when the engine starts, and grows with the time while nothing is evicted.
	CacheWindow     time.Duration
	TailReads       int64         // total parts served from memory
	TailReadBytes   int64         // total
	ColdReads       int64         // total parts served from disk
	ColdReadBytes   int64         // total
	ColdWaits       int64         // total times that a read from disk waited for memory
	AheadReads      int64         // total buffers read ahead
	AheadBytes      int64         // total, whole blocks
	AheadHitBytes   int64         // total of ColdReadBytes that had been read ahead
	AheadWasteBytes int64         // total that was read ahead and given up unused
	RestoredBytes   int64         // total that was read again for consumers who had not read their answers
	Corruptions     int64         // total ranges found corrupt
	DamagedRanges   int64         // that are fenced now
	ReadErrors      int64         // total reads that the disk has failed
	Rereads         int64         // total reads that were repeated because they returned other bytes than are stored
	IndexesRebuilt  int64         // total indexes that were missing, damaged or wrong
	Checkpoints     int64         // total
	SegmentsDeleted int64         // total, by retention
	FilesRemoved    int64         // total
	RecoveredBytes  int64         // total bytes read to open logs
	RecoveryTime    time.Duration // total time that opening logs took
	RelaxedAppends  int64         // total batches for logs that do not wait for a flush
	DirtyBytes      int64         // in tails and in no segment yet
	Spills          int64         // total files with journal entries of one log that were put aside
	PoisonedShards  int64         // whose journal or file system failed

	// What is read again in the background (Options.ScrubBytesPerSecond).
	ScrubBytes      int64         // total
	ScrubPasses     int64         // total passes over everything, of all shards
	ScrubAge        time.Duration // since the last pass ended, or, before the first, since the start; of the shard where it is longest
	ScrubDoneBytes  int64         // of the present pass, or of the last one
	ScrubTotalBytes int64         // what it has to read in all, as far as it was there when the pass began

	// The device.
	OldestOperation time.Duration // for how long the oldest operation has been under way, within about a second
	SlowShards      int64         // whose device has not answered for SlowAfter
	SlowTimes       int64         // total times that it has not

	// Compaction. The last four are as of the last look, every Options.CleanInterval.
	Cleans          int64         // total passes that ended well
	CleanFailures   int64         // total passes that failed
	CleanTime       time.Duration // total
	CleanReadBytes  int64         // total, whole blocks; of the part of the log that was dirty twice
	CleanWriteBytes int64         // total, whole blocks
	CleanDropped    int64         // total records
	SegmentsCleaned int64         // total segments that were replaced
	CompactedLogs   int64         // whose cleanup.policy has compact
	Uncleanable     int64         // of them, whose last pass failed
	DirtyRatioMax   float64       // the largest dirty share of one of them
	CleanOverdue    time.Duration // for how long the oldest record has waited beyond max.compaction.lag.ms

	SpaceRefusals int64 // total appends that were refused with ErrNoSpace
	// The disk, where Options.FreeBytesMin asks for something of it; else 0.
	DiskBytes     int64 // size of its file system
	DiskFreeBytes int64 // that the process may still take
	DiskFreeMin   int64 // that are kept free
	DiskLow       int64 // shards that refuse appends because less is free

	// The commit journal. What an append's way is turns out when it takes it:
	// Appends less JournalAppends went to the segments at once, or wait.
	JournalAppends     int64         // total batches that were put into frames
	JournalAppendBytes int64         // total, without what a frame adds
	Frames             int64         // total
	FrameEntries       int64         // total: pieces of logs in them
	FrameBytes         int64         // total, whole blocks
	Commits            int64         // total flushes
	CommitTime         time.Duration // total time that they took
	CommitTimes        Durations     `json:"-"` // the same, by how long
	JournalBytes       int64         // size of the ring, 0 without one
	JournalUsedBytes   int64         // from the oldest frame that is needed to the newest
	OldestJournaled    time.Duration // for how long that frame has been needed: its bytes are in no segment, or not flushed there
	JournalFulls       int64         // total times that it was so full that appends waited
	JournalFullTime    time.Duration // total time that it was
	Trims              int64         // total
	TrimTime           time.Duration // total, from the decision to the checkpoint

	// What else the device was given. BackBytes are part of WriteBytes.
	BackBytes     int64     // total bytes of write-back: in the segments after they were in the journal
	PreparedBytes int64     // total zeros, into new rings and, with Options.Prewrite, segments
	OtherBytes    int64     // total bytes of manifests, checkpoints, indexes, snapshots, merges
	Shards        []Metrics // of each shard, by number; what is above is their sum
}

// DeviceBytes is all that the device was given to write.
func (m *Metrics) DeviceBytes() int64 {
	return m.WriteBytes + m.FrameBytes + m.PreparedBytes + m.OtherBytes
}

// Metrics returns the engine's counters: the sums, and what each shard adds to
// them. Safe for use by any goroutine.
func (e *Engine) Metrics() Metrics {
	now := e.options.Monotonic()
	sum := Metrics{Shards: make([]Metrics, len(e.shards))}
	for i, s := range e.shards {
		sum.Shards[i] = s.counters.metrics(now)
		sum.add(&sum.Shards[i])
		if window := sum.Shards[i].CacheWindow; i == 0 || window < sum.CacheWindow {
			sum.CacheWindow = window
		}
	}
	return sum
}

// metrics reads the counters of one shard at the time now.
func (c *counters) metrics(now time.Duration) Metrics {
	oldest := time.Duration(0)
	if since := c.unflushedSince.Load(); since != 0 {
		oldest = max(now-time.Duration(since), 0)
	}
	m := Metrics{
		OldestUnflushed: oldest,
		CacheWindow:     max(now-time.Duration(c.windowFrom.Load()), 0),
		Appends:         c.appends.Load(), AppendBytes: c.appendBytes.Load(),
		Writes: c.writes.Load(), WriteBytes: c.writeBytes.Load(), ShortWrites: c.shortWrites.Load(),
		Flushes: c.flushes.Load(), FlushTime: time.Duration(c.flushNanos.Load()),
		FlushTimes: c.flushTimes.read(),
		Rolls:      c.rolls.Load(), Evictions: c.evictions.Load(),
		Logs: c.logs.Load(), PoisonedLogs: c.poisoned.Load(),
		TailBytes: c.tailBytes.Load(), IndexBytes: c.indexBytes.Load(), FilesOpen: c.filesOpen.Load(),
		WaitingAppends: c.waiting.Load(), ParkedReads: c.parked.Load(),
		TailReads: c.tailReads.Load(), TailReadBytes: c.tailReadBytes.Load(),
		ColdReads: c.coldReads.Load(), ColdReadBytes: c.coldReadBytes.Load(),
		ColdWaits: c.coldWaits.Load(), AheadReads: c.aheadReads.Load(), AheadBytes: c.aheadBytes.Load(),
		AheadHitBytes: c.aheadHits.Load(), AheadWasteBytes: c.aheadWasted.Load(), RestoredBytes: c.restored.Load(),
		Corruptions: c.corruptions.Load(), DamagedRanges: c.damages.Load(), ReadErrors: c.readErrors.Load(), Rereads: c.rereads.Load(),
		IndexesRebuilt: c.indexesRebuilt.Load(), Checkpoints: c.checkpoints.Load(),
		SegmentsDeleted: c.segmentsDeleted.Load(), FilesRemoved: c.filesRemoved.Load(),
		RecoveredBytes: c.recoveredBytes.Load(), RecoveryTime: time.Duration(c.recoveredNanos.Load()),
		RelaxedAppends: c.relaxedAppends.Load(), DirtyBytes: c.dirtyBytes.Load(),
		Spills: c.spills.Load(), PoisonedShards: c.shardPoisoned.Load(), SpaceRefusals: c.spaceRefusals.Load(),
		DiskBytes: c.space.total.Load(), DiskFreeBytes: c.space.free.Load(), DiskFreeMin: c.space.min.Load(), DiskLow: c.space.low.Load(),
		BackBytes: c.backBytes.Load(), PreparedBytes: c.preparedBytes.Load(), OtherBytes: c.otherBytes.Load(),
	}
	c.cleanMetrics(&m)
	c.journalMetrics(&m, now)
	c.scrub.metrics(&m, now)
	c.device.metrics(&m, now)
	return m
}

// metrics reads what is counted of the scrubber.
func (g *scrubGauges) metrics(m *Metrics, now time.Duration) {
	m.ScrubBytes, m.ScrubPasses = g.bytes.Load(), g.passes.Load()
	m.ScrubAge = max(now-time.Duration(g.since.Load()), 0)
	m.ScrubDoneBytes, m.ScrubTotalBytes = g.done.Load(), max(g.total.Load(), g.done.Load())
}

// cleanMetrics reads what is counted of compaction.
func (c *counters) cleanMetrics(m *Metrics) {
	m.Cleans, m.CleanFailures, m.CleanTime = c.cleans.Load(), c.cleanFailures.Load(), time.Duration(c.cleanNanos.Load())
	m.CleanReadBytes, m.CleanWriteBytes = c.cleanReadBytes.Load(), c.cleanWriteBytes.Load()
	m.CleanDropped, m.SegmentsCleaned = c.cleanDropped.Load(), c.segmentsCleaned.Load()
	m.CompactedLogs, m.Uncleanable = c.compactedLogs.Load(), c.uncleanable.Load()
	m.DirtyRatioMax = math.Float64frombits(c.dirtyRatio.Load())
	m.CleanOverdue = time.Duration(c.cleanOverdue.Load()) * time.Millisecond
}

// journalMetrics reads what is counted of the journal.
func (c *counters) journalMetrics(m *Metrics, now time.Duration) {
	g := &c.journal
	m.JournalAppends, m.JournalAppendBytes = c.journalAppends.Load(), c.journalAppendBytes.Load()
	m.Frames, m.FrameEntries, m.FrameBytes = c.frames.Load(), c.frameEntries.Load(), c.frameBytes.Load()
	m.Commits, m.CommitTime, m.CommitTimes = c.commits.Load(), time.Duration(c.commitNanos.Load()), c.commitTimes.read()
	m.JournalBytes, m.JournalUsedBytes = g.bytes.Load(), g.used.Load()
	if since := g.neededSince.Load(); since != 0 {
		m.OldestJournaled = max(now-time.Duration(since), 0)
	}
	m.JournalFulls, m.JournalFullTime = g.fulls.Load(), time.Duration(g.fullNanos.Load())
	if since := g.fullSince.Load(); since != 0 {
		m.JournalFullTime += max(now-time.Duration(since), 0)
	}
	m.Trims, m.TrimTime = c.trims.Load(), time.Duration(c.trimNanos.Load())
}

// add adds the counters of a shard.
func (m *Metrics) add(o *Metrics) {
	m.OldestUnflushed = max(m.OldestUnflushed, o.OldestUnflushed)
	m.Appends += o.Appends
	m.AppendBytes += o.AppendBytes
	m.Writes += o.Writes
	m.WriteBytes += o.WriteBytes
	m.ShortWrites += o.ShortWrites
	m.Flushes += o.Flushes
	m.FlushTime += o.FlushTime
	m.FlushTimes.Add(&o.FlushTimes)
	m.Rolls += o.Rolls
	m.Evictions += o.Evictions
	m.Logs += o.Logs
	m.PoisonedLogs += o.PoisonedLogs
	m.TailBytes += o.TailBytes
	m.IndexBytes += o.IndexBytes
	m.FilesOpen += o.FilesOpen
	m.WaitingAppends += o.WaitingAppends
	m.ParkedReads += o.ParkedReads
	m.TailReads += o.TailReads
	m.TailReadBytes += o.TailReadBytes
	m.ColdReads += o.ColdReads
	m.ColdReadBytes += o.ColdReadBytes
	m.ColdWaits += o.ColdWaits
	m.AheadReads += o.AheadReads
	m.AheadBytes += o.AheadBytes
	m.AheadHitBytes += o.AheadHitBytes
	m.AheadWasteBytes += o.AheadWasteBytes
	m.RestoredBytes += o.RestoredBytes
	m.Corruptions += o.Corruptions
	m.DamagedRanges += o.DamagedRanges
	m.ReadErrors += o.ReadErrors
	m.Rereads += o.Rereads
	m.IndexesRebuilt += o.IndexesRebuilt
	m.ScrubBytes += o.ScrubBytes
	m.ScrubPasses += o.ScrubPasses
	m.ScrubAge = max(m.ScrubAge, o.ScrubAge)
	m.ScrubDoneBytes += o.ScrubDoneBytes
	m.ScrubTotalBytes += o.ScrubTotalBytes
	m.OldestOperation = max(m.OldestOperation, o.OldestOperation)
	m.SlowShards += o.SlowShards
	m.SlowTimes += o.SlowTimes
	m.Checkpoints += o.Checkpoints
	m.SegmentsDeleted += o.SegmentsDeleted
	m.FilesRemoved += o.FilesRemoved
	m.RecoveredBytes += o.RecoveredBytes
	m.RecoveryTime += o.RecoveryTime
	m.RelaxedAppends += o.RelaxedAppends
	m.DirtyBytes += o.DirtyBytes
	m.Spills += o.Spills
	m.PoisonedShards += o.PoisonedShards
	m.SpaceRefusals += o.SpaceRefusals
	m.addCleaning(o)
	m.DiskLow += o.DiskLow
	if m.DiskBytes == 0 || o.DiskBytes > 0 && o.DiskFreeBytes < m.DiskFreeBytes { // all shards stand on one
		m.DiskBytes, m.DiskFreeBytes, m.DiskFreeMin = o.DiskBytes, o.DiskFreeBytes, o.DiskFreeMin
	}
	m.JournalAppends += o.JournalAppends
	m.JournalAppendBytes += o.JournalAppendBytes
	m.Frames += o.Frames
	m.FrameEntries += o.FrameEntries
	m.FrameBytes += o.FrameBytes
	m.Commits += o.Commits
	m.CommitTime += o.CommitTime
	m.CommitTimes.Add(&o.CommitTimes)
	m.JournalBytes += o.JournalBytes
	m.JournalUsedBytes += o.JournalUsedBytes
	m.OldestJournaled = max(m.OldestJournaled, o.OldestJournaled)
	m.JournalFulls += o.JournalFulls
	m.JournalFullTime += o.JournalFullTime
	m.Trims += o.Trims
	m.TrimTime += o.TrimTime
	m.BackBytes += o.BackBytes
	m.PreparedBytes += o.PreparedBytes
	m.OtherBytes += o.OtherBytes
}

// addCleaning adds what a shard counts of compaction.
func (m *Metrics) addCleaning(o *Metrics) {
	m.Cleans += o.Cleans
	m.CleanFailures += o.CleanFailures
	m.CleanTime += o.CleanTime
	m.CleanReadBytes += o.CleanReadBytes
	m.CleanWriteBytes += o.CleanWriteBytes
	m.CleanDropped += o.CleanDropped
	m.SegmentsCleaned += o.SegmentsCleaned
	m.CompactedLogs += o.CompactedLogs
	m.Uncleanable += o.Uncleanable
	m.DirtyRatioMax = max(m.DirtyRatioMax, o.DirtyRatioMax)
	m.CleanOverdue = max(m.CleanOverdue, o.CleanOverdue)
}
