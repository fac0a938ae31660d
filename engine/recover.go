package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ringlog/engine/disk"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
	"ringlog/record"
)

// recover brings a log to the state from which it can go on (rule 9):
//
//	remove files that the manifest does not name
//	finish a cut that was under way
//	scan the segments that are not sealed, from where their index ends
//	judge: is everything there that was durable?
//	destroy what may lie behind the end, flush what was accepted
//	restore the replica's side state and replay what lies above it
//
// Nothing of it depends on how often it was begun before.
func (l *Log) recover(j *job, m *segment.Manifest) error {
	l.gen, l.start, l.side.epochsSaved = m.Gen, m.Start, slices.Clone(m.Epochs)
	r := recovery{log: l, manifest: m}
	if err := r.takeFiles(j); err != nil {
		return err
	}
	r.checkpoint, r.hasCheckpoint = l.shard.keeper.checkpointOf(l, m)
	if r.missing == nil {
		// The state "cutting" stays in every manifest until the cut is done. What
		// lies above the cut may be destroyed in any part, so it is not looked at.
		later := r.setAside()
		if err := r.scan(j); err != nil {
			return err
		}
		l.segments = append(l.segments, later...)
	} else if last := l.active; last.Sealed && there(last) {
		l.setEnd(mark{segment: last, position: last.Bytes, offset: last.NextOffset})
	}
	l.takeEpochs(m.Epochs, l.next.offset)
	if l.cut.active {
		if err := l.finishCut(j); err != nil {
			return err
		}
		r.hasCheckpoint = false // of an older generation from now on
	}
	verdict := plan.Recovery{
		Checkpoint: r.hasCheckpoint,
		Durable:    r.checkpoint.Durable,
		End:        l.next.offset,
		Missing:    r.missing != nil,
		Unproven:   r.hasCheckpoint && r.checkpoint.Unproven,
		Clean:      r.clean(),
	}.Judge()
	if verdict == plan.Fence && l.shard.faults.trustCheckpointEnd && r.missing == nil {
		verdict = plan.Accept
	}
	switch verdict {
	case plan.Fence:
		l.fence = r.fenced()
	case plan.Accept:
		if err := r.settle(j); err != nil {
			return err
		}
	case plan.AcceptClean:
	}
	if r.hasCheckpoint && r.checkpoint.Segment == l.active.BaseOffset {
		// It still stands on disk: the next recovery would look for leftovers up
		// to there, so the first write behind it waits for the next one.
		l.active.limit = r.checkpoint.Limit
	}
	if l.start > l.next.offset {
		l.start = l.next.offset // only of a fenced log: start never moves above what is durable
	}
	if a := l.active; !a.Sealed {
		a.AppendedMillis = plan.LastAppend(a.AppendedMillis, a.CreatedMillis, a.MaxTimestamp, l.shard.nowMillis)
	}
	if err := l.loadTail(j); err != nil {
		return err
	}
	return r.replay(j)
}

// there says whether a sealed segment's file has what the manifest says.
func there(f *segmentFile) bool { return f.prepared >= plan.RoundDown(f.Bytes) }

// recovery is the state of one recover.
type recovery struct {
	log           *Log
	manifest      *segment.Manifest
	checkpoint    segment.CheckpointLog
	hasCheckpoint bool
	snapshots     []int64 // offsets of the snapshot files, ascending
	missing       error   // a sealed segment is not there, or is short
	indexed       mark    // what the stored index of the last segment read covers
	walker        walker
	dropped       bool   // segments were taken out of the log: the manifest is to be replaced
	merge         *merge // the journal's part of the log, while that is merged; nil when the log is opened
}

