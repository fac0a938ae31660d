package backend

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ringlog/engine/disk"
	"ringlog/engine/disk/disktest"
)

// Why tests of this package are skipped.
const (
	noRing = "this kernel or container grants no io_uring; the test runs on Linux 5.15 and later outside of such a container: %v"
	noSoak = "set RINGLOG_SOAK=1 as root, with loop devices, xfsprogs and e2fsprogs, to make file systems on loop devices"
	// noFlushCount is of kernels that do not show the counter.
	noFlushCount = "this kernel does not count the flushes of a device; the test runs on Linux 5.5 and later"
	notBuilt     = "run it with -tags giouring -ldflags=-checklinkname=0: %v"
	noTmpfs      = "there is no /dev/shm that this user may write to; the test runs where tmpfs is mounted there: %v"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errRefused = errors.New("io_uring is forbidden by the test")

func granted() error { return nil }
func refused() error { return errRefused }

func TestAutoFallsBackAndSaysWhy(t *testing.T) {
	for _, mode := range []string{Auto, ""} {
		d, err := open(t.TempDir(), mode, Options{}, refused)
		if err != nil {
			t.Fatal(err)
		}
		if info := d.Info(); info.Name != "portable" || info.Reason != errRefused.Error() {
			t.Errorf("info is %+v, want portable with the reason", info)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAutoTakesTheRing(t *testing.T) {
	if err := probe(); err != nil {
		t.Skipf(noRing, err)
	}
	d, err := Open(t.TempDir(), Auto, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if info := d.Info(); info.Name != "uring" || !strings.Contains(info.Reason, "io_uring") {
		t.Errorf("info is %+v, want uring with a reason", info)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestUringIsNotReplacedInSilence(t *testing.T) {
	if _, err := open(t.TempDir(), Uring, Options{}, refused); !errors.Is(err, errRefused) {
		t.Errorf("got %v, want the reason of the refusal", err)
	}
}

// The library's ring is there when it was built, and is never chosen without being asked for.
func TestGiouringIsThereOrSaysHow(t *testing.T) {
	if err := probe(); err != nil {
		t.Skipf(noRing, err)
	}
	d, err := Open(t.TempDir(), Giouring, Options{})
	if errors.Is(err, ErrNotBuilt) {
		if !strings.Contains(err.Error(), "-tags giouring -ldflags=-checklinkname=0") {
			t.Errorf("%v does not say how to build it", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if info := d.Info(); info.Name != Giouring {
		t.Errorf("info is %+v", info)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestBadArgumentsAreRefused(t *testing.T) {
	if _, err := Open(t.TempDir(), "fast", Options{}); !errors.Is(err, ErrUnknownMode) {
		t.Errorf("got %v, want ErrUnknownMode", err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for _, mode := range []string{Auto, Portable} {
		if _, err := open(missing, mode, Options{}, granted); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want ErrNotExist", mode, err)
		}
	}
}

func TestAutoConforms(t *testing.T) {
	disktest.Run(t, func(t *testing.T) disk.Disk {
		d, err := Open(t.TempDir(), Auto, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
}
