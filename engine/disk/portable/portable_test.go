package portable_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"ringlog/engine/disk"
	"ringlog/engine/disk/disktest"
	"ringlog/engine/disk/portable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, root string, options portable.Options) disk.Disk {
	t.Helper()
	d, err := portable.New(root, options)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The seam's promises hold whether writes pass the page cache or not, and with
// a single worker, where everything queues.
func TestConformance(t *testing.T) {
	for name, options := range map[string]portable.Options{
		"default": {}, "buffered": {Buffered: true}, "one worker": {Workers: 1},
	} {
		t.Run(name, func(t *testing.T) {
			disktest.Run(t, func(t *testing.T) disk.Disk { return open(t, t.TempDir(), options) })
			disktest.RunRooted(t, func(t *testing.T, root string) disk.Disk { return open(t, root, options) })
		})
	}
}

func TestMissingRootIsRefused(t *testing.T) {
	_, err := portable.New(filepath.Join(t.TempDir(), "missing"), portable.Options{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
}

func TestBufferedIsNotDirect(t *testing.T) {
	d := open(t, t.TempDir(), portable.Options{Buffered: true})
	defer d.Close()
	if info := d.Info(); info.Direct || info.Name != "portable" {
		t.Errorf("info is %+v", info)
	}
}

// The hot path allocates nothing: the channel, the lists and the timer are reused.
func TestWritesDoNotAllocate(t *testing.T) {
	d := open(t, t.TempDir(), portable.Options{})
	defer d.Close()
	op := &disk.Operation{Kind: disk.Open, Path: "log", Flags: disk.Create}
	finished := make([]*disk.Operation, 0, 4)
	run := func() {
		d.Submit(op)
		for finished = finished[:0]; len(finished) == 0; {
			finished, _ = d.Wait(finished, -1)
		}
		if op.Err != nil {
			t.Fatal(op.Err)
		}
	}
	run()
	op.Kind, op.Buffer = disk.Write, disk.AlignedBytes(disk.BlockBytes)
	run()
	if got := testing.AllocsPerRun(200, run); got != 0 {
		t.Errorf("a write allocates %v times", got)
	}
}
