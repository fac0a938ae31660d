package engine

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"sync/atomic"

	"ringlog/engine/disk"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
)

// job is work of several steps, written as straight-line code: open, roll,
// truncate, read from disk. It runs as a coroutine on the shard's thread and
// gives the thread back whenever it waits for the disk, so it needs no lock
// against the rest of the shard, only care across each wait: anything may have
// changed. (Measured: iter.Pull switches in 60 ns and works on a locked thread; a
// goroutine with channels costs two thread switches and is not replayable.)
type job struct {
	shard     *shard
	name      string
	next      func() (struct{}, bool)
	stop      func()
	yield     func(struct{}) bool
	pending   int  // operations in flight
	ready     bool // in the shard's queue of jobs to resume
	abandoned bool
	waiting   *jobLock // the lock it queues for

	one    disk.Operation   // for the steps that need a single one
	pieces []disk.Operation // of readPieces
}

// start runs f as a job, up to its first wait.
func (s *shard) start(name string, f func(j *job)) *job {
	j := &job{shard: s, name: name}
	j.next, j.stop = iter.Pull(func(yield func(struct{}) bool) {
		j.yield = yield
		f(j)
	})
	s.jobs = append(s.jobs, j)
	s.wakeJob(j)
	return j
}

// wakeJob queues j to be resumed. Jobs are never resumed from inside other
// code: what a job does must not surprise whoever woke it.
func (s *shard) wakeJob(j *job) {
	if !j.ready {
		j.ready = true
		s.readyJobs = append(s.readyJobs, j)
	}
}

// runJobs resumes every job that is ready, in the order in which they became so.
func (s *shard) runJobs() {
	for i := 0; i < len(s.readyJobs); i++ {
		j := s.readyJobs[i]
		j.ready = false
		if _, running := j.next(); !running {
			s.forgetJob(j)
		}
	}
	clear(s.readyJobs)
	s.readyJobs = s.readyJobs[:0]
}

func (s *shard) forgetJob(j *job) {
	for i := range s.jobs {
		if s.jobs[i] == j {
			s.jobs = append(s.jobs[:i], s.jobs[i+1:]...)
			return
		}
	}
}

// abandonJobs ends every job where it stands: each wait returns ErrClosed.
func (s *shard) abandonJobs() {
	for len(s.jobs) > 0 {
		j := s.jobs[0]
		s.jobs = s.jobs[1:]
		j.abandoned = true
		j.stop()
	}
	s.readyJobs = s.readyJobs[:0]
}

// park waits until somebody calls wakeJob. It may return early; callers loop.
func (j *job) park() error {
	if j.abandoned || !j.yield(struct{}{}) {
		j.abandoned = true
		return ErrClosed
	}
	return nil
}

// until waits until condition holds. It is looked at whenever the shard has
// come to rest, so it must not depend on the clock.
func (j *job) until(condition func() bool) error {
	for !condition() {
		j.shard.watchers = append(j.shard.watchers, j)
		if err := j.park(); err != nil {
			return err
		}
	}
	return nil
}

// parallel runs f for each number below count, by several jobs at a time, and
// waits for all.
func (j *job) parallel(count, workers int, f func(j *job, i int)) error {
	next, running := 0, min(workers, count)
	for range running {
		j.shard.start(j.name, func(worker *job) {
			for next < count && !worker.abandoned {
				i := next
				next++
				f(worker, i)
			}
			running--
		})
	}
	return j.until(func() bool { return running == 0 })
}

// submit starts op; it ends before join returns.
func (j *job) submit(op *disk.Operation) {
	if j.abandoned { // only its deferred steps still run
		op.Err = ErrClosed
		return
	}
	op.Owner = j
	j.pending++
	j.shard.submit(op)
}

// join waits for all that was submitted. The error is of the wait only.
func (j *job) join() error {
	for j.pending > 0 {
		if err := j.park(); err != nil {
			return err
		}
	}
	return nil
}

// do carries out op and returns its error.
func (j *job) do(op *disk.Operation) error {
	j.submit(op)
	if err := j.join(); err != nil {
		return err
	}
	return op.Err
}

// simple carries out an operation that needs nothing but these.
func (j *job) simple(kind disk.Kind, path string) error {
	j.one = disk.Operation{Kind: kind, Path: path}
	return j.do(&j.one)
}

func (j *job) rename(from, to string) error {
	j.one = disk.Operation{Kind: disk.Rename, Path: from, NewPath: to}
	return j.do(&j.one)
}

func (j *job) exchange(one, two string) error {
	j.one = disk.Operation{Kind: disk.Exchange, Path: one, NewPath: two}
	return j.do(&j.one)
}

func (j *job) open(path string, flags disk.Flags) (disk.File, int64, error) {
	j.one = disk.Operation{Kind: disk.Open, Path: path, Flags: flags}
	err := j.do(&j.one)
	return j.one.File, j.one.Length, err
}

func (j *job) close(file disk.File) error {
	j.one = disk.Operation{Kind: disk.Close, File: file}
	return j.do(&j.one)
}

func (j *job) flush(file disk.File) error {
	j.one = disk.Operation{Kind: disk.Flush, File: file}
	return j.do(&j.one)
}

func (j *job) zero(file disk.File, from, to int64) error {
	if from >= to {
		return nil
	}
	j.one = disk.Operation{Kind: disk.ZeroRange, File: file, Offset: from, Length: to - from}
	return j.do(&j.one)
}

// writeAll writes data, an aligned whole number of blocks, and resubmits what a
// short write left.
func (j *job) writeAll(file disk.File, data []byte, offset int64) error {
	return j.writeCounted(file, data, offset, &j.shard.counters.otherBytes)
}

