package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
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

// Kafka: a segment ends at segment.bytes and is named by its first offset.
func TestSegmentsRollAtTheirSizeAndAreNamedByOffset(t *testing.T) {
	r, d := crashRig(t, LogConfig{SegmentBytes: 16 << 10}, nil)
	all := r.fill(60, 1000)
	r.settle()
	status, err := r.step.Status(context.Background(), r.id)
	if err != nil {
		t.Fatal(err)
	}
	if len(status.Segments) < 4 {
		t.Fatalf("%d segments after 60 KB at segment.bytes of 16 KiB", len(status.Segments))
	}
	for _, s := range status.Segments {
		name := r.path(segment.FileName(s.BaseOffset, segment.LogSuffix))
		if _, err := d.ReadFile(name); err != nil {
			t.Errorf("no file %s: %v", name, err)
		}
		if s.Bytes > 16<<10 {
			t.Errorf("segment %d has %d bytes", s.BaseOffset, s.Bytes)
		}
	}
	r.expect(all, r.readAll(0))
	r.again(d, 3)
	r.expect(all, r.readAll(0))
}

// Rule 4 of the sizing of Kafka's log: a batch larger than segment.bytes has a segment of its own.
func TestBatchLargerThanASegment(t *testing.T) {
	r, d := crashRig(t, LogConfig{SegmentBytes: 8 << 10}, nil)
	all := append(r.fill(2, 500), r.fill(1, 100_000)...)
	all = append(all, r.fill(2, 500)...)
	r.expect(all, r.readAll(0))
	r.again(d, 3)
	r.expect(all, r.readAll(0))
}

// KIP-74: the first batch is returned whole however small the limits, and no
// other may exceed them; the same at the tail and on disk.
func TestOnlyTheFirstBatchMayExceedTheLimit(t *testing.T) {
	r, d := crashRig(t, LogConfig{}, nil)
	all := r.fill(4, 5000)
	for _, where := range []string{"tail", "disk"} {
		got, err := r.read(0, 1)
		if err != nil {
			t.Fatal(where, err)
		}
		r.expect(all[:1], got)
		if got, err = r.read(0, len(all[0])*2+10); err != nil {
			t.Fatal(where, err)
		}
		r.expect(all[:2], got)
		d = r.again(d, 3)
	}
}

// A batch larger than what is read from disk at a time is still returned.
func TestColdBatchLargerThanAPiece(t *testing.T) {
	r, d := crashRig(t, LogConfig{}, nil)
	all := r.fill(2, 3<<20)
	r.again(d, 3)
	r.expect(all, r.readAll(0))
	if m := r.step.Metrics(); m.ColdReads == 0 || m.TailReads != 0 {
		t.Fatalf("%d cold and %d tail reads", m.ColdReads, m.TailReads)
	}
}

// Kafka's long poll: fetch.min.bytes and fetch.max.wait.ms.
func TestReadWaitsForBytesOrTime(t *testing.T) {
	r, _ := crashRig(t, LogConfig{}, nil)
	ask := func(offset int64, minBytes int, wait time.Duration) (*Read, *int) {
		done := new(int)
		read := &Read{
			Parts:    []ReadPart{{Log: r.log, Offset: offset, BytesMax: 1 << 20}},
			BytesMax: 1 << 20, BytesMin: minBytes, Wait: wait,
			Done: func(*Read) { *done++ },
		}
		r.step.Read(read)
		r.settle()
		return read, done
	}
	read, done := ask(0, 1500, 500*time.Millisecond)
	if *done != 0 {
		t.Fatal("an empty log answers at once")
	}
	r.fill(1, 1000)
	if *done != 0 {
		t.Fatal("answered with fewer bytes than asked for")
	}
	r.fill(1, 1000)
	if *done != 1 || read.Parts[0].Bytes < 1500 {
		t.Fatalf("done %d times, %d bytes", *done, read.Parts[0].Bytes)
	}
	read.Release()

	read, done = ask(4, 1, 500*time.Millisecond)
	r.pass(400 * time.Millisecond)
	if *done != 0 {
		t.Fatal("answered before its time")
	}
	r.pass(200 * time.Millisecond)
	if *done != 1 || read.Parts[0].Bytes != 0 || read.Parts[0].Err != nil {
		t.Fatalf("done %d times, %d bytes, %v", *done, read.Parts[0].Bytes, read.Parts[0].Err)
	}
	read.Release()

	read, done = ask(4, 1, time.Hour)
	r.step.Cancel(read)
	r.settle()
	if *done != 1 {
		t.Fatal("a cancelled read is not answered")
	}
	read.Release()
	r.step.Cancel(read) // harmless
	r.settle()

	read, done = ask(5, 1, time.Hour)
	if *done != 1 || !errors.Is(read.Parts[0].Err, ErrOffsetOutOfRange) {
		t.Fatalf("above the end: done %d times, %v", *done, read.Parts[0].Err)
	}
	read.Release()
	read, done = ask(4, 1, time.Hour)
	if err := r.step.Delete(context.Background(), r.id); err != nil {
		t.Fatal(err)
	}
	if *done != 1 || !errors.Is(read.Parts[0].Err, ErrClosed) {
		t.Fatalf("deleted: done %d times, %v", *done, read.Parts[0].Err)
	}
}

