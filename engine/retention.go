package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
)

// startRetention starts a job that rolls and deletes what is due, if anything is.
func (l *Log) startRetention() {
	if l.usable() != nil || l.retaining || l.cut.active {
		return
	}
	r := l.retainPlan()
	if r.Count(l.complete()) == 0 && !r.RollByTime(l.next.position, l.active.CreatedMillis, l.config.SegmentMillis) {
		return
	}
	l.retaining = true
	l.runMeta("retention", func(j *job) error { return l.runRetention(j) }, func() { l.retaining = false })
}

func (l *Log) retainPlan() plan.Retain {
	r := plan.Retain{
		NowMillis: l.shard.nowMillis, RetentionMillis: l.config.RetentionMillis, RetentionBytes: l.config.RetentionBytes,
		Start: l.start, HighWatermark: min(l.highWatermark, l.durable), Delete: l.config.Delete,
	}
	for _, f := range l.segments {
		r.LogBytes += f.Bytes
	}
	return r
}

// complete is the segments that nothing is appended to any more, as retention sees them.
func (l *Log) complete() []plan.Retained {
	var complete []plan.Retained
	for i, f := range l.segments {
		if f == l.active || !l.segments[i+1].named { // a manifest names a segment that stays
			break
		}
		complete = append(complete, plan.Retained{Bytes: f.Bytes, NextOffset: f.NextOffset, MaxTimestamp: f.MaxTimestamp, AppendedMillis: f.AppendedMillis})
	}
	return complete
}

// runRetention ends an old active segment and deletes the complete ones that are
// due, until none is. What only the journal has made durable is flushed to its segment
// first: start stays at or below what the segments have, so that a merge never has to
// begin in a segment that is gone. REQUIRES: metaLock.
func (l *Log) runRetention(j *job) error {
	if l.retainPlan().RollByTime(l.next.position, l.active.CreatedMillis, l.config.SegmentMillis) {
		if err := l.rollByTime(j); err != nil {
			return err
		}
	}
	for l.usable() == nil && !l.cut.active {
		n := l.retainPlan().Count(l.complete())
		if n == 0 {
			return nil
		}
		end := l.segments[n-1].NextOffset
		if l.flushed.offset < end || l.durable < end {
			if err := l.waitUnlocked(j, end); err != nil {
				return err
			}
			continue // anything may have changed
		}
		if err := l.deleteSegments(j, n, max(l.start, end)); err != nil {
			return err
		}
	}
	return l.usable()
}

// rollByTime ends the active segment although no batch asks for it. It is named
// and sealed by the jobs that follow each roll, and deleted when its time comes.
func (l *Log) rollByTime(j *job) error {
	active := l.active
	if l.coming == nil {
		f, err := l.newPrepared(j)
		if err != nil {
			return err
		}
		if l.coming != nil {
			l.spares = append(l.spares, f) // a preparation was quicker
		} else {
			l.coming = f
		}
	}
	if err := l.shard.files.open(j, l.coming); err != nil {
		return err
	}
	if l.active == active && l.usable() == nil && !l.cut.active && l.next.position > 0 {
		l.roll()
	}
	return nil
}

// deleteSegments takes the n oldest segments out of the log: first the manifest
// says so, with the new start offset, durably; then the files become space for
// coming segments or go away (rule 8). REQUIRES: metaLock; they are complete and flushed.
func (l *Log) deleteSegments(j *job, n int, start int64) error {
	gone := append([]*segmentFile(nil), l.segments[:n]...)
	if l.shard.faults.recycleBeforeManifest {
		for _, f := range gone {
			if err := l.recycle(j, f); err != nil {
				return err
			}
		}
	}
	before := l.start
	l.start = start
	l.segments = append([]*segmentFile(nil), l.segments[n:]...)
	l.pruneEpochs()
	if err := l.writeManifest(j); err != nil {
		l.start = before
		l.segments = append(gone, l.segments...)
		l.shard.reads.wake(l) // who asked below the new start meanwhile
		return err
	}
	l.shard.counters.segmentsDeleted.Add(int64(n))
	l.shard.logger.Info("segments are deleted", "log", l.label, "segments", n, "start", start)
	l.startMoved()
	for _, f := range gone {
		f.gone = true
	}
	l.recycleAll(gone)
	return nil
}

// recycleAll starts the job that recycles files that left the log. It takes no
// lock: it waits for readers, and the log must go on meanwhile.
func (l *Log) recycleAll(gone []*segmentFile) {
	l.jobs++
	l.shard.start("recycle "+l.label, func(j *job) {
		var err error
		for _, f := range gone {
			if err == nil {
				err = l.recycle(j, f)
			}
		}
		l.jobs--
		l.metaEnded("recycling a segment", err)
	})
}

// startMoved tells replica and readers of a new start offset.
func (l *Log) startMoved() {
	l.highWatermark = max(l.highWatermark, l.start)
	l.keepDamages()
	if l.usable() == nil {
		l.step(Event{Kind: EventStartAdvanced})
	}
	l.publish()
	l.shard.reads.wake(l)
}

