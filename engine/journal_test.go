package engine

import (
	"context"
	"errors"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
	"ringlog/record"
)

const storyRing = 1 << 20

// journalRig is a crashRig with a commit journal of so many bytes.
func journalRig(t *testing.T, bytes int64, config LogConfig) (*rig, *crash.Disk) {
	return crashRig(t, config, func(o *Options) { o.JournalBytes = bytes })
}

// watched counts what is asked of a disk, by kind and the end of the file's name.
type watched struct {
	disk.Disk
	names map[disk.File]string
	asked map[asked]int
}

type asked struct {
	kind   disk.Kind
	suffix string
}

func (w *watched) Submit(op *disk.Operation) {
	name := op.Path
	if op.File != 0 || name == "" {
		name = w.names[op.File]
	}
	w.asked[asked{op.Kind, path.Ext(name)}]++
	w.Disk.Submit(op)
}

func (w *watched) Wait(finished []*disk.Operation, timeout time.Duration) ([]*disk.Operation, error) {
	finished, err := w.Disk.Wait(finished, timeout)
	for _, op := range finished {
		if op.Kind == disk.Open && op.Err == nil {
			w.names[op.File] = strings.TrimSuffix(op.Path, segment.NewSuffix) // renamed later
		}
	}
	return finished, err
}

// watch opens the rig's engine on a watched crash disk.
func (r *rig) watch() *watched {
	w := &watched{Disk: crash.New(crash.Options{Seed: 1}), names: map[disk.File]string{}}
	w.asked = map[asked]int{}
	r.opened = func() (disk.Disk, error) { return w, nil }
	return w
}

// Rule 3: a small append is durable after one frame and one flush of the journal, and
// no segment is written or flushed for it. A large one is written to its segment, which
// is flushed, and the journal is not.
func TestTwoWaysToDurable(t *testing.T) {
	r := newRig(t)
	r.tune = func(o *Options) { o.JournalBytes = storyRing }
	w := r.watch()
	r.start()
	r.open()
	r.fill(2, 100)
	for _, way := range []struct {
		size int
		want map[asked]int
	}{
		{100, map[asked]int{{disk.Write, ".journal"}: 1, {disk.Flush, ".journal"}: 1}},
		{20_000, map[asked]int{{disk.Write, ".journal"}: 1, {disk.Flush, ".journal"}: 1}},
	} {
		clear(w.asked)
		r.fill(1, way.size)
		if len(w.asked) != len(way.want) {
			t.Errorf("an append of %d bytes asked for %v", way.size, w.asked)
		}
		for what, times := range way.want {
			if w.asked[what] != times {
				t.Errorf("an append of %d bytes asked for %v, want %v", way.size, w.asked, way.want)
			}
		}
	}
	clear(w.asked)
	r.fill(1, plan.DirectBytes)
	for what := range w.asked {
		if what.suffix == ".journal" {
			t.Errorf("a large append asked for %v", w.asked)
		}
	}
	if f := r.log.Frontiers(); w.asked[asked{disk.Flush, segment.LogSuffix}] == 0 || f.Durable != f.Next || r.log.flushed.offset != f.Next {
		t.Errorf("a large append asked for %v: %+v", w.asked, f)
	}
	r.close()
}

// Rule 3: small appends of all logs go into one frame and one flush.
func TestManyLogsShareAFrame(t *testing.T) {
	r := newRig(t)
	r.tune = func(o *Options) { o.JournalBytes = 8 << 20 }
	r.on(crash.New(crash.Options{Seed: 1}))
	r.start()
	logs := r.openLogs(384)
	r.appendTo(1, 100, logs...) // room is made for the next ones
	c := &r.step.shards[0].counters
	frames, entries, commits, flushes := c.frames.Load(), c.frameEntries.Load(), c.commits.Load(), c.flushes.Load()
	r.appendTo(2, 1000, logs...)
	frames, entries, commits, flushes = c.frames.Load()-frames, c.frameEntries.Load()-entries, c.commits.Load()-commits, c.flushes.Load()-flushes
	if frames != 1 || entries != 384 || commits != 1 || flushes != 0 {
		t.Fatalf("%d frames with %d entries, %d commits, %d flushes of segments", frames, entries, commits, flushes)
	}
	r.crashShards()
}

