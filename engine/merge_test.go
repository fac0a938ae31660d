package engine

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/journal"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
	"ringlog/record"
)

// journaled is a rig with some logs whose batches are in the ring alone.
func journaled(t *testing.T, logs int) *burst {
	b := newBurst(t, storyRing, logs)
	for b.round = 1; b.round < 6; b.round++ {
		b.submit(100)
		b.settle()
	}
	return b
}

// kill ends the process and starts on what is there, without opening a log. Harm is done in
// between, if asked for.
func (b *burst) kill(harm func(d *crash.Disk)) {
	b.Helper()
	after := b.disk.Kill(1)
	b.step.Abandon()
	b.disk = after
	b.on(after)
	if harm != nil {
		harm(after)
	}
	b.start()
}

// found is a frame in a ring file.
type found struct {
	journal.Frame
	at    int64
	bytes []byte
}

// frames returns those of the ring that have entries, in order.
func frames(t testing.TB, d *crash.Disk) []found {
	t.Helper()
	content, err := d.ReadFile(segment.JournalName(0))
	if err != nil {
		t.Fatal(err)
	}
	head, err := segment.DecodeRing(content)
	if err != nil {
		t.Fatal(err)
	}
	var all []found
	for at := segment.RingHeadBytes; at < len(content); at += plan.BlockBytes {
		if f, err := journal.Parse(content[at:], head.Store); err == nil && f.Len() > 0 {
			all = append(all, found{f, int64(at), content[at : at+f.Bytes()]})
		}
	}
	return all
}

// spoil flips a bit of what is in the ring.
func spoil(t testing.TB, d *crash.Disk, at int64) {
	t.Helper()
	if err := d.Corrupt(segment.JournalName(0), at, 0x20); err != nil {
		t.Fatal(err)
	}
}

// dataOf is where a byte of the batches of a log's entry lies in the file.
func (f *found) dataOf(t testing.TB, id LogID) int64 {
	t.Helper()
	for i := range f.Len() {
		if e, data, _ := f.At(i); LogID(e.LogID) == id {
			return f.at + int64(bytes.Index(f.bytes, data)) + 20
		}
	}
	t.Fatalf("frame %d has no entry of %s", f.Sequence, id)
	return 0
}

// openAll opens the logs again; those that are fenced come back as true.
func (b *burst) openAll() (fenced []bool) {
	b.Helper()
	for n := range b.logs {
		l, err := b.step.Open(context.Background(), LogSpec{ID: numbered(n), Label: "log", Config: b.config, Replica: new(aloneReplica)})
		if err != nil {
			b.Fatal(err)
		}
		b.logs[n] = l
		fenced = append(fenced, l.failed != nil)
	}
	return fenced
}

func (b *burst) lead() {
	b.Helper()
	for _, l := range b.logs {
		if err := b.step.Lead(context.Background(), l.ID(), l.lastEpoch()+1); err != nil {
			b.Fatal(err)
		}
	}
}

// has expects the first count batches of a log, and no more.
func (b *burst) has(n, count int) {
	b.Helper()
	b.log = b.logs[n]
	b.expect(b.sent[n][:count], b.readAll(0))
}

// Rule 5: the journal ends at the first bad frame that no later one calls flushed: a torn
// last frame is dropped, nobody is fenced, and its offsets are given again.
func TestTornLastFrameIsDropped(t *testing.T) {
	b := journaled(t, 3)
	b.kill(func(d *crash.Disk) {
		all := frames(t, d)
		spoil(t, d, all[len(all)-1].dataOf(t, numbered(0)))
	})
	if fenced := b.openAll(); fenced[0] || fenced[1] || fenced[2] {
		t.Fatalf("fenced: %v", fenced)
	}
	b.lead()
	for n := range b.logs {
		b.has(n, len(b.sent[n])-1)
		b.sent[n] = b.sent[n][:len(b.sent[n])-1]
	}
	b.submit(100)
	b.settle()
	b.kill(nil)
	b.openAll()
	for n := range b.logs {
		b.has(n, len(b.sent[n]))
	}
}

