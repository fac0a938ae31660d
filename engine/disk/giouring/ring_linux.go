//go:build giouring

package giouring

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	library "github.com/pawelgaczynski/giouring"

	"ringlog/engine/disk"
	"ringlog/engine/disk/uring"
)

var maker = uring.Maker{Name: "giouring", New: func(entries int) (uring.Ring, error) { return newRing(entries) }}

// New returns a Disk on the directory root, which must exist. Whoever calls
// Wait first owns it.
func New(root string, options uring.Options) (disk.Disk, error) {
	return uring.Over(maker, root, options)
}

// Probe says in a sentence why the library's ring cannot be had, or nil.
func Probe() error { return uring.ProbeOver(maker) }

// parameters has the layout of library.Params, which exports none of its fields.
type parameters struct {
	sqEntries, cqEntries, flags, _, _, features uint32
	_                                           [24]uint32
}

// Each line fails to compile when the sizes differ.
var (
	_ [unsafe.Sizeof(parameters{}) - unsafe.Sizeof(library.Params{})]struct{}
	_ [unsafe.Sizeof(library.Params{}) - unsafe.Sizeof(parameters{})]struct{}
)

// ring implements uring.Ring, whose comments say what the methods do.
type ring struct {
	library *library.Ring
	entries int

	timeout syscall.Timespec // read by the kernel during an Enter
	// see is that of the Reap in progress, each is onEach, bound once to spare an allocation.
	see  func(userData uint64, result int32)
	each func(*library.CompletionQueueEvent)
}

func newRing(count int) (*ring, error) {
	r := &ring{}
	r.each = r.onEach
	var p parameters
	err := uring.SetUp(func(flags uint32) error {
		p = parameters{flags: flags, cqEntries: uint32(2 * count)}
		r.library = library.NewRing()
		return r.library.QueueInitParams(uint32(count), (*library.Params)(unsafe.Pointer(&p)))
	})
	if err != nil {
		return nil, err
	}
	r.entries = int(p.sqEntries)
	if err := uring.CheckFeatures(p.features); err != nil {
		r.library.QueueExit()
		return nil, err
	}
	return r, nil
}

func (r *ring) Entries() int { return r.entries }

func (r *ring) Supported() (func(op uint8) bool, error) {
	probe, err := r.library.GetProbeRing()
	if err != nil {
		return nil, err
	}
	return probe.IsSupported, nil
}

func (r *ring) Enable() error {
	if _, errno := r.library.Register(r.library.RingFd(), library.RegisterEnableRings, nil, 0); errno != 0 {
		return fmt.Errorf("enable the ring: %w", errno)
	}
	return nil
}

func (r *ring) Push(e uring.Entry) {
	entry := r.library.GetSQE()
	if entry == nil {
		panic("giouring: more submission entries in use than slots")
	}
	*entry = library.SubmissionQueueEntry{
		OpCode: e.Opcode, Fd: e.FD, Off: e.Offset, Addr: e.Address, Len: e.Length, OpcodeFlags: e.Flags, UserData: e.UserData,
	}
}

func (r *ring) Unsubmitted() int { return int(r.library.SQReady()) }

// MustEnter leaves the question to the library: an Enter that neither submits nor waits
// makes a system call only when completions are held back.
func (r *ring) MustEnter() bool { return true }

func (r *ring) Enter(submit bool, least uint32, timeout time.Duration) error {
	submit = submit && r.library.SQReady() > 0
	var err error
	switch {
	case least > 0 && timeout >= 0:
		return r.enterFor(submit, least, timeout)
	case submit && least > 0:
		_, err = r.library.SubmitAndWait(least)
	case submit:
		_, err = r.library.SubmitAndGetEvents()
	case least > 0:
		_, err = r.library.WaitCQENr(least)
	default:
		if _, err = r.library.PeekCQE(); errors.Is(err, syscall.EAGAIN) {
			err = nil // so it says that nothing has completed
		}
	}
	return err
}

// enterFor is Enter with a limit.
func (r *ring) enterFor(submit bool, least uint32, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	r.timeout = syscall.NsecToTimespec(timeout.Nanoseconds())
	var err error
	if submit {
		_, err = r.library.SubmitAndWaitTimeout(least, &r.timeout, nil)
	} else {
		_, err = r.library.WaitCQEs(least, &r.timeout, nil)
	}
	if errors.Is(err, syscall.ETIME) && time.Now().Before(deadline) {
		return nil
	}
	return err
}

func (r *ring) Reap(see func(userData uint64, result int32)) {
	r.see = see
	r.library.ForEachCQE(r.each)
	r.see = nil
}

func (r *ring) onEach(event *library.CompletionQueueEvent) {
	userData, result := event.UserData, event.Res
	r.library.CQAdvance(1) // the kernel may use the place again
	r.see(userData, result)
}

// Close implements uring.Ring. The library does not tell whether its calls failed.
func (r *ring) Close() error {
	r.library.QueueExit()
	return nil
}
