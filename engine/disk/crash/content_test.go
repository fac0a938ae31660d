package crash_test

import (
	"bytes"
	"syscall"
	"testing"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
)

const errNotThere = syscall.ENOENT

// Flush: "makes every Write of File that completed before this Flush was
// submitted durable".
func TestFlushedDataSurvivesEveryPowerCut(t *testing.T) {
	r := newRig(t, crash.Options{Seed: 1})
	file := r.open("log")
	r.syncDirectory(".")
	r.must(write(file, 0, 3, 1))
	r.flush(file)
	r.must(write(file, 1, 1, 2))
	r.must(&disk.Operation{Kind: disk.SyncFilesystem, File: file})
	want := append(append(blocksOf(1, 1), blocksOf(1, 2)...), blocksOf(1, 1)...)
	for seed := range uint64(seeds) {
		if got := content(t, r.Crash(seed), "log"); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: flushed data is gone: %d bytes", seed, len(got))
		}
	}
	if got := r.PendingUnits(); got != 0 {
		t.Errorf("%d units are pending after a flush", got)
	}
}

// What was not flushed may be there, may be gone, and may be there in part; but
// a sector is old or new.
func TestUnflushedDataMaySurviveInAnyPart(t *testing.T) {
	for name, inFlight := range map[string]bool{"completed": false, "in flight": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, crash.Options{Seed: 1})
			file := r.durable("log", blocksOf(2, 1))
			op := write(file, 0, 2, 2)
			if inFlight {
				// A second operation completes, the write is on its way.
				r.AddFault(crash.Fault{Kind: disk.Write, Effect: crash.Delay, Completions: 9})
				other := &disk.Operation{Kind: disk.ReadDirectory, Path: "."}
				r.Submit(op)
				r.Submit(other)
				if finished, err := r.Wait(nil, -1); err != nil || len(finished) != 1 || finished[0] != other {
					t.Fatalf("completed %v, %v, want only the operation that is not held back", finished, err)
				}
			} else {
				r.must(op)
			}
			all, none, some := 0, 0, 0
			for seed := range uint64(seeds) {
				fills := sectorFills(t, content(t, r.Crash(seed), "log"))
				switch fresh := bytes.Count(fills, []byte{2}); fresh {
				case len(fills):
					all++
				case 0:
					none++
				default:
					some++
				}
			}
			if all == 0 || none == 0 || some == 0 {
				t.Errorf("of %d power cuts %d kept all, %d nothing, %d a part", seeds, all, none, some)
			}
		})
	}
}

// "It promises nothing of a Write that was still in flight then."
func TestFlushDoesNotCoverWritesInFlight(t *testing.T) {
	lost := 0
	for seed := range uint64(seeds) {
		r := newRig(t, crash.Options{Seed: seed})
		file := r.durable("log", blocksOf(2, 1))
		r.must(write(file, 0, 1, 2))
		late, flush := write(file, 1, 1, 3), &disk.Operation{Kind: disk.Flush, File: file}
		r.Submit(late)
		r.Submit(flush)
		r.wait(late, flush)
		got := content(t, r.Crash(seed), "log")
		if !bytes.Equal(got[:disk.BlockBytes], blocksOf(1, 2)) {
			t.Fatalf("seed %d: the write before the flush is gone", seed)
		}
		if !bytes.Equal(got[disk.BlockBytes:], blocksOf(1, 3)) {
			lost++
		}
	}
	if lost == 0 || lost == seeds {
		t.Errorf("a write in flight at the flush was lost %d times of %d, want some", lost, seeds)
	}
}

// What is queued has not reached the device: "Wait hands all that is queued to
// the device".
func TestQueuedOperationsNeverHappened(t *testing.T) {
	r := newRig(t, crash.Options{})
	file := r.durable("log", blocksOf(1, 1))
	r.Submit(write(file, 0, 1, 2))
	for seed := range uint64(20) {
		if got := content(t, r.Crash(seed), "log"); !bytes.Equal(got, blocksOf(1, 1)) {
			t.Fatal("an operation that no Wait handed over has happened")
		}
	}
}

