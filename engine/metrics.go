package engine

import (
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
	trims                    atomic.Int64
	rolls, evictions         atomic.Int64
	logs, poisoned           atomic.Int64
	tailBytes                atomic.Int64
	indexBytes               atomic.Int64
	filesOpen                atomic.Int64
	waiting, parked          atomic.Int64
	tailReads, tailReadBytes atomic.Int64
	coldReads, coldReadBytes atomic.Int64
	corruptions              atomic.Int64
	checkpoints              atomic.Int64
	segmentsDeleted          atomic.Int64
	filesRemoved             atomic.Int64
	unflushedSince           atomic.Int64 // on Options.Monotonic, 0 for nothing
	recoveredBytes           atomic.Int64
	recoveredNanos           atomic.Int64
}

// Metrics is a snapshot of what the engine counts. Fields without "total" in
// their comment are values of the moment.
type Metrics struct {
	Appends         int64         // total batches that got an offset
	AppendBytes     int64         // total
	Writes          int64         // total writes to segments
	WriteBytes      int64         // total, whole blocks
	ShortWrites     int64         // total writes that had to be submitted again
	Flushes         int64         // total, of segments
	FlushTime       time.Duration // total time that flushes took
	Frames          int64         // total, of the journal
	FrameEntries    int64         // total: pieces of logs in them
	FrameBytes      int64         // total, whole blocks
	Commits         int64         // total flushes of the journal
	CommitTime      time.Duration // total time that they took
	Trims           int64         // total
	OldestUnflushed time.Duration // for how long the oldest written batch has waited for its flush
	Rolls           int64         // total
	Evictions       int64         // total chunks of tail cache given up
	Logs            int64         // open
	PoisonedLogs    int64
	TailBytes       int64 // memory of tails, dirty and cache
	IndexBytes      int64 // memory of the indexes of sealed segments
	FilesOpen       int64
	WaitingAppends  int64 // that wait for memory or space
	ParkedReads     int64
	TailReads       int64         // total parts served from memory
	TailReadBytes   int64         // total
	ColdReads       int64         // total parts served from disk
	ColdReadBytes   int64         // total
	Corruptions     int64         // total ranges found corrupt
	Checkpoints     int64         // total
	SegmentsDeleted int64         // total, by retention
	FilesRemoved    int64         // total
	RecoveredBytes  int64         // total bytes read to open logs
	RecoveryTime    time.Duration // total time that opening logs took
	Shards          []Metrics     // of each shard, by number; what is above is their sum
}

// Metrics returns the engine's counters: the sums, and what each shard adds to
// them. Safe for use by any goroutine.
func (e *Engine) Metrics() Metrics {
	now := e.options.Monotonic()
	sum := Metrics{Shards: make([]Metrics, len(e.shards))}
	for i, s := range e.shards {
		sum.Shards[i] = s.counters.metrics(now)
		sum.add(&sum.Shards[i])
	}
	return sum
}

// metrics reads the counters of one shard at the time now.
func (c *counters) metrics(now time.Duration) Metrics {
	oldest := time.Duration(0)
	if since := c.unflushedSince.Load(); since != 0 {
		oldest = max(now-time.Duration(since), 0)
	}
	return Metrics{
		OldestUnflushed: oldest,
		Appends:         c.appends.Load(), AppendBytes: c.appendBytes.Load(),
		Writes: c.writes.Load(), WriteBytes: c.writeBytes.Load(), ShortWrites: c.shortWrites.Load(),
		Flushes: c.flushes.Load(), FlushTime: time.Duration(c.flushNanos.Load()),
		Frames: c.frames.Load(), FrameEntries: c.frameEntries.Load(), FrameBytes: c.frameBytes.Load(),
		Commits: c.commits.Load(), CommitTime: time.Duration(c.commitNanos.Load()), Trims: c.trims.Load(),
		Rolls: c.rolls.Load(), Evictions: c.evictions.Load(),
		Logs: c.logs.Load(), PoisonedLogs: c.poisoned.Load(),
		TailBytes: c.tailBytes.Load(), IndexBytes: c.indexBytes.Load(), FilesOpen: c.filesOpen.Load(),
		WaitingAppends: c.waiting.Load(), ParkedReads: c.parked.Load(),
		TailReads: c.tailReads.Load(), TailReadBytes: c.tailReadBytes.Load(),
		ColdReads: c.coldReads.Load(), ColdReadBytes: c.coldReadBytes.Load(),
		Corruptions: c.corruptions.Load(), Checkpoints: c.checkpoints.Load(),
		SegmentsDeleted: c.segmentsDeleted.Load(), FilesRemoved: c.filesRemoved.Load(),
		RecoveredBytes: c.recoveredBytes.Load(), RecoveryTime: time.Duration(c.recoveredNanos.Load()),
	}
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
	m.Frames += o.Frames
	m.FrameEntries += o.FrameEntries
	m.FrameBytes += o.FrameBytes
	m.Commits += o.Commits
	m.CommitTime += o.CommitTime
	m.Trims += o.Trims
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
	m.Corruptions += o.Corruptions
	m.Checkpoints += o.Checkpoints
	m.SegmentsDeleted += o.SegmentsDeleted
	m.FilesRemoved += o.FilesRemoved
	m.RecoveredBytes += o.RecoveredBytes
	m.RecoveryTime += o.RecoveryTime
}
