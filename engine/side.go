package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/segment"
)

const (
	// sideBytes is how many bytes a log appends between two saves of its side
	// state, and so about what recovery has to read of a busy log.
	sideBytes = 64 << 20
	// sideBytesSmall is up to how much a log that closes leaves to be read when it is opened
	// again: less than its side files cost. (Measured at 10,000 logs of 5 KiB: 10 s of a
	// close went into 30,000 small files.)
	sideBytesSmall = 256 << 10
	// snapshotsKept is how many snapshots stay: a damaged one costs a longer
	// replay, not one of the whole log.
	snapshotsKept = 2
	// sideFileBytesMax bounds what is read as an index or snapshot.
	sideFileBytesMax = 256 << 20
	// metaRetry is how long a job that found the disk full waits.
	metaRetry = time.Second
)

// logSide is the state of a log's side files: indexes, snapshots, names (rule 12).
type logSide struct {
	log         *Log
	bytes       int64 // appended since the last save began
	saving      bool
	sealing     bool
	naming      bool
	unnamed     error           // the lack of space for which a segment has no name; nil for none
	epochsSaved []segment.Epoch // those that the manifest has
	saved       mark            // what the last save covers; no segment when there is none
	snapshots   []int64
	retry       timer
}

// expire goes on with what a full disk held up.
func (x *logSide) expire(*shard) {
	if x.log.usable() == nil {
		x.log.nameSegments()
		x.log.flushMoved()
		x.log.startRetention()
	}
}

func (l *Log) retryMeta() {
	l.side.log = l
	l.shard.timers.set(&l.side.retry, l.shard.now+metaRetry, &l.side)
}

// metaEnded takes the end of a job on side files: what a full disk or a lack of
// file descriptors held up is tried again, anything else poisons the log.
func (l *Log) metaEnded(what string, err error) {
	switch {
	case err == nil || isClosed(err) || l.usable() != nil:
	case isShortage(err):
		l.shard.logger.Warn("no space or no file descriptor: "+what+" waits", "log", l.label, "error", err)
		l.retryMeta()
	default:
		l.fail(err)
	}
}

// flushMoved is called when more of the log is durable: segments may be sealed,
// side state saved, and jobs that wait for it go on.
func (l *Log) flushMoved() {
	l.shard.keeper.dirty = true
	l.wakeFlushWaiters()
	if l.opening() {
		// Recovery writes manifests too, and has neither flushed what it accepted
		// nor given the replica its state: no time for a seal or a snapshot.
		return
	}
	if !l.side.sealing && l.sealable() != nil {
		l.side.sealing = true
		l.runMeta("seal", func(j *job) error { return l.runSeal(j) }, func() { l.side.sealing = false })
		return
	}
	if !l.side.saving && l.side.bytes >= sideBytes {
		l.startSave()
	}
}

func (l *Log) startSave() {
	l.side.saving = true
	l.side.bytes = 0
	l.runMeta("save", func(j *job) error { return l.save(j) }, func() { l.side.saving = false })
}

// runMeta starts a job on the log's side files.
func (l *Log) runMeta(what string, run func(j *job) error, ended func()) {
	l.jobs++
	l.shard.start(what+" "+l.label, func(j *job) {
		err := l.metaLock.lock(j)
		if err == nil {
			if err = l.usable(); err == nil {
				err = run(j)
			}
			l.metaLock.unlock(l.shard)
		}
		l.jobs--
		ended()
		l.metaEnded(what, err)
	})
}

func (l *Log) wakeFlushWaiters() {
	for i, j := range l.flushWaiters {
		l.flushWaiters[i] = nil
		l.shard.wakeJob(j)
	}
	l.flushWaiters = l.flushWaiters[:0]
}

// waitDurable waits until everything below offset is durable.
func (l *Log) waitDurable(j *job, offset int64) error {
	for l.durable < offset {
		if err := l.usable(); err != nil {
			return err
		}
		l.lazy.wanted = true
		l.shard.journal.flushNow()
		l.flushWaiters = append(l.flushWaiters, j)
		if err := j.park(); err != nil {
			return err
		}
	}
	return nil
}

// waitFlushed waits until everything below offset is durable in the segments.
func (l *Log) waitFlushed(j *job, offset int64) error {
	s := l.shard
	for l.flushed.offset < offset || l.durable < offset {
		if err := l.usable(); err != nil {
			return err
		}
		if err := l.cannotFlush(offset); err != nil {
			return err
		}
		l.lazy.wanted = true
		l.settleTo = max(l.settleTo, offset)
		if s.journal.enabled() {
			s.journal.pace.demand(l, offset)
		}
		s.commit.want(l)
		l.flushWaiters = append(l.flushWaiters, j)
		if err := j.park(); err != nil {
			return err
		}
	}
	return nil
}