// takeFiles matches the manifest with the directory and removes what belongs to nobody.
func (r *recovery) takeFiles(j *job) error {
	l := r.log
	list := disk.Operation{Kind: disk.ReadDirectory, Path: l.directory}
	if err := j.do(&list); err != nil {
		return err
	}
	sizes := make(map[string]int64, len(list.Entries))
	for _, entry := range list.Entries {
		sizes[entry.Name] = entry.Bytes
	}
	for i := range r.manifest.Segments {
		f := l.newFile(r.manifest.Segments[i].Name(segment.LogSuffix))
		f.Summary = r.manifest.Segments[i]
		f.renamed, f.named = true, true
		size, there := sizes[f.name]
		if !there {
			r.miss(f, "is missing")
		} else if f.Sealed && size < f.Bytes {
			r.miss(f, fmt.Sprintf("has %d bytes instead of %d", size, f.Bytes))
		}
		f.prepared = plan.RoundDown(size)
		if r.missing == nil || len(l.segments) == 0 {
			l.segments = append(l.segments, f) // of a damaged log: what lies before the damage
		}
	}
	l.active = l.segments[len(l.segments)-1]
	l.cleaning.take(r.manifest)
	l.setEnd(mark{segment: l.segments[0], offset: l.segments[0].BaseOffset})
	return r.removeStrangers(j, list.Entries)
}

func (r *recovery) miss(f *segmentFile, what string) {
	if r.missing == nil {
		r.missing = &segment.CorruptError{File: f.path(), Reason: what}
	}
}

// removeStrangers unlinks what the manifest does not name: segments of a roll
// that was not finished, whose bytes were never released, prepared space, which may
// hold such bytes too, files that were being written, and the files on the other side of a
// compaction's swap, the old ones or the new.
func (r *recovery) removeStrangers(j *job, entries []disk.Entry) error {
	l := r.log
	named := make(map[string]bool, len(l.segments))
	for _, f := range l.segments {
		named[f.name] = true
	}
	// After a kill, or a try to open that failed, the names that are found may be in
	// memory only. They are made durable first, here or for all logs at the start:
	// what this manifest does not name, the one before it may.
	if !l.shard.engine.namesDurable || l.shard.openedBefore[l.id] {
		if err := l.syncDirectory(j); err != nil {
			return err
		}
	}
	removed := false
	for _, entry := range entries {
		stranger := segment.IsPrepared(entry.Name) || strings.HasSuffix(entry.Name, segment.NewSuffix) && entry.Name != segment.ManifestNewName
		offset, pass, suffix, ok := segment.ParsePassName(entry.Name)
		switch {
		case !ok:
		case suffix == segment.SnapshotSuffix:
			r.snapshots = append(r.snapshots, offset)
		case suffix == segment.LogSuffix || suffix == segment.IndexSuffix || suffix == segment.TimeIndexSuffix:
			stranger = !named[segment.PassName(offset, pass, segment.LogSuffix)]
		}
		if stranger && r.missing == nil {
			if err := j.simple(disk.Unlink, l.directory+"/"+entry.Name); err != nil {
				return err
			}
			removed = true
		}
	}
	if removed {
		return l.syncDirectory(j)
	}
	return nil
}

// setAside begins to finish a cut that was under way, if one was, and takes the
// segments above it out of sight.
func (r *recovery) setAside() []*segmentFile {
	l := r.log
	if r.manifest.State != segment.Cutting {
		return nil
	}
	l.cut = cutting{active: true, recorded: true, offset: r.manifest.Cut}
	kept := l.segmentAt(l.cut.offset) + 1
	later := append([]*segmentFile(nil), l.segments[kept:]...)
	l.segments = l.segments[:kept:kept]
	l.active = l.segments[kept-1]
	return later
}

