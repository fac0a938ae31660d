package uring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setupChoices are the flags to try, best first; a kernel refuses with EINVAL
// what it does not know (SINGLE_ISSUER is of 6.0, DEFER_TASKRUN of 6.1, COOP_TASKRUN of
// 5.19, SUBMIT_ALL of 5.18). The ring starts disabled: the thread that enables
// it becomes the single issuer, so that a ring may be made by one goroutine
// and used by another.
var setupChoices = []uint32{
	setupSingleIssuer | setupDeferTaskrun | setupTaskrunFlag | setupSubmitAll,
	setupCoopTaskrun | setupTaskrunFlag | setupSubmitAll,
	0,
}

// ring is one io_uring: the two queues shared with the kernel. The kernel
// moves sqHead and cqTail, we move sqTail and cqHead; a queue's index grows
// for ever and is masked on use.
type ring struct {
	fd    int
	flags uint32

	rings   []byte // mapping of both queues
	entries []byte // mapping of the submission entries

	sqHead, sqTail, sqFlags *uint32
	sqMask, sqCount         uint32
	sqNext                  uint32 // our tail: entries from sqTail to here are not published yet
	submissions             []submissionEntry

	cqHead, cqTail *uint32
	cqMask         uint32
	completions    []completionEntry

	// The kernel reads these during io_uring_enter; they live here because
	// the ring is on the heap, which does not move as a stack does.
	argument waitArgument
	timeout  timespec

	// refuse, when a test sets it, answers an Enter in the kernel's place with
	// what it returns, if that is an error: shortages cannot be had on demand.
	refuse func() error
}

// setUpWith is SetUp with the choices as an argument.
func setUpWith(choices []uint32, try func(flags uint32) error) error {
	err := error(syscall.EINVAL)
	for _, choice := range choices {
		if err = try(choice | setupClamp | setupCQSize | setupRingDisabled); !errors.Is(err, syscall.EINVAL) {
			break
		}
	}
	return err
}

// newRing sets up a ring of about count submission entries, still disabled.
func newRing(count int) (*ring, error) {
	var p parameters
	var fd int
	err := SetUp(func(flags uint32) (err error) {
		p = parameters{flags: flags, cqEntries: uint32(2 * count)}
		fd, err = setup(uint32(count), &p)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := CheckFeatures(p.features); err != nil {
		unix.Close(fd)
		return nil, err
	}
	r := &ring{fd: fd, flags: p.flags}
	if err := r.mapQueues(&p); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// setup is io_uring_setup(2).
func setup(entries uint32, p *parameters) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(p)), 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// mapQueues maps what the kernel shares and finds the fields in it.
func (r *ring) mapQueues(p *parameters) error {
	sq, cq := &p.sqOffsets, &p.cqOffsets
	size := max(sq.array+p.sqEntries*4, cq.entries+p.cqEntries*uint32(unsafe.Sizeof(completionEntry{})))
	var err error
	if r.rings, err = unix.Mmap(r.fd, offsetRings, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return fmt.Errorf("map the queues: %w", err)
	}
	size = p.sqEntries * uint32(unsafe.Sizeof(submissionEntry{}))
	if r.entries, err = unix.Mmap(r.fd, offsetEntries, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return fmt.Errorf("map the submission entries: %w", err)
	}
	r.sqHead, r.sqTail, r.sqFlags = r.word(sq.head), r.word(sq.tail), r.word(sq.flags)
	r.sqMask, r.sqCount = *r.word(sq.ringMask), p.sqEntries
	r.cqHead, r.cqTail, r.cqMask = r.word(cq.head), r.word(cq.tail), *r.word(cq.ringMask)
	r.submissions = unsafe.Slice((*submissionEntry)(unsafe.Pointer(&r.entries[0])), p.sqEntries)
	r.completions = unsafe.Slice((*completionEntry)(unsafe.Pointer(&r.rings[cq.entries])), p.cqEntries)
	// The submission queue is a list of indices; ours stay in order for ever.
	for i := range p.sqEntries {
		*r.word(sq.array + i*4) = i
	}
	r.sqNext = *r.sqTail
	return nil
}

// word is the 32-bit field at offset of the queues.
func (r *ring) word(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.rings[offset])) }

// Entries implements Ring.
func (r *ring) Entries() int { return int(r.sqCount) }

// Enable implements Ring.
func (r *ring) Enable() error {
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), registerEnableRings, 0, 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("enable the ring: %w", errno)
	}
	return nil
}

// Push implements Ring. It writes the entry whole: a field left from the place's last
// user means something else to the next (an fsync's flags become the RWF flags of a write).
func (r *ring) Push(e Entry) {
	if r.sqNext-atomic.LoadUint32(r.sqHead) >= r.sqCount {
		panic("uring: more submission entries in use than slots")
	}
	r.submissions[r.sqNext&r.sqMask] = submissionEntry{
		opcode: e.Opcode, fd: e.FD, offset: e.Offset, address: e.Address, length: e.Length, opFlags: e.Flags, userData: e.UserData,
	}
	r.sqNext++
}

// Unsubmitted implements Ring.
func (r *ring) Unsubmitted() int { return int(r.sqNext - atomic.LoadUint32(r.sqHead)) }

// MustEnter implements Ring.
func (r *ring) MustEnter() bool {
	if r.flags&setupTaskrunFlag == 0 {
		return true // this kernel does not tell
	}
	return atomic.LoadUint32(r.sqFlags)&(sqTaskrun|sqCQOverflow) != 0
}

// Enter implements Ring.
//
// unix.Syscall6 tells the scheduler that the thread may block, so that other
// goroutines run; RawSyscall6 would stop the world's wheels.
func (r *ring) Enter(submit bool, least uint32, timeout time.Duration) error {
	if r.refuse != nil {
		if err := r.refuse(); err != nil {
			return err
		}
	}
	count := 0
	if submit {
		atomic.StoreUint32(r.sqTail, r.sqNext) // the kernel may read the entries from here on
		count = r.Unsubmitted()
	}
	flags := uintptr(enterGetEvents)
	var argument, size uintptr
	if least > 0 {
		r.argument.timespec = 0
		if timeout >= 0 {
			r.timeout = timespec{seconds: int64(timeout / time.Second), nanoseconds: int64(timeout % time.Second)}
			r.argument.timespec = uint64(uintptr(unsafe.Pointer(&r.timeout)))
		}
		flags |= enterExtArg
		argument, size = uintptr(unsafe.Pointer(&r.argument)), unsafe.Sizeof(r.argument)
	}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(count), uintptr(least), flags, argument, size)
	if errno != 0 {
		return errno
	}
	return nil
}

// Reap implements Ring.
func (r *ring) Reap(see func(userData uint64, result int32)) {
	head := *r.cqHead
	for head != atomic.LoadUint32(r.cqTail) {
		entry := r.completions[head&r.cqMask]
		head++
		atomic.StoreUint32(r.cqHead, head) // the kernel may use the place again
		see(entry.userData, entry.result)
	}
}

// Close implements Ring.
func (r *ring) Close() error {
	var first error
	for _, mapping := range [][]byte{r.rings, r.entries} {
		if mapping == nil {
			continue
		}
		if err := unix.Munmap(mapping); err != nil && first == nil {
			first = fmt.Errorf("unmap a queue: %w", err)
		}
	}
	if err := unix.Close(r.fd); err != nil && first == nil {
		first = fmt.Errorf("close the ring: %w", err)
	}
	return first
}
