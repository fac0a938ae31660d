package engine

// faults switches off single rules of architecture.md section 3 so that a test can show
// that it notices. All false in every program; only this package's tests set them.
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
}
