package engine

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"ringlog/engine/disk"
	"ringlog/engine/journal"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
)

// ringWriteBytes is the size of one write of zeros into a new ring, and ringWrites
// how many are in flight.
const (
	ringWriteBytes = 1 << 20
	ringWrites     = 8
)

// openRing makes the journal ready: nothing that lies in the file counts, because the
// checkpoint has a run that no frame in it is of. REQUIRES: the file has been merged.
func (q *commitJournal) openRing(j *job) error {
	s := q.shard
	size := plan.RoundDown(s.options.JournalBytes)
	if size == 0 {
		return nil
	}
	name := segment.JournalName(s.number)
	file, bytes, err := j.open(name, 0)
	there := err == nil
	switch {
	case there && bytes == segment.RingHeadBytes+size:
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("engine: open the commit journal %s: %w", name, err)
	default:
		if there {
			// Of another size. It is merged, so its space can serve for the new one.
			err := j.close(file)
			if err == nil {
				err = j.simple(disk.Unlink, name)
			}
			if err != nil {
				return fmt.Errorf("engine: remove the commit journal %s: %w", name, err)
			}
		}
		began := s.options.Monotonic()
		if file, err = q.makeRing(j, name, size); err != nil {
			_ = j.simple(disk.Unlink, name+segment.NewSuffix) // its space is needed more than it
			if isFull(err) {
				err = fmt.Errorf("%w: %w", ErrNoJournalSpace, err)
			}
			return fmt.Errorf("engine: make the commit journal %s of %d bytes: %w", name, size, err)
		}
		s.logger.Info("the commit journal is made, and written through once", "file", name, "bytes", size, "took", s.options.Monotonic()-began)
	}
	q.file, q.size = file, size
	q.frameBytes = plan.FrameBytes(size)
	q.takeBuffers()
	return q.writeFirst(j)
}

// startRun sets where the frames of this run begin: at the begin of the ring, of
// which nothing counts any more.
func (q *commitJournal) startRun(store [16]byte, run, sequence uint64) {
	q.store, q.run, q.sequence = store, run, sequence
	q.head, q.from, q.liveFrom = 0, 0, sequence
	q.writtenTo, q.flushedTo = sequence-1, sequence-1
}

// writeFirst makes the first frame of the run, an empty one, durable before
// anything else of it: should the checkpoint be lost, what an older run left in the
// ring cannot be taken for the last word.
func (q *commitJournal) writeFirst(j *job) error {
	q.builder.Begin(q.buffers[0])
	data := q.builder.Finish(journal.Header{Store: q.store, Run: q.run, Sequence: q.sequence, Flushed: q.flushedTo, From: q.sequence})
	if err := j.writeAll(q.file, data, q.fileOffset(q.head)); err != nil {
		return fmt.Errorf("engine: write the commit journal: %w", err)
	}
	if err := j.flush(q.file); err != nil {
		return fmt.Errorf("engine: flush the commit journal: %w", err)
	}
	q.head += uint64(len(data))
	q.from, q.writtenTo, q.flushedTo = q.head, q.sequence, q.sequence
	q.sequence++
	q.liveFrom = q.sequence
	return nil
}

// makeRing writes a new ring through with zeros and gives it its name: its blocks
// are then allocated and written, so that a flush of it never waits for the file
// system's own journal.
func (q *commitJournal) makeRing(j *job, name string, size int64) (disk.File, error) {
	file, _, err := j.open(name+segment.NewSuffix, disk.Create|disk.Truncate)
	if err != nil {
		return 0, err
	}
	if err = q.fillRing(j, file, size); err == nil {
		err = j.rename(name+segment.NewSuffix, name)
	}
	if err == nil {
		err = j.simple(disk.SyncDirectory, ".")
	}
	if err != nil {
		_ = j.close(file) // the first error is the one that tells
	}
	return file, err
}

// fillRing writes a new ring and flushes it.
func (q *commitJournal) fillRing(j *job, file disk.File, size int64) error {
	j.one = disk.Operation{Kind: disk.Preallocate, File: file, Length: segment.RingHeadBytes + size}
	if err := j.do(&j.one); err != nil {
		return err
	}
	zeros := disk.AlignedBytes(int(min(size, ringWriteBytes)))
	var failed error
	writers, next := ringWrites, int64(0)
	err := j.parallel(writers, writers, func(j *job, _ int) {
		for next < size && failed == nil {
			at := next
			next += int64(len(zeros))
			if err := j.writeCounted(file, zeros[:min(int64(len(zeros)), size-at)], segment.RingHeadBytes+at, &j.shard.counters.preparedBytes); err != nil {
				failed = err
			}
		}
	})
	if err == nil {
		err = failed
	}
	if err == nil {
		head := segment.Ring{Store: q.store, Bytes: size}
		block := disk.AlignedBytes(segment.RingHeadBytes)
		copy(block, head.Encode())
		err = j.writeAll(file, block, 0)
	}
	if err == nil {
		err = j.flush(file)
	}
	return err
}

// takeBuffers gets the memory that frames are built in: from the tail's pool, which
// has large pages, or, where that is too small, from the heap.
func (q *commitJournal) takeBuffers() {
	for range plan.FramesMax {
		if b := q.shard.options.Tail.TryGet(int(q.frameBytes)); b != nil && q.frameBytes*plan.FramesMax*4 <= q.shard.options.Tail.LimitBytes() {
			q.memory = append(q.memory, b)
			q.buffers = append(q.buffers, b.Bytes()[:q.frameBytes])
			continue
		} else if b != nil {
			b.Release()
		}
		q.buffers = append(q.buffers, disk.AlignedBytes(int(q.frameBytes)))
	}
}

// end gives the memory back. The disk has nothing of it any more.
func (q *commitJournal) end() {
	for _, b := range q.memory {
		b.Release()
	}
	q.memory, q.buffers, q.size = nil, nil, 0
}

// newStore makes the secret that the frames of a data directory bear.
func newStore() (store [16]byte) {
	_, _ = rand.Read(store[:]) // it never fails
	return store
}
