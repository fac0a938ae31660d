package engine

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
)

const (
	deletedSuffix = ".deleted"
	// removeRate is how slowly freed space goes back: where the file system discards,
	// unlinking a gigabyte stalls the device for 50 to 90 ms (measured).
	removeRate     = 256 << 20 // bytes a pause
	removePause    = 200 * time.Millisecond
	removePauseMin = time.Millisecond
)

// keeper is what a shard does by the clock: checkpoints, retention, and the slow
// removal of files.
type keeper struct {
	loaded     []segment.CheckpointLog // of logs that were not opened yet, as the last run left them
	found      map[LogID]int           // their indexes in loaded
	lock       jobLock                 // held by the job that replaces the file
	file       pair
	dirty      bool // something changed since the last checkpoint
	writing    bool
	failing    bool // the last checkpoint could not be written
	again      bool // somebody asked for one while one was being written
	checkpoint timer
	retention  timer
	ticker     checkpointTick
	retainer   retentionTick
	removals   []removal
	removing   bool
}

// removal is one directory or file that is to go.
type removal struct {
	path  string
	id    LogID
	whole bool // a directory with all that is in it
	bytes int64
	after time.Duration // on the shard's clock
}

type (
	checkpointTick struct{}
	retentionTick  struct{}
)

func (checkpointTick) expire(s *shard) {
	k := &s.keeper
	s.timers.set(&k.checkpoint, s.now+s.options.CheckpointInterval, k.ticker)
	if k.dirty {
		k.wantCheckpoint(s)
	}
	s.reserve.keep()
}

func (retentionTick) expire(s *shard) {
	k := &s.keeper
	s.timers.set(&k.retention, s.now+s.options.RetentionInterval, k.retainer)
	for _, l := range s.logs {
		l.startRetention()
	}
}

// begin takes what the last run left behind of the shard's logs, and arms the clocks.
func (k *keeper) begin(s *shard, loaded []segment.CheckpointLog, file pair) {
	k.file = file
	k.setLoaded(loaded)
	s.timers.set(&k.checkpoint, s.now+s.options.CheckpointInterval, k.ticker)
	s.timers.set(&k.retention, s.now+s.options.RetentionInterval, k.retainer)
	if s.space.enabled() {
		s.timers.set(&s.space.timer, s.now, &s.space)
	}
	s.scrubber.begin()
}

// checkpointOf returns the entry of a log if it is of the manifest's
// generation. Its segment may be gone: what was durable still was.
func (k *keeper) checkpointOf(l *Log, m *segment.Manifest) (segment.CheckpointLog, bool) {
	i, ok := k.find(l.id)
	if !ok {
		return segment.CheckpointLog{}, false
	}
	return k.loaded[i], k.loaded[i].Gen == m.Gen
}

// setLoaded takes the entries that the last run left.
func (k *keeper) setLoaded(logs []segment.CheckpointLog) {
	k.loaded = logs
	k.found = make(map[LogID]int, len(logs))
	for i := range logs {
		k.found[logs[i].LogID] = i
	}
}

// find returns the index in loaded of a log's entry.
func (k *keeper) find(id LogID) (int, bool) {
	i, ok := k.found[id]
	return i, ok
}

// wantCheckpoint starts writing a checkpoint unless one is being written.
func (k *keeper) wantCheckpoint(s *shard) {
	k.dirty = true
	if s.err != nil || s.closed {
		return
	}
	if k.writing {
		k.again = true // what asks now may not be in the one being written
		return
	}
	k.writing, k.again = true, false
	s.start("checkpoint", func(j *job) {
		err := k.checkpointNow(j)
		k.writing = false
		k.failing = err != nil
		if k.again && err == nil {
			k.wantCheckpoint(s)
		}
		if err != nil && !isClosed(err) {
			// Nothing is lost but time at the next start. The clock tries again.
			k.dirty = true
			s.logger.Error("the recovery checkpoint cannot be written", "shard", s.number, "error", err)
			s.shortOf(err)
			s.failLimited(err)
		}
	})
}

