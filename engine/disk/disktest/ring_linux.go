package disktest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringlog/engine/disk"
)

// noProc is why a case of RunRing is skipped.
const noProc = "there is no /proc to count descriptors in; the test runs where it is mounted: %v"

// ringCases are what Submit and Wait owe to the ring under them.
var ringCases = []struct {
	name string
	run  func(r *rig, root string)
}{
	{"writes do not allocate", writesDoNotAllocate},
	{"entries carry nothing over", entriesCarryNothingOver},
	{"wakes and operations together", wakesAndOperationsTogether},
	{"signals do not end a wait", signalsDoNotEndAWait},
	{"paths leak no descriptors", pathsLeakNoDescriptors},
	{"close waits for the helper", closeWaitsForTheHelper},
}

// RunRing tests what a Disk on io_uring promises beyond the seam, whatever ring
// it drives. open returns a Disk on root.
func RunRing(t *testing.T, open func(t *testing.T, root string) disk.Disk) {
	for _, c := range ringCases {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			before := descriptors(t)
			r := &rig{T: t, disk: open(t, root)}
			defer func() {
				r.close()
				if got := descriptors(t); got != before {
					t.Errorf("%d descriptors are open after Close, %d were before the Disk was made", got, before)
				}
			}()
			c.run(r, root)
		})
	}
}

// descriptors is how many descriptors this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf(noProc, err)
	}
	return len(names)
}

// The hot path allocates nothing.
func writesDoNotAllocate(r *rig, _ string) {
	op := r.must(&disk.Operation{Kind: disk.Open, Path: "log", Flags: disk.Create})
	finished := make([]*disk.Operation, 0, 4)
	op.Kind, op.Buffer = disk.Write, disk.AlignedBytes(disk.BlockBytes)
	run := func() {
		r.disk.Submit(op)
		for finished = finished[:0]; len(finished) == 0; {
			finished, _ = r.disk.Wait(finished, time.Minute)
		}
	}
	run()
	if got := testing.AllocsPerRun(200, run); got != 0 || op.Err != nil {
		r.Errorf("a write allocates %v times, ends with %v", got, op.Err)
	}
}

// The place of an entry in the queue was another's before: what is left there of a flush would
// be RWF_HIPRI to a write. A ring of four goes round several times.
func entriesCarryNothingOver(r *rig, _ string) {
	file := r.open("log", disk.Create)
	for i := range 30 {
		r.write(file, int64(i)*disk.BlockBytes, pattern(disk.BlockBytes, byte(i)))
		if i%2 == 0 { // so that each place has both in turn
			r.must(&disk.Operation{Kind: disk.Flush, File: file})
		}
	}
	for i := range 30 {
		r.expect(file, int64(i)*disk.BlockBytes, pattern(disk.BlockBytes, byte(i)))
	}
}

// Goroutines wake without pause while the owner works: each operation comes
// back, and a wake that is asked for alone ends a Wait that would last for ever.
func wakesAndOperationsTogether(r *rig, _ string) {
	file := r.must(&disk.Operation{Kind: disk.Open, Path: "log", Flags: disk.Create}).File
	var stop atomic.Bool
	var wakers sync.WaitGroup
	for range 3 {
		wakers.Go(func() {
			for !stop.Load() {
				r.disk.Wake()
				runtime.Gosched()
			}
		})
	}
	const count = 400
	buffer := disk.AlignedBytes(disk.BlockBytes)
	submitted, done := 0, 0
	for done < count {
		for ; submitted < count && r.disk.InFlight() < 20; submitted++ {
			op := &disk.Operation{Kind: disk.Write, File: file, Buffer: buffer, Offset: int64(submitted) * disk.BlockBytes}
			if submitted%40 == 39 {
				op.Kind = disk.SyncFilesystem // through the helper
			}
			r.disk.Submit(op)
		}
		finished, err := r.disk.Wait(nil, -1)
		if err != nil {
			r.Fatal(err)
		}
		for _, op := range finished {
			if op.Err != nil {
				r.Fatal(op.Err)
			}
		}
		done += len(finished)
	}
	stop.Store(true)
	wakers.Wait()
}

