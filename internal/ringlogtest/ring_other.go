//go:build !linux

package ringlogtest

// RingRefused says whether this system has no io_uring or does not let this
// process use it: it is Linux' own.
func RingRefused() bool { return true }
