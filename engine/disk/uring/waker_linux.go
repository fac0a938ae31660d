package uring

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waker lets any goroutine end the owner's sleep. What it says is the flag
// woken; the eventfd only rings the bell, and only when the owner sleeps: one
// write for each sleep, however many call. The owner does not poll the eventfd
// but keeps a read of it in the ring, so the bell is a completion like any other.
//
// No wake is lost: the owner sets sleeping and then looks at the flags, a waker sets
// a flag and then looks at sleeping; one of them sees the other's.
type waker struct {
	woken    atomic.Bool // Wake was called: the Wait in progress or the next returns
	helped   atomic.Bool // the helper has something: look, and sleep on if it was nothing
	sleeping atomic.Bool // the owner is about to block or blocks; who clears it rings

	bell struct {
		sync.Mutex
		fd     int
		closed bool // the number may be another file's by now
	}
	count *[8]byte // where the ring reads the eventfd's count to
}

func newWaker() (*waker, error) {
	// Not EFD_NONBLOCK: the ring would answer a read of an empty one with EAGAIN
	// instead of waiting for the count.
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	w := &waker{count: new([8]byte)}
	w.bell.fd = fd
	return w, nil
}

// wake ends the owner's Wait.
func (w *waker) wake() {
	w.woken.Store(true)
	w.ring()
}

// help tells the owner that the helper has finished something.
func (w *waker) help() {
	w.helped.Store(true)
	w.ring()
}

// ring writes to the eventfd if the owner sleeps and nobody else has.
func (w *waker) ring() {
	if !w.sleeping.CompareAndSwap(true, false) {
		return
	}
	w.bell.Lock()
	defer w.bell.Unlock()
	if w.bell.closed {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	for {
		if _, err := unix.Write(w.bell.fd, one[:]); err != syscall.EINTR {
			return // the count cannot overflow: it is at most one for each sleep
		}
	}
}

// take says whether somebody called wake since the last take.
func (w *waker) take() bool { return w.woken.Load() && w.woken.Swap(false) }

// fallAsleep announces that the owner is going to block; false when it must not.
func (w *waker) fallAsleep() bool {
	w.sleeping.Store(true)
	return !w.woken.Load() && !w.helped.Load()
}

// wakeUp ends what fallAsleep began.
func (w *waker) wakeUp() {
	w.sleeping.Store(false)
	w.helped.Store(false)
}

func (w *waker) close() error {
	w.bell.Lock()
	defer w.bell.Unlock()
	w.bell.closed = true
	return unix.Close(w.bell.fd)
}

// wakerTag is the user data of the read of the eventfd; slots are small numbers.
const wakerTag = 1 << 32

// armWaker puts a read of the eventfd into the ring. It goes with the next enter;
// a count that is there by then completes it at once.
func (d *Disk) armWaker() {
	d.ring.Push(Entry{
		Opcode: opRead, FD: int32(d.waker.bell.fd), UserData: wakerTag,
		Address: uint64(uintptr(unsafe.Pointer(d.waker.count))), Length: 8,
	})
}

// disarmWaker lets the read of the eventfd complete for the last time, so that
// the kernel does not write to memory that is somebody else's by then.
func (d *Disk) disarmWaker() {
	if !d.started || d.broken != nil {
		return
	}
	d.waker.sleeping.Store(true)
	d.waker.ring()
	for quiet := false; !quiet && d.broken == nil; {
		if err := d.ring.Enter(true, 1, -1); err != nil && err != syscall.EINTR && !stalled(err) {
			d.breakDown(err)
		}
		d.ring.Reap(func(userData uint64, _ int32) { quiet = quiet || userData == wakerTag })
	}
}
