// Package backend chooses the disk.Disk for a real directory. Package server,
// the command line and the benchmarks open their disks here; whoever gets one
// owns it as package disk says.
package backend

import (
	"errors"
	"fmt"
	"sync"

	"ringlog/engine/disk"
	"ringlog/engine/disk/portable"
	"ringlog/engine/disk/uring"
)

// Modes of Open, as the configuration spells them.
const (
	// Auto takes the ring where the kernel grants one, else the portable disk.
	Auto = "auto"
	// Uring takes the ring or fails.
	Uring = "uring"
	// Portable takes blocking calls on a pool of goroutines.
	Portable = "portable"
	// Giouring takes the ring of the library of that name or fails. Auto never does.
	Giouring = "giouring"
)

var (
	// ErrUnknownMode is returned when mode is none of these.
	ErrUnknownMode = errors.New("disk: unknown mode")
	// ErrNotBuilt is returned for Giouring when this binary does not have it.
	ErrNotBuilt = errors.New("this binary was built without it: go build -tags giouring -ldflags=-checklinkname=0 ./cmd/ringlog, on Linux")
)

// Options shape the Disk; the zero value is the default of each.
type Options struct {
	// Entries is the number of submission entries of a ring; 0 means uring.DefaultEntries.
	Entries int
	// Workers is the number of goroutines of a portable disk; 0 means portable.DefaultWorkers.
	Workers int
	// Buffered asks for the page cache even where the file system takes O_DIRECT.
	Buffered bool
}

// probe asks the kernel once: its answer does not change while the process lives.
var probe = sync.OnceValue(uring.Probe)

// Probe says in a sentence why Auto does not take a ring here, or nil.
func Probe() error { return probe() }

// Open opens a Disk on the directory root, which must exist. mode is Auto,
// Uring, Portable or Giouring, "" being Auto. What Auto chose and why is in Info().Reason;
// when a ring was asked for and fails, the error says why.
func Open(root, mode string, options Options) (disk.Disk, error) {
	return open(root, mode, options, probe)
}

// open is Open with the kernel's answer as an argument.
func open(root, mode string, options Options, probe func() error) (disk.Disk, error) {
	ring := uring.Options{Entries: options.Entries, Buffered: options.Buffered}
	pool := portable.Options{Workers: options.Workers, Buffered: options.Buffered}
	switch mode {
	case Uring:
		if err := probe(); err != nil {
			return nil, fmt.Errorf("disk: mode %s: %w", Uring, err)
		}
		return uring.New(root, ring)
	case Portable:
		return portable.New(root, pool)
	case Giouring:
		d, err := openGiouring(root, ring)
		if err != nil {
			return nil, fmt.Errorf("disk: mode %s: %w", Giouring, err)
		}
		return d, nil
	case Auto, "":
		err := probe()
		if err == nil {
			ring.Reason = "the kernel grants io_uring with everything the disk needs"
			var d disk.Disk
			if d, err = uring.New(root, ring); err == nil {
				return d, nil
			}
		}
		pool.Reason = err.Error()
		return portable.New(root, pool)
	}
	return nil, fmt.Errorf("%w %q: want %q, %q, %q or %q", ErrUnknownMode, mode, Auto, Uring, Portable, Giouring)
}
