package engine

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/segment"
	"ringlog/record"
)

const errInjected = syscall.EIO

// Rule 12: an index whose checksum holds and whose places are wrong is found out by the first reader it
// misleads, and replaced. The batches are not blamed.
func TestIndexThatLeadsToTheWrongPlacesIsReplaced(t *testing.T) {
	r, d, all := restedRig(t, 60, nil)
	first := r.log.segments[0]
	count := int(first.NextOffset / 2)
	r.close()
	d = d.Kill(1)
	var wrong segment.Index
	wrong.Reset(0)
	for i := range count {
		size := len(all[i])
		switch i {
		case 0:
			size += 100
		case count - 1:
			size -= 100
		}
		wrong.Add(all[i].BaseOffset(), all[i].LastOffset()+1, all[i].MaxTimestamp(), size, 2048)
	}
	if wrong.Position != first.Bytes || wrong.NextOffset != first.NextOffset {
		t.Fatalf("the index covers %d bytes to offset %d, the segment has %d to %d", wrong.Position, wrong.NextOffset, first.Bytes, first.NextOffset)
	}
	index, times := wrong.Encode()
	for suffix, content := range map[string][]byte{segment.IndexSuffix: index, segment.TimeIndexSuffix: times} {
		if err := d.WriteFile(r.path(segment.FileName(0, suffix)), content); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // it is stored, too
		r.on(d)
		r.start()
		r.open()
		for i := range count {
			got, err := r.read(all[i].BaseOffset(), 1)
			if err != nil || len(got) != 1 || got[0].BaseOffset() != all[i].BaseOffset() {
				t.Fatalf("batch %d: %d batches, %v", i, len(got), err)
			}
		}
		if m := r.step.Metrics(); m.Corruptions != 0 {
			t.Fatalf("%d ranges found corrupt", m.Corruptions)
		}
		r.close()
		d = d.Kill(1)
	}
	r.on(d)
	r.start()
	r.open()
	r.readAll(0)
	if m := r.step.Metrics(); m.IndexesRebuilt != 0 {
		t.Fatalf("%d indexes are rebuilt again", m.IndexesRebuilt)
	}
	r.close()
}

// What was damaged is forgotten with the offsets that it had: what is written there later is readable.
func TestDamageGoesWithItsOffsets(t *testing.T) {
	r, d, all := restedRig(t, 60, nil)
	if err := d.Corrupt(r.path(segment.FileName(0, segment.LogSuffix)), int64(5*len(all[0]))+200, 0x10); err != nil {
		t.Fatal(err)
	}
	if _, err := r.read(all[5].BaseOffset(), 1<<20); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("the damaged batch: %v", err)
	}
	if err := r.step.Truncate(t.Context(), r.id, all[5].BaseOffset()); err != nil {
		t.Fatal(err)
	}
	if m := r.step.Metrics(); m.DamagedRanges != 0 {
		t.Fatalf("%d ranges are fenced behind the end", m.DamagedRanges)
	}
	fresh := r.fill(40, 1000)
	r.expect(append(all[:5:5], fresh...), r.readAll(0))
	r.close()
}

// Somebody removes the file of a sealed segment: that range is gone and says so, whether the file is open or
// not, and the rest of the log goes on. After a restart the log takes no more records: what is
// missing cannot be told from a disk that lost it.
func TestVanishedSegment(t *testing.T) {
	for _, open := range []bool{false, true} {
		r, d, all := restedRig(t, 60, scrubbing(1<<20))
		second := r.log.segments[1]
		if open {
			if _, err := r.read(second.BaseOffset, 100); err != nil {
				t.Fatal(err)
			}
		}
		r.settle()
		if err := remove(d, second.path()); err != nil {
			t.Fatal(err)
		}
		if open {
			r.pass(scrubFirst + 5*time.Second) // nobody else would notice
		}
		if _, err := r.read(second.BaseOffset+4, 1<<20); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("a segment that is gone, open %t: %v", open, err)
		}
		r.expect(all[:second.BaseOffset/2], r.readTo(0, second.BaseOffset))
		r.expect(all[second.NextOffset/2:], r.readAll(second.NextOffset))
		r.fill(3, 1000)
		if m := r.step.Metrics(); m.DamagedRanges != 1 || m.PoisonedLogs != 0 {
			t.Fatalf("%d ranges are fenced, %d logs poisoned", m.DamagedRanges, m.PoisonedLogs)
		}
		r.rest(d)
		if err := r.log.failed; !errors.Is(err, ErrCorrupt) {
			t.Fatalf("the log at the next start: %v", err)
		}
		r.expect(all[:second.BaseOffset/2], r.readTo(0, second.BaseOffset))
	}
}

// The file of the segment that takes appends is removed: what it would be given is lost at the next start, so
// nothing more is given.
func TestVanishedActiveSegment(t *testing.T) {
	r, d, _ := restedRig(t, 60, scrubbing(1<<20))
	r.fill(1, 1000)
	if err := remove(d, r.log.active.path()); err != nil {
		t.Fatal(err)
	}
	r.pass(scrubFirst + 5*time.Second)
	p := r.submit(batchOf(1, 1, 10, 1))
	r.settle()
	if err := p.Appends[0].Err; !errors.Is(err, ErrPoisoned) || !errors.Is(err, ErrCorrupt) {
		t.Fatalf("an append to a segment that is gone: %v", err)
	}
}

// readTo reads from offset up to another one, where a segment begins.
func (r *rig) readTo(offset, end int64) (all []record.Batch) {
	r.Helper()
	for offset < end {
		got, err := r.read(offset, 1<<20)
		if err != nil || len(got) == 0 {
			r.Fatalf("read at %d: %d batches, %v", offset, len(got), err)
		}
		for _, b := range got {
			if b.BaseOffset() < end {
				all = append(all, b)
			}
		}
		offset = got[len(got)-1].LastOffset() + 1
	}
	return all
}

// A device that does not answer says so, once, while everybody waits; when it answers, everything
// goes on and nobody has been refused.
func TestDiskThatDoesNotAnswer(t *testing.T) {
	for _, kind := range []disk.Kind{disk.Write, disk.Flush} {
		r, d := crashRig(t, LogConfig{}, nil)
		all := r.fill(3, 1000)
		d.AddFault(crash.Fault{Kind: kind, Effect: crash.Hang})
		batch := batchOf(9, 1, 100, 1)
		p := r.submit(batch)
		for range 80 { // never at rest, and not so long that the journal is trimmed
			r.now += 100 * time.Millisecond
			if err := r.step.Turn(); err != nil {
				t.Fatal(err)
			}
		}
		m := r.step.Metrics()
		if m.OldestOperation < SlowAfter || m.SlowShards != 1 || m.SlowTimes != 1 || p.answered != 0 {
			t.Fatalf("a %s hangs: the oldest operation is %v old, %d shards are slow, %d times; answered %d times", kind, m.OldestOperation, m.SlowShards, m.SlowTimes, p.answered)
		}
		d.ClearFaults()
		r.settle()
		r.pass(2 * time.Second)
		m = r.step.Metrics()
		if m.OldestOperation != 0 || m.SlowShards != 0 || m.PoisonedLogs != 0 || p.answered != 1 || p.Appends[0].Err != nil {
			t.Fatalf("after a %s that hung: %v, %d slow, %d poisoned; answered %d times, %v", kind, m.OldestOperation, m.SlowShards, m.PoisonedLogs, p.answered, p.Appends[0].Err)
		}
		r.expect(append(all, batch), r.readAll(0))
		r.close()
	}
}
