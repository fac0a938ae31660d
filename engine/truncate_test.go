package engine

import (
	"context"
	"testing"

	"ringlog/engine/disk/crash"
	"ringlog/record"
)

// Rule 7 and scenario 16: a cut across segments, with the power going at any step
// of it and again at any step of the recovery, leaves the log whole or cut.
func TestCutIsFinishedFromAnyStep(t *testing.T) {
	const cutAt = 9 // in the first of several segments
	for step := 1; ; step += 2 {
		r, d := crashRig(t, LogConfig{SegmentBytes: 16 << 10}, nil)
		all := r.fill(30, 1000)
		d.CrashAt(d.Steps() + step)
		err := r.step.Truncate(context.Background(), r.id, cutAt)
		ended := err == nil
		if err != nil && !d.Crashed() {
			t.Fatal(err)
		}
		after := d.Crash(uint64(step))
		r.step.Abandon()
		for again := 1; ; again += 5 {
			d := after.Crash(uint64(again))
			d.CrashAt(again)
			r.on(d)
			if err := r.tryStart(); err == nil {
				err = r.tryOpen()
				if err != nil && !d.Crashed() {
					t.Fatalf("cut stopped at step %d, recovery at %d: %v", step, again, err)
				}
			}
			stopped := d.Crashed()
			left := d.Crash(uint64(again) + 1)
			if r.step != nil {
				r.step.Abandon()
			}
			r.checkCut(left, all, cutAt, ended)
			if !stopped {
				break
			}
		}
		if ended {
			return
		}
	}
}

// checkCut recovers from d and wants the log as it was or as it is after the cut.
func (r *rig) checkCut(d *crash.Disk, all []record.Batch, cutAt int64, mustBeCut bool) {
	r.Helper()
	r.on(d)
	r.start()
	r.open()
	if r.log.failed != nil {
		r.Fatal(r.log.failed)
	}
	got := r.readAll(0)
	cut := all[:cutAt/2] // batches of two records
	if len(got) == len(all) && !mustBeCut {
		r.expect(all, got)
	} else {
		r.expect(cut, got)
	}
	r.fill(1, 10)
	r.step.Abandon()
}
