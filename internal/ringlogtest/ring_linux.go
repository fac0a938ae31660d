package ringlogtest

import "golang.org/x/sys/unix"

// RingRefused says whether this system has no io_uring or does not let this
// process use it, as in many containers.
func RingRefused() bool {
	_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 0, 0, 0)
	return errno == unix.ENOSYS || errno == unix.EPERM
}
