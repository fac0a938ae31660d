package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/segment"
	"ringlog/record"
)

// Errors that the engine answers with, wrapped with the log's label. A failed disk
// operation is wrapped beside ErrPoisoned.
var (
	// ErrPoisoned is returned after a failed write or flush: the first error,
	// wrapped, answers every later append until the log is reopened.
	ErrPoisoned = errors.New("engine: log is poisoned by an earlier disk failure")
	// ErrNoSpace is returned when the disk has no room for the log's next
	// bytes, or the process no file descriptor for its next segment; it ends by itself when
	// there is.
	ErrNoSpace = errors.New("engine: no space left for the log")
	// ErrNoJournalSpace is returned by New when the disk has no room for the commit journal that
	// Options.JournalBytes asks for: make room, or ask for less.
	ErrNoJournalSpace = errors.New("engine: no space left for the commit journal")
	// ErrOffsetOutOfRange is returned for a read below Start or above Next (between
	// the high watermark and Next a read waits), for a start offset above the high
	// watermark, and for a cut below Start.
	ErrOffsetOutOfRange = errors.New("engine: offset out of range")
	// ErrCorrupt is returned when stored bytes are not what was written; the range is named and never served.
	ErrCorrupt = segment.ErrCorrupt
	// ErrUnreadable is returned when the disk does not give back what it has, the failed operation wrapped
	// beside it. Nothing is fenced: the next read may have it.
	ErrUnreadable = errors.New("engine: stored data cannot be read")
	// ErrClosed is returned when the log or the engine is closed or deleted.
	ErrClosed = errors.New("engine: log is closed")
	// ErrUnknownLog is returned for a log id that is not open here.
	ErrUnknownLog = errors.New("engine: no such log")
	// ErrNewerFormat is returned when a stored file was written by a newer version.
	ErrNewerFormat = segment.ErrNewerFormat
)

// LogID names one replica incarnation; fresh at every creation, never reused.
type LogID [16]byte

// String returns the id as 32 hex digits, which is also its directory's name.
func (id LogID) String() string { return hex.EncodeToString(id[:]) }

// LogConfig is what a log needs to know of its topic's configuration. Zero
// values are replaced by Kafka's defaults, flush.messages by 1.
type LogConfig struct {
	SegmentBytes       int64 // segment.bytes
	SegmentMillis      int64 // segment.ms
	RetentionMillis    int64 // retention.ms; -1 keeps for ever
	RetentionBytes     int64 // retention.bytes; -1 is no limit
	IndexIntervalBytes int32 // index.interval.bytes
	FlushMessages      int64 // flush.messages: 1 acknowledges what is durable, more relaxes to written
	FlushMillis        int64 // flush.ms: bounds how long a relaxed topic stays unflushed; 0 is never by time
	FileDeleteMillis   int64 // file.delete.delay.ms
	Delete             bool  // cleanup.policy contains delete

	Compact                bool    // cleanup.policy contains compact
	DirtyRatioMin          float64 // min.cleanable.dirty.ratio
	CompactionLagMinMillis int64   // min.compaction.lag.ms; 0 is none
	CompactionLagMaxMillis int64   // max.compaction.lag.ms
	TombstoneMillis        int64   // delete.retention.ms
}

// LogSpec describes a log to open or create.
type LogSpec struct {
	ID      LogID
	Label   string // "orders-3": for people, logs and metrics; never part of a path
	Config  LogConfig
	Replica Replica
}