// failLimited poisons the logs whose next write waits for the checkpoint that
// could not be written: their users would hear nothing for as long as the
// disk fails. A shortage ends by itself, so they wait on.
func (s *shard) failLimited(cause error) {
	if isShortage(cause) {
		return
	}
	for _, l := range s.logs {
		if l.writes.limited {
			l.fail(fmt.Errorf("engine: the next write waits for a checkpoint: %w", cause))
		}
	}
}

// raised is a limit that holds once the checkpoint is durable.
type raised struct {
	file  *segmentFile
	limit int64
}

// checkpointNow replaces the checkpoint and returns when that is durable.
func (k *keeper) checkpointNow(j *job) error {
	if err := k.lock.lock(j); err != nil {
		return err
	}
	defer k.lock.unlock(j.shard)
	return k.replace(j)
}

// replace replaces the checkpoint file by what is durable now. REQUIRES: lock.
func (k *keeper) replace(j *job) error {
	s := j.shard
	q := &s.journal
	k.dirty = false
	oldest := q.oldest()
	if s.faults.trimByWritten {
		oldest = q.oldestUnwritten()
	}
	p := segment.Checkpoint{
		Store: q.store, Run: q.run, From: oldest, FromPosition: int64(q.positionOf(oldest)), Flushed: q.flushedTo,
	}
	var limits []raised
	for _, l := range s.logs {
		if l.fence != nil {
			continue // its entry of the last run is the evidence: kept below
		}
		entry, f := l.checkpointEntry()
		if s.faults.checkpointAhead {
			entry.Durable = l.next.offset
		}
		if entry.Limit < f.limit {
			f.limit = entry.Limit
		}
		limits = append(limits, raised{f, entry.Limit})
		p.Logs = append(p.Logs, entry)
	}
	for i := range k.loaded {
		l, open := s.names[k.loaded[i].LogID]
		if !open || l.fence != nil {
			p.Logs = append(p.Logs, k.loaded[i])
		}
	}
	if s.faults.reuseBeforeCheckpoint {
		q.releaseTo(oldest)
	}
	content := p.Encode()
	if err := s.reserve.replace(j, &k.file, content); err != nil {
		return err
	}
	if err := k.file.settle(j); err != nil {
		return err
	}
	s.reserve.stored = int64(len(content))
	s.counters.checkpoints.Add(1)
	s.short = nil
	q.releaseTo(oldest)
	for _, r := range limits {
		r.file.limit = max(r.file.limit, r.limit)
		if !r.file.gone {
			r.file.log.wantWrites()
		}
	}
	k.prepareNext(j, int64(len(content)))
	return nil
}

// prepareNext sees that the next checkpoint finds its space, also when there are as many
// logs again by then. Nothing of it is needed now.
func (k *keeper) prepareNext(j *job, bytes int64) {
	if k.file.spare >= bytes+disk.BlockBytes/2 {
		return
	}
	if err := k.file.prepare(j, 2*bytes); err != nil && !isFull(err) && !isClosed(err) {
		j.shard.logger.Warn("no space can be prepared for the next checkpoint", "shard", j.shard.number, "error", err)
	}
}

