package uring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ringlog/engine/disk"
	"ringlog/engine/disk/disktest"
)

// Why tests of this package are skipped.
const (
	noRing         = "this kernel or container grants no io_uring; the test runs on Linux 5.15 and later outside of such a container: %v"
	noSingleIssuer = "this kernel does not tell a ring's threads apart; the test runs on Linux 6.0 and later"
	noProc         = "there is no /proc to count descriptors in; the test runs where it is mounted: %v"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a Disk, or skips where there is no io_uring (a container, an old kernel).
func open(t testing.TB, root string, options Options) *Disk {
	t.Helper()
	if err := Probe(); err != nil {
		t.Skipf(noRing, err)
	}
	d, err := New(root, options)
	if err != nil {
		t.Fatal(err)
	}
	return d.(*Disk)
}

// ownRing is the ring of a Disk that New made.
func ownRing(d *Disk) *ring { return d.ring.(*ring) }

// do carries out op and returns it.
func do(t testing.TB, d disk.Disk, op *disk.Operation) *disk.Operation {
	t.Helper()
	d.Submit(op)
	for finished := []*disk.Operation(nil); len(finished) == 0; {
		var err error
		if finished, err = d.Wait(finished, -1); err != nil {
			t.Fatal(err)
		}
	}
	return op
}

func must(t testing.TB, d disk.Disk, op *disk.Operation) *disk.Operation {
	t.Helper()
	if do(t, d, op).Err != nil {
		t.Fatal(op.Err)
	}
	return op
}

func closeDisk(t testing.TB, d disk.Disk) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
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
			disktest.RunRing(t, func(t *testing.T, root string) disk.Disk { return open(t, root, options) })
		})
	}
}

// An older kernel refuses the best flags; the ring it grants does the same.
func TestConformanceOnOlderKernels(t *testing.T) {
	all := setupChoices
	defer func() { setupChoices = all }()
	for i, choice := range all[1:] {
		t.Run(fmt.Sprintf("flags %#x", choice), func(t *testing.T) {
			setupChoices = all[i+1:]
			disktest.Run(t, func(t *testing.T) disk.Disk {
				d := open(t, t.TempDir(), Options{Entries: 16})
				if got := ownRing(d).flags & setupDeferTaskrun; got != 0 {
					t.Fatalf("the ring has flags %#x", ownRing(d).flags)
				}
				return d
			})
		})
	}
}

// The first choice must be tried and given up on its own, not by the test's hand.
func TestUnknownFlagsAreGivenUp(t *testing.T) {
	all := setupChoices
	defer func() { setupChoices = all }()
	setupChoices = append([]uint32{1 << 31}, all...)
	d := open(t, t.TempDir(), Options{})
	defer closeDisk(t, d)
	if ownRing(d).flags&(1<<31) != 0 {
		t.Error("the kernel took a flag that does not exist")
	}
	must(t, d, &disk.Operation{Kind: disk.MakeDirectory, Path: "a"})
}

func TestMissingRootIsRefused(t *testing.T) {
	if _, err := New(filepath.Join(t.TempDir(), "missing"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
}

// Entries bounds what is with the kernel, whatever is submitted.
func TestEntriesAreRounded(t *testing.T) {
	for asked, want := range map[int]int{0: DefaultEntries, 1: 4, 4: 4, 5: 8, 100: 128, 128: 128} {
		d := open(t, t.TempDir(), Options{Entries: asked})
		if got := len(d.slots); got != want-1 {
			t.Errorf("%d entries asked: %d slots, want %d", asked, got, want-1)
		}
		if len(ownRing(d).completions) <= len(d.slots) {
			t.Errorf("%d completion entries for %d slots: they could overflow", len(ownRing(d).completions), len(d.slots))
		}
		closeDisk(t, d)
	}
}

// A ring may be made by one goroutine and used by another, but only by one.
func TestFirstWaitDecidesTheOwner(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	var err error
	owned, tried, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		must(t, d, &disk.Operation{Kind: disk.MakeDirectory, Path: "a"})
		close(owned)
		<-tried
		closeDisk(t, d)
	}()
	<-owned
	if ownRing(d).flags&setupSingleIssuer == 0 {
		close(tried)
		<-ended
		t.Skip(noSingleIssuer)
	}
	// Straight to the ring: through Wait the breach would be the race
	// detector's to find.
	runtime.LockOSThread()
	err = d.ring.Enter(false, 0, 0)
	runtime.UnlockOSThread()
	close(tried)
	<-ended
	if !errors.Is(err, syscall.EEXIST) {
		t.Errorf("a second thread entered the ring: %v", err)
	}
	if text := (&Disk{}).breakDown(err).Error(); !strings.Contains(text, "another thread") {
		t.Errorf("the error does not tell the cause: %s", text)
	}
}

// descriptors is how many descriptors this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf(noProc, err)
	}
	return len(names)
}

// Any goroutine may call Wake, at any time, also when the eventfd's number is
// another file's already.
func TestWakeAfterCloseTouchesNothing(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	must(t, d, &disk.Operation{Kind: disk.MakeDirectory, Path: "a"})
	number := d.waker.bell.fd
	closeDisk(t, d)
	d.waker.sleeping.Store(true) // as a waker sees it that was held up since before
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := unix.Dup3(int(writer.Fd()), number, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(number)
	d.Wake()
	writer.Close()
	unix.Close(number)
	if n, _ := reader.Read(make([]byte, 8)); n != 0 {
		t.Errorf("a late wake wrote %d bytes to somebody else's file", n)
	}
}

func TestRefusalsAreExplained(t *testing.T) {
	for cause, want := range map[syscall.Errno]string{
		syscall.ENOSYS: "has no io_uring", syscall.EPERM: "kernel.io_uring_disabled", syscall.ENOMEM: "ulimit -l",
		syscall.EMFILE: "ulimit -n", syscall.EINVAL: "too old", syscall.EIO: "cannot be set up",
	} {
		err := explain(fmt.Errorf("setup: %w", cause))
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v is explained as %q, want %q in it", cause, err, want)
		}
	}
}