// Rule 3: when much waits in all, logs with less than a large append each go direct too, and
// small appends beside them do not.
func TestManyLogsWithMuchInAllGoDirect(t *testing.T) {
	r := newRig(t)
	r.tail = buffer.NewPool("tail", 64<<20)
	defer r.tail.Close()
	r.tune = func(o *Options) { o.JournalBytes = 64 << 20 }
	r.on(crash.New(crash.Options{Seed: 1}))
	r.start()
	logs := r.openLogs(132)
	r.appendTo(1, 100, logs...) // room is made for the next ones
	small, large := logs[:2], logs[2:]
	s := r.step.shards[0]
	framed := func(seed uint64, large []*Log) int64 {
		r.pass(time.Second) // chunks do not grow
		before := s.counters.journalAppends.Load()
		much, little := groupOf(seed, 64<<10, large...), groupOf(seed+1, 100, small...)
		r.step.Append(&much.AppendGroup)
		r.step.Append(&little.AppendGroup)
		r.settle()
		if much.answered != 1 || little.answered != 1 || s.unanswered != 0 {
			t.Fatalf("answered %d and %d times, %d bytes have no answer", much.answered, little.answered, s.unanswered)
		}
		return s.counters.journalAppends.Load() - before
	}
	if n := framed(10, large[:100]); n != 102 {
		t.Errorf("of 100 logs with 64 KiB and 2 with little, %d took the journal", n)
	}
	framed(20, large) // room is made for as much of each
	if n := framed(30, large); n != 2 {
		t.Errorf("of 130 logs with 64 KiB and 2 with little, %d took the journal", n)
	}
	for _, l := range logs {
		if f := l.Frontiers(); f.Durable != f.Next || f.Next == 0 {
			t.Fatalf("%s: %+v", l.label, f)
		}
	}
	r.crashShards()
}

// Rule 1: D is a contiguous prefix whatever the way. Small and large appends come
// without a pause, so that the log changes its way in the middle of everything, and
// rolls; the power goes, and all that was answered is there.
func TestDurableIsAPrefixWhateverTheWay(t *testing.T) {
	for seed := range uint64(12) {
		r, d := journalRig(t, storyRing, LogConfig{SegmentBytes: 300 << 10})
		var groups []*produced
		var all []record.Batch
		ways := map[way]bool{}
		durable := int64(0)
		for i := range uint64(60) {
			size := 100 + int(i*7919%5000)
			if (i+seed)%7 == 0 {
				size = plan.DirectBytes / 2
			}
			b := batchOf(seed<<8|i, 2, size, r.millis)
			groups = append(groups, r.submit(b))
			all = append(all, b)
			for range (i + seed) % 5 {
				if err := r.step.Turn(); err != nil {
					t.Fatal(err)
				}
				ways[r.log.way] = true
				f := r.log.Frontiers()
				if f.Durable < durable || f.Durable > f.Written || f.Written > f.Next || f.HighWatermark > f.Durable {
					t.Fatalf("seed %d: durable was %d: %+v", seed, durable, f)
				}
				durable = f.Durable
			}
		}
		if !ways[journaling] || !ways[direct] {
			t.Fatalf("seed %d: ways %v", seed, ways)
		}
		answered := 0
		for answered < len(groups) && groups[answered].answered == 1 {
			answered++
		}
		r.again(d, seed)
		got := r.readAll(0)
		if len(got) < answered {
			t.Fatalf("seed %d: %d batches of %d that were answered", seed, len(got), answered)
		}
		r.expect(all[:len(got)], got)
	}
}

