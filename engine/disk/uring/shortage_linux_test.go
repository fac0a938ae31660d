package uring

import (
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/disk/disktest"
)

// io_uring_enter(2): EAGAIN when the kernel is short of memory for a request,
// EBUSY when the completion queue is full, EINTR when a signal came. All three
// pass; whatever the kernel says, each operation comes back once.
func TestShortagesLoseNothing(t *testing.T) {
	disktest.Run(t, func(t *testing.T) disk.Disk {
		d := open(t, t.TempDir(), Options{Entries: 16})
		random := rand.New(rand.NewPCG(1, 2))
		ownRing(d).refuse = func() error {
			// Seldom enough that the pauses do not make the test slow.
			switch random.IntN(150) {
			case 0:
				return syscall.EAGAIN
			case 1:
				return syscall.EBUSY
			case 2, 3, 4, 5:
				return syscall.EINTR
			}
			return nil
		}
		return d
	})
}

// A shortage that lasts does not make a Wait longer than it was asked to be.
func TestWaitEndsDuringAShortage(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	defer closeDisk(t, d)
	must(t, d, &disk.Operation{Kind: disk.MakeDirectory, Path: "a"})
	ownRing(d).refuse = func() error { return syscall.EAGAIN }
	op := &disk.Operation{Kind: disk.MakeDirectory, Path: "b"}
	d.Submit(op)
	for _, timeout := range []time.Duration{0, time.Millisecond} {
		if finished, err := d.Wait(nil, timeout); err != nil || len(finished) != 0 {
			t.Fatalf("wait: %v, %v", finished, err)
		}
	}
	d.Wake()
	if finished, err := d.Wait(nil, -1); err != nil || len(finished) != 0 {
		t.Fatalf("a woken wait: %v, %v", finished, err)
	}
	ownRing(d).refuse = nil
	finished, err := d.Wait(nil, -1)
	if err != nil || len(finished) != 1 || finished[0] != op || op.Err != nil {
		t.Errorf("after the shortage: %v, %v, %v", finished, err, op.Err)
	}
}

// What does not pass breaks the Disk: the first error is told from then on, and
// Close still gives everything back.
func TestABrokenRingSaysSo(t *testing.T) {
	before := descriptors(t)
	d := open(t, t.TempDir(), Options{})
	must(t, d, &disk.Operation{Kind: disk.Open, Path: "log", Flags: disk.Create})
	ownRing(d).refuse = func() error { return syscall.EBADR }
	d.Submit(&disk.Operation{Kind: disk.MakeDirectory, Path: "a"})
	for range 2 {
		if _, err := d.Wait(nil, -1); !errors.Is(err, syscall.EBADR) || !strings.Contains(err.Error(), "broken") {
			t.Errorf("wait: %v, want that the ring is broken", err)
		}
		ownRing(d).refuse = func() error { return syscall.EIO } // a later error does not hide the first
	}
	if err := d.Close(); !errors.Is(err, syscall.EBADR) {
		t.Errorf("close: %v, want what broke the ring", err)
	}
	if got := descriptors(t); got != before {
		t.Errorf("%d descriptors are open after Close, %d were before New", got, before)
	}
}
