package engine

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/segment"
)

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
	if r.alone.restored != 3 || r.alone.replayed != 0 {
		t.Fatalf("restored %d, replayed %d batches", r.alone.restored, r.alone.replayed)
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

// Space that was written through with zeros ahead reads and recovers like any other.
func TestPrewrittenSpace(t *testing.T) {
	r, d := crashRig(t, LogConfig{SegmentBytes: 64 << 10}, func(o *Options) { o.Prewrite = true })
	all := r.fill(200, 1000)
	r.expect(all, r.readAll(0))
	for seed := range uint64(5) {
		d = r.again(d, seed)
		r.expect(all, r.readAll(0))
		all = append(all, r.fill(10, 3000)...)
	}
}

// The first append after a clean start waits for a checkpoint with a higher
// limit, not for the clock, also when one is being written already (rule 9).
func TestFirstAppendAfterACleanStartDoesNotWaitForTheClock(t *testing.T) {
	r, d := crashRig(t, LogConfig{}, nil)
	r.fill(3, 1000)
	r.close()
	r.on(d.Kill(1))
	r.start()
	r.step.shards[0].keeper.wantCheckpoint(r.step.shards[0])
	for range 3 { // it is being written when the log opens
		if err := r.step.Turn(); err != nil {
			t.Fatal(err)
		}
	}
	r.open()
	r.fill(1, 1000) // settles without moving a clock
	if m := r.step.Metrics(); m.Checkpoints < 1 {
		t.Fatalf("%d checkpoints", m.Checkpoints)
	}
	r.close()
}

// A log that waits for a checkpoint which the disk refuses is told so: neither
// its producers nor a stop wait for the disk to change its mind.
func TestAppendThatWaitsForACheckpointHearsOfItsFailure(t *testing.T) {
	r, d := crashRig(t, LogConfig{}, nil)
	r.fill(3, 1000)
	r.close()
	d = d.Kill(1)
	r.on(d)
	r.start()
	r.open()
	d.AddFault(crash.Fault{Kind: disk.Open, Path: segment.CheckpointName(0) + segment.NewSuffix, Err: syscall.EIO})
	p := r.submit(batchOf(1, 1, 1000, 1))
	r.settle() // moves no clock
	if p.answered != 1 || !errors.Is(p.Appends[0].Err, ErrPoisoned) || !errors.Is(p.Appends[0].Err, syscall.EIO) {
		t.Fatalf("answered %d times, with %v", p.answered, p.Appends[0].Err)
	}
	_ = r.step.Close(context.Background()) // says that something was not saved, and ends
}
