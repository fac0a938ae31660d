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

// Probe says in a sentence why a ring cannot be had, or nil. It makes one and
// sends an operation through it: a sandbox may grant the first and not the second.
func Probe() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := newRing(4)
	if err != nil {
		return explain(err)
	}
	defer r.close()
	if err := r.probeOpcodes(); err != nil {
		return err
	}
	if err := r.enable(); err != nil {
		return explain(err)
	}
	r.next().userData = 42
	for answered := false; !answered; {
		err := r.enter(r.unsubmitted(), 1, time.Second)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("io_uring was set up but does not answer: %w", err)
		}
		r.reap(func(userData uint64, result int32) { answered = userData == 42 && result == 0 })
	}
	return nil
}

// probeOpcodes asks the kernel for each opcode that the Disk uses.
func (r *ring) probeOpcodes() error {
	answer := new(probeAnswer)
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), registerProbe,
		uintptr(unsafe.Pointer(answer)), uintptr(len(answer.operations)), 0, 0)
	if errno != 0 {
		return fmt.Errorf("io_uring does not tell its operations: %w", errno)
	}
	for _, op := range slices.Sorted(maps.Keys(opcodesNeeded)) {
		if answer.operations[op].flags&1 == 0 {
			return fmt.Errorf("this kernel's io_uring lacks %s (Linux 5.15 has it)", opcodesNeeded[op])
		}
	}
	return nil
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