// io_uring_enter(2) ends with EINTR when a signal comes; no Wait ends for that.
func signalsDoNotEndAWait(r *rig, _ string) {
	r.must(&disk.Operation{Kind: disk.MakeDirectory, Path: "a"}) // locks the thread
	thread, started := unix.Gettid(), make(chan struct{})
	var stop atomic.Bool
	var sender sync.WaitGroup
	sender.Go(func() {
		for sent := 0; !stop.Load(); sent++ {
			// The Go runtime uses this signal itself and ignores strays.
			_ = unix.Tgkill(unix.Getpid(), thread, unix.SIGURG)
			if sent == 10 {
				close(started)
			}
			runtime.Gosched()
		}
	})
	<-started
	begin := time.Now()
	const timeout = 20 * time.Millisecond
	if finished, err := r.disk.Wait(nil, timeout); err != nil || len(finished) != 0 {
		r.Errorf("wait: %v, %v", finished, err)
	}
	if waited := time.Since(begin); waited < timeout {
		r.Errorf("a signal ended a wait of %s after %s", timeout, waited)
	}
	for i := range 100 {
		r.must(&disk.Operation{Kind: disk.MakeDirectory, Path: fmt.Sprint("d", i)})
	}
	stop.Store(true)
	sender.Wait()
}

// Operations on paths open directories on the way; none stays open, whatever fails.
func pathsLeakNoDescriptors(r *rig, root string) {
	r.must(&disk.Operation{Kind: disk.MakeDirectory, Path: "a"})
	r.must(&disk.Operation{Kind: disk.MakeDirectory, Path: "a/b"})
	if err := os.Symlink("/", filepath.Join(root, "a/out")); err != nil {
		r.Fatal(err)
	}
	base := descriptors(r)
	for range 20 {
		file := r.must(&disk.Operation{Kind: disk.Open, Path: "a/b/x", Flags: disk.Create}).File
		r.must(&disk.Operation{Kind: disk.Close, File: file})
		for _, op := range []*disk.Operation{
			{Kind: disk.Rename, Path: "a/b/x", NewPath: "a/x"},
			{Kind: disk.Rename, Path: "a/x", NewPath: "a/missing/x"},
			{Kind: disk.Rename, Path: "a/b/missing", NewPath: "a/b/x"},
			{Kind: disk.Unlink, Path: "a/out/x"},
			{Kind: disk.Unlink, Path: "a/x"},
			{Kind: disk.MakeDirectory, Path: "a/b"},
			{Kind: disk.RemoveDirectory, Path: "a/b/missing"},
			{Kind: disk.SyncDirectory, Path: "a/b"},
			{Kind: disk.ReadDirectory, Path: "a/b"},
			{Kind: disk.Open, Path: "a", Flags: disk.ReadOnly},
			{Kind: disk.Open, Path: "a/out/x"},
		} {
			r.do(op)
		}
	}
	if got := descriptors(r); got != base {
		r.Errorf("%d descriptors are open, %d were before", got, base)
	}
	r.do(&disk.Operation{Kind: disk.Open, Path: "kept", Flags: disk.Create}) // and Close gives that back
}

// Close waits for the helper as for the kernel.
func closeWaitsForTheHelper(r *rig, _ string) {
	file := r.must(&disk.Operation{Kind: disk.Open, Path: "log", Flags: disk.Create}).File
	ops := []*disk.Operation{{Kind: disk.SyncFilesystem, File: file}, {Kind: disk.ReadDirectory, Path: "."}}
	for _, op := range ops {
		r.disk.Submit(op)
	}
	finished, err := r.disk.Wait(nil, 0)
	if err != nil {
		r.Fatal(err)
	}
	r.close()
	finished, err = r.disk.Wait(finished, -1)
	if !errors.Is(err, disk.ErrClosed) || len(finished) != len(ops) {
		r.Fatalf("%d of %d came back, %v", len(finished), len(ops), err)
	}
	for _, op := range ops {
		if op.Err != nil {
			r.Errorf("%s was with the helper and ended with %v", op.Kind, op.Err)
		}
	}
}