// scan finds the log's end: it goes through the segments that are not sealed, each from
// where its index ends, and stops at the first thing that does not follow.
func (r *recovery) scan(j *job) error {
	l := r.log
	end := mark{segment: l.segments[0], offset: l.segments[0].BaseOffset}
	for i, f := range l.segments {
		if f.Sealed {
			end = mark{segment: f, position: f.Bytes, offset: f.NextOffset}
			continue
		}
		if f.BaseOffset != end.offset && i > 0 && !l.segments[i-1].Sealed {
			// Bytes of the one before are missing: this one was never released.
			return r.drop(j, i, end)
		}
		if r.flushedWhole(i) {
			end = mark{segment: f, position: f.Bytes, offset: l.segments[i+1].BaseOffset}
			continue
		}
		position, err := r.scanSegment(j, f)
		if err == nil && r.merge != nil {
			upTo := int64(math.MaxInt64)
			if i+1 < len(l.segments) {
				upTo = l.segments[i+1].BaseOffset
			}
			position, err = r.mergeSegment(j, f, position, upTo)
		}
		if err != nil {
			return err
		}
		end = mark{segment: f, position: position, offset: f.index.NextOffset}
		f.Bytes, f.NextOffset = position, f.index.NextOffset
		f.MaxTimestamp, f.MaxTimestampOffset = f.index.MaxTimestamp, f.index.MaxTimestampOffset
	}
	if end.segment.Sealed && !l.cut.active {
		return r.afterSealed(end)
	}
	l.setEnd(end)
	return nil
}

// afterSealed is a manifest whose last segment is sealed, which nobody writes.
func (r *recovery) afterSealed(end mark) error {
	return &segment.CorruptError{File: end.segment.path(), Reason: "the last segment is sealed"}
}

// drop takes the segments from the i-th on out of the log.
func (r *recovery) drop(j *job, i int, end mark) error {
	l := r.log
	if r.merge != nil {
		r.merge.resolve(l.gen, end.offset)
	}
	if r.hasCheckpoint && r.checkpoint.Durable > end.offset || r.merge != nil && (r.merge.highest > end.offset || r.merge.problem != nil) {
		l.setEnd(end) // it will be fenced: touch nothing
		l.active = end.segment
		l.segments = l.segments[:i]
		return nil
	}
	gone := l.segments[i:]
	l.segments = l.segments[:i:i]
	l.active = end.segment
	l.setEnd(end)
	r.dropped = true
	if r.merge != nil { // it has learned none, and the checkpoint says up to where the manifest has them all
		l.epochs = nil
		l.takeEpochs(r.manifest.Epochs, end.offset)
	}
	if err := r.replaceManifest(j); err != nil {
		return err
	}
	for _, f := range gone {
		if err := l.removeSegment(j, f); err != nil {
			return err
		}
	}
	return l.syncDirectory(j)
}

func (r *recovery) replaceManifest(j *job) error {
	l := r.log
	if err := l.metaLock.lock(j); err != nil {
		return err
	}
	defer l.metaLock.unlock(l.shard)
	return l.writeManifest(j)
}

// scanSegment rebuilds the index of f up to its end, and returns that. A stored
// index is believed only as far as the batches at its end confirm it (rule 12).
func (r *recovery) scanSegment(j *job, f *segmentFile) (int64, error) {
	l := r.log
	if r.merge != nil {
		return r.scanMerging(j, f)
	}
	if x := l.loadIndex(j, f); x != nil {
		f.index = x
		at, base := x.FindPosition(x.Position)
		confirmed := l.shard.faults.trustIndex
		next := base
		position, _, err := r.walker.walk(j, f, at, x.Position, func(batch record.Batch, _ int64) bool {
			if batch.BaseOffset() != next {
				return false
			}
			next = batch.LastOffset() + 1
			return true
		})
		if err != nil {
			return 0, err
		}
		if confirmed || position == x.Position && next == x.NextOffset {
			r.indexed = mark{segment: f, position: x.Position, offset: x.NextOffset}
			return r.scanFrom(j, f, x.Position)
		}
		l.shard.logger.Warn("the index of a segment does not match its batches and is rebuilt", "log", l.label, "segment", f.BaseOffset)
	}
	f.index = newIndex(f.BaseOffset)
	return r.scanFrom(j, f, 0)
}

// flushedWhole says whether the checkpoint knows that the i-th segment, though not
// sealed, is flushed to its end. (When a log is opened its index is needed.)
func (r *recovery) flushedWhole(i int) bool {
	return r.merge != nil && r.hasCheckpoint && r.log.segments[i].BaseOffset < r.checkpoint.Segment && i+1 < len(r.log.segments)
}

