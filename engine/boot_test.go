package engine

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ringlog/engine/segment"
	"ringlog/record"
)

// The number of shards changes from one run to the next, in both directions, closed in
// order and not: every log is recovered from what the checkpoints said of it,
// checkpoints of shards that are gone go, and a log keeps its shard where it can.
func TestNumberOfShardsChanges(t *testing.T) {
	r := newRig(t)
	kept := make([][]record.Batch, 6)
	counts := []int{1, 3, 2, 5, 1, 4, 4, 2}
	var before []int32
	for run, count := range counts {
		r.tune = func(o *Options) { o.Shards = count }
		r.start()
		for i := range 6 {
			if _, ok := loadedOn(r.step, numbered(i)); !ok && run > 0 {
				t.Fatalf("run %d with %d shards: no checkpoint knows log %d", run, count, i)
			}
		}
		logs := r.openLogs(6)
		used := make([]int, count)
		for i, l := range logs {
			home := l.home.Load()
			used[home]++
			if at, ok := loadedOn(r.step, l.ID()); ok && at != int(home) {
				t.Fatalf("run %d: log %d is on shard %d, its checkpoint on %d", run, i, home, at)
			}
			if run > 1 && counts[run-1] > 1 && count > 1 && int(before[i]) < count && before[i] != home {
				t.Errorf("run %d: log %d went from shard %d to %d for no reason", run, i, before[i], home)
			}
			r.log = l
			r.expect(kept[i], r.readAll(0))
		}
		before = homes(logs)
		if counts[max(run-1, 0)] > count || run == 1 {
			for n, logs := range used {
				if logs == 0 {
					t.Errorf("run %d: shard %d has no logs: %v", run, n, used)
				}
			}
		}
		group := r.appendTo(uint64(run), 400, logs...)
		for i := range kept {
			kept[i] = append(kept[i], append(record.Batch(nil), group.Appends[i].Batch...))
		}
		if run%2 == 0 {
			r.close()
		} else {
			for _, s := range r.step.shards {
				s.keeper.wantCheckpoint(s)
			}
			r.settle()
			r.crashShards()
		}
		for n := range 6 {
			_, err := os.Stat(filepath.Join(r.root, segment.CheckpointName(n)))
			if (err == nil) != (n < count) {
				t.Fatalf("run %d with %d shards: checkpoint of shard %d: %v", run, count, n, err)
			}
		}
	}
}

// loadedOn returns the shard that has the log's entry of the last run's checkpoints.
func loadedOn(s *Stepper, id LogID) (int, bool) {
	for n, shard := range s.shards {
		for _, entry := range shard.keeper.loaded {
			if entry.LogID == id {
				return n, true
			}
		}
	}
	return 0, false
}

// Of a log that several checkpoints name the last word counts: the higher generation,
// then the higher durable end, then the limit that allows more.
func TestBootMergesCheckpoints(t *testing.T) {
	entry := func(gen uint64, durable, limit int64) segment.CheckpointLog {
		return segment.CheckpointLog{LogID: numbered(0), Gen: gen, Durable: durable, Offset: durable, Limit: limit}
	}
	last := entry(3, 20, 8192)
	for _, other := range []segment.CheckpointLog{entry(2, 99, 1<<20), entry(3, 19, 1<<20), entry(3, 20, 4096)} {
		for _, order := range [][]segment.CheckpointLog{{last, other}, {other, last}} {
			b := boot{checkpoints: []bootCheckpoint{
				{content: segment.Checkpoint{Logs: order[:1]}}, {content: segment.Checkpoint{Logs: order[1:]}},
			}}
			b.merge()
			if len(b.merged) != 1 || b.merged[0] != last {
				t.Errorf("%+v became %+v", order, b.merged)
			}
		}
	}
}

// What was deleted is removed once, by one shard, and an unknown log can be removed wherever
// it would live.
func TestDirectoriesAreRemovedOnce(t *testing.T) {
	r, logs := shardsRig(t, 3, 6)
	if err := r.step.Delete(context.Background(), logs[4].ID()); err != nil {
		t.Fatal(err)
	}
	r.close()
	r.start()
	if n := len(r.step.Unknown()); n != 5 {
		t.Fatalf("%d logs are unknown, want 5", n)
	}
	for _, n := range []int{1, 2} {
		if err := r.step.Remove(context.Background(), numbered(n)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.step.Unknown()); n != 3 {
		t.Fatalf("%d logs are unknown, want 3", n)
	}
	r.pass(5 * time.Second)
	for _, n := range []int{1, 2, 4} {
		if _, err := os.Stat(filepath.Join(r.root, numbered(n).String()+deletedSuffix)); !os.IsNotExist(err) {
			t.Errorf("what is left of log %d: %v", n, err)
		}
	}
	r.close()
}