// Rule 5: a bad frame that a later one calls flushed is corruption. Damaged batches condemn
// their log, a damaged table every log without a later entry.
func TestDamagedFrameFencesWhoCannotBeProven(t *testing.T) {
	t.Run("batches", func(t *testing.T) {
		b := journaled(t, 3)
		b.kill(func(d *crash.Disk) {
			all := frames(t, d)
			f := all[len(all)-3]
			spoil(t, d, f.dataOf(t, numbered(1)))
		})
		if fenced := b.openAll(); fenced[0] || !fenced[1] || fenced[2] {
			t.Fatalf("fenced: %v", fenced)
		}
		b.has(0, len(b.sent[0]))
		b.has(2, len(b.sent[2]))
		b.has(1, len(b.sent[1])-3) // what lies before the damage can be read
	})
	t.Run("table", func(t *testing.T) {
		b := journaled(t, 3)
		// The last frames are of log 0 alone.
		for range 2 {
			p := groupOf(99, 100, b.logs[0])
			b.sent[0] = append(b.sent[0], p.Appends[0].Batch)
			b.step.Append(&p.AppendGroup)
			b.settle()
		}
		b.kill(func(d *crash.Disk) {
			all := frames(t, d)
			spoil(t, d, all[len(all)-4].at+40) // its header
		})
		// Log 0 goes on behind the damage, with a gap: its entries say how much was
		// durable. The others may have had their last batches there.
		if fenced := b.openAll(); !fenced[0] || !fenced[1] || !fenced[2] {
			t.Fatalf("fenced: %v", fenced)
		}
	})
}

// Rule 13: never delete because of a journal: entries of a log that was deleted, durably, are
// dropped, and it stays deleted.
func TestEntriesOfADeletedLogAreDropped(t *testing.T) {
	b := journaled(t, 3)
	if err := b.step.Delete(context.Background(), numbered(1)); err != nil {
		t.Fatal(err)
	}
	b.kill(nil)
	if _, err := b.step.Open(context.Background(), LogSpec{ID: numbered(1), Replica: new(aloneReplica)}); !errors.Is(err, ErrUnknownLog) {
		t.Fatalf("the deleted log: %v", err)
	}
	for _, n := range []int{0, 2} {
		l, err := b.step.Open(context.Background(), LogSpec{ID: numbered(n), Config: b.config, Replica: new(aloneReplica)})
		if err != nil {
			t.Fatal(err)
		}
		b.logs[n] = l
		b.has(n, len(b.sent[n]))
	}
}

// Rules 7 and 9: a truncation raises the generation, so that the entries that it took
// back are not merged; new ones are.
func TestEntriesOfAnOlderGenerationAreIgnored(t *testing.T) {
	b := journaled(t, 2)
	if err := b.step.Truncate(context.Background(), numbered(0), 3); err != nil {
		t.Fatal(err)
	}
	b.sent[0] = b.sent[0][:3]
	b.kill(nil)
	b.openAll()
	b.lead()
	b.has(0, 3)
	b.submit(300)
	b.settle()
	b.kill(nil)
	if fenced := b.openAll(); fenced[0] || fenced[1] {
		t.Fatalf("fenced: %v", fenced)
	}
	b.has(0, 4)
	b.has(1, len(b.sent[1]))
}