// Rule 8 and 14: when the ring is full appends wait, a trim ends that, and the ring is
// used again, round and round. What the last lap left is merged beside what was
// written back in part.
func TestRingWrapsAndAppendsWaitForATrim(t *testing.T) {
	b := newBurst(t, plan.JournalBytesMin, 20)
	q := &b.step.shards[0].journal
	waited := false
	for b.round = 0; b.round < 400; b.round++ {
		b.submit(300)
		if b.round%4 == 0 {
			b.turn()
			waited = waited || q.full() && b.step.Metrics().WaitingAppends > 0
		}
		if b.round%16 == 15 {
			b.settle()
		}
	}
	b.settle()
	for i, p := range b.groups {
		if p.answered != 1 || p.Appends[0].Err != nil {
			t.Fatalf("group %d: answered %d times, %v", i, p.answered, p.Appends[0].Err)
		}
	}
	if laps := q.head / uint64(q.size); !waited || laps < 3 || b.step.shards[0].counters.trims.Load() == 0 {
		t.Fatalf("appends waited: %v; %d laps, %d trims", waited, laps, b.step.shards[0].counters.trims.Load())
	}
	partly := 0
	for _, l := range b.logs {
		if l.completed.offset < l.next.offset && l.completed.offset > 0 {
			partly++
		}
	}
	if partly == 0 {
		t.Fatal("nothing is left to merge")
	}
	for seed := range uint64(3) {
		b.again(seed, 400)
	}
}

// Rule 9: what a full ring holds is merged, over rolls, and only then is a log opened.
func TestStartWithAFullRing(t *testing.T) {
	for seed := range uint64(4) {
		b := newBurst(t, 256<<10, 16)
		q := &b.step.shards[0].journal
		for ; !q.full(); b.round++ {
			b.submit(1000)
			if b.round < 5 {
				b.settle()
			} else if b.round%2 == 0 {
				b.turn()
			}
			if b.round > 2000 {
				t.Fatalf("%d bytes of the ring are used", q.used())
			}
		}
		answered := 0
		for answered < len(b.groups) && b.groups[answered].answered == 1 {
			answered++
		}
		if answered < 5 {
			t.Fatalf("%d groups are answered", answered)
		}
		b.again(seed, answered)
		b.submit(1000)
		b.settle()
		b.close()
	}
}

// burst is groups of small appends to several logs, none waiting for the one before.
type burst struct {
	*rig
	disk   *crash.Disk
	logs   []*Log
	groups []*produced
	sent   [][]record.Batch // of each log
	round  int
}

func newBurst(t *testing.T, ringBytes int64, logs int) *burst {
	b := &burst{rig: newRig(t), disk: crash.New(crash.Options{Seed: 1}), sent: make([][]record.Batch, logs)}
	b.config = LogConfig{SegmentBytes: 64 << 10}
	b.tune = func(o *Options) { o.JournalBytes = ringBytes }
	b.on(b.disk)
	b.start()
	b.logs = b.openLogs(logs)
	b.submit(100) // room is made for the next ones
	b.settle()
	return b
}

func (b *burst) submit(size int) {
	p := groupOf(uint64(b.round), size, b.logs...)
	b.groups = append(b.groups, p)
	for i := range p.Appends {
		b.sent[i] = append(b.sent[i], p.Appends[i].Batch)
	}
	b.step.Append(&p.AppendGroup)
}

func (b *burst) turn() {
	b.Helper()
	if err := b.step.Turn(); err != nil {
		b.Fatal(err)
	}
}

// again cuts the power and expects a prefix of each log's batches, at least so many.
func (b *burst) again(seed uint64, atLeast int) {
	b.Helper()
	after := b.disk.Crash(seed)
	b.step.Abandon()
	b.disk = after
	b.on(after)
	b.start()
	b.logs = b.openLogs(len(b.logs))
	for i, l := range b.logs {
		b.log = l
		got := b.readAll(0)
		if len(got) < atLeast || len(got) > len(b.sent[i]) {
			b.Fatalf("seed %d: %d batches of log %d, want %d to %d", seed, len(got), i, atLeast, len(b.sent[i]))
		}
		b.expect(b.sent[i][:len(got)], got)
		b.sent[i] = b.sent[i][:len(got)]
	}
}

