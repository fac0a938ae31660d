//go:build linux || darwin || freebsd

package server

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// diskSpace returns the bytes of the file system that path is on: all of them, and those that
// this process may still use.
func diskSpace(path string) (total, usable int64, err error) {
	var state unix.Statfs_t
	if err := unix.Statfs(path, &state); err != nil {
		return 0, 0, fmt.Errorf("server: space of %s: %w", path, err)
	}
	block := int64(state.Bsize)
	return int64(state.Blocks) * block, int64(state.Bavail) * block, nil
}
