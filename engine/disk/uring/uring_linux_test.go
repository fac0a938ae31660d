package uring

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"ringlog/engine/disk"
	"ringlog/engine/disk/disktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a Disk, or skips where there is no io_uring (a container, an old kernel).
func open(t testing.TB, root string, options Options) disk.Disk {
	t.Helper()
	if err := Probe(); err != nil {
		if os.Getenv("RINGLOG_NEED_URING") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	d, err := New(root, options)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The seam's promises hold with a ring of any size, also one that everything
// queues up for, and through the page cache.
func TestConformance(t *testing.T) {
	for name, options := range map[string]Options{
		"default": {}, "four entries": {Entries: 4}, "buffered": {Buffered: true},
	} {
		t.Run(name, func(t *testing.T) {
			disktest.Run(t, func(t *testing.T) disk.Disk { return open(t, t.TempDir(), options) })
			disktest.RunRooted(t, func(t *testing.T, root string) disk.Disk { return open(t, root, options) })
		})
	}
}