// cannotFlush says which lack of space keeps a log that closes from having everything below
// offset in its segments: what nobody was told is durable, in a segment without a name, or what the
// journal has.
func (l *Log) cannotFlush(offset int64) error {
	s := l.shard
	switch {
	case !s.closing:
		return nil
	case l.writes.limited:
		return s.short
	}
	if u := l.firstUnnamed(); u != nil && l.side.unnamed != nil && offset > u.BaseOffset {
		return l.side.unnamed
	}
	return nil
}

// waitUnlocked is waitFlushed for a holder of metaLock. It lets go of it
// meanwhile: what it waits for may be a segment's name, which takes the lock.
func (l *Log) waitUnlocked(j *job, offset int64) error {
	if l.flushed.offset >= offset && l.durable >= offset {
		return nil
	}
	l.metaLock.unlock(l.shard)
	err := l.waitFlushed(j, offset)
	if lockErr := l.metaLock.lock(j); lockErr != nil {
		return lockErr
	}
	return err
}

// sealable returns the first segment that is complete and durable and not
// sealed yet, or nil.
func (l *Log) sealable() *segmentFile {
	for i, f := range l.segments {
		if f.Sealed {
			continue
		}
		// Only before a segment with a durable name: the last one in a manifest is never sealed.
		if f != l.active && l.segments[i+1].named && (f.NextOffset <= l.flushed.offset && f.NextOffset <= l.durable || l.shard.faults.sealBeforeFlush) {
			return f
		}
		return nil
	}
	return nil
}

// runSeal writes the indexes of complete segments and then calls them sealed in
// the manifest: from then on recovery does not read them. REQUIRES: metaLock.
func (l *Log) runSeal(j *job) error {
	for f := l.sealable(); f != nil; f = l.sealable() {
		if err := l.saveEpochs(j); err != nil {
			return err
		}
		if err := l.saveIndex(j, f); err != nil {
			return err
		}
		if err := l.syncDirectory(j); err != nil {
			return err
		}
		if f.gone {
			continue
		}
		f.Sealed = true
		if err := l.writeManifest(j); err != nil {
			f.Sealed = false
			return err
		}
		l.shard.indexes.add(f)
	}
	return l.save(j)
}

// saveEpochs makes sure that the manifest has every epoch: an index lets
// recovery skip the batches in which it would find them. REQUIRES: metaLock.
func (l *Log) saveEpochs(j *job) error {
	if slices.Equal(l.epochs, l.side.epochsSaved) {
		return nil
	}
	return l.writeManifest(j)
}

// saveIndex writes the index files of f as they are now.
func (l *Log) saveIndex(j *job, f *segmentFile) error {
	index, timeIndex := f.index.Encode()
	return l.writeIndex(j, f, index, timeIndex)
}

func (l *Log) writeIndex(j *job, f *segmentFile, index, timeIndex []byte) error {
	for _, file := range [...]struct {
		suffix  string
		content []byte
	}{{segment.IndexSuffix, index}, {segment.TimeIndexSuffix, timeIndex}} {
		name := f.Name(file.suffix)
		if err := j.replaceSideFile(l.directory, name, file.content); err != nil {
			return fmt.Errorf("engine: write the index of %s: %w", l.label, err)
		}
	}
	return nil
}

// save writes index and snapshot as of now, once everything below is durable.
// REQUIRES: metaLock.
func (l *Log) save(j *job) error {
	f, offset, gen := l.active, l.next.offset, l.gen
	if l.next == l.side.saved || l.shard.closing && l.side.bytes < sideBytesSmall {
		return nil
	}
	covered := l.next
	index, timeIndex := f.index.Encode()
	snapshot := segment.Snapshot{Offset: offset, State: l.replica.AppendSnapshot(nil)}
	if err := l.waitUnlocked(j, offset); err != nil {
		return err
	}
	if l.gen != gen || f.gone {
		return nil // a truncation took it back
	}
	if err := l.saveEpochs(j); err != nil {
		return err
	}
	if err := l.writeIndex(j, f, index, timeIndex); err != nil {
		return err
	}
	name := segment.FileName(offset, segment.SnapshotSuffix)
	if err := j.replaceSideFile(l.directory, name, snapshot.Encode()); err != nil {
		return fmt.Errorf("engine: write the snapshot of %s: %w", l.label, err)
	}
	if !l.shard.flushesLater {
		if err := l.syncDirectory(j); err != nil {
			return err
		}
	}
	l.side.saved = covered
	if n := len(l.side.snapshots); n == 0 || l.side.snapshots[n-1] < offset {
		l.side.snapshots = append(l.side.snapshots, offset)
	}
	for len(l.side.snapshots) > snapshotsKept {
		if err := l.removeSnapshot(j, l.side.snapshots[0]); err != nil {
			return err
		}
		l.side.snapshots = l.side.snapshots[1:]
	}
	return nil
}