// Of several values written to one sector any may be found, an older one too.
func TestOverwrittenSectorMayHoldAnyOfItsValues(t *testing.T) {
	r := newRig(t, crash.Options{})
	file := r.durable("log", blocksOf(1, 1))
	r.must(write(file, 0, 1, 2))
	r.must(write(file, 0, 1, 3))
	seen := map[byte]int{}
	for seed := range uint64(seeds) {
		for _, fill := range sectorFills(t, content(t, r.Crash(seed), "log")) {
			seen[fill]++
		}
	}
	if seen[1] == 0 || seen[2] == 0 || seen[3] == 0 || len(seen) != 3 {
		t.Errorf("values found per fill: %v, want 1, 2 and 3", seen)
	}
}

// A file's growth is a change of its own: the size may be lost with the data in
// place, or be there with zeros where the data is not.
func TestSizeAndDataSurviveApart(t *testing.T) {
	grow := map[string]func(r *rig, file disk.File){
		"write":       func(r *rig, file disk.File) { r.must(write(file, 1, 1, 2)) },
		"preallocate": func(r *rig, file disk.File) { r.must(rangeOf(disk.Preallocate, file, 1, 1)) },
		"zero range":  func(r *rig, file disk.File) { r.must(rangeOf(disk.ZeroRange, file, 1, 1)) },
	}
	for name, grow := range grow {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, crash.Options{})
			file := r.durable("log", blocksOf(1, 1))
			grow(r, file)
			sizes := map[int]int{}
			zeros := 0
			for seed := range uint64(seeds) {
				got := content(t, r.Crash(seed), "log")
				sizes[len(got)]++
				if len(got) > disk.BlockBytes && bytes.IndexByte(got[disk.BlockBytes:], 0) >= 0 {
					zeros++
				}
			}
			if len(sizes) != 2 || sizes[disk.BlockBytes] == 0 || sizes[2*disk.BlockBytes] == 0 || zeros == 0 {
				t.Errorf("sizes found: %v, %d with zeros", sizes, zeros)
			}
			r.flush(file)
			for seed := range uint64(20) {
				if got := content(t, r.Crash(seed), "log"); len(got) != 2*disk.BlockBytes {
					t.Fatalf("a flushed growth is gone: %d bytes", len(got))
				}
			}
		})
	}
}

func rangeOf(kind disk.Kind, file disk.File, block, count int64) *disk.Operation {
	return &disk.Operation{Kind: kind, File: file, Offset: block * disk.BlockBytes, Length: count * disk.BlockBytes}
}

// ZeroRange: "It is a write: durable only after a Flush."
func TestZeroRangeIsAWrite(t *testing.T) {
	r := newRig(t, crash.Options{})
	file := r.durable("log", blocksOf(4, 1))
	r.must(&disk.Operation{Kind: disk.ZeroRange, File: file, Offset: 1000, Length: 5000})
	want := blocksOf(4, 1)
	clear(want[1000:6000])
	if got := content(t, r.Disk, "log"); !bytes.Equal(got, want) {
		t.Fatal("the range is not zeroed, or more than it")
	}
	differs := 0
	for seed := range uint64(seeds) {
		got := content(t, r.Crash(seed), "log")
		if !bytes.Equal(got[:1000], want[:1000]) || !bytes.Equal(got[6000:], want[6000:]) {
			t.Fatal("a power cut changed bytes beside the range")
		}
		if !bytes.Equal(got, want) {
			differs++
		}
	}
	if differs == 0 {
		t.Error("an unflushed zero range always survived")
	}
	r.flush(file)
	if got := content(t, r.Crash(1), "log"); !bytes.Equal(got, want) {
		t.Error("a flushed zero range is gone")
	}
}

