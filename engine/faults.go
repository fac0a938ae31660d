package engine

import "ringlog/engine/internal/rule"

// faults switches off single rules of architecture.md section 3 so that a test can show
// that it notices. All false in every program; only tests of this tree can set them.
type faults struct {
	flushCoversInFlight   bool // rule 2: a flush releases writes that were in flight when it was submitted
	releaseOutOfOrder     bool // rule 2: a completed write releases bytes above an earlier one that has not
	countShortWrites      bool // a short write counts as whole
	ackUnnamedSegment     bool // rule 6: bytes of a segment are released before the manifest names it
	skipDirectorySync     bool // rule 6: a rename is taken for durable
	retryFailedFlush      bool // rule 13: a failed flush is tried again
	keepLeftovers         bool // rule 9: what lies behind the recovered end stays
	trustCheckpointEnd    bool // rule 9: an end below the checkpoint's is taken for a torn tail
	openBeforeFlush       bool // rule 9: the high watermark is published before what was accepted is flushed
	ignoreLimit           bool // rule 9: writes pass the checkpoint's limit
	overlapTailBlock      bool // rule 18: the tail block is rewritten while a write of it is in flight
	sealBeforeFlush       bool // rule 6: the manifest calls a segment sealed before it is durable
	trustIndex            bool // rule 12: side state above the recovered end is used
	forgetCut             bool // rule 7: the state "cutting" is not recorded
	recycleBeforeManifest bool // rule 8: a segment is reused before the manifest forgets it
	acknowledgeWritten    bool // rule 1: what is written counts as durable
	flushOneFile          bool // rule 2: one file's flush stands for those of all
	skipFileFlush         bool // rule 6: a file that replaces another is not flushed before its rename
	publishStartEarly     bool // rule 6: a new start offset is published before the manifest has it
	flushActiveOnly       bool // rule 9: recovery flushes the last segment alone
	trustNames            bool // rule 9: recovery builds on names that it did not make durable
	directInFlight        bool // rule 3: a log goes direct while entries of it are in flight
	leaveDirectEarly      bool // rule 3: entries begin where segment writes end that are not flushed
	trimBeforeSync        bool // rule 14: a trim does not flush what it wrote back
	trimByWritten         bool // rule 8: the checkpoint lets go of entries that are written back and not flushed
	reuseBeforeCheckpoint bool // rule 8: the ring is reused before the checkpoint lets go of it
	keepRun               bool // rule 5: a restart does not raise the run
	applyDropped          bool // rule 5: frames behind the journal's end are merged
	trustDamage           bool // rule 5: a damaged frame that was flushed condemns nobody
	applyOlderGen         bool // rule 9: entries of an older generation are merged
	skipGaps              bool // rule 9: entries are merged behind a gap
	forgetSpill           bool // rule 13: entries of a failed log are not put aside when the ring is trimmed
	claimFlushed          bool // rule 4: a frame calls others flushed that are only written
	checkpointAhead       bool // rule 9: the checkpoint records more than what is durable
	keepSideState         bool // rule 12: a truncation leaves the replica what it knew of batches that are gone
	moveUnflushed         bool // rule 17: a log changes its shard before all of it is flushed to its segments
	swapBeforeManifest    bool // rule 8: segments that compaction replaced are gone before the manifest has the new one
	swapUnflushed         bool // rule 6: the manifest names a compacted segment that is not flushed
	forgetProducers       bool // rule 12: compaction drops sequence numbers that a replay needs
}

// Breaking returns options under which an engine does not keep a rule.
func (o Options) Breaking(r rule.Rule) Options {
	*o.faults.of(r) = true
	return o
}

// of returns the switch of a rule.
func (f *faults) of(r rule.Rule) *bool {
	return map[rule.Rule]*bool{
		rule.FlushCoversInFlight:   &f.flushCoversInFlight,
		rule.ReleaseOutOfOrder:     &f.releaseOutOfOrder,
		rule.AcknowledgeWritten:    &f.acknowledgeWritten,
		rule.FlushOneFile:          &f.flushOneFile,
		rule.CountShortWrites:      &f.countShortWrites,
		rule.AcknowledgeUnnamed:    &f.ackUnnamedSegment,
		rule.SkipDirectorySync:     &f.skipDirectorySync,
		rule.SkipFileFlush:         &f.skipFileFlush,
		rule.PublishStartEarly:     &f.publishStartEarly,
		rule.RetryFailedFlush:      &f.retryFailedFlush,
		rule.KeepLeftovers:         &f.keepLeftovers,
		rule.TrustCheckpointEnd:    &f.trustCheckpointEnd,
		rule.OpenBeforeFlush:       &f.openBeforeFlush,
		rule.FlushActiveOnly:       &f.flushActiveOnly,
		rule.TrustNames:            &f.trustNames,
		rule.IgnoreLimit:           &f.ignoreLimit,
		rule.OverlapTailBlock:      &f.overlapTailBlock,
		rule.SealBeforeFlush:       &f.sealBeforeFlush,
		rule.TrustIndex:            &f.trustIndex,
		rule.KeepSideState:         &f.keepSideState,
		rule.MoveUnflushed:         &f.moveUnflushed,
		rule.ForgetCut:             &f.forgetCut,
		rule.RecycleBeforeManifest: &f.recycleBeforeManifest,
		rule.DirectInFlight:        &f.directInFlight,
		rule.LeaveDirectEarly:      &f.leaveDirectEarly,
		rule.TrimBeforeSync:        &f.trimBeforeSync,
		rule.TrimByWritten:         &f.trimByWritten,
		rule.ReuseBeforeCheckpoint: &f.reuseBeforeCheckpoint,
		rule.KeepRun:               &f.keepRun,
		rule.ApplyDropped:          &f.applyDropped,
		rule.TrustDamage:           &f.trustDamage,
		rule.ApplyOlderGen:         &f.applyOlderGen,
		rule.SkipGaps:              &f.skipGaps,
		rule.ForgetSpill:           &f.forgetSpill,
		rule.ClaimFlushed:          &f.claimFlushed,
		rule.CheckpointAhead:       &f.checkpointAhead,
		rule.SwapBeforeManifest:    &f.swapBeforeManifest,
		rule.SwapUnflushed:         &f.swapUnflushed,
		rule.ForgetProducers:       &f.forgetProducers,
	}[r]
}