// Options configures an Engine.
type Options struct {
	// OpenDisk is called once for each shard, on its own locked thread; the Disk
	// belongs to it. All of them stand on the same directory.
	OpenDisk func() (disk.Disk, error)
	// Shards is how many threads with a disk each share the logs, at most
	// ShardsMax; 0 is 1. It may change from one start to the next.
	Shards int
	// Tail holds appended bytes until they are durable and, after that, as
	// evictable cache for readers at the tail.
	Tail *buffer.Pool
	// Cold holds what is read back from disk for readers behind the tail.
	Cold *buffer.Pool
	// FilesOpenMax bounds the descriptors that the engine keeps open (LRU).
	FilesOpenMax int
	// JournalBytes is the size of each shard's commit journal, from JournalBytesMin to
	// JournalBytesMax; 0 is none: every commit is then a flush of the segments. It bounds what Tail holds of bytes that the segments do not have
	// yet, so Tail should be twice as large.
	JournalBytes int64
	// FilesFlushMax is up to how many segment files are flushed one by one, side by side; more are
	// one syncfs. 0 is 8.
	FilesFlushMax int
	// NewStore makes the secret that the journal's frames bear, once for a data
	// directory; nil draws it at random.
	NewStore func() [16]byte
	// FreeBytesMin is how much of the disk is kept free: while less is, no log is given new space, and appends
	// that need some are refused with ErrNoSpace. 0 is nothing; FreeBytesDefault is
	// 1 GiB or 2 % of the file system, whichever is more, but no more than 10 %.
	FreeBytesMin int64
	// Directory is what messages call the disk's root.
	Directory string
	// Prewrite writes prepared space through with zeros before it is used. Flushes are
	// then cheaper, because the file system has no blocks to turn from reserved
	// into written; each byte of a segment that is used for the first time is written twice.
	Prewrite bool
	// ScrubBytesPerSecond is how fast, all shards together, sealed segments are read again when nobody asks
	// for them, so that what has rotted is found and named; 0 is never. ScrubInterval is the time
	// from the begin of one pass over all of them to that of the next; 0 is a week.
	ScrubBytesPerSecond int64
	ScrubInterval       time.Duration
	// CheckpointInterval is how often the recovery checkpoint is replaced; 0 is 5 s.
	CheckpointInterval time.Duration
	// RetentionInterval is log.retention.check.interval.ms; 0 is 5 min.
	RetentionInterval time.Duration
	// CleanInterval is log.cleaner.backoff.ms: how often logs are looked at that may have something to
	// compact; 0 is 15 s.
	CleanInterval time.Duration
	// CleanKeyBytes is log.cleaner.dedupe.buffer.size: the memory, all shards together, for the keys of the
	// part that is compacted in one pass, about 22 bytes each; 0 is 128 MiB. It is taken while there is
	// a pass, and as much of it as the pass may need.
	CleanKeyBytes int64
	// CleanBytesPerSecond is log.cleaner.io.max.bytes.per.second: what compaction reads and writes at
	// most, all shards together; 0 is no limit.
	CleanBytesPerSecond int64
	// NowMillis is wall-clock time in Unix milliseconds; nil is the system's.
	NowMillis func() int64
	// Monotonic is a clock that never steps back; nil is the system's.
	Monotonic func() time.Duration
	Logger    *slog.Logger

	faults faults // of tests; see Breaking
}

// Append is one batch for one log.
type Append struct {
	// Log is where it goes; set by the caller.
	Log *Log
	// Batch is one whole checked v2 batch. The engine patches base offset and
	// leader epoch in place and copies it; its memory must stay until
	// AppendOwner.Consumed.
	Batch record.Batch

	// BaseOffset, MaxTimestamp, StartOffset and Err are the answer, set before AppendOwner.Answered.
	BaseOffset   int64
	MaxTimestamp int64 // of the batch that is stored: of the original if this one repeats it
	StartOffset  int64
	Err          error

	shard int32 // that it goes to; set by Engine.Append
	size  int32 // bytes of it in shard.unanswered
	group *AppendGroup
	next  *Append // in the log's queue of appends that wait for room
}

// AppendGroup is what one produce request asks of the engine: one message and
// one wake for all its partitions on a shard.
type AppendGroup struct {
	Appends []Append
	Owner   AppendOwner

	unconsumed, unanswered atomic.Int32 // see group.go
}

// AppendOwner is told, on the thread of one of the group's shards, how it fares. Its methods
// must not block; after Answered the engine holds no reference to the group.
type AppendOwner interface {
	// Consumed is called once, when no batch of the group is referenced any
	// more: the request's frame may be released.
	Consumed(group *AppendGroup)
	// Answered is called once, after Consumed, when every Append has its answer.
	Answered(group *AppendGroup)
}

// ReadPart asks one log for batches.
type ReadPart struct {
	Log      *Log
	Offset   int64
	BytesMax int

	// The answer. Each slice of Batches holds one or more whole batches, in order; the
	// first may begin below Offset. They lie in the engine's own memory: nobody
	// writes to them, and they stay until Read.Release. Only the first
	// non-empty part of a Read may exceed BytesMax (KIP-74).
	Batches   [][]byte
	Bytes     int
	Frontiers Frontiers
	Err       error

	pieces     []piece // where each of Batches lies; none of a Read that no engine answered
	read       *Read
	counted    int       // bytes known to be there while parked
	prev, next *ReadPart // in the log's list of parked parts
	parked     bool
}

