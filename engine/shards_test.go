package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/segment"
	"ringlog/record"
)

// shardsRig is a rig with so many shards and logs.
func shardsRig(t testing.TB, shards, logs int) (*rig, []*Log) {
	r := newRig(t)
	r.tune = func(o *Options) { o.Shards = shards }
	r.start()
	return r, r.openLogs(logs)
}

func numbered(n int) LogID {
	var id LogID
	binary.BigEndian.PutUint32(id[12:], uint32(n+1))
	return id
}

// openLogs opens or creates logs and leads them.
func (r *rig) openLogs(count int) []*Log {
	r.Helper()
	logs := make([]*Log, count)
	for n := range logs {
		spec := LogSpec{ID: numbered(n), Label: fmt.Sprintf("log-%d", n), Config: r.config, Replica: new(aloneReplica)}
		l, err := r.step.Create(context.Background(), spec)
		if err == nil {
			err = r.step.Lead(context.Background(), spec.ID, l.lastEpoch()+1)
		}
		if err != nil {
			r.Fatalf("open %s: %v", spec.Label, err)
		}
		logs[n] = l
	}
	return logs
}

// groupOf makes a group of one batch for each log.
func groupOf(seed uint64, size int, logs ...*Log) *produced {
	p := new(produced)
	p.Owner = p
	for i, l := range logs {
		p.Appends = append(p.Appends, Append{Log: l, Batch: batchOf(seed*64+uint64(i), 1, size, 1)})
	}
	return p
}

func homes(logs []*Log) []int32 {
	places := make([]int32, len(logs))
	for i, l := range logs {
		places[i] = l.home.Load()
	}
	return places
}

func same(a, b []int32) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// Rule 17: new logs are dealt round, what was deleted makes room for the next, and a
// restart finds all of them where they were.
func TestLogsAreDealtRoundAndStay(t *testing.T) {
	r, logs := shardsRig(t, 3, 7)
	if got := homes(logs); !same(got, []int32{0, 1, 2, 0, 1, 2, 0}) {
		t.Fatalf("placed %v", got)
	}
	for _, n := range []int{1, 4} {
		if err := r.step.Delete(context.Background(), numbered(n)); err != nil {
			t.Fatal(err)
		}
	}
	l, err := r.step.Create(context.Background(), LogSpec{ID: numbered(100), Label: "late", Replica: new(aloneReplica)})
	if err != nil || l.home.Load() != 1 {
		t.Fatalf("the log after two deleted ones is on shard %d, %v", l.home.Load(), err)
	}
	r.close()
	r.start()
	for _, n := range []int{6, 0, 3, 2, 5} { // opened in another order
		l, err := r.step.Open(context.Background(), LogSpec{ID: numbered(n), Label: "again", Replica: new(aloneReplica)})
		if err != nil || l.home.Load() != int32(n%3) {
			t.Fatalf("log %d is on shard %d, %v", n, l.home.Load(), err)
		}
	}
	if _, err := r.step.Open(context.Background(), LogSpec{ID: numbered(1), Label: "deleted", Replica: new(aloneReplica)}); !errors.Is(err, ErrUnknownLog) {
		t.Fatalf("a deleted log opens: %v", err)
	}
	r.close()
}