// Rule 13 and scenario 12 (fsyncgate): after a failed flush nothing is
// acknowledged any more, and readers keep what was durable.
func TestFailedFlushPoisonsTheLog(t *testing.T) {
	for _, kind := range []disk.Kind{disk.Flush, disk.Write} {
		t.Run(kind.String(), func(t *testing.T) {
			r, d := crashRig(t, LogConfig{}, nil)
			all := r.fill(3, 1000)
			d.AddFault(crash.Fault{Kind: kind, Path: "*/*.log", Times: 1, Err: syscall.EIO})
			p := r.submit(batchOf(9, 1, 100, 1))
			r.settle()
			if err := p.Appends[0].Err; !errors.Is(err, ErrPoisoned) || !errors.Is(err, syscall.EIO) {
				t.Fatalf("the append during the failure: %v", err)
			}
			p = r.submit(batchOf(10, 1, 100, 1), batchOf(11, 1, 100, 1))
			r.settle()
			if p.answered != 1 || !errors.Is(p.Appends[0].Err, ErrPoisoned) || !errors.Is(p.Appends[1].Err, ErrPoisoned) {
				t.Fatalf("later appends: %v", p.Appends)
			}
			r.expect(all, r.readAll(0))
			if m := r.step.Metrics(); m.PoisonedLogs != 1 {
				t.Fatalf("%d poisoned logs", m.PoisonedLogs)
			}
			r.again(d, 3)
			r.fill(1, 10) // reopened by restart
		})
	}
}

// Rule 14: a flush of everything names no file, so its failure ends every log.
func TestFailedFlushOfEverythingPoisonsTheShard(t *testing.T) {
	r, d := crashRig(t, LogConfig{}, nil)
	first := r.log
	other, err := r.step.Create(context.Background(), LogSpec{ID: LogID{2}, Label: "orders-4", Replica: new(stubReplica)})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.step.Lead(context.Background(), LogID{2}, 0); err != nil {
		t.Fatal(err)
	}
	fault := d.AddFault(crash.Fault{Kind: disk.SyncFilesystem, Err: syscall.EIO})
	for i := uint64(0); fault.Fired() == 0; i++ { // until both have written when a flush starts
		p := new(produced)
		p.Owner = p
		p.Appends = []Append{{Log: first, Batch: batchOf(i, 1, 10, 1)}, {Log: other, Batch: batchOf(i, 1, 10, 1)}}
		r.step.Append(&p.AppendGroup)
		r.settle()
	}
	for _, l := range []*Log{first, other} {
		r.log = l
		p := r.submit(batchOf(1, 1, 10, 1))
		r.settle()
		if !errors.Is(p.Appends[0].Err, ErrPoisoned) {
			t.Errorf("an append to %s: %v", l.Label(), p.Appends[0].Err)
		}
	}
	if _, err := r.step.Create(context.Background(), LogSpec{ID: LogID{3}, Replica: new(stubReplica)}); !errors.Is(err, ErrPoisoned) {
		t.Errorf("a new log on a poisoned shard: %v", err)
	}
}

