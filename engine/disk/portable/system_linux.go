package portable

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const directFlag = unix.O_DIRECT

// probeName is made and removed at New where the file system has no nameless files.
const probeName = ".ringlog-direct-probe"

// takesDirect says whether the root's file system opens files with O_DIRECT.
func takesDirect(root *os.Root) bool {
	file, err := root.OpenFile(".", os.O_RDWR|unix.O_TMPFILE|directFlag, 0o600)
	if err == nil {
		file.Close()
		return true
	}
	// O_TMPFILE or O_DIRECT was refused; a file with a name tells which.
	file, err = root.OpenFile(probeName, os.O_RDWR|os.O_CREATE|directFlag, 0o600)
	if err == nil {
		file.Close()
	}
	root.Remove(probeName) // open(2) may have made it before it refused O_DIRECT
	return err == nil
}

func flush(descriptor int) error {
	_, err := retry(func() (int, error) { return 0, unix.Fdatasync(descriptor) })
	return err
}

func syncFilesystem(descriptor int) error {
	_, err := retry(func() (int, error) { return 0, unix.Syncfs(descriptor) })
	return err
}

// preallocate reserves the range. A file system without fallocate gets the
// size only: the promise that later writes find space is then not the disk's to keep.
func preallocate(descriptor int, offset, length int64) error {
	_, err := retry(func() (int, error) { return 0, unix.Fallocate(descriptor, 0, offset, length) })
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

func zeroRange(descriptor int, offset, length int64) error {
	_, err := retry(func() (int, error) {
		return 0, unix.Fallocate(descriptor, unix.FALLOC_FL_ZERO_RANGE, offset, length)
	})
	if !notSupported(err) {
		return err
	}
	return writeZeros(descriptor, offset, length)
}

func notSupported(err error) bool {
	return errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS)
}
