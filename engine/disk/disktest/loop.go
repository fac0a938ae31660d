package disktest

import (
	"errors"
	"fmt"
	"time"

	"ringlog/engine/disk"
)

// The cases of Submit, Wait, Wake and Close.

func manyInFlight(r *rig) {
	// 256 writes over four files, all in flight together, mixed with flushes.
	const files, perFile = 4, 64
	var ops []*disk.Operation
	var handles [files]disk.File
	for f := range handles {
		handles[f] = r.open(fmt.Sprintf("log-%d", f), disk.Create)
		for i := range perFile {
			ops = append(ops, &disk.Operation{
				Kind: disk.Write, File: handles[f], Offset: int64(blocks(i)),
				Buffer: pattern(blocks(1), byte(f*perFile+i)), Owner: i,
			})
		}
		ops = append(ops, &disk.Operation{Kind: disk.Flush, File: handles[f], Owner: -1})
	}
	for _, op := range ops {
		r.disk.Submit(op)
	}
	r.wait(ops...)
	for i, op := range ops {
		if op.Err != nil || op.Kind == disk.Write && op.Done != blocks(1) {
			r.Fatalf("%s %d: did %d, %v", op.Kind, i, op.Done, op.Err)
		}
		if want := i % (perFile + 1); want < perFile && op.Owner != want {
			r.Fatalf("Owner of operation %d is now %v", i, op.Owner)
		}
	}
	for f, handle := range handles {
		for i := range perFile {
			r.expect(handle, int64(blocks(i)), pattern(blocks(1), byte(f*perFile+i)))
		}
	}
}

func moreThanAnyQueue(r *rig) {
	file := r.open("log", disk.Create)
	r.write(file, 0, pattern(blocks(1), 1))
	ops := make([]*disk.Operation, 3000)
	for i := range ops {
		ops[i] = &disk.Operation{Kind: disk.Read, File: file, Buffer: disk.AlignedBytes(blocks(1))}
		r.disk.Submit(ops[i])
	}
	r.wait(ops...)
	for _, op := range ops {
		if op.Err != nil || op.Done != blocks(1) {
			r.Fatalf("read did %d: %v", op.Done, op.Err)
		}
	}
}

func operationsAreReused(r *rig) {
	file := r.open("log", disk.Create)
	op := &disk.Operation{Buffer: pattern(blocks(1), 1)}
	for round := range 300 {
		op.Slot = ^uint64(0) // the caller may leave anything in it
		op.Kind, op.File, op.Offset = disk.Write, file, int64(blocks(round%7))
		if r.must(op); op.Done != blocks(1) {
			r.Fatalf("write did %d", op.Done)
		}
		// A failure must leave nothing behind for the next use.
		op.Kind, op.File = disk.Flush, 0
		if r.do(op); op.Err == nil {
			r.Fatal("a flush of no file succeeded")
		}
	}
}

func waitAppends(r *rig) {
	first := &disk.Operation{Kind: disk.MakeDirectory, Path: "a"}
	sentinel := &disk.Operation{}
	r.disk.Submit(first)
	finished := []*disk.Operation{sentinel}
	for len(finished) == 1 {
		var err error
		if finished, err = r.disk.Wait(finished, -1); err != nil {
			r.Fatal(err)
		}
	}
	if len(finished) != 2 || finished[0] != sentinel || finished[1] != first {
		r.Errorf("Wait returned %v, want the two it was given and finished", finished)
	}
}

func idleWaitsReturn(r *rig) {
	for _, timeout := range []time.Duration{0, 1, time.Millisecond} {
		finished, err := r.disk.Wait(nil, timeout)
		if err != nil || len(finished) != 0 {
			r.Errorf("an idle wait of %s returned %v, %v", timeout, finished, err)
		}
	}
	// A poll hands over what is queued, so that polling alone makes progress.
	op := &disk.Operation{Kind: disk.MakeDirectory, Path: "a"}
	r.disk.Submit(op)
	var finished []*disk.Operation
	for len(finished) == 0 {
		var err error
		if finished, err = r.disk.Wait(finished, 0); err != nil {
			r.Fatal(err)
		}
	}
	if finished[0] != op || op.Err != nil {
		r.Errorf("polling returned %v: %v", finished, op.Err)
	}
}

func wakeMerges(r *rig) {
	for range 100 {
		r.disk.Wake()
	}
	// Without the wake this would never end.
	if finished, err := r.disk.Wait(nil, -1); err != nil || len(finished) != 0 {
		r.Fatalf("a woken wait returned %v, %v", finished, err)
	}
	// A wake beside operations loses none of them.
	for round := range 50 {
		op := &disk.Operation{Kind: disk.MakeDirectory, Path: fmt.Sprint("d", round)}
		r.disk.Submit(op)
		r.disk.Wake()
		r.wait(op)
	}
}

func wakeFromAnotherGoroutine(r *rig) {
	// Each round one side says "go" and the owner waits for ever: a lost wake hangs.
	ready := make(chan struct{})
	done := make(chan struct{})
	defer func() { <-done }()
	const rounds = 500
	go func() {
		defer close(done)
		for range rounds {
			<-ready
			r.disk.Wake()
		}
	}()
	for range rounds {
		ready <- struct{}{}
		if finished, err := r.disk.Wait(nil, -1); err != nil || len(finished) != 0 {
			r.Errorf("a woken wait returned %v, %v", finished, err)
		}
	}
}

func closeHandsBack(r *rig) {
	file := r.open("log", disk.Create)
	ops := make(map[*disk.Operation]bool)
	submit := func(count int) {
		for i := range count {
			op := &disk.Operation{Kind: disk.Write, File: file, Offset: int64(blocks(i)), Buffer: pattern(blocks(1), 1)}
			ops[op] = true
			r.disk.Submit(op)
		}
	}
	take := func(finished []*disk.Operation) {
		for _, op := range finished {
			if !ops[op] {
				r.Fatal("an operation came back twice")
			}
			delete(ops, op)
			if op.Err != nil && !errors.Is(op.Err, disk.ErrClosed) {
				r.Errorf("write: %v", op.Err)
			}
		}
	}
	submit(200)
	finished, err := r.disk.Wait(nil, 0) // most of them are with the device now
	if err != nil {
		r.Fatal(err)
	}
	take(finished)
	submit(50) // and these are not
	r.close()
	finished, err = r.disk.Wait(nil, -1)
	if !errors.Is(err, disk.ErrClosed) {
		r.Errorf("wait after close: %v, want ErrClosed", err)
	}
	take(finished)
	if len(ops) != 0 || r.disk.InFlight() != 0 {
		r.Errorf("%d operations did not come back; InFlight is %d", len(ops), r.disk.InFlight())
	}
}

func closedTakesNothing(r *rig) {
	r.open("log", disk.Create)
	r.close()
	if err := r.disk.Close(); !errors.Is(err, disk.ErrClosed) {
		r.Errorf("second close: %v, want ErrClosed", err)
	}
	op := &disk.Operation{Kind: disk.MakeDirectory, Path: "a"}
	r.disk.Submit(op)
	finished, err := r.disk.Wait(nil, -1)
	if !errors.Is(err, disk.ErrClosed) || len(finished) != 1 || finished[0] != op || !errors.Is(op.Err, disk.ErrClosed) {
		r.Errorf("after close: %v, %v, operation %v", finished, err, op.Err)
	}
	r.disk.Wake() // harmless
}