func (l *Log) removeSnapshot(j *job, offset int64) error {
	return l.unlink(j, segment.FileName(offset, segment.SnapshotSuffix))
}

// unlink removes a file of the log; it is no error when it is not there.
func (l *Log) unlink(j *job, name string) error {
	err := j.simple(disk.Unlink, l.directory+"/"+name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// loadIndex reads the index of f, or returns nil when there is none that can be used.
func (l *Log) loadIndex(j *job, f *segmentFile) *segment.Index {
	var content [2][]byte
	for i, suffix := range [...]string{segment.IndexSuffix, segment.TimeIndexSuffix} {
		file, err := j.readFile(l.directory+"/"+f.Name(suffix), sideFileBytesMax)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				l.shard.logger.Warn("an index cannot be read and is rebuilt", "log", l.label, "segment", f.BaseOffset, "error", err)
			}
			return nil
		}
		content[i] = file
	}
	x, err := segment.DecodeIndex(f.BaseOffset, content[0], content[1])
	if err != nil {
		l.shard.logger.Warn("an index is damaged and is rebuilt", "log", l.label, "segment", f.BaseOffset, "error", err)
		return nil
	}
	return x
}

// indexOf returns the index of f, from memory, from its files, or by reading
// the segment. The caller has pinned f.
func (l *Log) indexOf(j *job, f *segmentFile) (*segment.Index, error) {
	if f.index != nil {
		l.shard.indexes.touch(f)
		return f.index, nil
	}
	x := l.loadIndex(j, f)
	if x != nil && (x.Position != f.Bytes || x.NextOffset != f.NextOffset) {
		l.shard.logger.Warn("an index does not cover its segment and is rebuilt", "log", l.label, "segment", f.BaseOffset)
		x = nil
	}
	if x == nil {
		var err error
		if x, err = l.rebuildIndex(j, f); err != nil {
			return nil, err
		}
	}
	if f.index == nil && !f.gone {
		f.index = x
		l.shard.indexes.add(f)
	}
	return x, nil
}

// rebuildIndex reads the whole segment. Damage in the middle ends the index there, and
// with it what can be told of the rest.
func (l *Log) rebuildIndex(j *job, f *segmentFile) (*segment.Index, error) {
	c, err := l.followChain(j, f, nil, f.Bytes)
	if err != nil {
		return nil, unreadable(f, c.index.Position, err)
	}
	if l.closed != nil {
		return nil, l.closed
	}
	if f.gone {
		return c.index, nil
	}
	if c.index.Position < f.Bytes {
		l.noteDamage(f, mark{position: c.index.Position, offset: c.index.NextOffset}, f.end(), c.reason)
		return c.index, nil
	}
	l.shard.counters.indexesRebuilt.Add(1)
	l.storeIndex(j, f, c.index)
	return c.index, nil
}

// indexCache keeps the indexes of sealed segments in memory, up to a bound, and
// gives up the one that was used longest ago.
type indexCache struct {
	bytes          int64
	oldest, newest *segmentFile
}

// indexBytesMax is the memory for indexes of sealed segments: those of some
// tens of GiB of log.
const indexBytesMax = 64 << 20

// add takes the index of a sealed segment that has one in memory.
func (c *indexCache) add(f *segmentFile) {
	if !f.Sealed || f.index == nil || f.indexed {
		return
	}
	f.indexed = true
	c.link(f)
	c.count(f, f.index.MemoryBytes())
	for c.bytes > indexBytesMax && c.oldest != f {
		c.forget(c.oldest)
	}
}

// forget gives up the index of f.
func (c *indexCache) forget(f *segmentFile) {
	if !f.indexed {
		return
	}
	f.indexed = false
	c.count(f, -f.index.MemoryBytes())
	c.unlink(f)
	f.index = nil
}

func (c *indexCache) count(f *segmentFile, bytes int64) {
	c.bytes += bytes
	f.log.shard.counters.indexBytes.Add(bytes)
}

func (c *indexCache) touch(f *segmentFile) {
	if f.indexed && c.newest != f {
		c.unlink(f)
		c.link(f)
	}
}

func (c *indexCache) link(f *segmentFile) {
	f.indexPrevious, f.indexNext = c.newest, nil
	if c.newest == nil {
		c.oldest = f
	} else {
		c.newest.indexNext = f
	}
	c.newest = f
}

func (c *indexCache) unlink(f *segmentFile) {
	if f.indexPrevious == nil {
		c.oldest = f.indexNext
	} else {
		f.indexPrevious.indexNext = f.indexNext
	}
	if f.indexNext == nil {
		c.newest = f.indexPrevious
	} else {
		f.indexNext.indexPrevious = f.indexPrevious
	}
	f.indexPrevious, f.indexNext = nil, nil
}
