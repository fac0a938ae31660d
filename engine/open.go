package engine

import (
	"errors"
	"fmt"
	"io/fs"

	"ringlog/engine/disk"
	"ringlog/engine/segment"
)

// manifestBytesMax bounds what is read as log.meta: a million segments.
const manifestBytesMax = 64 << 20

// openLog opens a log that is here, or, when create is set, makes it.
func (s *shard) openLog(j *job, spec LogSpec, create bool) (*Log, error) {
	if s.closing {
		return nil, ErrClosed
	}
	if s.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPoisoned, s.err)
	}
	if l, ok := s.names[spec.ID]; ok {
		if create {
			return l, nil
		}
		return nil, fmt.Errorf("engine: %s is open already", l.label)
	}
	if s.opening[spec.ID] {
		return nil, fmt.Errorf("engine: %s is being opened, created or deleted", spec.Label)
	}
	s.opening[spec.ID] = true
	defer delete(s.opening, spec.ID)

	l := &Log{
		id: spec.ID, label: spec.Label, shard: s, directory: spec.ID.String(),
		config: spec.Config.withDefaults(), replica: spec.Replica, epochLead: -1,
	}
	l.meta = pair{directory: l.directory, name: segment.ManifestName}
	began := s.options.Monotonic()
	l.jobs++
	err := l.open(j, create)
	l.jobs--
	if err == nil && s.err != nil { // it has failed meanwhile
		err = fmt.Errorf("%w: %w", ErrPoisoned, s.err)
	}
	if err != nil {
		s.openedBefore[l.id] = true
		l.closed = fmt.Errorf("%w: %s", ErrClosed, l.label)
		l.giveUp(j)
		return nil, fmt.Errorf("engine: open %s (%s): %w", l.label, l.id, err)
	}
	s.counters.recoveredNanos.Add(int64(s.options.Monotonic() - began))
	s.counters.logs.Add(1)
	s.names[l.id] = l
	s.logs = append(s.logs, l)
	l.home.Store(int32(s.number))
	s.engine.registry.add(l)
	l.opened()
	if l.config.Compact {
		s.cleaner.arm()
	}
	return l, nil
}

// opened introduces the recovered log to its replica.
func (l *Log) opened() {
	l.highWatermark, l.startDurable = l.start, l.start
	l.step(Event{Kind: EventOpened})
	l.step(Event{Kind: EventConfigured, Relaxed: l.config.relaxed()})
	if l.config.relaxed() {
		l.shard.logger.Warn("flush.messages above 1: acknowledged batches of this log survive a crash of the process, not of the machine",
			"log", l.label, "flush.messages", l.config.FlushMessages, "flush.ms", l.config.FlushMillis)
	}
	if fence := l.fence; fence != nil {
		l.fail(fence)
	}
	l.publish()
}

// open reads the manifest and recovers, or creates.
func (l *Log) open(j *job, create bool) error {
	content, err := j.readFile(l.directory+"/"+segment.ManifestName, manifestBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		if err := l.mayCreate(j, create); err != nil {
			return err
		}
		return l.create(j)
	}
	if err != nil {
		return err
	}
	m, err := segment.DecodeManifest(content)
	if err != nil {
		return err
	}
	l.meta.there, l.meta.bytes = true, int64(len(content))
	if m.LogID != l.id {
		return &segment.CorruptError{File: l.directory + "/" + segment.ManifestName, Reason: "it is the manifest of log " + LogID(m.LogID).String()}
	}
	return l.recover(j, m)
}

// mayCreate says why a log without a manifest must not be made, or nil. What a
// crash in the middle of create leaves is an empty first segment and nothing
// else; more than that is a log whose manifest was lost, and an empty log in its place
// would be a loss that nobody notices.
func (l *Log) mayCreate(j *job, create bool) error {
	j.one = disk.Operation{Kind: disk.ReadDirectory, Path: l.directory}
	err := j.do(&j.one)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !create {
			return ErrUnknownLog
		}
		return nil
	case err != nil:
		return err
	}
	for _, entry := range j.one.Entries {
		offset, _, suffix, ok := segment.ParsePassName(entry.Name)
		if ok && (offset != 0 || suffix != segment.LogSuffix || entry.Bytes > 0) {
			return &segment.CorruptError{File: l.directory, Reason: entry.Name + " is there and " + segment.ManifestName + " is not"}
		}
	}
	if !create {
		return fmt.Errorf("%w: its creation was not finished", ErrUnknownLog)
	}
	return nil
}

// create makes an empty log: directory, first segment, manifest, all names durable.
func (l *Log) create(j *job) error {
	if err := j.simple(disk.MakeDirectory, l.directory); err != nil {
		return err
	}
	if err := j.simple(disk.SyncDirectory, "."); err != nil {
		return err
	}
	f := l.newFile(segment.FileName(0, segment.LogSuffix))
	file, _, err := j.open(f.path(), disk.Create|disk.Truncate)
	if err != nil {
		return err
	}
	l.shard.files.opened(f, file)
	f.Summary = segment.Summary{MaxTimestamp: -1, MaxTimestampOffset: -1, CreatedMillis: l.shard.nowMillis, AppendedMillis: l.shard.nowMillis}
	f.index = newIndex(0)
	f.renamed = true
	l.setActive(f)
	if err := l.metaLock.lock(j); err != nil {
		return err
	}
	defer l.metaLock.unlock(l.shard)
	if err := l.syncDirectory(j); err != nil {
		return err
	}
	if err := l.writeManifest(j); err != nil {
		return err
	}
	return l.replica.Restore(nil)
}

// setActive makes f, which is empty, the log's only segment and end.
func (l *Log) setActive(f *segmentFile) {
	l.segments = []*segmentFile{f}
	l.active = f
	l.setEnd(mark{segment: f, offset: f.BaseOffset})
}

// setEnd makes end the place where the log goes on: everything below is durable.
func (l *Log) setEnd(end mark) {
	l.next, l.completed, l.flushed = end, end, end
	l.written, l.durable = end.offset, end.offset
	l.writes.submitted, l.writes.boundary = end, end
	l.space.lookAt = 0
	l.restartRun(end)
	l.entries = deque[entryMark]{}
	// What was asked of offsets that a cut took: a trim, or a flush, must not wait for it.
	l.settleTo = min(l.settleTo, end.offset)
	l.back.due, l.back.allowed = min(l.back.due, end.offset), backNone
	l.noteDirty()
}

// giveUp closes the files of a log that is not open (any more).
func (l *Log) giveUp(j *job) {
	for _, f := range l.allFiles() {
		_ = l.shard.files.close(j, f) // nothing that it holds is promised to anybody
		l.shard.indexes.forget(f)
	}
	l.tail.drop(l)
}

// allFiles are the segments, and the space for more.
func (l *Log) allFiles() []*segmentFile {
	files := append([]*segmentFile(nil), l.segments...)
	if l.coming != nil {
		files = append(files, l.coming)
	}
	files = append(files, l.spares...)
	return append(files, l.cleaning.doubtful...)
}

// idle says that the shard waits for input, the disk or a clock.
func (s *shard) idle() bool {
	return s.takenAt == len(s.taken) && s.inbox.empty() && len(s.readyJobs) == 0 && len(s.changed) == 0 && len(s.writable) == 0 && s.journal.pace.idle()
}
