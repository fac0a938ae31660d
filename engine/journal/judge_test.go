package journal

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The cases by name; worlds_test.go has all the others.
func TestJudge(t *testing.T) {
	frame := func(sequence, flushed, from uint64) Found {
		return Found{Run: 4, Sequence: sequence, Flushed: flushed, From: from, Whole: true}
	}
	torn := func(f Found) Found { f.Whole = false; return f }
	ofRun := func(run uint64, f Found) Found { f.Run = run; return f }
	checkpoint := Trim{Run: 4, From: 10, Flushed: 11}

	for _, row := range []struct {
		name  string
		found []Found
		at    Trim
		lost  bool
		want  Verdict
	}{
		{"an empty ring", nil, Trim{}, true, Verdict{Next: 1, NextRun: 1}},
		{"a checkpoint from before the journal", nil, Trim{}, false, Verdict{Next: 1, NextRun: 1}},
		{"nothing since the start", nil, Trim{Run: 4, From: 10, Flushed: 9}, false, Verdict{Run: 4, Next: 10, NextRun: 5}},
		{"all is there, in any order", []Found{frame(12, 11, 10), frame(10, 9, 10), frame(11, 9, 10)}, checkpoint, false,
			Verdict{Run: 4, Take: []int{1, 2, 0}, Next: 13, NextRun: 5}},
		{"a torn end", []Found{frame(10, 9, 10), frame(11, 10, 10), torn(frame(12, 11, 10)), frame(13, 11, 10)}, checkpoint, false,
			Verdict{Run: 4, Take: []int{0, 1}, Dropped: []int{2, 3}, Next: 14, NextRun: 5}},
		{"a hole at the end", []Found{frame(10, 9, 10), frame(11, 10, 10), frame(13, 11, 10)}, checkpoint, false,
			Verdict{Run: 4, Take: []int{0, 1}, Dropped: []int{2}, Next: 14, NextRun: 5}},
		{"damage that a later frame knows of: its whole entries count", []Found{frame(10, 9, 10), frame(11, 10, 10), torn(frame(12, 11, 10)), frame(13, 12, 10)}, checkpoint, false,
			Verdict{Run: 4, Take: []int{0, 1, 2, 3}, Damaged: []Range{{12, 13}}, Next: 14, NextRun: 5}},
		{"a witness that is torn itself", []Found{frame(10, 9, 10), frame(11, 10, 10), torn(frame(13, 12, 10))}, checkpoint, false,
			Verdict{Run: 4, Take: []int{0, 1}, Damaged: []Range{{12, 13}}, Dropped: []int{2}, Next: 14, NextRun: 5}},
		{"a hole that a later frame knows of", []Found{frame(10, 9, 10), frame(13, 12, 10)}, checkpoint, false,
			Verdict{Run: 4, Take: []int{0, 1}, Damaged: []Range{{11, 13}}, Next: 14, NextRun: 5}},
		{"damage that only the checkpoint knows of", []Found{frame(10, 9, 10)}, checkpoint, false,
			Verdict{Run: 4, Take: []int{0}, Damaged: []Range{{11, 12}}, Next: 12, NextRun: 5}},
		{"everything is gone", nil, Trim{Run: 4, From: 10, Flushed: 1 << 60}, false,
			Verdict{Run: 4, Damaged: []Range{{10, 1<<60 + 1}}, Next: 1<<60 + 1, NextRun: 5}},
		{"a hole, then a torn end", []Found{frame(10, 9, 10), torn(frame(12, 11, 10)), frame(13, 11, 10)}, checkpoint, false,
			Verdict{Run: 4, Take: []int{0}, Damaged: []Range{{11, 12}}, Dropped: []int{1, 2}, Next: 14, NextRun: 5}},
		{"rests of old laps raise no alarm", []Found{torn(frame(3, 2, 1)), frame(5, 4, 2), frame(10, 9, 10), frame(11, 10, 10)}, checkpoint, false,
			Verdict{Run: 4, Take: []int{2, 3}, Next: 12, NextRun: 5}},
		{"a frame was trimmed further than the checkpoint", []Found{torn(frame(10, 9, 10)), frame(12, 11, 12), frame(11, 10, 11)}, checkpoint, false,
			Verdict{Run: 4, Take: []int{1}, Next: 13, NextRun: 5}},
		{"frames of another run", []Found{ofRun(3, frame(50, 49, 1)), frame(10, 9, 10), ofRun(3, torn(frame(11, 10, 9))), frame(11, 10, 10)}, checkpoint, false,
			Verdict{Run: 4, Take: []int{1, 3}, Next: 51, NextRun: 5}},
		{"frames ahead of the checkpoint", []Found{frame(10, 9, 10), ofRun(9, frame(60, 59, 55)), frame(11, 10, 10)}, checkpoint, false,
			Verdict{Run: 4, Take: []int{0, 2}, Ahead: []int{1}, Next: 61, NextRun: 10}},
		{"the checkpoint is lost", []Found{ofRun(3, frame(9, 8, 2)), frame(10, 9, 10), frame(11, 10, 10), frame(13, 11, 11)}, Trim{Run: 77, From: 99, Flushed: 99}, true,
			Verdict{Run: 4, Take: []int{2, 3}, Next: 14, NextRun: 5}},
		{"the checkpoint is lost: damage and torn ends", []Found{frame(10, 9, 10), torn(frame(12, 10, 10)), torn(frame(14, 12, 10)), frame(15, 12, 10)}, Trim{}, true,
			Verdict{Run: 4, Take: []int{0, 1, 3}, Damaged: []Range{{11, 13}}, Dropped: []int{2}, Next: 16, NextRun: 5}},
		{"one sequence twice: the whole one counts", []Found{torn(frame(10, 9, 10)), frame(10, 9, 10), frame(11, 10, 10), frame(11, 10, 10)}, checkpoint, false,
			Verdict{Run: 4, Take: []int{1, 2}, Next: 12, NextRun: 5}},
		{"the last sequence there is", []Found{frame(math.MaxUint64-1, 0, math.MaxUint64-1)}, Trim{Run: 4}, false,
			Verdict{Run: 4, Take: []int{0}, Next: math.MaxUint64, NextRun: 5}},
	} {
		got := Judge(row.found, row.at, !row.lost)
		if len(got.Dropped) == 0 {
			got.Dropped = nil
		}
		if difference := cmp.Diff(row.want, got); difference != "" {
			t.Errorf("%s:\n%s", row.name, difference)
		}
	}
}
