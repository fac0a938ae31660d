package crash_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
)

// scene runs a busy mixture of operations and returns a line for each
// completion; with the same seeds it must be the same to the byte.
func scene(t *testing.T, seed uint64, crashAt int) (string, *crash.Disk) {
	r := newRig(t, crash.Options{Seed: seed})
	r.CrashAt(crashAt)
	r.AddFault(crash.Fault{Kind: disk.Write, Probability: 0.1, Effect: crash.Short})
	r.AddFault(crash.Fault{Kind: disk.Write, Probability: 0.1, Effect: crash.Delay, Completions: 4})
	random := rand.New(rand.NewPCG(seed, 99))
	var log strings.Builder
	var files []disk.File
	for i := range 60 {
		switch random.IntN(6) {
		case 0:
			r.Submit(&disk.Operation{Kind: disk.Open, Path: fmt.Sprint("f", i), Flags: disk.Create, Owner: i})
		case 1:
			r.Submit(&disk.Operation{Kind: disk.SyncDirectory, Path: ".", Owner: i})
		case 2:
			r.Submit(&disk.Operation{Kind: disk.Rename, Path: fmt.Sprint("f", random.IntN(i+1)), NewPath: fmt.Sprint("f", i), Owner: i})
		default:
			if len(files) > 0 {
				op := write(files[random.IntN(len(files))], random.IntN(4), 1+random.IntN(3), byte(i))
				op.Owner = i
				if random.IntN(4) == 0 {
					op.Kind = disk.Flush
				}
				r.Submit(op)
			}
		}
		finished, err := r.Wait(nil, 0)
		for _, op := range finished {
			fmt.Fprintln(&log, op.Owner, op.Kind, op.Done, op.Err)
			if op.Kind == disk.Open && op.Err == nil {
				files = append(files, op.File)
			}
		}
		if err != nil {
			fmt.Fprintln(&log, err)
			break
		}
	}
	return log.String(), r.Disk
}

func TestSameSeedSameOutcome(t *testing.T) {
	different := map[string]bool{}
	for seed := range uint64(20) {
		first, one := scene(t, seed, 0)
		second, two := scene(t, seed, 0)
		if first != second || one.Digest() != two.Digest() || one.Steps() != two.Steps() {
			t.Fatalf("seed %d runs differently twice:\n%s\n\n%s", seed, first, second)
		}
		different[first] = true
		for cut := range uint64(5) {
			if one.Crash(cut).Digest() != two.Crash(cut).Digest() || one.Kill(cut).Digest() != two.Kill(cut).Digest() {
				t.Fatalf("seed %d: power cut %d ends differently twice", seed, cut)
			}
		}
	}
	if len(different) != 20 {
		t.Errorf("20 seeds gave %d orders", len(different))
	}
}

// A power cut at step k sees exactly what the run without one had done before k.
func TestCrashAtEveryStepIsAPrefix(t *testing.T) {
	whole, d := scene(t, 4, 0)
	for step := 1; step <= d.Steps(); step++ {
		part, cut := scene(t, 4, step)
		lines, found := strings.CutSuffix(part, crash.ErrCrashed.Error()+"\n")
		if !strings.HasPrefix(whole, lines) {
			t.Fatalf("step %d: not a beginning of the whole run:\n%s", step, part)
		}
		if !cut.Crashed() || !found && step < d.Steps() {
			t.Fatalf("step %d: the power did not go off", step)
		}
		if cut.Steps() != step-1 {
			t.Errorf("step %d: %d steps were taken", step, cut.Steps())
		}
	}
}

func TestCrashLeavesTheDiskAsItIs(t *testing.T) {
	_, d := scene(t, 2, 0)
	before := d.Digest()
	for range d.CrashOutcomes(20) {
	}
	first := d.Crash(1).Digest()
	d.Kill(1)
	if d.Digest() != before || d.Crash(1).Digest() != first {
		t.Error("looking at outcomes changed the disk")
	}
	// And what an outcome does is its own.
	other := &rig{t, d.Crash(1)}
	file := other.open("fresh")
	other.must(write(file, 0, 1, 7))
	if d.Digest() != before || d.Crash(1).Digest() != first {
		t.Error("writing to an outcome changed the disk it came from")
	}
}

func TestPowerOffStopsEverything(t *testing.T) {
	r := newRig(t, crash.Options{})
	r.open("log")
	r.Halt()
	r.Submit(&disk.Operation{Kind: disk.MakeDirectory, Path: "a"})
	finished, err := r.Wait(nil, -1)
	if !errors.Is(err, crash.ErrCrashed) || len(finished) != 0 {
		t.Errorf("wait: %v, %v", finished, err)
	}
	if err := r.Close(); !errors.Is(err, crash.ErrCrashed) {
		t.Errorf("close: %v", err)
	}
	if len(r.List()) != 1 {
		t.Errorf("operations happened without power: %v", r.List())
	}
}

// An owner on a goroutine of its own, idle in Wait, learns of the power cut.
func TestHaltWakesABlockedOwner(t *testing.T) {
	d := crash.New(crash.Options{Blocking: true})
	ended := make(chan error)
	go func() {
		for {
			if _, err := d.Wait(nil, -1); err != nil {
				ended <- err
				return
			}
		}
	}()
	d.Wake()
	d.Halt()
	if err := <-ended; !errors.Is(err, crash.ErrCrashed) {
		t.Error(err)
	}
}

// The disk watches its caller: each of these breaks the seam's contract.
func TestBreachesOfTheContractPanic(t *testing.T) {
	breaches := map[string]func(r *rig, file disk.File){
		"submitted twice": func(r *rig, file disk.File) {
			op := write(file, 0, 1, 1)
			r.Submit(op)
			r.Submit(op)
		},
		"buffer changed in flight": func(r *rig, file disk.File) {
			op := write(file, 0, 1, 1)
			r.Submit(op)
			op.Buffer[17]++
			r.wait(op)
		},
		"closed with operations in flight": func(r *rig, file disk.File) {
			r.Submit(write(file, 0, 1, 1))
			r.Submit(&disk.Operation{Kind: disk.Close, File: file})
		},
	}
	for name, breach := range breaches {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, crash.Options{})
			file := r.open("log")
			defer func() {
				if recover() == nil {
					t.Error("nobody noticed")
				}
			}()
			breach(r, file)
		})
	}
}
