//go:build unix && !linux

package system

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// DirectFlag is empty: systems without O_DIRECT write through the page cache.
const DirectFlag = 0

// TakesDirect says whether the root's file system opens files with O_DIRECT.
func TakesDirect(*os.Root) bool { return false }

// fullFlush is F_FULLFSYNC of macOS, where fsync leaves the device's cache alone.
const fullFlush = 51

// Flush is fsync, and on macOS what fsync is elsewhere.
func Flush(descriptor int) error {
	_, err := Retry(func() (int, error) {
		if runtime.GOOS == "darwin" {
			return unix.FcntlInt(uintptr(descriptor), fullFlush, 0)
		}
		return 0, unix.Fsync(descriptor)
	})
	return err
}

// SyncFilesystem is sync(2), which takes in every file system.
func SyncFilesystem(int) error { return unix.Sync() }

// Exchange is left to systems that all file systems of follow in it.
func Exchange(*os.Root, string, string) error { return syscall.EOPNOTSUPP }

// Preallocate sets the size only: there is no portable call that reserves.
func Preallocate(descriptor int, offset, length int64) error {
	var status unix.Stat_t
	if err := unix.Fstat(descriptor, &status); err != nil {
		return err
	}
	if status.Size >= offset+length {
		return nil
	}
	return unix.Ftruncate(descriptor, offset+length)
}

// ZeroRange writes zeros.
func ZeroRange(descriptor int, offset, length int64) error {
	return writeZeros(descriptor, offset, length)
}
