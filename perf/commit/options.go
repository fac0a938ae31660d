package commit

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/perf"
)

// System says what is measured.
type System string

const (
	// Engine is the storage engine.
	Engine System = "engine"
	// Journal, Files, Syncfs and Direct are the raw programs; see the package comment.
	Journal System = "journal"
	Files   System = "files"
	Syncfs  System = "syncfs"
	Direct  System = "direct"
)

// systems in the order in which messages name them.
var systems = []System{Engine, Journal, Files, Syncfs, Direct}

// Way says how the engine makes appends durable.
type Way string

const (
	// Auto is the engine with its commit journal: it chooses by the bytes that wait.
	Auto Way = "auto"
	// Sync is the engine without a journal: one syncfs for all files.
	Sync Way = "sync"
	// File is the engine without a journal: a flush of each file.
	File Way = "file"
)

// ways in the order in which messages name them.
var ways = []Way{Auto, Sync, File}

// Options say what Run does. Zero means the default that the field names.
type Options struct {
	// System to measure. Default Engine.
	System System `json:"system"`
	// Way of the engine. Default Auto.
	Way Way `json:"way,omitempty"`
	// DataDir receives a directory of the run's own, removed at the end. Required.
	DataDir string `json:"data_dir"`
	// Keep leaves that directory there.
	Keep bool `json:"-"`
	// Disk is the mode of engine/disk/backend: auto, uring or portable. Default auto.
	Disk string `json:"disk"`

	// Partitions is the number of logs. Default 384.
	Partitions int `json:"partitions"`
	// RecordBytes is the size of an append: of a whole batch with one record,
	// header included. Default 1024.
	RecordBytes int `json:"record_bytes"`
	// Durability is what an answer stands for. Default perf.Durable.
	Durability perf.Durability `json:"durability"`
	// InFlight is the number of appends in flight for each partition. Default 1.
	InFlight int `json:"in_flight"`
	// Groups is into how many groups one append to each partition is cut.
	// Default 2: while one is being flushed the other can be written. There are more
	// where one would be larger than 16 MiB.
	Groups int `json:"groups"`
	// InFlightBytes bounds the batches in flight; with more and larger partitions
	// than that, slices take turns. Default 1 GiB.
	InFlightBytes int64 `json:"in_flight_bytes"`

	// WarmUp passes before anything is counted. Default 1 s.
	WarmUp time.Duration `json:"warm_up_ns"`
	// Duration of what is counted. Default 5 s.
	Duration time.Duration `json:"duration_ns"`

	// JournalBytes is the size of the journal: the engine's, and the raw one's,
	// which is made larger when four of its frames would not fit. Default 512 MiB.
	JournalBytes int64 `json:"journal_bytes"`
	// Shards is the engine's number of shards. Default 1.
	Shards int `json:"shards,omitempty"`
	// SpaceBytes is what all files together may take. Default 16 GiB.
	SpaceBytes int64 `json:"space_bytes"`
	// SegmentBytes is the engine's segment.bytes. Default: what lets four
	// segments of each partition fit into SpaceBytes, between 4 MiB and 1 GiB.
	SegmentBytes int64 `json:"segment_bytes,omitempty"`
	// TailBytes is the engine's memory for appended bytes. Default 2 GiB.
	TailBytes int64 `json:"tail_bytes,omitempty"`
	// Prewrite is the engine's option of that name.
	Prewrite bool `json:"prewrite,omitempty"`
	// Serial keeps a raw program, but Direct, from writing the next commit while
	// a flush runs. Each commit then takes all groups that wait, else half.
	Serial bool `json:"serial,omitempty"`
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// bounds of a default SegmentBytes.
const (
	segmentBytesMin = 4 << 20
	segmentBytesMax = 1 << 30
)

// EnsureDefaults fills in what is zero.
func (o *Options) EnsureDefaults() {
	setDefault(&o.System, Engine)
	setDefault(&o.Disk, "auto")
	setDefault(&o.Partitions, 384)
	setDefault(&o.RecordBytes, 1024)
	setDefault(&o.Durability, perf.Durable)
	setDefault(&o.InFlight, 1)
	setDefault(&o.Groups, 2)
	setDefault(&o.InFlightBytes, 1<<30)
	setDefault(&o.WarmUp, time.Second)
	setDefault(&o.Duration, 5*time.Second)
	setDefault(&o.JournalBytes, 512<<20)
	setDefault(&o.SpaceBytes, 16<<30)
	if o.System == Engine {
		setDefault(&o.Way, Auto)
		setDefault(&o.Shards, 1)
		setDefault(&o.TailBytes, 2<<30)
		share := min(max(o.SpaceBytes/int64(4*max(o.Partitions, 1)), segmentBytesMin, 2*int64(o.RecordBytes)), segmentBytesMax)
		setDefault(&o.SegmentBytes, share&^(disk.BlockBytes-1))
	}
}

const (
	recordBytesMin = 80       // a batch with a record of a few bytes
	recordBytesMax = 64 << 20 // a batch has to fit into a block of the tail's pool
	partitionsMax  = 100_000
)

// Validate reports everything that is wrong.
func (o *Options) Validate() error {
	var faults []error
	require := func(ok bool, format string, arguments ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("perf: "+format, arguments...))
		}
	}
	require(o.DataDir != "", "the commit run needs a data directory")
	require(slices.Contains(systems, o.System), "system %q is none of %q", o.System, systems)
	require(o.System != Engine || slices.Contains(ways, o.Way), "way %q is none of %q", o.Way, ways)
	require(o.System == Engine || o.Way == "", "way %q is of the engine, not of %q", o.Way, o.System)
	require(o.System != Engine || o.Shards > 0 && o.Shards <= engine.ShardsMax, "%d shards are not 1 to %d", o.Shards, engine.ShardsMax)
	require(o.Partitions > 0 && o.Partitions <= partitionsMax, "%d partitions are not 1 to %d", o.Partitions, partitionsMax)
	require(o.RecordBytes >= recordBytesMin && o.RecordBytes <= recordBytesMax, "record bytes %d are not %d to %d", o.RecordBytes, recordBytesMin, recordBytesMax)
	require(o.Durability == perf.Durable || o.Durability == perf.Written, "durability %q is neither %q nor %q", o.Durability, perf.Durable, perf.Written)
	require(o.InFlight > 0 && o.InFlight <= 1024, "%d appends in flight for each partition", o.InFlight)
	require(o.Groups > 0, "%d groups", o.Groups)
	require(o.InFlightBytes > 0 && o.SpaceBytes > 0 && o.JournalBytes > 0, "bytes in flight %d, of space %d, of the journal %d", o.InFlightBytes, o.SpaceBytes, o.JournalBytes)
	require(o.WarmUp >= 0 && o.Duration > 0, "warm-up %v, duration %v", o.WarmUp, o.Duration)
	return errors.Join(faults...)
}
