package uring

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ProbeOver says in a sentence why a ring cannot be had, or nil. It makes one and
// sends an operation through it: a sandbox may grant the first and not the second.
func ProbeOver(maker Maker) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := maker.New(4)
	if err != nil {
		return explain(err)
	}
	defer r.Close()
	supported, err := r.Supported()
	if err != nil {
		return fmt.Errorf("io_uring does not tell its operations: %w", err)
	}
	for _, op := range slices.Sorted(maps.Keys(opcodesNeeded)) {
		if !supported(op) {
			return fmt.Errorf("this kernel's io_uring lacks %s (Linux 5.15 has it)", opcodesNeeded[op])
		}
	}
	if err := r.Enable(); err != nil {
		return explain(err)
	}
	r.Push(Entry{Opcode: opNop, UserData: 42})
	for answered := false; !answered; {
		err := r.Enter(true, 1, time.Second)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("io_uring was set up but does not answer: %w", err)
		}
		r.Reap(func(userData uint64, result int32) { answered = userData == 42 && result == 0 })
	}
	return nil
}

// Supported implements Ring.
func (r *ring) Supported() (func(op uint8) bool, error) {
	answer := new(probeAnswer)
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), registerProbe,
		uintptr(unsafe.Pointer(answer)), uintptr(len(answer.operations)), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	return func(op uint8) bool { return answer.operations[op].flags&1 != 0 }, nil
}

// explain turns what io_uring_setup(2) says into a sentence with a remedy.
func explain(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSYS):
		return fmt.Errorf("the kernel or the sandbox has no io_uring: %w", err)
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return fmt.Errorf("io_uring is forbidden by sysctl kernel.io_uring_disabled or a seccomp profile: %w", err)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("no memory for a ring, perhaps the limit of locked memory (ulimit -l): %w", err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("no file descriptor for a ring (ulimit -n): %w", err)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("this kernel's io_uring is too old (Linux 5.15 will do): %w", err)
	}
	return fmt.Errorf("io_uring cannot be set up: %w", err)
}
