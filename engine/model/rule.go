package model

// Rules is a set of broken rules; 0 keeps them all.
type Rules uint64

// The rules that a machine can be made to break, in the terms of docs/journal.md.
const (
	// FlushCoversInFlight: a flush of segments releases writes that were in
	// flight when it was submitted.
	FlushCoversInFlight Rules = 1 << iota
	// JournalFlushCoversInFlight: the same of the journal.
	JournalFlushCoversInFlight
	// ReleaseBehindHole: a flush of the journal releases a frame though an
	// earlier one was in flight.
	ReleaseBehindHole
	// WriteBehindHole: W counts a completed write above one in flight.
	WriteBehindHole
	// SplitBatch: W counts a part of a batch.
	SplitBatch
	// FlushOneFile: S rises with the flush of one of two files.
	FlushOneFile
	// JournalFlushRaisesS: what the journal flushed counts as flushed in the segments.
	JournalFlushRaisesS
	// JWithoutContiguity: J is the end of the last durable entry.
	JWithoutContiguity
	// JFromAboveS: J's run may begin above S.
	JFromAboveS
	// AnyWay: a log goes direct while entries of it are in flight, and back while
	// what it wrote is not flushed.
	AnyWay
	// DirectDuringEntry: only the first half of AnyWay.
	DirectDuringEntry
	// BackBeforeFlush: only the second half of AnyWay.
	BackBeforeFlush
	// ReuseBeforeCheckpoint: the ring is reused when the checkpoint is submitted.
	ReuseBeforeCheckpoint
	// CheckpointBeforeSync: a checkpoint counts on the flush in flight.
	CheckpointBeforeSync
	// FromByWritten: from moves by W instead of S.
	FromByWritten
	// SyncWithoutFlush: a syncfs that does not reach the device.
	SyncWithoutFlush
	// OlderGenerationApplied: recovery applies entries of another generation.
	OlderGenerationApplied
	// GenerationStays: a truncation does not raise the generation.
	GenerationStays
	// TruncateAtDurable: a truncation waits for D instead of S.
	TruncateAtDurable
	// SealAtDurable: a segment is sealed at D instead of S.
	SealAtDurable
	// UnnamedReleased: S counts in a segment whose name is not durable.
	UnnamedReleased
	// JournaledUncapped: J counts across a segment whose name is not durable,
	// and only S stops there.
	JournaledUncapped
	// GapSkipped: a merge goes on behind a gap.
	GapSkipped
	// BehindEndApplied: frames behind the journal's end are applied.
	BehindEndApplied
	// BadFrameEnds: a bad frame that a later one calls flushed is taken for the end.
	BadFrameEnds
	// RunStays: a start does not raise the run.
	RunStays
	// OpenBeforeCheckpoint: appends begin before the checkpoint of the new run is durable.
	OpenBeforeCheckpoint
	// CheckpointBeforeMerged: recovery's checkpoint does not wait for its syncfs.
	CheckpointBeforeMerged
	// NamesTrusted: recovery builds on a manifest that it did not make durable.
	NamesTrusted
	// KeepLeftovers: what lies behind a recovered end stays.
	KeepLeftovers
	// ForgetAsked: the entries of a log are given up when its deletion is asked for.
	ForgetAsked
	// DropBeforeMerge: a second segment whose predecessor is short in the
	// segments is emptied before the merge fills it.
	DropBeforeMerge
)

var ruleNames = []string{
	"flush covers in-flight", "journal flush covers in-flight", "release behind a hole", "write behind a hole", "split batch",
	"flush one file", "journal flush raises S", "J without contiguity", "J from above S", "any way", "direct during entry",
	"back before flush", "reuse before checkpoint", "checkpoint before sync", "from by written", "sync without flush",
	"older generation applied", "generation stays", "truncate at durable", "seal at durable", "unnamed released",
	"journaled uncapped", "gap skipped", "behind end applied", "bad frame ends", "run stays", "open before checkpoint",
	"checkpoint before merged", "names trusted", "keep leftovers", "forget asked", "drop before merge",
}

// String names the broken rules.
func (r Rules) String() string {
	names := ""
	for i, name := range ruleNames {
		if r&(1<<i) == 0 {
			continue
		}
		if names != "" {
			names += " + "
		}
		names += name
	}
	return names
}

// breaks says whether any of the rules is broken.
func (r Rules) breaks(any Rules) bool { return r&any != 0 }