// Scenario 14 and rule 8: a full disk refuses produces, nothing is torn, reads
// go on, and it ends by itself.
func TestFullDiskRefusesProducesUntilThereIsSpace(t *testing.T) {
	r, d := crashRig(t, LogConfig{SegmentBytes: 1 << 20}, nil)
	all := r.fill(2, 1000)
	full := d.AddFault(crash.Fault{Kind: disk.Preallocate, Err: syscall.ENOSPC})
	refused := false
	for i := range 2000 {
		p := r.submit(batchOf(uint64(i), 1, 1000, 1))
		batch := append(record.Batch(nil), p.Appends[0].Batch...)
		r.settle()
		if err := p.Appends[0].Err; err != nil {
			if !errors.Is(err, ErrNoSpace) {
				t.Fatal(err)
			}
			refused = true
			break
		}
		batch.SetBaseOffset(p.Appends[0].BaseOffset)
		batch.SetLeaderEpoch(r.stub.epoch)
		all = append(all, batch)
	}
	if !refused || full.Fired() == 0 {
		t.Fatalf("the disk was full %d times and nobody was refused", full.Fired())
	}
	r.expect(all, r.readAll(0))
	d.ClearFaults()
	r.pass(2 * time.Second)
	all = append(all, r.fill(3, 1000)...)
	r.expect(all, r.readAll(0))
}

// When the tail's memory is spent on dirty bytes, appends wait in order and
// nothing is lost; clean chunks are given up, oldest first.
func TestAppendsWaitForMemoryInOrder(t *testing.T) {
	r := newRig(t)
	r.tail = buffer.NewPool("small tail", 128<<10)
	d := crash.New(crash.Options{Seed: 4})
	r.on(d)
	r.start()
	r.open()
	var groups []*produced
	for i := range 200 {
		groups = append(groups, r.submit(batchOf(uint64(i), 1, 3000, int64(i))))
	}
	r.settle()
	for i, p := range groups {
		if p.answered != 1 || p.Appends[0].Err != nil || p.Appends[0].BaseOffset != int64(i) {
			t.Fatalf("append %d: answered %d times, offset %d, %v", i, p.answered, p.Appends[0].BaseOffset, p.Appends[0].Err)
		}
	}
	if m := r.step.Metrics(); m.Evictions == 0 || m.WaitingAppends != 0 {
		t.Fatalf("%d evictions, %d appends wait", m.Evictions, m.WaitingAppends)
	}
	if got := r.readAll(0); len(got) != 200 {
		t.Fatalf("%d batches", len(got))
	}
	if m := r.step.Metrics(); m.ColdReads == 0 {
		t.Fatal("nothing was read from disk")
	}
}

