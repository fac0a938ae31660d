//go:build giouring

package giouring

import (
	"testing"

	"go.uber.org/goleak"

	"ringlog/engine/disk"
	"ringlog/engine/disk/disktest"
	"ringlog/engine/disk/uring"
)

// noRing is why tests of this package are skipped.
const noRing = "this kernel or container grants no io_uring; the test runs on Linux 5.15 and later outside of such a container: %v"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The library's ring keeps every promise that our own keeps, at any size and through the page cache.
func TestConformance(t *testing.T) {
	if err := Probe(); err != nil {
		t.Skipf(noRing, err)
	}
	for name, options := range map[string]uring.Options{
		"default": {}, "four entries": {Entries: 4}, "buffered": {Buffered: true},
	} {
		t.Run(name, func(t *testing.T) {
			open := func(t *testing.T, root string) disk.Disk {
				d, err := New(root, options)
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			disktest.Run(t, func(t *testing.T) disk.Disk { return open(t, t.TempDir()) })
			disktest.RunRooted(t, open)
			disktest.RunRing(t, open)
		})
	}
}
