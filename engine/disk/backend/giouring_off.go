//go:build !linux || !giouring

package backend

import (
	"ringlog/engine/disk"
	"ringlog/engine/disk/uring"
)

// openGiouring says how to get what is not there.
func openGiouring(string, uring.Options) (disk.Disk, error) { return nil, ErrNotBuilt }
