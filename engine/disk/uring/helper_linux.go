package uring

import (
	"os"
	"sync"
	"syscall"

	"ringlog/engine/disk"
	"ringlog/engine/disk/internal/system"
)

// helper is the goroutine that makes the calls io_uring has no opcode for. It
// makes one at a time: they are rare, and two syncfs at once only slow each
// other down.
type helper struct {
	root  *os.Root
	waker *waker
	jobs  chan helperJob // as long as there are slots: handing over never blocks
	ended sync.WaitGroup

	finished struct {
		sync.Mutex
		jobs []helperJob
	}
	taken []helperJob // the owner's: the list of the last take, swapped to spare an allocation
}

// helperJob is one operation on its way to the helper and back.
type helperJob struct {
	index uint32 // of its slot
	op    *disk.Operation
	fd    int // of its File
	err   error
}

// newHelper starts a helper for a Disk with slots slots.
func newHelper(root *os.Root, slots int, w *waker) *helper {
	h := &helper{root: root, waker: w, jobs: make(chan helperJob, slots)}
	h.ended.Add(1)
	go h.work()
	return h
}

// close waits for what the helper has and ends it.
func (h *helper) close() {
	close(h.jobs)
	h.ended.Wait()
}

// take returns what has finished, valid until the next take.
func (h *helper) take() []helperJob {
	h.finished.Lock()
	clear(h.taken)
	h.taken, h.finished.jobs = h.finished.jobs, h.taken[:0]
	h.finished.Unlock()
	return h.taken
}

func (h *helper) work() {
	defer h.ended.Done()
	for job := range h.jobs {
		if err := h.run(job); err != nil {
			job.err = system.Cause(err)
		}
		h.finished.Lock()
		h.finished.jobs = append(h.finished.jobs, job)
		h.finished.Unlock()
		// From here on the operation is the owner's.
		h.waker.help()
	}
}

func (h *helper) run(job helperJob) (err error) {
	op := job.op
	switch op.Kind {
	case disk.SyncFilesystem:
		return system.SyncFilesystem(job.fd)
	case disk.Preallocate:
		return system.Preallocate(job.fd, op.Offset, op.Length)
	case disk.ZeroRange:
		return system.ZeroRange(job.fd, op.Offset, op.Length)
	case disk.Exchange:
		return system.Exchange(h.root, op.Path, op.NewPath)
	case disk.FreeSpace:
		op.Length, op.TotalBytes, err = system.FreeSpace(h.root)
		return err
	case disk.MakeDirectory:
		return system.MakeDirectory(h.root, op.Path)
	case disk.ReadDirectory:
		op.Entries, err = system.ReadDirectory(h.root, op.Path, op.Entries[:0])
		return err
	}
	return syscall.EINVAL
}
