package engine

import (
	"fmt"
	"slices"

	"ringlog/engine/disk"
	"ringlog/engine/segment"
)

// roll makes the coming segment the active one. Appends go there at once; its
// bytes are released only when the manifest names it (rule 6), which a job sees to.
// REQUIRES: coming is reserved and open.
func (l *Log) roll() {
	f := l.coming
	l.coming, l.space.lookAt = nil, 0
	f.Summary = segment.Summary{
		BaseOffset: l.next.offset, NextOffset: l.next.offset,
		MaxTimestamp: -1, MaxTimestampOffset: -1,
		CreatedMillis: l.shard.nowMillis, AppendedMillis: l.shard.nowMillis,
	}
	f.index = newIndex(f.BaseOffset)
	l.closeActive()
	l.segments = append(l.segments, f)
	l.active = f
	l.next = mark{segment: f, offset: l.next.offset, total: l.next.total, batches: l.next.batches}
	l.lazy.wanted = true // a relaxed log is flushed at each roll, so that segments get sealed
	l.wantWrites()       // the old one's last block
	l.nameSegments()
	l.shard.counters.rolls.Add(1)
}

// closeActive makes the summary of the active segment final.
func (l *Log) closeActive() {
	f := l.active
	f.Bytes, f.NextOffset = l.next.position, l.next.offset
	f.MaxTimestamp, f.MaxTimestampOffset = f.index.MaxTimestamp, f.index.MaxTimestampOffset
}

// nameSegments starts the job that gives new segments their names.
func (l *Log) nameSegments() {
	if l.side.naming {
		return
	}
	l.side.naming = true
	l.jobs++
	l.shard.start("name "+l.label, func(j *job) {
		err := l.runNaming(j)
		l.jobs--
		l.side.naming = false
		l.side.unnamed = nil
		if isShortage(err) {
			l.side.unnamed = err
			l.retryWaiting() // they are refused
			l.wakeFlushWaiters()
		}
		l.metaEnded("naming a segment, and with it the acknowledgement of its appends,", err)
	})
}

// runNaming names all segments that are not named, several in one go when rolls
// came fast. Between rename and manifest the directory is synced: a manifest
// must never name a file that a power cut can take away.
func (l *Log) runNaming(j *job) error {
	if err := l.metaLock.lock(j); err != nil {
		return err
	}
	defer l.metaLock.unlock(l.shard)
	for l.firstUnnamed() != nil && l.usable() == nil {
		for _, f := range l.segments {
			if f.renamed {
				continue
			}
			name := f.Name(segment.LogSuffix)
			if f.name != name {
				if err := j.rename(f.path(), l.directory+"/"+name); err != nil {
					return err
				}
				f.name = name
			}
		}
		if err := l.syncDirectory(j); err != nil {
			return err
		}
		for _, f := range l.segments {
			f.renamed = f.renamed || f.name == f.Name(segment.LogSuffix)
		}
		if err := l.writeManifest(j); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) syncDirectory(j *job) error {
	if l.shard.faults.skipDirectorySync {
		return nil
	}
	return j.simple(disk.SyncDirectory, l.directory)
}

// writeManifest replaces log.meta by the log's present state and returns when
// that is durable. Segments that it names are named from then on. REQUIRES: metaLock.
func (l *Log) writeManifest(j *job) error {
	var named []*segmentFile
	for _, f := range l.segments {
		if f.renamed {
			named = append(named, f)
		}
	}
	content := l.manifest()
	encoded := content.Encode()
	err := l.meta.replace(j, encoded)
	if isShortage(err) && (l.givePrepared(j) || isFull(err)) { // a full disk must not keep retention from making room
		err = l.shard.reserve.replace(j, &l.meta, encoded)
	}
	if err == nil {
		err = l.syncDirectory(j)
		l.meta.synced(err)
	}
	if err != nil {
		return fmt.Errorf("engine: replace the manifest of %s: %w", l.label, err)
	}
	l.side.unnamed = nil
	for _, f := range named {
		f.named = true
	}
	l.side.epochsSaved = append(l.side.epochsSaved[:0], content.Epochs...)
	l.startDurable = content.Start
	l.advance()
	l.flushMoved()
	return nil
}

// prepareManifest sees that log.meta can name one more segment, and a new epoch, on a disk that is full
// by then: what a segment takes would otherwise wait for its name.
func (l *Log) prepareManifest(j *job) error {
	if err := l.metaLock.lock(j); err != nil {
		return err
	}
	defer l.metaLock.unlock(l.shard)
	if err := l.usable(); err != nil {
		return err
	}
	m := l.manifest()
	m.Segments = append(m.Segments, segment.Summary{}, segment.Summary{})
	m.Epochs = append(slices.Clone(m.Epochs), segment.Epoch{})
	return l.meta.prepare(j, int64(len(m.Encode())))
}

// givePrepared removes prepared space that nothing has been written to, and says
// whether there was any.
func (l *Log) givePrepared(j *job) bool {
	if l.space.preparing {
		return false
	}
	files := l.spares
	if l.coming != nil && l.coming.pins == 0 {
		files = append(files, l.coming)
		l.coming, l.space.lookAt = nil, 0
	}
	l.spares = nil
	for _, f := range files {
		err := l.shard.files.close(j, f)
		if err == nil {
			err = l.unlink(j, f.name)
		}
		if err != nil {
			return false
		}
	}
	return len(files) > 0
}

// manifest is the log's state as log.meta holds it.
func (l *Log) manifest() *segment.Manifest {
	m := &segment.Manifest{LogID: l.id, Gen: l.gen, Start: l.start, Cleaned: l.cleaning.cleaned, Label: l.label, Epochs: l.epochs}
	if l.cut.recorded && !l.shard.faults.forgetCut {
		m.State, m.Cut = segment.Cutting, l.cut.offset
	}
	for _, f := range l.segments {
		if f.renamed {
			m.Segments = append(m.Segments, f.Summary)
		}
	}
	return m
}