// writeCounted is writeAll with the counter of what is written.
func (j *job) writeCounted(file disk.File, data []byte, offset int64, bytes *atomic.Int64) error {
	bytes.Add(int64(len(data)))
	for idle := 0; len(data) > 0; {
		j.one = disk.Operation{Kind: disk.Write, File: file, Buffer: data, Offset: offset}
		if err := j.do(&j.one); err != nil {
			return err
		}
		n := j.one.Done &^ (disk.BlockBytes - 1)
		if n == 0 {
			if idle++; idle > shortWritesMax {
				return fmt.Errorf("engine: write at %d: %w", offset, io.ErrShortWrite)
			}
			continue
		}
		idle = 0
		data, offset = data[n:], offset+int64(n)
	}
	return nil
}

// readAll fills data from offset and returns how much there was: less than
// len(data) only at the file's end.
func (j *job) readAll(file disk.File, data []byte, offset int64) (int, error) {
	total, idle := 0, 0
	for total < len(data) {
		j.one = disk.Operation{Kind: disk.Read, File: file, Buffer: data[total:], Offset: offset + int64(total)}
		if err := j.do(&j.one); err != nil {
			return total, err
		}
		if j.one.Done == 0 {
			return total, nil
		}
		whole := j.one.Done &^ (disk.BlockBytes - 1)
		if idle++; whole == 0 && idle > shortReadsMax {
			// The end of a file whose size is no multiple of a block: not one of ours.
			return total + j.one.Done, nil
		}
		if whole > 0 {
			idle = 0
		}
		total += whole
	}
	return total, nil
}

// readPieces fills data with several reads in flight; all of it must be there, or it reads as zeros.
func (j *job) readPieces(file disk.File, data []byte, offset int64) error {
	ops := j.pieces[:0]
	for from := 0; from < len(data); from += plan.PieceBytes {
		piece := data[from:min(from+plan.PieceBytes, len(data))]
		ops = append(ops, disk.Operation{Kind: disk.Read, File: file, Buffer: piece, Offset: offset + int64(from)})
	}
	j.pieces = ops
	for i := range ops {
		j.submit(&ops[i])
	}
	if err := j.join(); err != nil {
		return err
	}
	for i := range ops {
		op := &ops[i]
		if op.Err != nil {
			return op.Err
		}
		if op.Done < len(op.Buffer) {
			n, err := j.readAll(file, op.Buffer, op.Offset) // a short read, or the end
			if err != nil {
				return err
			}
			clear(op.Buffer[n:])
		}
	}
	return nil
}

// readFile returns the content of a small stored file.
func (j *job) readFile(path string, bytesMax int64) ([]byte, error) {
	file, size, err := j.open(path, disk.ReadOnly)
	if err != nil {
		return nil, err
	}
	var data []byte
	var n int
	if size > bytesMax {
		err = fmt.Errorf("%w: %s has %d bytes, at most %d are expected", ErrCorrupt, path, size, bytesMax)
	} else {
		data = disk.AlignedBytes(int(roundUp(size)))
		n, err = j.readAll(file, data, 0)
	}
	if closeErr := j.close(file); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	return data[:n], nil
}

// replaceFile puts content in the place of path so that a crash leaves the old
// or the new whole: temporary file, flush, rename, and the directory's sync,
// which is the caller's when sync is false.
func (j *job) replaceFile(directory, name, temporary string, content []byte, sync bool) error {
	return j.replace(directory, name, temporary, content, !j.shard.faults.skipFileFlush, sync)
}

// replaceSideFile is replaceFile for what is rebuilt when it lies (rule 12). While the
// shard closes nothing of it is flushed: one flush of everything follows.
func (j *job) replaceSideFile(directory, name string, content []byte) error {
	return j.replace(directory, name, name+segment.NewSuffix, content, !j.shard.flushesLater && !j.shard.faults.skipFileFlush, false)
}

func (j *job) replace(directory, name, temporary string, content []byte, flush, sync bool) error {
	data := j.shard.scratch.take(len(content))
	copy(data, content)
	file, _, err := j.open(directory+"/"+temporary, disk.Create|disk.Truncate)
	if err != nil {
		return err
	}
	err = j.writeAll(file, data, 0)
	if err == nil && flush {
		err = j.flush(file)
	}
	if closeErr := j.close(file); err == nil {
		err = closeErr
	}
	if err == nil {
		err = j.rename(directory+"/"+temporary, directory+"/"+name)
	}
	if err == nil && sync {
		err = j.simple(disk.SyncDirectory, directory)
	}
	if err == nil { // else the write may still be under way
		j.shard.scratch.give(data)
	}
	return err
}

// jobLock lets one job at a time change a log's files and manifest, first come first served.
type jobLock struct {
	held  bool
	queue []*job
}

func (k *jobLock) lock(j *job) error {
	if !k.held {
		k.held = true
		return nil
	}
	k.queue = append(k.queue, j)
	j.waiting = k
	for j.waiting == k {
		if err := j.park(); err != nil {
			return err
		}
	}
	return nil
}

// unlock hands the lock to the job that waited longest.
func (k *jobLock) unlock(s *shard) {
	for len(k.queue) > 0 {
		j := k.queue[0]
		k.queue = k.queue[1:]
		if j.abandoned {
			continue
		}
		j.waiting = nil
		s.wakeJob(j)
		return
	}
	k.held = false
}

// isClosed says whether err means that the shard ended under a job, rather
// than that the disk failed.
func isClosed(err error) bool {
	return errors.Is(err, ErrClosed) || errors.Is(err, disk.ErrClosed)
}
