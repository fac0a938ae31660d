package plan

// Recovery is what is known of a log when the scan of its files has ended.
type Recovery struct {
	// Checkpoint: there is an entry of the log's present generation.
	Checkpoint bool
	// Durable is that entry's durable end.
	Durable int64
	// End is the offset behind the last batch that the scan accepted.
	End int64
	// Missing: a segment that the manifest calls sealed is not there, or is
	// shorter than the manifest says.
	Missing bool
	// Unproven: a damaged frame of the journal may have held its last batches.
	Unproven bool
	// Clean: the checkpoint says that no write was ever submitted behind its durable
	// end, as at a clean close.
	Clean bool
}

// Verdict says how a recovery ends.
type Verdict uint8

const (
	// Accept: take what was scanned, destroy what may lie behind it, flush.
	Accept Verdict = iota
	// AcceptClean: take it; nothing lies behind it and all of it is flushed.
	AcceptClean
	// Fence: bytes that were durable are gone. Change nothing, serve what is
	// intact, take no appends, say so loudly.
	Fence
)

// String names the verdict.
func (v Verdict) String() string {
	switch v {
	case Accept:
		return "accept"
	case AcceptClean:
		return "accept clean"
	case Fence:
		return "fence"
	}
	return "unknown"
}

// Each row of RecoveryTable is a condition on a Recovery; the first that holds decides.
//
//	missing     a sealed segment is missing or short, or the log is unproven
//	checkpoint  there is a usable checkpoint entry
//	end         the scan's end against the checkpoint's durable end: below, at, above
//	clean       the checkpoint says that nothing was submitted behind it
//
//	missing  checkpoint  end    clean   verdict       because
//	yes      any         any    any     fence         sealed means durable
//	no       no          any    any     accept        nothing says that more was durable
//	no       yes         below  any     fence         never a torn tail: those bytes were flushed
//	no       yes         at     yes     accept clean  a clean close, or idle since the checkpoint
//	no       yes         at     no      accept        writes behind it may be half there
//	no       yes         above  any     accept        appended after the checkpoint

// Judge decides how a recovery ends.
func (r Recovery) Judge() Verdict {
	switch {
	case r.Missing, r.Unproven:
		return Fence
	case !r.Checkpoint:
		return Accept
	case r.End < r.Durable:
		return Fence
	case r.End == r.Durable && r.Clean:
		return AcceptClean
	}
	return Accept
}

// Batch is what decides whether the next batch that a scan finds is part of
// the log.
type Batch struct {
	BaseOffset int64
	LastOffset int64
	Epoch      int32
	// Next is the offset behind the batch before it, LastEpoch its epoch.
	Next      int64
	LastEpoch int32
	// Segment is the base offset of the file that it lies in.
	Segment int64
}

// Follows decides: offsets go on without a gap, epochs do not
// fall (a second sign against leftovers, not the only one), and the segment can
// address it.
func (b Batch) Follows() bool {
	return b.BaseOffset == b.Next && b.LastOffset >= b.BaseOffset &&
		b.Epoch >= b.LastEpoch &&
		b.LastOffset-b.Segment <= 1<<31-1
}