// Truncation is metadata, which reaches the device in order: without it nothing
// that was written behind it is there.
func TestTruncationIsOldOrNew(t *testing.T) {
	r := newRig(t, crash.Options{})
	r.durable("log", blocksOf(2, 1))
	file := r.must(&disk.Operation{Kind: disk.Open, Path: "log", Flags: disk.Truncate}).File
	r.must(write(file, 0, 1, 2))
	old, fresh := 0, 0
	for seed := range uint64(seeds) {
		got := content(t, r.Crash(seed), "log")
		switch {
		case bytes.Equal(got, blocksOf(2, 1)):
			old++
		case bytes.IndexByte(got, 1) < 0 && len(got) <= disk.BlockBytes:
			fresh++
		default:
			t.Fatalf("seed %d: old and new are mixed", seed)
		}
	}
	if old == 0 || fresh == 0 {
		t.Errorf("old %d times, new %d times", old, fresh)
	}
}

// The death of the process loses nothing that completed; what was in flight may
// have happened, in whole or in part. None of it is any more durable.
func TestKillKeepsWhatCompleted(t *testing.T) {
	r := newRig(t, crash.Options{Seed: 1})
	r.AddFault(crash.Fault{Kind: disk.Write, Path: "flying", Effect: crash.Delay, Completions: 100})
	file, flying := r.durable("log", blocksOf(1, 1)), r.durable("flying", blocksOf(2, 1))
	r.must(write(file, 0, 1, 2))
	op := write(flying, 0, 2, 2)
	r.Submit(op)
	for range 3 { // hand it over beside something that completes
		r.must(&disk.Operation{Kind: disk.Flush, File: flying})
	}
	seen := map[string]int{}
	lost := false
	for seed := range uint64(seeds) {
		killed := r.Kill(seed)
		if got := content(t, killed, "log"); !bytes.Equal(got, blocksOf(1, 2)) {
			t.Fatalf("seed %d: a completed write did not survive the process", seed)
		}
		fills := sectorFills(t, content(t, killed, "flying"))
		switch bytes.Count(fills, []byte{2}) {
		case 0:
			seen["none"]++
		case len(fills):
			seen["all"]++
		default:
			seen["part"]++
		}
		lost = lost || !bytes.Equal(content(t, killed.Crash(seed), "log"), blocksOf(1, 2))
	}
	if len(seen) != 3 {
		t.Errorf("the write in flight was found %v, want none, part and all", seen)
	}
	if !lost {
		t.Error("the death of the process made an unflushed write durable")
	}
}

// A small number of pending units is walked through whole: 8 sectors of one
// block are 256 outcomes, each once.
func TestOutcomesAreExhaustive(t *testing.T) {
	r := newRig(t, crash.Options{})
	file := r.durable("log", blocksOf(1, 1))
	r.must(write(file, 0, 1, 2))
	if got := r.PendingUnits(); got != 8 {
		t.Fatalf("%d units are pending, want the 8 sectors of a block", got)
	}
	seen := map[string]bool{}
	count := 0
	for outcome := range r.CrashOutcomes(256) {
		count++
		seen[string(sectorFills(t, content(t, outcome, "log")))] = true
	}
	if count != 256 || len(seen) != 256 {
		t.Errorf("%d outcomes, %d of them different, want 256", count, len(seen))
	}
	// One more than the limit is sampled, the extremes included.
	seen = map[string]bool{}
	count = 0
	for outcome := range r.CrashOutcomes(255) {
		count++
		seen[string(sectorFills(t, content(t, outcome, "log")))] = true
	}
	if count != 255 || !seen["\x01\x01\x01\x01\x01\x01\x01\x01"] || !seen["\x02\x02\x02\x02\x02\x02\x02\x02"] {
		t.Errorf("%d sampled outcomes, %d different", count, len(seen))
	}
	for range r.CrashOutcomes(256) {
		break // a caller may stop early
	}
}