// Scenario 8, C7: corruption in the middle is detected, named and never served;
// what lies before and behind it is.
func TestCorruptionInTheMiddleIsFenced(t *testing.T) {
	r, d := crashRig(t, LogConfig{SegmentBytes: 16 << 10}, nil)
	all := r.fill(40, 1000)
	d = r.again(d, 3)
	bad := 3
	position := int64(bad * len(all[0]))
	name := r.path(segment.FileName(0, segment.LogSuffix))
	if err := d.Corrupt(name, position+200, 0x10); err != nil {
		t.Fatal(err)
	}
	got, err := r.read(0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	r.expect(all[:bad], got)
	for range 2 {
		_, err = r.read(all[bad].BaseOffset(), 1<<20)
		var corrupt *segment.CorruptError
		if !errors.Is(err, ErrCorrupt) || !errors.As(err, &corrupt) || corrupt.File != name {
			t.Fatalf("the damaged batch: %v", err)
		}
	}
	second := r.log.segments[1].BaseOffset
	if got, err = r.read(second, 1<<20); err != nil || len(got) == 0 {
		t.Fatalf("the segment behind: %d batches, %v", len(got), err)
	}
	r.fill(1, 10)
	if m := r.step.Metrics(); m.Corruptions != 1 {
		t.Fatalf("%d corruptions counted", m.Corruptions)
	}
}

// Scenario 17: what was durable and is gone is corruption, never a torn tail.
func TestLostDurableTailFencesTheLog(t *testing.T) {
	r, d := crashRig(t, LogConfig{}, nil)
	all := r.fill(10, 1000)
	r.close()
	name := r.path(segment.FileName(0, segment.LogSuffix))
	content, err := d.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	clear(content[len(all[0])*7:])
	d = d.Kill(1)
	if err := d.WriteFile(name, content); err != nil {
		t.Fatal(err)
	}
	r.on(d)
	for range 2 { // a restart does not make it good
		r.start()
		r.open()
		if err := r.log.failed; !errors.Is(err, ErrPoisoned) || !errors.Is(err, ErrCorrupt) {
			t.Fatalf("the log is not fenced: %v", err)
		}
		r.expect(all[:7], r.readAll(0))
		p := r.submit(batchOf(1, 1, 10, 1))
		r.settle()
		if !errors.Is(p.Appends[0].Err, ErrCorrupt) {
			t.Fatalf("an append to a fenced log: %v", p.Appends[0].Err)
		}
		r.close()
		d = d.Kill(1)
		r.on(d)
	}
}

// Scenario 10, rule 12: side files that are missing, torn, flipped or of another time are
// rebuilt, and nothing is lost.
func TestSideFilesAreRebuilt(t *testing.T) {
	harm := map[string]func(d *crash.Disk, name string) error{
		"missing": func(d *crash.Disk, name string) error { return remove(d, name) },
		"flipped": func(d *crash.Disk, name string) error { return d.Corrupt(name, 40, 0x01) },
		"empty":   func(d *crash.Disk, name string) error { return d.WriteFile(name, nil) },
		"zeros":   func(d *crash.Disk, name string) error { return d.WriteFile(name, make([]byte, 4096)) },
	}
	for _, how := range []string{"missing", "flipped", "empty", "zeros"} {
		for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix, segment.SnapshotSuffix, ".checkpoint"} {
			t.Run(how+suffix, func(t *testing.T) {
				r, d := crashRig(t, LogConfig{SegmentBytes: 16 << 10, IndexIntervalBytes: 1024}, nil)
				all := r.fill(40, 1000)
				r.close()
				d = d.Kill(1)
				harmed := 0
				for _, name := range d.List() {
					if strings.HasSuffix(name, suffix) {
						harmed++
						if err := harm[how](d, name); err != nil {
							t.Fatal(err)
						}
					}
				}
				if harmed == 0 {
					t.Fatalf("no %s file in %v", suffix, d.List())
				}
				r.on(d)
				r.start()
				r.open()
				r.expect(all, r.readAll(0))
				if r.stub.batches != 40 {
					t.Fatalf("the replica knows of %d batches", r.stub.batches)
				}
				offset, ok, err := r.step.TimeHint(context.Background(), r.id, r.millis)
				if err != nil || !ok || offset != 0 {
					t.Fatalf("time hint %d, %v, %v", offset, ok, err)
				}
				r.fill(1, 10)
			})
		}
	}
}

// remove unlinks a file through a handle of the disk.
func remove(d *crash.Disk, name string) error {
	op := &disk.Operation{Kind: disk.Unlink, Path: name}
	d.Submit(op)
	for range 100 {
		done, err := d.Wait(nil, -1)
		if err != nil {
			return err
		}
		if len(done) == 1 {
			return op.Err
		}
	}
	return errors.New("unlink does not end")
}