// recycle turns the file of a segment that the manifest does not name any more into prepared
// space of this log, or removes it slowly. What it holds has lower offsets than
// anything that will be written over it, so a scan cannot take it for the log's.
func (l *Log) recycle(j *job, f *segmentFile) error {
	if err := l.awaitLeases(j, f); err != nil {
		return err
	}
	if err := j.until(func() bool { return f.pins == 0 }); err != nil {
		return err
	}
	f.revoked = true
	l.shard.indexes.forget(f)
	if err := l.removeIndexFiles(j, f); err != nil {
		return err
	}
	useful := f.prepared >= min(l.config.SegmentBytes, plan.PrepareStepMax) && f.prepared <= plan.RoundUp(l.config.SegmentBytes)
	if len(l.spares) < sparesMax && useful && l.usable() == nil {
		l.number++
		name := segment.PreparedName(l.number)
		if err := j.rename(f.path(), l.directory+"/"+name); err != nil {
			return err
		}
		spare := l.newFile(name)
		spare.prepared, spare.recycled = f.prepared, true
		if err := l.shard.files.close(j, f); err != nil {
			return err
		}
		l.spares = append(l.spares, spare)
		return nil
	}
	if err := l.shard.files.close(j, f); err != nil {
		return err
	}
	l.shard.keeper.removeFile(l.shard, f.path(), f.prepared, time.Duration(l.config.FileDeleteMillis)*time.Millisecond)
	return nil
}

// leaseLook is how often a job that waits for leases looks at them: connections give them
// up without telling the shard, because it hardly ever waits.
const leaseLook = 50 * time.Millisecond

// awaitLeases waits for the answers that may have to read f again, for file.delete.delay.ms at
// most, or until the log is about to close or leave: whoever needs it after that loses its connection.
func (l *Log) awaitLeases(j *job, f *segmentFile) error {
	deadline := l.shard.now + time.Duration(l.config.FileDeleteMillis)*time.Millisecond
	for f.leases.Load() > 0 && l.shard.now < deadline && l.usable() == nil && !l.leaving && !l.shard.closing {
		if err := j.sleep(leaseLook); err != nil {
			return err
		}
	}
	return nil
}

// removeIndexFiles unlinks the index of a segment.
func (l *Log) removeIndexFiles(j *job, f *segmentFile) error {
	for _, suffix := range [...]string{segment.IndexSuffix, segment.TimeIndexSuffix} {
		if err := l.unlink(j, f.Name(suffix)); err != nil {
			return err
		}
	}
	return nil
}

// removeSegment removes the files of a segment at once. The directory's sync is
// the caller's.
func (l *Log) removeSegment(j *job, f *segmentFile) error {
	f.gone = true
	l.shard.indexes.forget(f)
	if err := l.shard.files.close(j, f); err != nil {
		return err
	}
	if err := l.removeIndexFiles(j, f); err != nil {
		return err
	}
	return l.unlink(j, f.name)
}

// advanceStart raises the start offset, durably (DeleteRecords). Rule: start
// never moves above what is durable.
func (l *Log) advanceStart(j *job, offset int64) error {
	if offset > l.highWatermark || offset < 0 {
		return fmt.Errorf("%w: start offset %d of %s, whose high watermark is %d", ErrOffsetOutOfRange, offset, l.label, l.highWatermark)
	}
	if err := l.waitDurable(j, offset); err != nil {
		return err
	}
	if err := l.metaLock.lock(j); err != nil {
		return err
	}
	defer l.metaLock.unlock(l.shard)
	if err := l.usable(); err != nil {
		return err
	}
	if offset <= l.start {
		return nil
	}
	if offset > l.highWatermark { // cut while this waited
		return fmt.Errorf("%w: start offset %d of %s, whose high watermark is %d", ErrOffsetOutOfRange, offset, l.label, l.highWatermark)
	}
	before := l.start
	l.start = offset
	if err := l.writeManifest(j); err != nil {
		l.start = before
		if !isShortage(err) && !isClosed(err) {
			l.fail(err)
		}
		l.shard.reads.wake(l)
		return err
	}
	l.startMoved()
	l.startRetention() // what lies below goes when it goes: the start is what was asked for
	return nil
}

// deleteLog closes a log and removes it: its name at once and durably, its files slowly.
func (s *shard) deleteLog(j *job, l *Log) error {
	s.opening[l.id] = true
	defer delete(s.opening, l.id)
	// Until its name is gone, durably, a crash brings it back: with all that it had.
	s.leaving = append(s.leaving, l)
	defer func() { s.leaving = without(s.leaving, l) }()
	l.shut(ErrClosed)
	s.engine.registry.remove(l.id)
	delete(s.names, l.id)
	for i := range s.logs {
		if s.logs[i] == l {
			s.logs = append(s.logs[:i:i], s.logs[i+1:]...)
			break
		}
	}
	s.counters.logs.Add(-1)
	if err := l.drain(j, 1); err != nil {
		return err
	}
	l.giveUp(j)
	return s.removeLog(j, l.id, time.Duration(l.config.FileDeleteMillis)*time.Millisecond)
}

// removeLog takes the name of a log that is not open away, durably.
func (s *shard) removeLog(j *job, id LogID, delay time.Duration) error {
	err := j.rename(id.String(), id.String()+deletedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", ErrUnknownLog, id)
	}
	if err != nil {
		return err
	}
	if err := j.simple(disk.SyncDirectory, "."); err != nil {
		return err
	}
	s.engine.registry.dropUnknown(id)
	s.keeper.forget(id)
	s.engine.placement.forget(id)
	s.keeper.remove(s, id, delay)
	return nil
}

// drain waits until nothing works on the log any more but own jobs.
func (l *Log) drain(j *job, own int) error {
	return j.until(func() bool { return l.writes.count == 0 && l.jobs <= own && !l.pinned() })
}

func (l *Log) pinned() bool {
	for _, f := range l.allFiles() {
		if f.pins > 0 {
			return true
		}
	}
	return false
}