// The table is durable before a log's creation is answered, and whoever asks meanwhile
// shares its replacement: a thousand logs at once do not write a thousand tables.
func TestManyCreationsShareTheTable(t *testing.T) {
	r := newRig(t)
	tables := 0
	r.tune = func(o *Options) {
		o.Shards = 2
		o.OpenDisk = func() (disk.Disk, error) {
			return &watchedDisk{instantDisk: new(instantDisk), see: func(op *disk.Operation) {
				if op.Kind == disk.Rename && filepath.Base(op.NewPath) == segment.PlacementName {
					tables++
				}
			}}, nil
		}
	}
	r.start()
	p := &r.step.placement
	const count = 1000
	left := count
	for n := range count {
		p.place(numbered(n))
		c := &call{ended: make(chan struct{}), run: func(j *job) error {
			err := p.save(j)
			left--
			return err
		}}
		r.step.shards[0].inbox.send(message{call: c})
		if n%100 == 0 {
			if err := r.step.Turn(); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.settle()
	if left != 0 || tables == 0 || tables > 30 || p.durable != count {
		t.Fatalf("%d of %d placements are not durable, %d tables were written, the last has version %d", left, count, tables, p.durable)
	}
	r.close()
}

// watchedDisk shows every operation that is submitted.
type watchedDisk struct {
	*instantDisk
	see func(op *disk.Operation)
}

func (d *watchedDisk) Submit(op *disk.Operation) {
	d.see(op)
	d.instantDisk.Submit(op)
}

// A lost or damaged table costs nothing but placement.
func TestPlacementTableLostOrDamaged(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"lost":    os.Remove,
		"damaged": func(path string) error { return os.WriteFile(path, []byte("no table"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			r, logs := shardsRig(t, 2, 5)
			group := groupOf(1, 300, logs...)
			r.step.Append(&group.AppendGroup)
			r.settle()
			r.close()
			if err := spoil(filepath.Join(r.root, segment.PlacementName)); err != nil {
				t.Fatal(err)
			}
			r.start()
			for i, l := range r.openLogs(5) {
				r.log = l
				r.expect([]record.Batch{group.Appends[i].Batch}, r.readAll(0))
			}
			r.close()
		})
	}
}

// One group for logs of several shards is consumed once, then answered once, and
// each of its appends has the answer of its own log.
func TestGroupOverSeveralShards(t *testing.T) {
	r, logs := shardsRig(t, 3, 6)
	for round := range 20 {
		group := groupOf(uint64(round), 100+round*200, logs...)
		r.step.Append(&group.AppendGroup)
		r.settle()
		if group.consumed != 1 || group.answered != 1 {
			t.Fatalf("consumed %d times, answered %d times", group.consumed, group.answered)
		}
		for i := range group.Appends {
			if a := &group.Appends[i]; a.Err != nil || a.BaseOffset != int64(round) {
				t.Fatalf("append %d of round %d: offset %d, %v", i, round, a.BaseOffset, a.Err)
			}
		}
	}
	// One log of it is poisoned: the others do not mind.
	logs[4].fail(errors.New("its segment cannot be written"))
	group := groupOf(99, 100, logs...)
	r.step.Append(&group.AppendGroup)
	r.settle()
	for i := range group.Appends {
		if failed := errors.Is(group.Appends[i].Err, ErrPoisoned); failed != (i == 4) {
			t.Fatalf("append %d: %v", i, group.Appends[i].Err)
		}
	}
	r.close()
	closed := groupOf(100, 100, logs...)
	r.step.Append(&closed.AppendGroup)
	if closed.consumed != 1 || closed.answered != 1 || !errors.Is(closed.Appends[5].Err, ErrClosed) {
		t.Fatalf("after the end: consumed %d, answered %d, %v", closed.consumed, closed.answered, closed.Appends[5].Err)
	}
}

// Splitting and joining a group or a read allocates nothing.
func TestSplittingAllocatesNothing(t *testing.T) {
	r := newRig(t)
	r.tune = func(o *Options) {
		o.Shards = 2
		o.OpenDisk = func() (disk.Disk, error) { return new(instantDisk), nil }
	}
	r.start()
	logs := r.openLogs(4)
	batches := make([]record.Batch, len(logs))
	for i := range batches {
		batches[i] = batchOf(uint64(i), 3, 1000, 1)
	}
	owner := new(counting)
	group := &AppendGroup{Owner: owner, Appends: make([]Append, len(logs))}
	until := func(done func() bool) {
		for !done() {
			if err := r.step.Turn(); err != nil {
				t.Fatal(err)
			}
		}
	}
	produce := func() {
		for i, l := range logs {
			group.Appends[i] = Append{Log: l, Batch: batches[i]}
		}
		before := owner.answered
		r.step.Append(group)
		until(func() bool { return owner.answered > before })
	}
	for range 1000 {
		produce()
	}
	if n := testing.AllocsPerRun(2000, produce); n > 0 {
		t.Errorf("a split group allocates %v times", n)
	}
	answered := false
	read := &Read{Parts: make([]ReadPart, len(logs)), Done: func(*Read) { answered = true }}
	consume := func() {
		for i, l := range logs {
			read.Parts[i] = ReadPart{Log: l, Offset: l.Frontiers().HighWatermark - 30, BytesMax: 1 << 20, Batches: read.Parts[i].Batches, pieces: read.Parts[i].pieces}
		}
		read.BytesMax, read.BytesMin, answered = 8<<20, 1, false
		r.step.Read(read)
		until(func() bool { return answered })
		for i := range read.Parts {
			if p := &read.Parts[i]; p.Err != nil || p.Bytes == 0 {
				t.Fatalf("part %d: %d bytes, %v", i, p.Bytes, p.Err)
			}
		}
		read.Release()
	}
	for range 100 {
		consume()
	}
	if n := testing.AllocsPerRun(1000, consume); n > 0 {
		t.Errorf("a joined read allocates %v times", n)
	}
	r.step.Abandon()
	if owner.failed > 0 {
		t.Fatalf("%d groups failed", owner.failed)
	}
}

// The pool of tails is everybody's: a shard whose logs wait for memory gets what
// another one keeps as cache.
func TestMemoryComesFromOtherShards(t *testing.T) {
	r, logs := shardsRig(t, 2, 2)
	fill := func(l *Log, count int) {
		for n := range count {
			group := groupOf(uint64(n), 100<<10, l)
			r.step.Append(&group.AppendGroup)
			r.settle()
			if group.answered != 1 || group.Appends[0].Err != nil {
				t.Fatalf("batch %d of %s: answered %d times, %v", n, l.Label(), group.answered, group.Appends[0].Err)
			}
		}
	}
	fill(logs[0], 200) // more than the pool: all of it is cache of shard 0
	if r.step.shards[0].counters.tailBytes.Load() < 12<<20 {
		t.Fatal("shard 0 does not hold the pool")
	}
	fill(logs[1], 200)
	if got := r.step.shards[1].counters.tailBytes.Load(); got < 4<<20 {
		t.Errorf("shard 1 has %d bytes of cache", got)
	}
	r.close()
}

// Metrics are the sum of the shards' and show each.
func TestMetricsOfShards(t *testing.T) {
	r, logs := shardsRig(t, 2, 3)
	group := groupOf(1, 100, logs...)
	r.step.Append(&group.AppendGroup)
	r.settle()
	m := r.step.Metrics()
	if m.Appends != 3 || m.Logs != 3 || len(m.Shards) != 2 || m.Shards[0].Appends != 2 || m.Shards[1].Appends != 1 {
		t.Fatalf("%+v", m)
	}
	r.close()
}

// A disk that is lost ends the engine, whichever shard it is: what acknowledges for some
// partitions and not for others would be worse.
func TestOneLostDiskEndsTheEngine(t *testing.T) {
	r := newRig(t)
	var disks []*losable
	r.tune = func(o *Options) {
		o.Shards = 3
		o.OpenDisk = func() (disk.Disk, error) {
			d := &losable{instantDisk: new(instantDisk)}
			disks = append(disks, d)
			return d, nil
		}
	}
	r.start()
	logs := r.openLogs(3)
	disks[1].lost = errors.New("the device is gone")
	group := groupOf(1, 100, logs...)
	r.step.Append(&group.AppendGroup)
	for r.step.Turn() == nil {
	}
	select {
	case <-r.step.Ended():
	default:
		t.Fatal("it goes on")
	}
	if err := r.step.Err(); !errors.Is(err, disks[1].lost) {
		t.Fatalf("it ended by %v", err)
	}
	r.step.Abandon()
	if group.consumed != 1 || group.answered != 1 {
		t.Fatalf("consumed %d times, answered %d times", group.consumed, group.answered)
	}
}

type losable struct {
	*instantDisk
	lost error
}

func (d *losable) Wait(finished []*disk.Operation, timeout time.Duration) ([]*disk.Operation, error) {
	if d.lost != nil {
		return finished, d.lost
	}
	return d.instantDisk.Wait(finished, timeout)
}

// A shard that has no cache to give when it is asked gives what it gets: its log's
// memory is free only once it is flushed, and nobody asks a second time.
func TestMemoryThatIsNotFlushedYetIsOwed(t *testing.T) {
	r := newRig(t)
	var disks []*slowDisk
	r.tune = func(o *Options) {
		o.Shards = 2
		o.OpenDisk = func() (disk.Disk, error) {
			d := &slowDisk{instantDisk: new(instantDisk)}
			disks = append(disks, d)
			return d, nil
		}
	}
	r.start()
	logs := r.openLogs(2)
	turn := func(done func() bool) {
		t.Helper()
		for n := 0; !done(); n++ {
			if err := r.step.Turn(); err != nil {
				t.Fatal(err)
			}
			if r.now += time.Millisecond; n > 10_000 {
				t.Fatal("nothing moves any more")
			}
		}
	}
	disks[0].holding = true
	var hoard []*produced
	waiting := &r.step.shards[0].counters.waiting
	for n := 0; waiting.Load() == 0; n++ { // until the pool is full of what is not flushed
		hoard = append(hoard, groupOf(uint64(n), 200<<10, logs[0]))
		r.step.Append(&hoard[n].AppendGroup)
		for range 20 {
			turn(func() bool { return disks[0].InFlight() == 0 })
			if err := r.step.Turn(); err != nil {
				t.Fatal(err)
			}
		}
	}
	starved := groupOf(1, 200<<10, logs[1])
	r.step.Append(&starved.AppendGroup)
	for range 20 {
		if err := r.step.Turn(); err != nil {
			t.Fatal(err)
		}
	}
	if starved.answered != 0 {
		t.Fatal("there was memory left")
	}
	disks[0].holding = false
	turn(func() bool { return starved.answered == 1 })
	r.step.Abandon()
}

// slowDisk keeps flushes back while it is told to.
type slowDisk struct {
	*instantDisk
	holding bool
	held    []*disk.Operation
}

func (d *slowDisk) Submit(op *disk.Operation) {
	if d.holding && (op.Kind == disk.Flush || op.Kind == disk.SyncFilesystem) {
		op.Done, op.Err = 0, nil
		d.held = append(d.held, op)
		return
	}
	d.instantDisk.Submit(op)
}

func (d *slowDisk) Wait(finished []*disk.Operation, timeout time.Duration) ([]*disk.Operation, error) {
	if !d.holding {
		finished = append(finished, d.held...)
		d.held = nil
	}
	return d.instantDisk.Wait(finished, timeout)
}