// Read asks for batches of one or more logs and waits for them if need be:
// Kafka's fetch. Parts are read in order; it is answered when BytesMin bytes are
// there, a part has an error, or Wait has passed since Engine.Read. The Read
// and its Parts belong to the engine from Engine.Read until Done; after
// Release both may be used again.
type Read struct {
	Parts    []ReadPart
	BytesMax int
	BytesMin int
	Wait     time.Duration
	// Done is called exactly once, on the thread of one of the shards; it must not block.
	Done func(*Read)

	state readState // the shard's; after Done what Return, Lend and Restore need
}

// LogStatus is what tools and metrics show of a log.
type LogStatus struct {
	ID        LogID
	Label     string
	Frontiers Frontiers
	Epoch     int32
	Bytes     int64 // of all segments, without prepared space
	Segments  []SegmentStatus
	Err       error // why it is poisoned, or nil

	// Of a compacted log:
	Cleaned     int64 // no key has two records below it
	Uncleanable error // why it could not be compacted the last time; it is tried again
}

// SegmentStatus is one segment of a LogStatus.
type SegmentStatus struct {
	BaseOffset   int64
	NextOffset   int64
	Bytes        int64
	MaxTimestamp int64  // Unix milliseconds, -1 when empty
	Pass         uint32 // how often compaction wrote it anew
}

// API is the whole surface of an Engine, written down so that the layers above
// can be tested against a stand-in. All methods are safe for use by any
// goroutine; Append, Read and Cancel never block.
type API interface {
	// Append hands group to the shards of its logs. Groups submitted by one
	// goroutine reach a log in that order.
	Append(group *AppendGroup)
	// Read hands read to the shards of its logs. Of one whose logs live on several, the
	// parts of one shard are served before those of the next.
	Read(read *Read)
	// Cancel makes a parked Read answer now with what is there; harmless when it was answered.
	Cancel(read *Read)

	// Restore reads slice number slice of read.Parts[part].Batches from disk again, after Read.Lend has said
	// that its memory was given up, and calls done once, on a shard's thread; it must not
	// block. Then Lend finds it, or the error says why it never will. Read is not
	// released before done is called.
	Restore(read *Read, part, slice int, done func(error))

	// Log returns an open log.
	Log(id LogID) (*Log, bool)
	// Open recovers a log that is here; ErrUnknownLog when it is not. A log that
	// cannot be proven complete opens poisoned (Status.Err says why): readers get
	// what is intact, appends are refused.
	Open(ctx context.Context, spec LogSpec) (*Log, error)
	// Create makes a log, or opens it like Open when it is here already; it
	// returns when its name is durable. Whoever knows that a log must be here
	// calls Open, because Create would put an empty one in the place of a lost one.
	Create(ctx context.Context, spec LogSpec) (*Log, error)
	// Delete closes a log, answers what is parked with ErrClosed, and removes its files slowly.
	Delete(ctx context.Context, id LogID) error
	// Configure changes a log's configuration.
	Configure(ctx context.Context, id LogID, config LogConfig) error
	// Lead makes the replica leader under epoch, which is recorded with the next append.
	Lead(ctx context.Context, id LogID, epoch int32) error
	// AdvanceStart raises the start offset (DeleteRecords), durably.
	AdvanceStart(ctx context.Context, id LogID, offset int64) error
	// Truncate removes everything at and above offset, durably (rule 7).
	Truncate(ctx context.Context, id LogID, offset int64) error
	// EpochEnd answers OffsetForLeaderEpoch: the largest epoch ≤ epoch that
	// the log knows, and the offset where it ends; -1, -1 when there is none.
	EpochEnd(ctx context.Context, id LogID, epoch int32) (int32, int64, error)
	// TimeHint returns an offset at or below the first record whose timestamp
	// is ≥ millis, near enough that reading on from there finds it within an
	// index interval; ok is false when no batch has such a timestamp.
	// MaxTimestampHint does the same for the record with the largest timestamp.
	TimeHint(ctx context.Context, id LogID, millis int64) (offset int64, ok bool, err error)
	MaxTimestampHint(ctx context.Context, id LogID) (offset int64, ok bool, err error)
	// Status describes one log.
	Status(ctx context.Context, id LogID) (LogStatus, error)
	// ReplicaSnapshot returns the side state of a log's replica as its AppendSnapshot makes it.
	ReplicaSnapshot(ctx context.Context, id LogID) ([]byte, error)
	// Unknown lists directories that hold a log nobody opened: those of topics
	// whose deletion this broker slept through, and those whose metadata is
	// missing. Remove deletes one, when the metadata says that it was deleted.
	Unknown() []LogID
	Remove(ctx context.Context, id LogID) error
	// Close stops taking appends, flushes, writes checkpoint and side state, and
	// gives everything back.
	Close(ctx context.Context) error
}
