package crash_test

import (
	"bytes"
	"errors"
	"math/bits"
	"syscall"
	"testing"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
)

func read(file disk.File, block, count int) *disk.Operation {
	return &disk.Operation{Kind: disk.Read, File: file, Offset: int64(block * disk.BlockBytes), Buffer: aligned(count, 0)}
}

func TestRuleFiresAtTheNthMatch(t *testing.T) {
	r := newRig(t, crash.Options{})
	file, other := r.durable("a.log", blocksOf(1, 1)), r.durable("b", blocksOf(1, 1))
	rule := r.AddFault(crash.Fault{Kind: disk.Write, Path: "*.log", Nth: 2, Err: syscall.EIO})
	for i, want := range []error{nil, syscall.EIO, nil} {
		if err := r.do(write(file, 0, 1, 2)); !errors.Is(err, want) {
			t.Errorf("write %d: %v, want %v", i+1, err, want)
		}
		r.must(write(other, 0, 1, 2)) // another path does not count
		r.flush(file)                 // nor does another kind
	}
	if rule.Fired() != 1 {
		t.Errorf("fired %d times, want once", rule.Fired())
	}
}

func TestRuleFiresByProbabilityAndAtMostSoOften(t *testing.T) {
	r := newRig(t, crash.Options{Seed: 7})
	rule := r.AddFault(crash.Fault{Kind: disk.MakeDirectory, Probability: 0.5, Times: 10, Err: syscall.ENOSPC})
	failed, firstTen := 0, 0
	for i := range 100 {
		if r.do(&disk.Operation{Kind: disk.MakeDirectory, Path: "d"}) != nil {
			failed++
			if i < 10 {
				firstTen++
			}
		}
	}
	if failed != 10 || rule.Fired() != 10 || firstTen == 10 || firstTen == 0 {
		t.Errorf("failed %d times, %d of them in the first ten", failed, firstTen)
	}
	r.ClearFaults()
	rename := r.AddFault(crash.Fault{Path: "e", Err: syscall.ECANCELED})
	if err := r.do(&disk.Operation{Kind: disk.Rename, Path: "d", NewPath: "e"}); !errors.Is(err, syscall.ECANCELED) || rename.Fired() != 1 {
		t.Errorf("a rename to the path: %v", err)
	}
}

// "A failed Write may have moved any part of its bytes."
func TestFailedWriteMovesAnyPart(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(60) {
		r := newRig(t, crash.Options{Seed: seed})
		file := r.durable("log", blocksOf(2, 1))
		r.AddFault(crash.Fault{Kind: disk.Write, Err: syscall.EIO})
		op := write(file, 0, 2, 2)
		if err := r.do(op); !errors.Is(err, syscall.EIO) || op.Done != 0 {
			t.Fatalf("done %d, %v", op.Done, err)
		}
		fills := sectorFills(t, content(t, r.Disk, "log"))
		switch bytes.Count(fills, []byte{2}) {
		case 0:
			seen["none"]++
		case len(fills):
			seen["all"]++
		default:
			seen["part"]++
		}
	}
	if len(seen) != 3 {
		t.Errorf("found %v, want none, part and all", seen)
	}
}

// After a failed Flush the pages count as clean: a later Flush that succeeds
// says nothing of what the failed one should have made durable.
func TestFailedFlushIsNotRepairedByTheNext(t *testing.T) {
	for _, kind := range []disk.Kind{disk.Flush, disk.SyncFilesystem} {
		lost := 0
		for seed := range uint64(60) {
			r := newRig(t, crash.Options{Seed: seed})
			file := r.durable("log", blocksOf(1, 1))
			r.AddFault(crash.Fault{Kind: kind, Nth: 1, Err: syscall.EIO})
			r.must(write(file, 0, 1, 2))
			if err := r.do(&disk.Operation{Kind: kind, File: file}); !errors.Is(err, syscall.EIO) {
				t.Fatal(err)
			}
			r.must(&disk.Operation{Kind: kind, File: file})
			if got := content(t, r.Disk, "log"); !bytes.Equal(got, blocksOf(1, 2)) {
				t.Fatal("the process no longer sees its own write")
			}
			if !bytes.Equal(content(t, r.Crash(seed), "log"), blocksOf(1, 2)) {
				lost++
			}
		}
		if lost == 0 {
			t.Errorf("%s: a second flush repaired the first each time", kind)
		}
	}
}

