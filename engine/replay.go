package engine

import (
	"slices"
	"sort"

	"ringlog/engine/segment"
	"ringlog/record"
)

// replay gives the replica its side state: the newest snapshot that can be
// used, and the batches above it.
func (r *recovery) replay(j *job) error {
	l := r.log
	end := l.next.offset
	from, restored, removed := l.segments[0].BaseOffset, false, false
	slices.Sort(r.snapshots)
	for i := len(r.snapshots) - 1; i >= 0; i-- {
		offset := r.snapshots[i]
		if offset > end {
			// It tells of batches that are gone; others will get their offsets.
			if l.fence == nil && !l.shard.faults.trustIndex {
				if err := l.removeSnapshot(j, offset); err != nil {
					return err
				}
				r.snapshots = slices.Delete(r.snapshots, i, i+1)
				removed = true
			}
			continue
		}
		if restored || !l.restore(j, offset) {
			continue
		}
		from, restored = max(from, offset), true
	}
	if removed {
		// Durably, before a new batch gets one of those offsets: a snapshot that
		// came back after a power cut would be taken for one of the new log.
		if err := l.syncDirectory(j); err != nil {
			return err
		}
	}
	l.side.snapshots = r.snapshots
	l.side.bytes = l.next.position // what the side files do not have of the segment
	if r.indexed.segment == l.next.segment {
		l.side.bytes -= r.indexed.position
	}
	if restored && from == end && r.indexed == l.next {
		l.side.saved = l.next // a log that was closed in order has nothing to save
	}
	if !restored {
		if err := l.replica.Restore(nil); err != nil {
			return err
		}
	}
	return r.replayFrom(j, from)
}

// restore hands one snapshot to the replica and says whether that worked.
func (l *Log) restore(j *job, offset int64) bool {
	name := segment.FileName(offset, segment.SnapshotSuffix)
	content, err := j.readFile(l.directory+"/"+name, sideFileBytesMax)
	var snapshot *segment.Snapshot
	if err == nil {
		snapshot, err = segment.DecodeSnapshot(content)
	}
	if err == nil && snapshot.Offset != offset {
		err = &segment.CorruptError{File: l.directory + "/" + name, Reason: "it is of another offset"}
	}
	if err == nil {
		err = l.replica.Restore(snapshot.State)
	}
	if err != nil {
		l.shard.logger.Warn("a snapshot cannot be used: more of the log is replayed", "log", l.label, "offset", offset, "error", err)
		return false
	}
	return true
}

// replayFrom shows the replica every batch at and above from.
func (r *recovery) replayFrom(j *job, from int64) error {
	l := r.log
	for i := l.segmentAt(from); i < len(l.segments); i++ {
		f := l.segments[i]
		limit := f.Bytes
		if f == l.next.segment {
			limit = l.next.position
		}
		if limit == 0 || f.NextOffset <= from {
			continue
		}
		position, next := int64(0), f.BaseOffset
		if from > f.BaseOffset {
			x, err := l.indexOf(j, f)
			if err != nil {
				return err
			}
			position, next = x.Find(from)
		}
		end, reason, err := r.walker.walk(j, f, position, limit, func(batch record.Batch, _ int64) bool {
			if batch.BaseOffset() != next {
				return false
			}
			next = batch.LastOffset() + 1
			if batch.BaseOffset() >= from {
				l.replica.Replay(batch)
			}
			l.shard.counters.recoveredBytes.Add(int64(len(batch)))
			return true
		})
		if err != nil {
			return err
		}
		if end < limit {
			if reason == nil {
				reason = errMisplaced
			}
			l.noteDamage(f, mark{position: end, offset: max(from, next)}, f.end(), reason)
		}
	}
	return nil
}

// segmentAt returns the index of the segment that holds offset, or would.
func (l *Log) segmentAt(offset int64) int {
	n := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].BaseOffset > offset })
	return max(n-1, 0)
}
