package engine

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/segment"
	"ringlog/record"
)

// crashRig is a rig on a crash disk, started and opened.
func crashRig(t *testing.T, config LogConfig, tune func(*Options)) (*rig, *crash.Disk) {
	r := newRig(t)
	d := crash.New(crash.Options{Seed: 1})
	r.config, r.tune = config, tune
	r.on(d)
	r.start()
	r.open()
	return r, d
}

func (r *rig) on(d *crash.Disk) { r.opened = func() (disk.Disk, error) { return d, nil } }

// again cuts the power, with everything that completed kept or not by seed, and
// opens engine and log on what is left.
func (r *rig) again(d *crash.Disk, seed uint64) *crash.Disk {
	r.Helper()
	after := d.Crash(seed)
	r.step.Abandon()
	r.on(after)
	r.start()
	r.open()
	return after
}

// fill produces count batches of size bytes and returns copies of them.
func (r *rig) fill(count, size int) []record.Batch {
	r.Helper()
	var all []record.Batch
	for range count {
		b := batchOf(uint64(r.millis)+uint64(len(all))+uint64(r.log.next.offset)<<8, 2, size, r.millis)
		r.produce(b)
		all = append(all, append(record.Batch(nil), b...))
	}
	return all
}

func (r *rig) path(name string) string { return r.id.String() + "/" + name }

func (r *rig) expect(want []record.Batch, got []record.Batch) {
	r.Helper()
	if len(got) != len(want) {
		r.Fatalf("%d batches, want %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(want[i], got[i]) {
			r.Fatalf("batch %d (offset %d) differs", i, want[i].BaseOffset())
		}
	}
}

// Retention by bytes and by time, on sealed segments; the start offset is
// durable before files go (rule 8), and freed files become coming segments.
func TestRetention(t *testing.T) {
	config := LogConfig{SegmentBytes: 16 << 10, RetentionBytes: 40 << 10, RetentionMillis: -1, Delete: true, FileDeleteMillis: 1}
	r, d := crashRig(t, config, func(o *Options) { o.RetentionInterval = time.Second })
	all := r.fill(100, 1000)
	r.pass(3 * time.Second)
	status, err := r.step.Status(context.Background(), r.id)
	if err != nil {
		t.Fatal(err)
	}
	if status.Bytes < 40<<10 || status.Bytes > 56<<10 || status.Frontiers.Start == 0 {
		t.Fatalf("%d bytes from %d on are left of 106 KB at retention.bytes of 40 KiB", status.Bytes, status.Frontiers.Start)
	}
	if _, err := r.read(0, 1<<20); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatalf("read below the start: %v", err)
	}
	first := int(status.Frontiers.Start / 2)
	r.expect(all[first:], r.readAll(status.Frontiers.Start))

	all = append(all, r.fill(60, 1000)...) // onto recycled files
	d = r.again(d, 5)
	start := r.log.Frontiers().Start
	r.expect(all[start/2:], r.readAll(start))

	config.RetentionBytes, config.RetentionMillis = -1, 10_000
	if err := r.step.Configure(context.Background(), r.id, config); err != nil {
		t.Fatal(err)
	}
	r.pass(15 * time.Second)
	if f := r.log.Frontiers(); f.Start != f.Next {
		t.Fatalf("after retention.ms of a quiet log: %+v", f)
	}
	r.fill(1, 100)
	logs := 0
	for _, name := range d.List() {
		if strings.HasSuffix(name, segment.LogSuffix) {
			logs++
		}
	}
	if logs != 1 {
		t.Fatalf("files are left: %v", d.List())
	}
}