// Rule 13: a failed segment write poisons its log. What the journal holds of it is put
// aside, so that the ring can be trimmed, and the next start has everything.
func TestFailedSegmentWriteIsPutAside(t *testing.T) {
	b := journaled(t, 2)
	b.disk.AddFault(crash.Fault{Kind: disk.Write, Path: numbered(0).String() + "/*", Times: 1, Err: syscall.EIO})
	b.pass(2 * plan.TrimAge)
	if b.logs[0].failed == nil || b.logs[1].failed != nil || b.step.shards[0].journal.used() != 0 {
		t.Fatalf("failed: %v, %v; %d bytes of the ring are used", b.logs[0].failed, b.logs[1].failed, b.step.shards[0].journal.used())
	}
	p := groupOf(77, 100, b.logs...)
	b.sent[1] = append(b.sent[1], p.Appends[1].Batch)
	b.step.Append(&p.AppendGroup)
	b.settle()
	if !errors.Is(p.Appends[0].Err, ErrPoisoned) || p.Appends[1].Err != nil {
		t.Fatalf("afterwards: %v, %v", p.Appends[0].Err, p.Appends[1].Err)
	}
	b.again(5, 0)
	b.has(0, 6)
	b.has(1, 7)
	for _, name := range b.disk.List() {
		if strings.HasSuffix(name, spillSuffix) {
			t.Errorf("%s is left", name)
		}
	}
	b.submit(100)
	b.settle()
}

// The journal comes, goes and changes its size from run to run, closed in order and not: the
// ring of the last run is merged whatever this one has, and is not left behind.
func TestJournalChangesFromRunToRun(t *testing.T) {
	r := newRig(t)
	d := crash.New(crash.Options{Seed: 1})
	r.on(d)
	var all []record.Batch
	for run, size := range []int64{0, 256 << 10, 0, 0, 1 << 20, 128 << 10, 256 << 10, 0} {
		r.tune = func(o *Options) { o.JournalBytes = size }
		r.start()
		r.open()
		r.expect(all, r.readAll(0))
		all = append(all, r.fill(20, 500)...)
		content, err := d.ReadFile(segment.JournalName(0))
		if want := size + segment.RingHeadBytes; size > 0 && int64(len(content)) != want || (err == nil) != (size > 0) {
			t.Fatalf("run %d: a ring of %d bytes, want %d: %v", run, len(content), want, err)
		}
		if run%3 == 2 {
			r.close()
			d = d.Kill(uint64(run))
		} else {
			d = d.Crash(uint64(run))
			r.step.Abandon()
		}
		r.on(d)
	}
}

// A disk without room for the ring is an error that says so, and what there was of it
// is given back: a smaller one fits.
func TestNoRoomForTheJournal(t *testing.T) {
	r := newRig(t)
	d := crash.New(crash.Options{Seed: 1, BytesMax: 512 << 10})
	r.on(d)
	r.tune = func(o *Options) { o.JournalBytes = 1 << 20 }
	if err := r.tryStart(); !errors.Is(err, ErrNoJournalSpace) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), segment.JournalName(0)) {
		t.Fatalf("a start without room: %v", err)
	}
	for _, name := range d.List() {
		if strings.HasPrefix(name, segment.JournalName(0)) {
			t.Errorf("%s is left", name)
		}
	}
	r.on(d.Kill(1))
	r.tune = func(o *Options) { o.JournalBytes = 128 << 10; o.Logger = nil }
	r.start()
	r.config = LogConfig{SegmentBytes: 16 << 10}
	r.open()
	r.fill(3, 100)
	r.close()
}

// Rule 4: every frame bears the secret of its data directory. A ring that was put here from
// another one has nothing to say.
func TestRingOfAnotherDirectory(t *testing.T) {
	foreign := journaled(t, 2)
	ring, err := foreign.disk.ReadFile(segment.JournalName(0))
	if err != nil {
		t.Fatal(err)
	}
	b := newBurst(t, storyRing, 2) // the same logs, by their ids
	b.submit(700)
	b.settle()
	b.close()
	b.step.Abandon()
	b.disk = b.disk.Kill(1)
	if err := b.disk.WriteFile(segment.JournalName(0), bytes.Clone(ring)); err != nil {
		t.Fatal(err)
	}
	b.on(b.disk)
	b.start()
	if fenced := b.openAll(); fenced[0] || fenced[1] {
		t.Fatalf("fenced: %v", fenced)
	}
	b.has(0, 2)
	b.has(1, 2)
	b.pass(time.Second)
}
