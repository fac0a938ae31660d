package crashtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"ringlog/engine/internal/rule"
)

// live is one life of the log: recover, look, go on until the script or the power ends, and end.
func (k *keyedLog) live(crashAt int) error {
	k.disk.CrashAt(crashAt)
	err := k.boot()
	if err == nil {
		err = k.check()
	}
	if err == nil {
		err = k.retry()
	}
	for n := 0; err == nil && n < 60; n++ {
		err = k.act()
	}
	if err != nil && !errors.Is(err, errKeyedCut) {
		return err
	}
	if k.stepper != nil {
		m := k.stepper.Metrics()
		k.passes, k.dropped = k.passes+m.Cleans, k.dropped+m.CleanDropped
	}
	return k.end(err)
}

// act does one thing.
func (k *keyedLog) act() error {
	switch n := k.dice.IntN(100); {
	case n < 80:
		return k.produce()
	case n < 94:
		return k.pass(time.Duration(1+k.dice.IntN(10)) * keyedInterval / 4)
	case n < 97:
		return k.check()
	default:
		k.harm()
		return nil
	}
}

// end ends a life: with the power, when that is not gone yet, by a kill or in order.
func (k *keyedLog) end(err error) error {
	seed := k.dice.Uint64()
	how := k.dice.IntN(3)
	switch {
	case err != nil || how == 0:
		k.note("power cut at step %d", k.disk.Steps())
		k.disk = k.disk.Crash(seed)
	case how == 1:
		k.note("kill")
		k.disk = k.disk.Kill(seed)
	default:
		k.note("close")
		k.disk.ClearFaults()
		err := k.stepper.Close(context.Background())
		switch {
		case k.disk.Crashed():
			k.note("power cut meanwhile, at step %d", k.disk.Steps())
			k.disk = k.disk.Crash(seed)
		case err != nil:
			return fmt.Errorf("close: %w", err)
		default:
			k.disk = k.disk.Kill(seed)
		}
	}
	if k.stepper != nil {
		k.stepper.Abandon()
		k.stepper, k.log = nil, nil
	}
	if k.dice.IntN(2) == 0 {
		k.note("the snapshots are spoilt")
		k.spoilSnapshots()
	}
	return nil
}

// sail takes one seed through several lives, and looks at what is there in the end.
func (k *keyedLog) sail() error {
	for range 5 {
		crashAt := 0
		if k.dice.IntN(4) > 0 {
			crashAt = 1 + k.dice.IntN(1500)
		}
		if err := k.live(crashAt); err != nil {
			return err
		}
	}
	k.disk.CrashAt(0)
	err := k.boot()
	for _, step := range []func() error{k.check, k.retry, func() error { return k.pass(20 * keyedInterval) }, k.check, k.retry} {
		if err == nil {
			err = step()
		}
	}
	if k.stepper != nil {
		k.stepper.Abandon()
	}
	return err
}

// A compacted log that is cut off at any step: a consumer that reads it from offset 0 rebuilds the same table,
// every time; no offset changes; the last five batches of each producer are still known, from
// snapshots or from what compaction left of them; and a swap is done or not.
func TestCompactionSurvivesCrashes(t *testing.T) {
	passes, dropped := int64(0), int64(0)
	seeds := uint64(60)
	switch {
	case *seedsFlag > 0:
		seeds = *seedsFlag
	case testing.Short() || raceEnabled:
		seeds = 15
	}
	for seed := *firstFlag; seed < *firstFlag+seeds; seed++ {
		k := newKeyedLog(seed, 0)
		err := k.sail()
		passes, dropped = passes+k.passes, dropped+k.dropped
		k.closePools()
		if err != nil {
			for _, line := range k.trace {
				t.Log(line)
			}
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	t.Logf("%d passes of compaction dropped %d records in %d scripts of 5 lives", passes, dropped, seeds)
	if passes < int64(seeds) && seeds > 10 {
		t.Errorf("only %d passes: this tests nothing", passes)
	}
}

// A test that never fails proves nothing.
func TestBrokenRulesOfCompactionAreNoticed(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip(tooLong)
	}
	for _, broken := range []rule.Rule{rule.SwapBeforeManifest, rule.SwapUnflushed, rule.ForgetProducers} {
		noticed := false
		for seed := uint64(0); seed < 100 && !noticed; seed++ {
			k := newKeyedLog(seed, broken)
			err := k.sail()
			k.closePools()
			if noticed = err != nil; noticed {
				t.Logf("%-22s noticed at seed %d: %.150s", broken, seed, err)
			}
		}
		if !noticed {
			t.Errorf("%s: not noticed in 100 seeds", broken)
		}
	}
}
