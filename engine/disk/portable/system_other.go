//go:build unix && !linux

package portable

import (
	"os"

	"golang.org/x/sys/unix"
)

// Systems without O_DIRECT write through the page cache.
const directFlag = 0

func takesDirect(*os.Root) bool { return false }

func flush(descriptor int) error {
	_, err := retry(func() (int, error) { return 0, unix.Fsync(descriptor) })
	return err
}

// syncFilesystem is sync(2), which takes in every file system.
func syncFilesystem(int) error { return unix.Sync() }

// preallocate sets the size only: there is no portable call that reserves.
func preallocate(descriptor int, offset, length int64) error {
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
	return writeZeros(descriptor, offset, length)
}