func TestShortCompletions(t *testing.T) {
	r := newRig(t, crash.Options{Seed: 3})
	file := r.durable("log", blocksOf(8, 1))
	r.AddFault(crash.Fault{Effect: crash.Short})
	for _, op := range []*disk.Operation{write(file, 0, 8, 2), read(file, 0, 8)} {
		r.must(op)
		if op.Done <= 0 || op.Done >= len(op.Buffer) || op.Done%disk.BlockBytes != 0 {
			t.Errorf("%s did %d of %d bytes", op.Kind, op.Done, len(op.Buffer))
		}
	}
	if one := r.must(write(file, 0, 1, 3)); one.Done != disk.BlockBytes {
		t.Errorf("a single block was cut to %d bytes", one.Done)
	}
	got := content(t, r.Disk, "log")
	if count := bytes.Count(got, []byte{1}); count == 0 || count%disk.BlockBytes != 0 {
		t.Errorf("%d bytes of the short write's end are old", count)
	}
}

func TestDelayedOperationCompletesAfterOthers(t *testing.T) {
	r := newRig(t, crash.Options{Seed: 5})
	file := r.durable("log", blocksOf(1, 1))
	r.AddFault(crash.Fault{Kind: disk.Write, Nth: 1, Effect: crash.Delay, Completions: 3})
	ops := []*disk.Operation{write(file, 0, 1, 2)}
	for range 5 {
		ops = append(ops, read(file, 0, 1))
	}
	for _, op := range ops {
		r.Submit(op)
	}
	var finished []*disk.Operation
	for len(finished) < len(ops) {
		finished, _ = r.Wait(finished, -1)
	}
	for i, op := range finished {
		if op == ops[0] && i < 3 {
			t.Errorf("the delayed write completed as number %d", i+1)
		}
	}
	r.ClearFaults()
	r.AddFault(crash.Fault{Kind: disk.Write, Effect: crash.Delay, Completions: 1000})
	r.must(write(file, 0, 1, 3)) // alone in flight it is not held back for ever
}

func TestFlippedBitIsInTheAnswerOnly(t *testing.T) {
	r := newRig(t, crash.Options{Seed: 1})
	file := r.durable("log", blocksOf(4, 0))
	r.AddFault(crash.Fault{Kind: disk.Read, Nth: 1, Effect: crash.FlipBit})
	flipped := func(op *disk.Operation) (count int) {
		for _, b := range r.must(op).Buffer {
			count += bits.OnesCount8(b)
		}
		return count
	}
	if first, second := flipped(read(file, 0, 4)), flipped(read(file, 0, 4)); first != 1 || second != 0 {
		t.Errorf("%d bits wrong, then %d; want 1, then 0", first, second)
	}
}

func TestLostMisdirectedAndLyingOperationsReportSuccess(t *testing.T) {
	r := newRig(t, crash.Options{Seed: 1})
	lost, astray, lied := r.durable("lost", blocksOf(1, 1)), r.durable("astray", blocksOf(4, 1)), r.durable("lied", blocksOf(1, 1))
	r.AddFault(crash.Fault{Path: "lost", Effect: crash.LoseWrite})
	r.AddFault(crash.Fault{Kind: disk.Write, Path: "astray", Nth: 1, Effect: crash.MisdirectWrite, Bytes: 2 * disk.BlockBytes})
	r.AddFault(crash.Fault{Kind: disk.Write, Path: "astray", Nth: 1, Effect: crash.MisdirectWrite})
	r.AddFault(crash.Fault{Kind: disk.Flush, Path: "lied", Effect: crash.LieAboutFlush})

	if op := r.must(write(lost, 0, 1, 2)); op.Done != disk.BlockBytes || !bytes.Equal(content(t, r.Disk, "lost"), blocksOf(1, 1)) {
		t.Error("the lost write was not lost")
	}
	r.must(write(astray, 0, 1, 2))
	if got := content(t, r.Disk, "astray"); got[0] != 1 || got[2*disk.BlockBytes] != 2 {
		t.Error("the write is not two blocks away")
	}
	r.must(write(astray, 1, 1, 3))
	if got := content(t, r.Disk, "astray"); got[disk.BlockBytes] != 1 || bytes.Count(got, []byte{3}) != disk.BlockBytes {
		t.Error("the write is where it belongs, or nowhere")
	}
	r.must(write(lied, 0, 1, 2))
	r.flush(lied)
	vanished := false
	for outcome := range r.CrashOutcomes(64) {
		vanished = vanished || !bytes.Equal(content(t, outcome, "lied"), blocksOf(1, 2))
	}
	if !vanished {
		t.Error("the lying flush made the write durable")
	}
}