// scanMerging is scanSegment for a merge: from the checkpoint on, and without the
// stored index, because what the journal overlaps is compared.
func (r *recovery) scanMerging(j *job, f *segmentFile) (int64, error) {
	f.index = newIndex(f.BaseOffset)
	c := &r.checkpoint
	if r.hasCheckpoint && c.Segment == f.BaseOffset && c.Position <= f.prepared {
		f.index.Position, f.index.NextOffset = c.Position, c.Offset
		r.merge.from = c.Offset
		return r.scanFrom(j, f, c.Position)
	}
	if len(r.merge.scanned) == 0 {
		r.merge.from = f.BaseOffset
	}
	return r.scanFrom(j, f, 0)
}

// mergeSegment writes what the journal has behind position, below the offset upTo, and
// scans on, as long as one of the two finds something.
func (r *recovery) mergeSegment(j *job, f *segmentFile, position, upTo int64) (int64, error) {
	for {
		extended, err := r.extend(j, f, position, upTo)
		if err != nil || extended == position {
			return position, err
		}
		if position, err = r.scanFrom(j, f, extended); err != nil || position == extended {
			return position, err
		}
	}
}

// scanFrom accepts batches of f from position on and returns where they end.
func (r *recovery) scanFrom(j *job, f *segmentFile, position int64) (int64, error) {
	l, x := r.log, f.index
	// Of what is scanned the batches say when epochs began: the manifest may know
	// of one whose batches were lost, and whose offsets another epoch has now.
	l.takeEpochs(r.manifest.Epochs, x.NextOffset)
	interval := int64(l.config.IndexIntervalBytes)
	end, _, err := r.walker.walk(j, f, position, f.prepared, func(batch record.Batch, _ int64) bool {
		candidate := plan.Batch{
			BaseOffset: batch.BaseOffset(), LastOffset: batch.LastOffset(), Epoch: batch.LeaderEpoch(),
			Next: x.NextOffset, LastEpoch: l.epochAt(x.NextOffset), Segment: f.BaseOffset,
		}
		if !candidate.Follows() || !r.rightEpoch(batch) {
			return false
		}
		if r.merge == nil { // a merge begins in the middle: where an epoch began it cannot know
			l.noteEpoch(batch.LeaderEpoch(), batch.BaseOffset())
		}
		x.Add(batch.BaseOffset(), batch.LastOffset()+1, batch.MaxTimestamp(), len(batch), interval)
		if r.merge != nil {
			r.merge.note(batch)
		}
		l.shard.counters.recoveredBytes.Add(int64(len(batch)))
		return true
	})
	return end, err
}

// rightEpoch says whether a batch has the leader epoch that the manifest has for it,
// as far as the checkpoint says that it has all: the batch's checksum does not cover
// it. (Of offsets below the first epoch that is left the manifest knows nothing.)
func (r *recovery) rightEpoch(batch record.Batch) bool {
	epochs := r.manifest.Epochs
	if !r.hasCheckpoint || batch.BaseOffset() >= r.checkpoint.EpochsBelow || len(epochs) == 0 || batch.BaseOffset() < epochs[0].Start {
		return true
	}
	epoch := epochs[0].Epoch
	for _, e := range epochs {
		if e.Start <= batch.BaseOffset() {
			epoch = e.Epoch
		}
	}
	return batch.LeaderEpoch() == epoch
}

// epochAt is the epoch of the batch before offset as far as the cache knows.
func (l *Log) epochAt(offset int64) int32 { return epochAt(l.epochs, offset) }

// epochAt is the last of epochs that began before offset, -1 when none did.
func epochAt(epochs []segment.Epoch, offset int64) int32 {
	for i := len(epochs) - 1; i >= 0; i-- {
		if epochs[i].Start < offset {
			return epochs[i].Epoch
		}
	}
	return -1
}

