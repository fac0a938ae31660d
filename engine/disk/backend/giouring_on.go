//go:build linux && giouring

package backend

import (
	"ringlog/engine/disk"
	"ringlog/engine/disk/giouring"
	"ringlog/engine/disk/uring"
)

// openGiouring opens a Disk on the library's rings.
func openGiouring(root string, options uring.Options) (disk.Disk, error) {
	if err := giouring.Probe(); err != nil {
		return nil, err
	}
	return giouring.New(root, options)
}
