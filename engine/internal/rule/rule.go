// Package rule names the rules of the engine that a test can have broken, to
// show that it notices. It is internal: nobody outside of the engine's tree can
// name a rule, so no program can break one.
package rule

import "fmt"

// Rule is one way to break the engine. The numbers in the comments are those of
// the rules of the engine in docs/architecture.md.
type Rule uint8

const (
	// FlushCoversInFlight: a flush releases writes that were in flight when it
	// was submitted (rule 2).
	FlushCoversInFlight Rule = iota + 1
	// ReleaseOutOfOrder: a completed write releases bytes above an earlier one
	// that has not completed (rule 2).
	ReleaseOutOfOrder
	// AcknowledgeWritten: what is written counts as durable (rule 1).
	AcknowledgeWritten
	// FlushOneFile: one file's flush stands for those of all (rule 2).
	FlushOneFile
	// CountShortWrites: a short write counts as whole.
	CountShortWrites
	// AcknowledgeUnnamed: bytes of a segment are released before the manifest
	// names it (rule 6).
	AcknowledgeUnnamed
	// SkipDirectorySync: a rename is taken for durable (rule 6).
	SkipDirectorySync
	// SkipFileFlush: a file that replaces another is not flushed before its
	// rename (rule 6).
	SkipFileFlush
	// PublishStartEarly: a new start offset is published before the manifest
	// has it (rule 6).
	PublishStartEarly
	// RetryFailedFlush: a failed flush is tried again (rule 13).
	RetryFailedFlush
	// KeepLeftovers: what lies behind the recovered end stays (rule 9).
	KeepLeftovers
	// TrustCheckpointEnd: an end below the checkpoint's is taken for a torn tail
	// (rule 9).
	TrustCheckpointEnd
	// OpenBeforeFlush: the high watermark is published before what was accepted
	// is flushed (rule 9).
	OpenBeforeFlush
	// FlushActiveOnly: recovery flushes the last segment alone (rule 9).
	FlushActiveOnly
	// TrustNames: recovery builds on names that it did not make durable (rule 9).
	TrustNames
	// IgnoreLimit: writes pass the checkpoint's limit (rule 9).
	IgnoreLimit
	// OverlapTailBlock: the tail block is rewritten while a write of it is in
	// flight (rule 18).
	OverlapTailBlock
	// SealBeforeFlush: the manifest calls a segment sealed before it is durable
	// (rule 6).
	SealBeforeFlush
	// TrustIndex: side state above the recovered end is used (rule 12).
	TrustIndex
	// KeepSideState: a truncation leaves the replica what it knew of the batches
	// that it cut away (rule 12).
	KeepSideState
	// MoveUnflushed: a log changes its shard before all of it is flushed to its
	// segments (rule 17).
	MoveUnflushed
	// ForgetCut: the state "cutting" is not recorded (rule 7).
	ForgetCut
	// RecycleBeforeManifest: a segment is reused before the manifest forgets it
	// (rule 8).
	RecycleBeforeManifest
	// DirectInFlight: a log goes direct while entries of it are in flight (rule 3).
	DirectInFlight
	// LeaveDirectEarly: entries begin where segment writes end that are not flushed
	// (rule 3).
	LeaveDirectEarly
	// TrimBeforeSync: a trim does not flush what it wrote back (rule 14).
	TrimBeforeSync
	// TrimByWritten: the checkpoint lets go of entries that are written back and not
	// flushed (rule 8).
	TrimByWritten
	// ReuseBeforeCheckpoint: the ring is reused before the checkpoint lets go of it
	// (rule 8).
	ReuseBeforeCheckpoint
	// KeepRun: a restart does not raise the run (rule 5).
	KeepRun
	// ApplyDropped: frames behind the journal's end are merged (rule 5).
	ApplyDropped
	// TrustDamage: a damaged frame that was flushed condemns nobody (rule 5).
	TrustDamage
	// ApplyOlderGen: entries of an older generation are merged (rule 9).
	ApplyOlderGen
	// SkipGaps: entries are merged behind a gap (rule 9).
	SkipGaps
	// ForgetSpill: the entries of a log that failed are not put aside when the ring is
	// trimmed (rule 13).
	ForgetSpill
	// ClaimFlushed: a frame calls others flushed that are only written (rule 4).
	ClaimFlushed
	// CheckpointAhead: the checkpoint records more than what is durable (rule 9).
	CheckpointAhead
	// SwapBeforeManifest: segments that compaction replaced are gone before the manifest
	// names the new one (rule 8).
	SwapBeforeManifest
	// SwapUnflushed: the manifest names a compacted segment that is not flushed (rule 6).
	SwapUnflushed
	// ForgetProducers: compaction drops the sequence numbers that a retry is answered
	// from after a replay (rule 12).
	ForgetProducers

	end
)

var names = [end]string{
	FlushCoversInFlight: "flush covers in flight", ReleaseOutOfOrder: "release out of order",
	AcknowledgeWritten: "acknowledge written", FlushOneFile: "flush one file",
	CountShortWrites: "count short writes", AcknowledgeUnnamed: "acknowledge unnamed",
	SkipDirectorySync: "skip directory sync", SkipFileFlush: "skip file flush",
	PublishStartEarly: "publish start early", RetryFailedFlush: "retry failed flush",
	KeepLeftovers: "keep leftovers", TrustCheckpointEnd: "trust checkpoint end",
	OpenBeforeFlush: "open before flush", FlushActiveOnly: "flush active only", TrustNames: "trust names",
	IgnoreLimit: "ignore limit", OverlapTailBlock: "overlap tail block", SealBeforeFlush: "seal before flush",
	TrustIndex: "trust index", KeepSideState: "keep side state", MoveUnflushed: "move unflushed", ForgetCut: "forget cut",
	RecycleBeforeManifest: "recycle before manifest",
	DirectInFlight:        "direct in flight",
	LeaveDirectEarly:      "leave direct early",
	TrimBeforeSync:        "trim before sync",
	TrimByWritten:         "trim by written",
	ReuseBeforeCheckpoint: "reuse before checkpoint",
	KeepRun:               "keep run",
	ApplyDropped:          "apply dropped",
	TrustDamage:           "trust damage",
	ApplyOlderGen:         "apply older gen",
	SkipGaps:              "skip gaps",
	ForgetSpill:           "forget spill",
	ClaimFlushed:          "claim flushed",
	CheckpointAhead:       "checkpoint ahead",
	SwapBeforeManifest:    "swap before manifest",
	SwapUnflushed:         "swap unflushed",
	ForgetProducers:       "forget producers",
}

// String names the rule.
func (r Rule) String() string {
	if r > 0 && r < end {
		return names[r]
	}
	return fmt.Sprintf("rule(%d)", uint8(r))
}

// All returns every rule, in order.
func All() []Rule {
	var all []Rule
	for r := Rule(1); r < end; r++ {
		all = append(all, r)
	}
	return all
}