// A start that is raised finds segments that are too many as well: the log then
// begins behind the last that goes, not at the offset that was asked for.
func TestStartIsRaisedPastSegmentsThatAreTooMany(t *testing.T) {
	config := LogConfig{SegmentBytes: 16 << 10, RetentionBytes: 40 << 10, RetentionMillis: -1, Delete: true, FileDeleteMillis: 1}
	r, d := crashRig(t, config, nil)
	all := r.fill(100, 1000)
	if err := r.step.AdvanceStart(context.Background(), r.id, 2); err != nil {
		t.Fatal(err)
	}
	r.settle()
	for range 2 {
		start := r.log.Frontiers().Start
		r.expect(all[start/2:], r.readAll(start))
		if start <= 2 {
			t.Fatalf("the log begins at %d: nothing was too many, so the test tests nothing", start)
		}
		d = r.again(d, 5)
	}
}

// Scenario 47: records from the future pin neither their segment nor those after it.
func TestFutureTimestampsDoNotPinSegments(t *testing.T) {
	config := LogConfig{SegmentBytes: 16 << 10, RetentionMillis: 10_000, Delete: true}
	r, _ := crashRig(t, config, func(o *Options) { o.RetentionInterval = time.Second })
	future := r.millis + 10*365*24*3600*1000
	for i := range 40 {
		r.produce(batchOf(uint64(i), 1, 1000, future))
	}
	r.pass(15 * time.Second)
	if f := r.log.Frontiers(); f.Start != f.Next {
		t.Fatalf("a future timestamp pins the log: %+v", f)
	}
}

// A producer whose clock is days behind loses nothing early: retention counts from the
// append, also of a segment that was the active one when the power went.
func TestPastTimestampsExpireNothingEarly(t *testing.T) {
	config := LogConfig{SegmentBytes: 16 << 10, RetentionMillis: 10_000, Delete: true}
	r, d := crashRig(t, config, func(o *Options) { o.RetentionInterval = time.Second })
	past := r.millis - 20_000
	for i := range 40 {
		r.produce(batchOf(uint64(i), 1, 1000, past))
	}
	r.pass(5 * time.Second)
	if f := r.log.Frontiers(); f.Start != 0 {
		t.Fatalf("gone after half of retention.ms: %+v", f)
	}
	active := r.log.active.BaseOffset
	r.again(d, 7)
	r.pass(7 * time.Second)
	if f := r.log.Frontiers(); f.Start != active || f.Start == f.Next {
		t.Fatalf("retention.ms after the append the log should begin at %d, with what was active when the power went: %+v", active, f)
	}
	r.pass(5 * time.Second)
	if f := r.log.Frontiers(); f.Start != f.Next {
		t.Fatalf("after retention.ms of a quiet log: %+v", f)
	}
}

// KIP-101, KIP-279: where each epoch ends, also after a restart and a cut.
func TestEpochEnds(t *testing.T) {
	r, d := crashRig(t, LogConfig{SegmentBytes: 16 << 10}, nil)
	ctx := context.Background()
	lead := func(epoch int32) {
		t.Helper()
		if err := r.step.Lead(ctx, r.id, epoch); err != nil {
			t.Fatal(err)
		}
	}
	lead(2)
	r.fill(20, 1000) // [0, 40)
	lead(5)
	lead(7)
	r.fill(5, 1000) // [40, 50)
	if err := r.step.Lead(ctx, r.id, 6); err == nil {
		t.Fatal("led under an older epoch")
	}
	check := func(when string, rows ...[3]int64) {
		t.Helper()
		for _, row := range rows {
			epoch, end, err := r.step.EpochEnd(ctx, r.id, int32(row[0]))
			if err != nil || int64(epoch) != row[1] || end != row[2] {
				t.Errorf("%s: epoch %d ends as %d at %d (%v), want %d at %d", when, row[0], epoch, end, err, row[1], row[2])
			}
		}
	}
	rows := [][3]int64{{1, -1, -1}, {2, 2, 40}, {5, 2, 40}, {6, 2, 40}, {7, 7, 50}, {9, 7, 50}}
	check("running", rows...)
	d = r.again(d, 3)
	check("restarted", rows...)
	if err := r.step.Truncate(ctx, r.id, 40); err != nil {
		t.Fatal(err)
	}
	check("cut", [][3]int64{{2, 2, 40}, {7, 2, 40}}...)
	r.again(d, 4)
	check("cut and restarted", [][3]int64{{2, 2, 40}, {7, 2, 40}}...)
}

