package uring

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringlog/engine/disk"
	"ringlog/engine/disk/internal/handle"
	"ringlog/engine/disk/internal/system"
)

// stallPause is how long an owner waits that cannot submit because the kernel
// is short of something (EAGAIN, EBUSY) before it tries again.
const stallPause = time.Millisecond

// Disk implements disk.Disk. All but its waker and its helper belongs to the owner.
type Disk struct {
	waker  *waker
	helper *helper

	ring    Ring
	root    *os.Root // for the helper
	rootFD  int      // the same directory, for openat2 and its kin
	files   handle.Table[*openFile]
	info    disk.Info
	started bool  // the owner's thread is locked, the ring enabled, the waker armed
	broken  error // what made the ring unusable
	closed  bool

	slots    []slot            // never grows: the kernel holds addresses of its elements
	free     []uint32          // slots not in use
	backlog  []*disk.Operation // submitted, no slot yet; from head on
	head     int               // of backlog
	ended    []*disk.Operation // finished or refused: the next Wait returns them
	inFlight int
	see      func(userData uint64, result int32) // onCompletion, bound once to spare an allocation
}

// openFile is one open file.
type openFile struct {
	path string
	fd   int
}

// Over is New with rings of another kind.
func Over(maker Maker, root string, options Options) (disk.Disk, error) {
	if options.Entries <= 0 {
		options.Entries = DefaultEntries
	}
	count := 1 << bits.Len(uint(min(max(options.Entries, 4), entriesMax)-1))
	d := &Disk{rootFD: -1}
	d.see = d.onCompletion
	var err error
	if d.root, err = os.OpenRoot(root); err != nil {
		return nil, fmt.Errorf("disk: open root: %w", err)
	}
	if d.rootFD, err = openRoot(d.root); err != nil {
		d.release()
		return nil, fmt.Errorf("disk: open root: %w", err)
	}
	d.info = disk.Info{Name: maker.Name, Direct: !options.Buffered && system.TakesDirect(d.root), Reason: options.Reason}
	if d.ring, err = maker.New(count); err != nil {
		d.release()
		return nil, fmt.Errorf("disk: %w", explain(err))
	}
	if d.waker, err = newWaker(); err != nil {
		d.release()
		return nil, fmt.Errorf("disk: wake: %w", err)
	}
	d.slots = make([]slot, d.ring.Entries()-1)
	for i := range d.slots {
		d.free = append(d.free, uint32(len(d.slots)-1-i))
	}
	d.helper = newHelper(d.root, len(d.slots), d.waker)
	return d, nil
}

