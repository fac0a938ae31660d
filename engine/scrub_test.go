package engine

import (
	"errors"
	"maps"
	"testing"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
	"ringlog/record"
)

// restedRig has a log of count batches of 1000 bytes, in segments of 16 KiB, that was closed and opened again: all
// segments but the last are sealed, and nothing is in memory.
func restedRig(t *testing.T, count int, tune func(*Options)) (*rig, *crash.Disk, []record.Batch) {
	t.Helper()
	r, d := crashRig(t, LogConfig{SegmentBytes: 16 << 10, IndexIntervalBytes: 2048}, tune)
	all := r.fill(count, 1000)
	return r, r.rest(d), all
}

// rest closes the engine in order and opens it again.
func (r *rig) rest(d *crash.Disk) *crash.Disk {
	r.Helper()
	r.close()
	d = d.Kill(1)
	r.on(d)
	r.start()
	r.open()
	return d
}

func scrubbing(rate int64) func(*Options) {
	return func(o *Options) { o.ScrubBytesPerSecond = rate }
}

// Scenario 8, before anybody reads: what has rotted is found, named and fenced, batch by batch, and what lies
// before and behind it stays readable. The next pass finds nothing new.
func TestScrubFindsWhatHasRotted(t *testing.T) {
	r, d, all := restedRig(t, 60, scrubbing(1<<20))
	second := r.log.segments[1]
	bad := int(second.BaseOffset/2) + 5 // a batch has two records
	name := r.path(segment.FileName(second.BaseOffset, segment.LogSuffix))
	if err := d.Corrupt(name, int64(5*len(all[0]))+300, 0x04); err != nil {
		t.Fatal(err)
	}
	r.pass(scrubFirst + 5*time.Second)
	m := r.step.Metrics()
	if m.Corruptions != 1 || m.DamagedRanges != 1 || m.ScrubPasses != 1 || m.ColdReads != 0 {
		t.Fatalf("%d ranges found, %d fenced, %d passes, %d reads", m.Corruptions, m.DamagedRanges, m.ScrubPasses, m.ColdReads)
	}
	if m.ScrubDoneBytes != m.ScrubTotalBytes || m.ScrubAge > 10*time.Second {
		t.Errorf("%d of %d bytes, %v ago", m.ScrubDoneBytes, m.ScrubTotalBytes, m.ScrubAge)
	}
	var corrupt *segment.CorruptError
	if _, err := r.read(all[bad].BaseOffset(), 1<<20); !errors.As(err, &corrupt) || corrupt.File != name {
		t.Errorf("the damaged batch: %v", err)
	}
	got, err := r.read(second.BaseOffset, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	r.expect(all[second.BaseOffset/2:bad], got)
	behind := int(r.log.damages[0].to.offset) / 2
	if behind > bad+3 {
		t.Errorf("batches %d to %d are fenced for one that is damaged", bad, behind-1)
	}
	r.expect(all[behind:], r.readAll(all[behind].BaseOffset()))
	r.now += defaultScrubInterval
	r.pass(5 * time.Second)
	if m := r.step.Metrics(); m.ScrubPasses != 2 || m.Corruptions != 1 {
		t.Errorf("after another pass: %d passes, %d ranges found", m.ScrubPasses, m.Corruptions)
	}
}

// Whatever is not as it was written is found: checksums, offsets and leader epochs, which the checksum does not
// cover, and lengths.
func TestScrubFindsEveryKindOfDamage(t *testing.T) {
	for what, at := range map[string]int64{"base offset": 7, "length": 10, "leader epoch": 15, "magic": 16, "checksum": 18, "attributes": 22, "last offset": 26, "payload": 500} {
		t.Run(what, func(t *testing.T) {
			r, d, all := restedRig(t, 40, scrubbing(1<<20))
			if err := d.Corrupt(r.path(segment.FileName(0, segment.LogSuffix)), 3*int64(len(all[0]))+at, 0x01); err != nil {
				t.Fatal(err)
			}
			r.pass(scrubFirst + 5*time.Second)
			if m := r.step.Metrics(); m.DamagedRanges != 1 || m.ScrubPasses != 1 {
				t.Fatalf("%d ranges fenced, %d passes", m.DamagedRanges, m.ScrubPasses)
			}
			if d := r.log.damages[0]; d.from.offset != 6 {
				t.Errorf("offsets [%d, %d) are fenced", d.from.offset, d.to.offset)
			}
		})
	}
}

// What is intact stays what it is, batches larger than a piece included, and a log that is used meanwhile is none the
// worse for it.
func TestScrubLeavesTheIntactAlone(t *testing.T) {
	r, d := crashRig(t, LogConfig{SegmentBytes: 32 << 10}, scrubbing(1<<20))
	all := r.fill(20, 1000)
	big := batchOf(1, 1, 300<<10, 1)
	r.produce(big)
	all = append(all, append(record.Batch(nil), big...))
	all = append(all, r.fill(40, 1000)...)
	r.rest(d)
	for range 20 {
		r.pass(scrubFirst / 10)
		all = append(all, r.fill(2, 1000)...)
	}
	m := r.step.Metrics()
	if m.ScrubPasses != 1 || m.Corruptions+m.ReadErrors+m.Rereads != 0 || m.ScrubBytes < 300<<10 {
		t.Fatalf("%d passes over %d bytes: %d corruptions, %d errors, %d reads repeated", m.ScrubPasses, m.ScrubBytes, m.Corruptions, m.ReadErrors, m.Rereads)
	}
	r.expect(all, r.readAll(0))
	r.close()
}

// It reads at its rate, and stops where it is when the engine does.
func TestScrubKeepsItsRate(t *testing.T) {
	r, _, _ := restedRig(t, 400, scrubbing(64<<10))
	r.pass(scrubFirst)
	for second := int64(1); second <= 4; second++ {
		r.pass(time.Second)
		if m := r.step.Metrics(); m.ScrubBytes > (second+1)*64<<10 {
			t.Fatalf("%d bytes in %d s", m.ScrubBytes, second)
		}
	}
	if m := r.step.Metrics(); m.ScrubBytes < 128<<10 || m.ScrubPasses != 0 {
		t.Fatalf("%d bytes in 4 s, %d passes", m.ScrubBytes, m.ScrubPasses)
	}
	r.close()
}

// While somebody waits for memory, or for the disk, it reads a piece a second and no more; then it goes on.
func TestScrubStepsBack(t *testing.T) {
	r, _, _ := restedRig(t, 400, scrubbing(4<<20))
	q := &r.step.shards[0].reads.cold
	q.hungry = append(q.hungry, new(job)) // a reader that waits
	r.pass(scrubFirst + 1500*time.Millisecond)
	if m := r.step.Metrics(); m.ScrubBytes > 2*plan.PieceBytes || m.ScrubPasses != 0 {
		t.Fatalf("beside a reader that waits: %d bytes, %d passes", m.ScrubBytes, m.ScrubPasses)
	}
	q.hungry = q.hungry[:0]
	r.pass(5 * time.Second)
	if m := r.step.Metrics(); m.ScrubPasses != 1 {
		t.Fatalf("afterwards: %d bytes, %d passes", m.ScrubBytes, m.ScrubPasses)
	}
	r.close()
}

// What compaction has left is as whole as what was appended, while segments are swapped and afterwards.
func TestScrubAndCompaction(t *testing.T) {
	r, _ := crashRig(t, compacted(), func(o *Options) { o.ScrubBytesPerSecond, o.ScrubInterval = 1<<20, time.Second })
	want := r.fillKeys(300, 7)
	r.pass(scrubFirst + 4*defaultCleanInterval)
	m := r.step.Metrics()
	if m.Cleans == 0 || m.ScrubPasses < 2 || m.Corruptions+m.Rereads+m.ReadErrors+m.IndexesRebuilt != 0 {
		t.Fatalf("%d compactions, %d passes: %d ranges corrupt, %d reads repeated, %d failed, %d indexes rebuilt",
			m.Cleans, m.ScrubPasses, m.Corruptions, m.Rereads, m.ReadErrors, m.IndexesRebuilt)
	}
	if got, _ := r.table(); !maps.Equal(got, want) {
		t.Error("the table is another")
	}
	r.close()
}

// A deletion, and a cut, do not wait for the scrubber, nor does it for them.
func TestScrubGivesWay(t *testing.T) {
	r, _, all := restedRig(t, 200, scrubbing(64<<10))
	r.pass(scrubFirst + time.Second)
	if err := r.step.Truncate(t.Context(), r.id, all[20].BaseOffset()); err != nil {
		t.Fatal(err)
	}
	r.pass(10 * time.Second)
	r.expect(all[:20], r.readAll(0))
	if err := r.step.Delete(t.Context(), r.id); err != nil {
		t.Fatal(err)
	}
	r.pass(10 * time.Second)
	if m := r.step.Metrics(); m.Corruptions != 0 || m.ScrubPasses != 1 {
		t.Fatalf("%d ranges found corrupt, %d passes", m.Corruptions, m.ScrubPasses)
	}
	r.close()
}

// A bit that flips on the way is no damage: the read is repeated, by the scrubber and by readers.
func TestFlippedReadIsRepeated(t *testing.T) {
	r, d, all := restedRig(t, 60, scrubbing(1<<20))
	segments := "*/*" + segment.LogSuffix
	d.AddFault(crash.Fault{Kind: disk.Read, Path: segments, Effect: crash.FlipBit, Times: 1})
	r.expect(all, r.readAll(0))
	d.AddFault(crash.Fault{Kind: disk.Read, Path: segments, Effect: crash.FlipBit, Times: 1})
	r.pass(scrubFirst + 5*time.Second)
	if m := r.step.Metrics(); m.Corruptions != 0 || m.Rereads == 0 || m.ScrubPasses != 1 {
		t.Fatalf("%d ranges found corrupt, %d reads repeated, %d passes", m.Corruptions, m.Rereads, m.ScrubPasses)
	}
	r.expect(all, r.readAll(0))
}

// A disk that fails to read what it has is no damage either: the reader is told, and the next one may have it.
func TestReadErrorsFenceNothing(t *testing.T) {
	r, d, all := restedRig(t, 40, scrubbing(1<<20))
	d.AddFault(crash.Fault{Kind: disk.Read, Path: "*/*" + segment.LogSuffix, Err: errInjected})
	if _, err := r.read(0, 1<<20); !errors.Is(err, ErrUnreadable) || !errors.Is(err, errInjected) {
		t.Fatalf("a read that the disk fails: %v", err)
	}
	r.pass(scrubFirst + 5*time.Second)
	d.ClearFaults()
	if m := r.step.Metrics(); m.Corruptions != 0 || m.ReadErrors < 2 || m.PoisonedLogs != 0 {
		t.Fatalf("%d ranges found corrupt, %d errors, %d logs poisoned", m.Corruptions, m.ReadErrors, m.PoisonedLogs)
	}
	r.expect(all, r.readAll(0))
	r.fill(3, 1000)
}