// Start-up reads what lies above the side state, not the log.
func TestSideStateBoundsRecovery(t *testing.T) {
	r, d := crashRig(t, LogConfig{}, nil)
	r.fill(3, 1<<20)
	r.close()
	r.on(d.Kill(1))
	r.start()
	r.open()
	if m := r.step.Metrics(); m.RecoveredBytes > 64<<10 {
		t.Fatalf("a clean start read %d bytes", m.RecoveredBytes)
	}
	if r.stub.restored != 3 || r.stub.replayed != 0 {
		t.Fatalf("restored %d, replayed %d batches", r.stub.restored, r.stub.replayed)
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

// ListOffsets by time: the hint is at or below the first record with such a
// timestamp, within an index interval.
func TestTimeHints(t *testing.T) {
	r, d := crashRig(t, LogConfig{SegmentBytes: 16 << 10, IndexIntervalBytes: 1024}, nil)
	ctx := context.Background()
	if _, ok, err := r.step.TimeHint(ctx, r.id, 0); ok || err != nil {
		t.Fatalf("hint in an empty log: %v, %v", ok, err)
	}
	if _, ok, err := r.step.MaxTimestampHint(ctx, r.id); ok || err != nil {
		t.Fatalf("largest timestamp of an empty log: %v, %v", ok, err)
	}
	stamps := make([]int64, 80)
	for i := range stamps {
		stamps[i] = int64(1000 + 10*i)
		if i%7 == 0 {
			stamps[i] -= 35 // out of order
		}
		if i == 33 {
			stamps[i] = 1500
		}
		r.produce(batchOf(uint64(i), 1, 500, stamps[i]))
	}
	for _, when := range []string{"running", "restarted"} {
		for ask := int64(900); ask < 1900; ask += 7 {
			want := int64(-1)
			for i, s := range stamps {
				if s >= ask {
					want = int64(i)
					break
				}
			}
			got, ok, err := r.step.TimeHint(ctx, r.id, ask)
			if err != nil || ok != (want >= 0) {
				t.Fatalf("%s: hint for %d: %v, %v; the first is at %d", when, ask, ok, err, want)
			}
			if ok && (got > want || want-got > 4) {
				t.Fatalf("%s: hint for %d is %d, the first is at %d", when, ask, got, want)
			}
		}
		if got, ok, err := r.step.MaxTimestampHint(ctx, r.id); err != nil || !ok || stamps[got] != 1790 {
			t.Fatalf("%s: largest timestamp at %d (%v, %v)", when, got, ok, err)
		}
		d = r.again(d, 3)
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

// flush.messages > 1: answered when written, durable by flush.messages or flush.ms.
func TestRelaxedLogIsFlushedInTime(t *testing.T) {
	r, _ := crashRig(t, LogConfig{FlushMessages: 10, FlushMillis: 200}, nil)
	r.fill(1, 100)
	if f := r.log.Frontiers(); f.HighWatermark != 2 || f.Durable != 0 {
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

// Deleting takes the name away at once and durably, the files slowly; a directory
// that nobody opened is listed and can be removed.
func TestDeleteAndUnknown(t *testing.T) {
	r, d := crashRig(t, LogConfig{FileDeleteMillis: 1000}, nil)
	ctx := context.Background()
	r.fill(3, 1000)
	if _, err := r.step.Open(ctx, LogSpec{ID: LogID{9}, Replica: new(stubReplica)}); !errors.Is(err, ErrUnknownLog) {
		t.Fatalf("open of a log that is not here: %v", err)
	}
	if _, err := r.step.Create(ctx, LogSpec{ID: LogID{9}, Label: "other-0", Replica: new(stubReplica)}); err != nil {
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

// Every stored file of a newer version is refused with a sentence, and nothing is changed.
func TestNewerFormatIsRefused(t *testing.T) {
	r, d := crashRig(t, LogConfig{}, nil)
	r.fill(1, 100)
	r.close()
	d = d.Kill(1)
	r.on(d)
	newer := segment.AppendStored(nil, segment.KindManifest, 99, []byte("from the future"))
	if err := d.WriteFile(r.path(segment.ManifestName), newer); err != nil {
		t.Fatal(err)
	}
	r.start()
	if err := r.tryOpen(); !errors.Is(err, ErrNewerFormat) || !strings.Contains(fmt.Sprint(err), "format 99") {
		t.Fatalf("a newer manifest: %v", err)
	}
	r.close()
	d = d.Kill(1)
	r.on(d)
	newer = segment.AppendStored(nil, segment.KindCheckpoint, 99, nil)
	if err := d.WriteFile(segment.CheckpointName(0), newer); err != nil {
		t.Fatal(err)
	}
	if err := r.tryStart(); !errors.Is(err, ErrNewerFormat) {
		t.Fatalf("a newer checkpoint: %v", err)
	}
}

// NATS#7556: a log whose manifest is lost is not replaced by an empty one.
func TestLostManifestIsNotAnEmptyLog(t *testing.T) {
	r, d := crashRig(t, LogConfig{}, nil)
	r.fill(1, 100)
	r.close()
	d = d.Kill(1)
	r.on(d)
	if err := remove(d, r.path(segment.ManifestName)); err != nil {
		t.Fatal(err)
	}
	r.start()
	if err := r.tryOpen(); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a log without its manifest: %v", err)
	}
}

// The engine keeps its descriptors within their bound (scenario 51).
func TestFilesOpenAreBounded(t *testing.T) {
	r, _ := crashRig(t, LogConfig{SegmentBytes: 8 << 10}, func(o *Options) { o.FilesOpenMax = 16 })
	all := r.fill(300, 1000)
	d := r.again(r.crashDisk(), 3)
	r.expect(all, r.readAll(0))
	if m := r.step.Metrics(); m.FilesOpen > 20 {
		t.Fatalf("%d files are open", m.FilesOpen)
	}
	_ = d
}

func (r *rig) crashDisk() *crash.Disk { return r.step.shard.disk.(*crash.Disk) }