// flush.messages > 1: answered when written, durable by flush.messages or flush.ms. With
// a journal a frame is flushed for all logs that are in it.
func TestRelaxedLogIsFlushedInTime(t *testing.T) {
	r, _ := crashRig(t, LogConfig{FlushMessages: 10, FlushMillis: 200}, nil)
	r.fill(1, 100)
	if f := r.log.Frontiers(); f.HighWatermark != 2 || f.Durable != 0 && !r.journals() {
		t.Fatalf("after the write: %+v", f)
	}
	r.pass(300 * time.Millisecond)
	if f := r.log.Frontiers(); f.Durable != 2 {
		t.Fatalf("after flush.ms: %+v", f)
	}
	r.fill(5, 100)
	if f := r.log.Frontiers(); f.Durable != 12 {
		t.Fatalf("after flush.messages: %+v", f)
	}
	r.fill(1, 100)
	r.close()
}

// flush.messages > 1: bytes that are written need no memory any more, although no
// flush covers them (but those of the journal, and of its trims). The tail is a fraction of what is appended, nothing asks for
// a flush, and every record comes back, most of them from disk.
func TestRelaxedLogNeedsNoFlushToGoOn(t *testing.T) {
	r := newRig(t)
	r.tail = buffer.NewPool("small tail", 128<<10)
	r.config = LogConfig{FlushMessages: 1 << 40}
	r.start()
	r.open()
	before := r.step.shards[0].counters.flushes.Load()
	all := r.fill(100, 8000)
	if n := r.step.shards[0].counters.flushes.Load() - before; n != 0 && !r.journals() {
		t.Fatalf("%d flushes of a log that asks for none", n)
	}
	if f := r.log.Frontiers(); f.HighWatermark != 200 || f.Durable != 0 && !r.journals() {
		t.Fatalf("frontiers %+v", f)
	}
	r.expect(all, r.readAll(0))
	r.close()
}

// Deleting takes the name away at once and durably, the files slowly; a directory
// that nobody opened is listed and can be removed.
func TestDeleteAndUnknown(t *testing.T) {
	r, d := crashRig(t, LogConfig{FileDeleteMillis: 1000}, nil)
	ctx := context.Background()
	r.fill(3, 1000)
	if _, err := r.step.Open(ctx, LogSpec{ID: LogID{9}, Replica: new(aloneReplica)}); !errors.Is(err, ErrUnknownLog) {
		t.Fatalf("open of a log that is not here: %v", err)
	}
	if _, err := r.step.Create(ctx, LogSpec{ID: LogID{9}, Label: "other-0", Replica: new(aloneReplica)}); err != nil {
		t.Fatal(err)
	}
	if err := r.step.Delete(ctx, r.id); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.step.Log(r.id); ok {
		t.Fatal("a deleted log is open")
	}
	d = d.Crash(1)
	r.step.Abandon()
	r.on(d)
	r.start()
	if unknown := r.step.Unknown(); len(unknown) != 1 || unknown[0] != (LogID{9}) {
		t.Fatalf("unknown: %v", unknown)
	}
	if err := r.step.Remove(ctx, LogID{9}); err != nil {
		t.Fatal(err)
	}
	if unknown := r.step.Unknown(); len(unknown) != 0 {
		t.Fatalf("unknown after removal: %v", unknown)
	}
	r.pass(5 * time.Second)
	for _, name := range d.List() {
		if strings.Contains(name, r.id.String()) || strings.Contains(name, (LogID{9}).String()) {
			t.Errorf("%s is left", name)
		}
	}
}

func (r *rig) crashDisk() *crash.Disk { return r.step.shards[0].disk.(*crash.Disk) }
