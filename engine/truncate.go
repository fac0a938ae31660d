package engine

import (
	"fmt"

	"ringlog/engine/plan"
	"ringlog/record"
)

// cutting is a truncation under way.
type cutting struct {
	active   bool // appends wait
	recorded bool // manifests say so: everything up to the end was durable when the first did
	offset   int64
}

// truncate removes everything at and above offset (rule 7):
//
//	hold appends ─▶ write and flush all ─▶ manifest: cutting ─▶ destroy ─▶ flush ─▶ manifest: gen+1 ─▶ go on
//
// A restart in between finds "cutting" and goes on from there. A batch that
// holds offset goes as a whole.
func (l *Log) truncate(j *job, offset int64) error {
	if offset < l.start || offset < l.segments[0].BaseOffset {
		return fmt.Errorf("%w: cut of %s at %d, which starts at %d", ErrOffsetOutOfRange, l.label, offset, l.start)
	}
	if l.cut.active {
		return fmt.Errorf("engine: %s is being cut at %d already", l.label, l.cut.offset)
	}
	if offset >= l.next.offset {
		return nil
	}
	l.cut = cutting{active: true, offset: offset}
	err := l.runTruncate(j)
	l.cut = cutting{}
	if err != nil {
		if !isClosed(err) {
			l.highWatermark = min(l.highWatermark, l.next.offset)
			l.fail(err) // "cutting" may be recorded: the restart finishes it
		}
		return err
	}
	l.retryWaiting()
	return nil
}

func (l *Log) runTruncate(j *job) error {
	if err := l.waitFlushed(j, l.next.offset); err != nil {
		return err
	}
	if err := j.until(func() bool {
		return l.writes.count == 0 && l.inFlight == 0 && !l.ready && !l.space.preparing && !l.cleaning.running
	}); err != nil {
		return err
	}
	if err := l.metaLock.lock(j); err != nil {
		return err
	}
	defer l.metaLock.unlock(l.shard)
	if err := l.usable(); err != nil {
		return err
	}
	l.cut.recorded = true
	if err := l.writeManifest(j); err != nil {
		return err
	}
	if err := l.cutFiles(j); err != nil {
		return err
	}
	// What the replica knows of producers is of batches that are gone: it starts
	// over from a snapshot below the cut, as a recovery does.
	if !l.shard.faults.keepSideState {
		r := recovery{log: l, snapshots: l.side.snapshots}
		if err := r.replay(j); err != nil {
			return err
		}
	}
	l.highWatermark = min(l.highWatermark, l.next.offset)
	l.step(Event{Kind: EventTruncated})
	l.publish()
	l.shard.reads.wake(l)
	return nil
}

// finishCut does what a cut that a crash interrupted has left to do.
func (l *Log) finishCut(j *job) error {
	if err := l.metaLock.lock(j); err != nil {
		return err
	}
	defer l.metaLock.unlock(l.shard)
	err := l.cutFiles(j)
	l.cut = cutting{}
	return err
}

// cutFiles destroys what lies at and above the cut, and makes that the log's
// state. It depends only on the manifest and the files, so it can be done again.
// REQUIRES: metaLock; the manifest says "cutting"; nothing is in flight.
func (l *Log) cutFiles(j *job) error {
	end, err := l.findCut(j)
	if err != nil {
		return err
	}
	f := end.segment
	if err := l.cutSideState(j, end); err != nil {
		return err
	}
	f.pins++
	defer func() { f.pins-- }()
	if err := l.shard.files.open(j, f); err != nil {
		return err
	}
	// From here on nobody is served what lies above, also when this fails half way.
	l.highWatermark = min(l.highWatermark, max(end.offset, l.start))
	l.publish()
	if err := l.destroy(j, f, end.position, f.prepared); err != nil {
		return err
	}
	if err := l.shard.syncAll(j, f); err != nil {
		return err
	}
	kept := l.segmentAt(f.BaseOffset) + 1
	gone := append([]*segmentFile(nil), l.segments[kept:]...)
	l.segments = l.segments[:kept:kept]
	l.active = f
	f.Sealed, f.limit = false, noLimit
	f.Bytes, f.NextOffset = end.position, end.offset
	f.MaxTimestamp, f.MaxTimestampOffset = f.index.MaxTimestamp, f.index.MaxTimestampOffset
	l.tail.drop(l)
	l.shard.tail.missesUntil(l.shard.now)
	l.shard.reads.cold.streams.forget(l)
	l.writes.ends = deque[mark]{}
	l.setEnd(end)
	l.cutEpochs(end.offset)
	l.start = min(l.start, end.offset) // the batch that holds both went as a whole
	l.keepDamages()
	l.cleaning.cleaned = min(l.cleaning.cleaned, end.offset)
	l.gen++
	l.cut.recorded = false
	if err := l.writeManifest(j); err != nil {
		l.cut.recorded = true
		return err
	}
	for _, f := range gone {
		if err := l.removeSegment(j, f); err != nil {
			return err
		}
	}
	if err := l.syncDirectory(j); err != nil {
		return err
	}
	l.shard.keeper.dirty = true
	l.side.bytes, l.side.saved = 0, mark{}
	if l.opening() {
		return nil // recovery loads the tail
	}
	return l.loadTail(j)
}

// opening says whether the log is still being recovered.
func (l *Log) opening() bool { return l.shard.opening[l.id] }

// findCut returns the place of the first batch that ends at or above the cut, and gives
// that segment an index that ends there.
func (l *Log) findCut(j *job) (mark, error) {
	f := l.segments[l.segmentAt(l.cut.offset)]
	f.pins++
	defer func() { f.pins-- }()
	l.shard.indexes.forget(f)
	var w walker
	x := newIndex(f.BaseOffset)
	interval := int64(l.config.IndexIntervalBytes)
	limit := f.Bytes
	if !f.Sealed {
		limit = f.prepared
	}
	end, _, err := w.walk(j, f, 0, limit, func(batch record.Batch, _ int64) bool {
		follows := plan.Batch{
			BaseOffset: batch.BaseOffset(), LastOffset: batch.LastOffset(), Epoch: batch.LeaderEpoch(),
			Next: x.NextOffset, LastEpoch: -1, Segment: f.BaseOffset,
		}.Follows()
		if !follows || batch.LastOffset() >= l.cut.offset {
			return false
		}
		x.Add(batch.BaseOffset(), batch.LastOffset()+1, batch.MaxTimestamp(), len(batch), interval)
		return true
	})
	if err != nil {
		return mark{}, err
	}
	f.index = x
	return mark{segment: f, position: end, offset: x.NextOffset}, nil
}

// cutSideState removes the side files that tell of what is cut.
func (l *Log) cutSideState(j *job, end mark) error {
	for i := l.segmentAt(end.segment.BaseOffset); i < len(l.segments); i++ {
		if err := l.removeIndexFiles(j, l.segments[i]); err != nil {
			return err
		}
	}
	kept := l.side.snapshots[:0]
	for _, offset := range l.side.snapshots {
		if offset <= end.offset {
			kept = append(kept, offset)
			continue
		}
		if err := l.removeSnapshot(j, offset); err != nil {
			return err
		}
	}
	l.side.snapshots = kept
	return l.syncDirectory(j)
}