// clean says whether the checkpoint knows that nothing was submitted behind it.
func (r *recovery) clean() bool {
	c := &r.checkpoint
	return c.Segment == r.log.active.BaseOffset && c.Offset == c.Durable && c.Limit <= roundUp(c.Position)
}

// fenced says what a fenced log is poisoned by.
func (r *recovery) fenced() error {
	if r.missing != nil {
		return r.missing
	}
	end := r.log.next
	if r.checkpoint.Unproven {
		return &segment.CorruptError{
			File: end.segment.path(), Offset: end.position,
			Reason: fmt.Sprintf("the log ends at offset %d, and a damaged frame of the commit journal may have held more", end.offset),
		}
	}
	return &segment.CorruptError{
		File: end.segment.path(), Offset: end.position,
		Reason: fmt.Sprintf("the log ends at offset %d, and everything below %d was durable", end.offset, r.checkpoint.Durable),
	}
}

// settle destroys what may lie behind the end and flushes everything that was accepted.
func (r *recovery) settle(j *job) error {
	l := r.log
	if err := r.destroyLeftovers(j); err != nil {
		return err
	}
	if l.shard.faults.openBeforeFlush {
		return nil
	}
	// Not the active segment alone: after a kill, what the ones before it got
	// last may be in memory only.
	for _, f := range append([]*segmentFile(nil), l.segments...) {
		if f.Sealed || f != l.active && l.shard.faults.flushActiveOnly {
			continue
		}
		if err := l.shard.files.open(j, f); err != nil {
			return err
		}
		if err := l.shard.syncAll(j, f); err != nil {
			return err
		}
	}
	return nil
}

// destroyLeftovers destroys what may lie behind the end, as far as the checkpoint let
// writes go.
func (r *recovery) destroyLeftovers(j *job) error {
	l := r.log
	f := l.active
	f.pins++
	defer func() { f.pins-- }()
	if err := l.shard.files.open(j, f); err != nil {
		return err
	}
	if l.shard.faults.keepLeftovers {
		return nil
	}
	limit := f.prepared
	if r.hasCheckpoint && r.checkpoint.Segment == f.BaseOffset {
		limit = min(limit, r.checkpoint.Limit)
	}
	return l.destroy(j, f, l.next.position, limit)
}

// destroy makes [from, to) of f read as zeros, block by block. The block that
// from lies in is written whole, so that its first part stays what it is.
func (l *Log) destroy(j *job, f *segmentFile, from, to int64) error {
	to = min(plan.RoundUp(to), f.prepared)
	if start := plan.RoundDown(from); start < from && from < to {
		block := disk.AlignedBytes(plan.BlockBytes)
		n, err := j.readAll(f.file, block, start)
		if err != nil {
			return err
		}
		if int64(n) < from-start {
			return &segment.CorruptError{File: f.path(), Offset: start, Reason: "the block in which the log ends is short"}
		}
		dirty := false
		for _, b := range block[from-start : n] {
			dirty = dirty || b != 0
		}
		if dirty {
			clear(block[from-start:])
			if err := j.writeAll(f.file, block, start); err != nil {
				return err
			}
			f.writesDone++
		}
	}
	if from = plan.RoundUp(from); from < to {
		if err := j.zero(f.file, from, to); err != nil {
			return err
		}
		f.writesDone++
	}
	return nil
}

// loadTail reads the block in which the log ends into memory: appends go on there.
func (l *Log) loadTail(j *job) error {
	position := l.next.position
	start := plan.RoundDown(position)
	if start == position {
		return nil
	}
	f := l.active
	f.pins++
	defer func() { f.pins-- }()
	if err := l.shard.files.open(j, f); err != nil {
		return err
	}
	block := disk.AlignedBytes(plan.BlockBytes)
	n, err := j.readAll(f.file, block, start)
	if err == nil && int64(n) < position-start {
		err = &segment.CorruptError{File: f.path(), Offset: start, Reason: "the block in which the log ends is short"}
	}
	if err != nil {
		return err
	}
	l.keepBlock(block[:position-start])
	return nil
}
