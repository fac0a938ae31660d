package system

import (
	"errors"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

// DirectFlag opens a file past the page cache.
const DirectFlag = unix.O_DIRECT

// probeName is made and removed at New where the file system has no nameless files.
const probeName = ".ringlog-direct-probe"

// TakesDirect says whether the root's file system opens files with O_DIRECT.
func TakesDirect(root *os.Root) bool {
	file, err := root.OpenFile(".", os.O_RDWR|unix.O_TMPFILE|DirectFlag, 0o600)
	if err == nil {
		file.Close()
		return true
	}
	// O_TMPFILE or O_DIRECT was refused; a file with a name tells which.
	file, err = root.OpenFile(probeName, os.O_RDWR|os.O_CREATE|DirectFlag, 0o600)
	if err == nil {
		file.Close()
	}
	root.Remove(probeName) // open(2) may have made it before it refused O_DIRECT
	return err == nil
}

// Flush is fdatasync.
func Flush(descriptor int) error {
	_, err := Retry(func() (int, error) { return 0, unix.Fdatasync(descriptor) })
	return err
}

// SyncFilesystem is syncfs and then fdatasync of the same file, without which
// XFS leaves the device's cache unflushed when its log is clean.
func SyncFilesystem(descriptor int) error {
	if _, err := Retry(func() (int, error) { return 0, unix.Syncfs(descriptor) }); err != nil {
		return err
	}
	return Flush(descriptor)
}

// Preallocate reserves the range. A file system without fallocate gets the
// size only: the promise that later writes find space is then not the disk's to keep.
func Preallocate(descriptor int, offset, length int64) error {
	_, err := Retry(func() (int, error) { return 0, unix.Fallocate(descriptor, 0, offset, length) })
	if !notSupported(err) {
		return err
	}
	var status unix.Stat_t
	if err := unix.Fstat(descriptor, &status); err != nil {
		return err
	}
	if status.Size >= offset+length {
		return nil
	}
	return unix.Ftruncate(descriptor, offset+length)
}

// ZeroRange zeroes the range, by writing zeros where there is no call for it.
func ZeroRange(descriptor int, offset, length int64) error {
	_, err := Retry(func() (int, error) {
		return 0, unix.Fallocate(descriptor, unix.FALLOC_FL_ZERO_RANGE, offset, length)
	})
	if !notSupported(err) {
		return err
	}
	return writeZeros(descriptor, offset, length)
}

// Exchange is renameat2 with RENAME_EXCHANGE. EINVAL is what a file system without it says.
func Exchange(root *os.Root, one, two string) error {
	err := openParents(root, one, two, func(first, second int) error {
		_, err := Retry(func() (int, error) {
			return 0, unix.Renameat2(first, path.Base(one), second, path.Base(two), unix.RENAME_EXCHANGE)
		})
		return err
	})
	if err == syscall.EINVAL || notSupported(err) {
		return syscall.EOPNOTSUPP
	}
	return err
}

func notSupported(err error) bool {
	return errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS)
}