// openRoot opens the directory that root stands for once more, as a descriptor
// for the ring's own calls.
func openRoot(root *os.Root) (int, error) {
	directory, err := root.Open(".")
	if err != nil {
		return -1, err
	}
	defer directory.Close()
	return unix.FcntlInt(directory.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// Submit queues op for the next Wait.
func (d *Disk) Submit(op *disk.Operation) {
	op.Done, op.Err = 0, nil
	d.inFlight++
	if d.closed {
		d.refuse(op, disk.ErrClosed)
		return
	}
	if err := op.Check(); err != nil {
		d.refuse(op, err)
		return
	}
	d.backlog = append(d.backlog, op)
}

// Wait hands what is queued to the kernel and returns finished operations.
func (d *Disk) Wait(finished []*disk.Operation, timeout time.Duration) ([]*disk.Operation, error) {
	if d.closed {
		return d.takeEnded(finished), disk.ErrClosed
	}
	if err := d.start(); err != nil {
		return d.takeEnded(finished), err
	}
	before := len(finished)
	var deadline time.Time
	for expired := false; ; {
		d.reap()
		d.fill()
		finished = d.takeEnded(finished)
		woken := d.waker.take()
		if len(finished) > before || woken || timeout == 0 || expired {
			return d.leave(finished, len(finished) == before)
		}
		left := timeout
		if timeout > 0 {
			now := time.Now()
			if deadline.IsZero() {
				deadline = now.Add(timeout)
			}
			left = max(0, deadline.Sub(now))
			expired = left == 0 // one last look, whatever the kernel says then
		}
		timedOut, err := d.sleep(left)
		if err != nil {
			return finished, d.breakDown(err)
		}
		expired = expired || timedOut
	}
}

// start ties the ring to the calling thread, at the first Wait.
func (d *Disk) start() error {
	if d.started || d.broken != nil {
		return d.broken
	}
	runtime.LockOSThread()
	if err := d.ring.Enable(); err != nil {
		runtime.UnlockOSThread()
		return d.breakDown(err)
	}
	d.started = true
	d.armWaker()
	return nil
}

// leave ends a Wait without blocking: what is queued goes to the kernel, and
// when nothing has finished, completions that are ready there are fetched.
func (d *Disk) leave(finished []*disk.Operation, look bool) ([]*disk.Operation, error) {
	if d.ring.Unsubmitted() == 0 && !(look && d.ring.MustEnter()) {
		return finished, nil
	}
	switch err := d.ring.Enter(true, 0, 0); {
	case err == nil, errors.Is(err, syscall.EINTR), stalled(err):
		// What was not taken stays in the queue and goes with the next Wait.
	default:
		return finished, d.breakDown(err)
	}
	d.reap()
	return d.takeEnded(finished), nil
}

// sleep hands what is queued to the kernel and blocks until something
// completes, the waker rings or timeout passes (expired).
func (d *Disk) sleep(timeout time.Duration) (expired bool, err error) {
	least := uint32(1)
	if !d.waker.fallAsleep() {
		least = 0 // a wake came first: hand over only
	}
	err = d.ring.Enter(true, least, timeout)
	if stalled(err) {
		// Completions free what is short; meanwhile a wake is noticed late, not lost.
		if err = d.ring.Enter(false, 1, stallPause); stalled(err) {
			time.Sleep(stallPause)
		}
		if errors.Is(err, syscall.ETIME) || stalled(err) {
			err = nil
		}
	}
	d.waker.wakeUp()
	switch {
	case err == nil, errors.Is(err, syscall.EINTR):
		return false, nil
	case errors.Is(err, syscall.ETIME):
		return true, nil
	}
	return false, err
}

// stalled says whether the kernel is short of something that time brings back.
func stalled(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EBUSY)
}

// breakDown notes that the ring is unusable. The first error stays.
func (d *Disk) breakDown(err error) error {
	if d.broken == nil {
		if errors.Is(err, syscall.EEXIST) {
			err = fmt.Errorf("used by another thread than the one that owns it: %w", err)
		}
		d.broken = fmt.Errorf("disk: the ring is broken: %w", err)
	}
	return d.broken
}

// reap takes what has completed in the kernel and at the helper.
func (d *Disk) reap() {
	d.ring.Reap(d.see)
	for _, done := range d.helper.take() {
		d.finish(done.index, 0, done.err)
	}
}

// fill moves operations from the backlog to the ring as long as there are slots.
func (d *Disk) fill() {
	for d.head < len(d.backlog) && len(d.free) > 0 {
		op := d.backlog[d.head]
		d.backlog[d.head] = nil
		d.head++
		var target *openFile
		if op.Kind.UsesFile() {
			var ok bool
			if target, ok = d.files.Get(op.File); !ok {
				d.refuse(op, syscall.EBADF)
				continue
			}
			if op.Kind == disk.Close {
				d.files.Remove(op.File) // from here on the number names nothing
			}
		}
		last := len(d.free) - 1
		index := d.free[last]
		d.free = d.free[:last]
		s := &d.slots[index]
		*s = slot{index: index, op: op, target: target, parent: -1, newParent: -1}
		op.Slot = uint64(index)
		d.begin(s)
	}
	if d.head == len(d.backlog) {
		d.backlog, d.head = d.backlog[:0], 0
	}
}

// refuse ends op without the kernel having seen it.
func (d *Disk) refuse(op *disk.Operation, cause error) {
	name := op.Path
	if f, ok := d.files.Get(op.File); ok && op.Kind.UsesFile() {
		name = f.path
	}
	op.Fail(name, cause)
	d.ended = append(d.ended, op)
}

// finish ends the operation in slot index.
func (d *Disk) finish(index uint32, done int, cause error) {
	s := &d.slots[index]
	op := s.op
	op.Done = done
	if cause != nil {
		name := op.Path
		if s.target != nil {
			name = s.target.path
		}
		op.Fail(name, cause)
	}
	s.closeParents()
	*s = slot{} // lets the collector have the buffer and the paths
	d.free = append(d.free, index)
	d.ended = append(d.ended, op)
}

func (d *Disk) takeEnded(finished []*disk.Operation) []*disk.Operation {
	d.inFlight -= len(d.ended)
	finished = append(finished, d.ended...)
	clear(d.ended)
	d.ended = d.ended[:0]
	return finished
}

// Wake makes a Wait return.
func (d *Disk) Wake() { d.waker.wake() }

// InFlight is the number of operations not yet returned by Wait.
func (d *Disk) InFlight() int { return d.inFlight }

// Info describes this implementation.
func (d *Disk) Info() disk.Info { return d.info }

// Close waits for what the kernel and the helper have, ends the rest with
// ErrClosed and gives everything back.
func (d *Disk) Close() error {
	if d.closed {
		return disk.ErrClosed
	}
	for _, op := range d.backlog[d.head:] {
		d.refuse(op, disk.ErrClosed)
	}
	d.backlog, d.head = nil, 0
	for d.started && d.broken == nil && len(d.free) < len(d.slots) {
		d.reap()
		if len(d.free) == len(d.slots) {
			break
		}
		if _, err := d.sleep(-1); err != nil {
			d.breakDown(err)
		}
	}
	d.disarmWaker()
	d.closed = true
	first := d.broken
	if err := d.release(); err != nil && first == nil {
		first = err
	}
	d.files.All(func(_ disk.File, f *openFile) {
		if err := unix.Close(f.fd); err != nil && first == nil {
			first = fmt.Errorf("disk: close %s: %w", f.path, err)
		}
	})
	d.files = handle.Table[*openFile]{}
	if d.started {
		runtime.UnlockOSThread()
	}
	return first
}

// release gives back what New made, as far as it came.
func (d *Disk) release() error {
	var first error
	note := func(what string, err error) {
		if err != nil && first == nil {
			first = fmt.Errorf("disk: %s: %w", what, err)
		}
	}
	if d.helper != nil {
		d.helper.close()
	}
	if d.ring != nil {
		note("close the ring", d.ring.Close())
	}
	if d.waker != nil {
		note("close the waker", d.waker.close())
	}
	if d.rootFD >= 0 {
		note("close root", unix.Close(d.rootFD))
	}
	note("close root", d.root.Close())
	return first
}
