//go:build linux || darwin || freebsd

package gather

import (
	"golang.org/x/sys/unix"

	"ringlog/doctor"
)

// gatherSpace asks how much of a file system is free, and whether this user may write to
// a directory of it.
func gatherSpace(d *doctor.Directory, at string) (state unix.Statfs_t, err error) {
	if err := unix.Statfs(at, &state); err != nil {
		d.Error = err.Error()
		return state, err
	}
	d.TotalBytes = int64(state.Blocks) * int64(state.Bsize)
	d.FreeBytes = int64(state.Bavail) * int64(state.Bsize)
	d.FilesTotal, d.FilesFree = int64(state.Files), int64(state.Ffree)
	d.Writable = doctor.AnswerOf(unix.Access(at, unix.W_OK|unix.X_OK) == nil)
	return state, nil
}