// Rule 14: the oldest entry is trimmed when it is old, on an idle shard too.
func TestOldEntriesAreTrimmed(t *testing.T) {
	r, _ := journalRig(t, storyRing, LogConfig{})
	r.fill(1, 100)
	r.pass(plan.TrimAge / 2)
	if q := &r.step.shards[0].journal; q.used() == 0 || r.log.flushed.offset != 0 {
		t.Fatalf("trimmed before its time: %d bytes are used", q.used())
	}
	r.pass(plan.TrimAge)
	if q := &r.step.shards[0].journal; q.used() != 0 || r.log.flushed.offset != 2 || r.log.entries.count != 0 {
		t.Fatalf("%d bytes of the ring are used, flushed to %d", q.used(), r.log.flushed.offset)
	}
}

// flush.messages above 1: answered when the frame is written, flushed or not; a log
// beside it waits for the flush. When that fails the shard is poisoned and nothing
// is acknowledged any more (rule 13).
func TestFailedJournalFlushPoisonsTheShard(t *testing.T) {
	for _, kind := range []disk.Kind{disk.Flush, disk.Write} {
		t.Run(kind.String(), func(t *testing.T) {
			r := newRig(t)
			d := crash.New(crash.Options{Seed: 3})
			r.on(d)
			r.tune = func(o *Options) { o.JournalBytes = storyRing }
			r.start()
			logs := r.openLogs(2)
			relaxed, strict := logs[0], logs[1]
			if err := r.step.Configure(context.Background(), relaxed.ID(), LogConfig{FlushMessages: 100}); err != nil {
				t.Fatal(err)
			}
			first := r.appendTo(1, 100, logs...)
			d.AddFault(crash.Fault{Kind: kind, Path: segment.JournalName(0) + "*", Times: 1, Err: syscall.EIO})
			group, alone := groupOf(2, 100, relaxed), groupOf(3, 100, strict)
			r.step.Append(&group.AppendGroup)
			r.step.Append(&alone.AppendGroup)
			r.settle()
			if err := group.Appends[0].Err; kind == disk.Flush && err != nil || kind == disk.Write && !errors.Is(err, ErrPoisoned) {
				t.Errorf("the relaxed log: %v", err)
			}
			if err := alone.Appends[0].Err; !errors.Is(err, ErrPoisoned) || !errors.Is(err, syscall.EIO) {
				t.Errorf("the log that waits for the flush: %v", err)
			}
			late := groupOf(4, 100, logs...)
			r.step.Append(&late.AppendGroup)
			r.pass(plan.TrimAge + time.Second)
			if late.answered != 1 || !errors.Is(late.Appends[0].Err, ErrPoisoned) || !errors.Is(late.Appends[1].Err, ErrPoisoned) {
				t.Errorf("afterwards: answered %d times, %v, %v", late.answered, late.Appends[0].Err, late.Appends[1].Err)
			}
			r.log = strict
			r.expect([]record.Batch{first.Appends[1].Batch}, r.readAll(0))
			after := d.Crash(1)
			r.step.Abandon()
			r.on(after)
			r.start()
			r.log = r.openLogs(2)[1]
			r.expect([]record.Batch{first.Appends[1].Batch}, r.readAll(0)[:1])
			r.appendTo(5, 100, r.log)
		})
	}
}

// Rule 15: the memory of frames is the tail's, where it is large enough, and goes back.
func TestFramesAreBuiltInTheTailsMemory(t *testing.T) {
	r, _ := journalRig(t, storyRing, LogConfig{})
	q := &r.step.shards[0].journal
	if len(q.memory) == 0 || r.tail.InUseBytes() < int64(len(q.memory))*q.frameBytes {
		t.Fatalf("%d frames in the pool of %d bytes", len(q.memory), r.tail.InUseBytes())
	}
	r.fill(20, 1000)
	r.close()
	if r.tail.InUseBytes() != 0 {
		t.Fatalf("%d bytes are not given back", r.tail.InUseBytes())
	}
}
