package engine

import (
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
	"ringlog/engine/plan"
	"ringlog/engine/segment"
	"ringlog/record"
)

// Rule 13 and scenario 12 (fsyncgate): after a failed flush nothing is
// acknowledged any more, and readers keep what was durable.
func TestFailedFlushPoisonsTheLog(t *testing.T) {
	for _, kind := range []disk.Kind{disk.Flush, disk.Write} {
		t.Run(kind.String(), func(t *testing.T) {
			r, d := crashRig(t, LogConfig{}, nil)
			all := r.fill(3, 1000)
			d.AddFault(crash.Fault{Kind: kind, Path: "*/*.log", Times: 1, Err: syscall.EIO})
			p := r.submit(batchOf(9, 1, plan.DirectBytes, 1)) // straight to the segment, also with a journal
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
	r, d := crashRig(t, LogConfig{}, func(o *Options) { o.FilesFlushMax = 1 })
	first := r.log
	other, err := r.step.Create(context.Background(), LogSpec{ID: LogID{2}, Label: "orders-4", Replica: new(aloneReplica)})
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
	if _, err := r.step.Create(context.Background(), LogSpec{ID: LogID{3}, Replica: new(aloneReplica)}); !errors.Is(err, ErrPoisoned) {
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
		batch.SetLeaderEpoch(r.alone.epoch)
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

// Scenario 51: connections may use up the file descriptors. What cannot be opened
// meanwhile refuses produces, or waits, and poisons nothing.
func TestMissingFileDescriptorsPoisonNothing(t *testing.T) {
	for _, err := range []error{syscall.EMFILE, syscall.ENFILE} {
		for _, kind := range []disk.Kind{disk.Open, disk.SyncDirectory} {
			r, d := crashRig(t, LogConfig{SegmentBytes: 16 << 10}, nil)
			all := r.fill(2, 1000)
			missing := d.AddFault(crash.Fault{Kind: kind, Err: err})
			for i := range 100 {
				p := r.submit(batchOf(uint64(i), 1, 1000, 1))
				batch := append(record.Batch(nil), p.Appends[0].Batch...)
				r.settle()
				if p.answered == 0 { // it waits for the name of its segment
					batch.SetBaseOffset(r.log.next.offset - 1)
				} else if err := p.Appends[0].Err; err != nil {
					if !errors.Is(err, ErrNoSpace) {
						t.Fatalf("%v, %v: %v", kind, missing, err)
					}
					break
				} else {
					batch.SetBaseOffset(p.Appends[0].BaseOffset)
				}
				batch.SetLeaderEpoch(r.alone.epoch)
				all = append(all, batch)
				if p.answered == 0 {
					break
				}
			}
			if missing.Fired() == 0 {
				t.Fatalf("%v: nothing failed", kind)
			}
			d.ClearFaults()
			r.pass(2 * time.Second)
			all = append(all, r.fill(30, 1000)...)
			r.expect(all, r.readAll(0))
			if m := r.step.Metrics(); m.PoisonedLogs != 0 {
				t.Fatalf("%v: %d poisoned logs", kind, m.PoisonedLogs)
			}
		}
	}
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
				if r.alone.batches != 40 {
					t.Fatalf("the replica knows of %d batches", r.alone.batches)
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

// Many quiet logs must not keep the memory that others wait for: each gives up
// all of its tail but the block in which it ends.
func TestQuietLogsGiveUpTheirMemory(t *testing.T) {
	r := newRig(t)
	r.tail = buffer.NewPool("small tail", 128<<10)
	r.on(crash.New(crash.Options{Seed: 4}))
	r.start()
	var logs []*Log
	for i := range 24 {
		id := LogID{byte(i + 1)}
		l, err := r.step.Create(context.Background(), LogSpec{ID: id, Label: fmt.Sprintf("orders-%d", i), Replica: new(aloneReplica)})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.step.Lead(context.Background(), id, 0); err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	want := map[*Log][]record.Batch{}
	for round := range 4 {
		for i, l := range logs {
			r.log = l
			b := batchOf(uint64(round*100+i), 1, 10_000+i, 1)
			r.produce(b)
			want[l] = append(want[l], b)
		}
	}
	for _, l := range logs {
		r.log = l
		r.expect(want[l], r.readAll(0))
	}
}

// Scenario 14: on a full disk DeleteRecords and retention still work, and make the room
// in which produces go on.
func TestFullDiskIsFreedByDeletingRecords(t *testing.T) {
	for extra := int64(0); extra < 10; extra++ { // the disk is full at another file each time
		r := newRig(t)
		d := crash.New(crash.Options{Seed: 4, BytesMax: 1<<20 + extra*disk.BlockBytes})
		r.config = LogConfig{SegmentBytes: 64 << 10, FileDeleteMillis: 1}
		r.on(d)
		r.start()
		r.open()
		r.fillDisk()
		if err := r.step.AdvanceStart(context.Background(), r.id, r.log.Frontiers().HighWatermark); err != nil {
			t.Fatalf("DeleteRecords on a full disk: %v", err)
		}
		r.pass(5 * time.Second)
		if f := r.log.Frontiers(); f.Durable != f.Next {
			t.Fatalf("appends are still held back: %+v", f)
		}
		r.fill(10, 1000)
	}
}

// When not even the manifest finds room, prepared space goes first.
func TestPreparedSpaceMakesRoomForTheManifest(t *testing.T) {
	r, d := crashRig(t, LogConfig{SegmentBytes: 32 << 10}, nil)
	r.fill(20, 1000)
	if r.log.coming == nil {
		t.Fatal("no prepared space")
	}
	fault := d.AddFault(crash.Fault{Kind: disk.Write, Path: "*/" + segment.ManifestNewName, Times: 1, Err: syscall.ENOSPC})
	if err := r.step.AdvanceStart(context.Background(), r.id, 10); err != nil || fault.Fired() != 1 {
		t.Fatalf("DeleteRecords: %v; the disk was full %d times", err, fault.Fired())
	}
	if r.log.coming != nil {
		t.Fatal("prepared space was kept")
	}
	r.fill(40, 1000)
	d.AddFault(crash.Fault{Kind: disk.Write, Path: "*/" + segment.ManifestNewName, Times: 4, Err: syscall.ENOSPC})
	p := r.submit(batchOf(1, 1, 31<<10, 1)) // rolls, and the name finds no room
	r.settle()
	r.pass(5 * time.Second)
	if p.answered != 1 || p.Appends[0].Err != nil {
		t.Fatalf("answered %d times, %v", p.answered, p.Appends[0].Err)
	}
}
