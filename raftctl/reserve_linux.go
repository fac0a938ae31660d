package raftctl

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// reserve takes disk space for the first bytes of the file at path, so that
// metadata can be changed (topics deleted, for one) when the data have filled the disk.
func reserve(path string, bytes int64) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Fallocate(int(file.Fd()), 0, 0, bytes); err != nil && err != unix.EOPNOTSUPP {
		return fmt.Errorf("reserving %d bytes for metadata: %w", bytes, err)
	}
	return file.Sync()
}