// checkpointEntry describes what is durable of the log, and up to where its
// active writes may go until the next checkpoint.
func (l *Log) checkpointEntry() (segment.CheckpointLog, *segmentFile) {
	at := l.flushed
	if u := l.firstUnnamed(); u != nil && at.offset >= u.BaseOffset {
		for i, f := range l.segments {
			if f == u && i > 0 {
				before := l.segments[i-1]
				at = mark{segment: before, position: before.Bytes, offset: u.BaseOffset}
			}
		}
	}
	f := at.segment
	entry := segment.CheckpointLog{
		LogID: l.id, Gen: l.gen, Segment: f.BaseOffset,
		Position: at.position, Offset: at.offset, Durable: max(at.offset, l.durable), Limit: noLimit, EpochsBelow: l.epochsBelow(),
	}
	switch {
	case l.settled:
		entry.Limit = max(roundUp(at.position), entry.Position)
	case f.recycled:
		submitted := at.position
		if l.writes.submitted.segment == f {
			submitted = max(submitted, l.writes.submitted.position)
		}
		entry.Limit = max(plan.Limit(submitted, l.side.bytes, f.prepared), entry.Position)
	}
	return entry, f
}

// forget drops the entries of a log that was deleted.
func (k *keeper) forget(id LogID) {
	kept := k.loaded[:0]
	for _, c := range k.loaded {
		if c.LogID != id {
			kept = append(kept, c)
		}
	}
	k.setLoaded(kept)
	k.dirty = true
}

// remove queues the directory of a deleted log for slow removal.
func (k *keeper) remove(s *shard, id LogID, delay time.Duration) {
	k.queue(s, removal{path: id.String() + deletedSuffix, id: id, whole: true, after: s.now + delay})
}

// removeFile queues one file for slow removal.
func (k *keeper) removeFile(s *shard, path string, bytes int64, delay time.Duration) {
	k.queue(s, removal{path: path, bytes: bytes, after: s.now + delay})
}

func (k *keeper) queue(s *shard, r removal) {
	k.removals = append(k.removals, r)
	if k.removing {
		return
	}
	k.removing = true
	s.start("remove files", func(j *job) {
		for len(k.removals) > 0 {
			next := k.removals[0]
			k.removals = k.removals[1:]
			err := k.runRemoval(j, next)
			if isClosed(err) {
				break
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				s.logger.Warn("a deleted file cannot be removed; it is tried again at the next start", "path", next.path, "error", err)
			}
		}
		k.removing = false
	})
}

func (k *keeper) runRemoval(j *job, r removal) error {
	if wait := r.after - j.shard.now; wait > 0 {
		if err := j.sleep(wait); err != nil {
			return err
		}
	}
	if !r.whole {
		return k.unlinkSlowly(j, r.path, r.bytes)
	}
	list := disk.Operation{Kind: disk.ReadDirectory, Path: r.path}
	if err := j.do(&list); err != nil {
		return err
	}
	for _, entry := range list.Entries {
		if err := k.unlinkSlowly(j, r.path+"/"+entry.Name, entry.Bytes); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := j.simple(disk.RemoveDirectory, r.path); err != nil {
		return err
	}
	return j.simple(disk.SyncDirectory, ".")
}

// unlinkSlowly removes a file and waits as long as its size asks for.
func (k *keeper) unlinkSlowly(j *job, path string, bytes int64) error {
	if err := j.simple(disk.Unlink, path); err != nil {
		return err
	}
	j.shard.counters.filesRemoved.Add(1)
	return j.sleep(max(time.Duration(float64(removePause)*float64(bytes)/removeRate), removePauseMin))
}

// sleeper resumes a job when a timer fires.
type sleeper struct {
	job   *job
	fired bool
	timer timer
}

func (w *sleeper) expire(s *shard) {
	w.fired = true
	s.wakeJob(w.job)
}

// sleep waits for d.
func (j *job) sleep(d time.Duration) error {
	w := sleeper{job: j}
	j.shard.timers.set(&w.timer, j.shard.now+d, &w)
	for !w.fired {
		if err := j.park(); err != nil {
			j.shard.timers.clear(&w.timer)
			return err
		}
	}
	return nil
}

// parseLogID reads what LogID.String wrote.
func parseLogID(name string) (id LogID, ok bool) {
	if len(name) != 2*len(id) {
		return id, false
	}
	n, err := hex.Decode(id[:], []byte(name))
	return id, err == nil && n == len(id) && id.String() == name
}