// Rule 18 of the engine: "that a 512-byte sector ends old or new is a named
// assumption which the crash disk can break on command".
func TestSectorsAreTornOnCommand(t *testing.T) {
	for name, byRule := range map[string]bool{"by rule": true, "by option": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, crash.Options{TearSectors: !byRule})
			file := r.durable("log", blocksOf(1, 1))
			if byRule {
				r.AddFault(crash.Fault{Kind: disk.Write, Effect: crash.TearSectors})
			}
			r.must(write(file, 0, 1, 2))
			torn := 0
			for seed := range uint64(seeds) {
				got := content(t, r.Crash(seed), "log")
				for at := 0; at < len(got); at += disk.SectorBytes {
					if fresh := bytes.Count(got[at:at+disk.SectorBytes], []byte{2}); fresh != 0 && fresh != disk.SectorBytes {
						torn++
					}
				}
			}
			if torn == 0 {
				t.Error("no sector was torn")
			}
			r.flush(file)
			if got := content(t, r.Crash(1), "log"); !bytes.Equal(got, blocksOf(1, 2)) {
				t.Error("a flushed write was torn")
			}
		})
	}
}

func TestSpaceIsBounded(t *testing.T) {
	r := newRig(t, crash.Options{BytesMax: 10 * disk.BlockBytes})
	a, b := r.open("a"), r.open("b")
	r.must(rangeOf(disk.Preallocate, a, 0, 6))
	r.must(write(b, 0, 4, 1))
	for _, op := range []*disk.Operation{write(b, 4, 1, 1), rangeOf(disk.Preallocate, b, 4, 1), rangeOf(disk.ZeroRange, b, 4, 1)} {
		if err := r.do(op); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s past the bound: %v", op.Kind, err)
		}
	}
	r.must(write(a, 0, 6, 2)) // inside what is reserved there is always room
	r.must(&disk.Operation{Kind: disk.Unlink, Path: "a"})
	if err := r.do(write(b, 4, 1, 1)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("an open file without a name gave its space back: %v", err)
	}
	r.must(&disk.Operation{Kind: disk.Close, File: a})
	r.must(write(b, 4, 6, 1))
	if got := r.BytesUsed(); got != 10*disk.BlockBytes {
		t.Errorf("%d bytes are used", got)
	}
}

func TestRottenMediumIsFoundByReading(t *testing.T) {
	r := newRig(t, crash.Options{})
	file := r.durable("log", blocksOf(1, 1))
	if err := r.Corrupt("log", 700, 0x80); err != nil {
		t.Fatal(err)
	}
	if op := r.must(read(file, 0, 1)); op.Buffer[700] != 0x81 || bytes.Count(op.Buffer, []byte{1}) != disk.BlockBytes-1 {
		t.Error("the bit is not flipped, or more than it")
	}
	if got := content(t, r.Crash(0), "log"); got[700] != 0x81 {
		t.Error("the bit is whole again after a power cut")
	}
}

// "A device that does not answer": what hangs is held back however much else completes, and goes on when
// the script ends.
func TestHangingOperationWaitsForTheEndOfTheScript(t *testing.T) {
	r := newRig(t, crash.Options{})
	file, other := r.durable("a.log", blocksOf(1, 1)), r.durable("b", blocksOf(1, 1))
	r.AddFault(crash.Fault{Kind: disk.Write, Path: "a.log", Effect: crash.Hang})
	hung := write(file, 0, 1, 2)
	r.Submit(hung)
	for range 100 {
		r.must(write(other, 0, 1, 2))
	}
	for range 100 {
		if done, err := r.Wait(nil, 0); err != nil || len(done) > 0 {
			t.Fatalf("with nothing else in flight: %v, %v", done, err)
		}
	}
	r.ClearFaults()
	done, err := r.Wait(nil, -1)
	if err != nil || len(done) != 1 || done[0] != hung || hung.Err != nil {
		t.Fatalf("after the end of the script: %v, %v", done, err)
	}
}
