package engine

import (
	"testing"

	"ringlog/engine/disk"
	"ringlog/record"
)

// counting is an owner whose group is used again and again, as a frontend does.
type counting struct{ answered, failed int }

func (*counting) Consumed(*AppendGroup) {}

func (c *counting) Answered(g *AppendGroup) {
	c.answered++
	for i := range g.Appends {
		if g.Appends[i].Err != nil {
			c.failed++
		}
	}
}

// From Engine.Append to Answered, and from Engine.Read at the tail to Release,
// nothing is allocated: what the shard needs for a request lies in the request,
// or is used again. (What is prepared ahead, every 256 KiB and more, is no part of that.)
func TestAppendAndTailReadAllocateNothing(t *testing.T) {
	t.Run("segments", func(t *testing.T) { appendAndTailRead(t, 0) })
	t.Run("journal", func(t *testing.T) { appendAndTailRead(t, 64<<20) })
}

// A group of one append for each of 64 logs allocates nothing either: one frame takes them all.
func TestFrameOfManyLogsAllocatesNothing(t *testing.T) {
	r := newRig(t)
	r.opened = func() (disk.Disk, error) { return new(instantDisk), nil }
	r.tune = func(o *Options) { o.JournalBytes = 512 << 20 } // no trim: that is a job
	r.start()
	logs := r.openLogs(64)
	batch := batchOf(1, 3, 20, 1) // small: what is prepared ahead is no part of it
	owner := new(counting)
	group := &AppendGroup{Owner: owner, Appends: make([]Append, len(logs))}
	produce := func() {
		for i, l := range logs {
			group.Appends[i] = Append{Log: l, Batch: batch}
		}
		before := owner.answered
		r.step.Append(group)
		for owner.answered == before {
			if err := r.step.Turn(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 1000 {
		produce()
	}
	if n := testing.AllocsPerRun(500, produce); n > 0 || owner.failed > 0 {
		t.Errorf("a group of %d appends allocates %v times; %d failed", len(logs), n, owner.failed)
	}
	if c := &r.step.shards[0].counters; c.frames.Load() < 500 || c.trims.Load() > 0 {
		t.Errorf("%d frames, %d trims", c.frames.Load(), c.trims.Load())
	}
}

func appendAndTailRead(t *testing.T, journalBytes int64) {
	r := newRig(t)
	r.tune = func(o *Options) { o.JournalBytes = journalBytes } // of which no trim, which is a job, is due
	r.opened = func() (disk.Disk, error) { return new(instantDisk), nil }
	r.start()
	r.open()
	batch := batchOf(1, 3, 1000, 1)
	owner := new(counting)
	group := &AppendGroup{Owner: owner, Appends: make([]Append, 1)}
	until := func(done func() bool) {
		for !done() {
			if err := r.step.Turn(); err != nil {
				t.Fatal(err)
			}
		}
	}
	produce := func() {
		group.Appends[0] = Append{Log: r.log, Batch: record.Batch(batch)}
		before := owner.answered
		r.step.Append(group)
		until(func() bool { return owner.answered > before })
	}
	for range 1000 {
		produce() // queues and pools grow to what they need
	}
	if n := testing.AllocsPerRun(2000, produce); n > 0 {
		t.Errorf("an append allocates %v times", n)
	}
	if owner.failed > 0 {
		t.Fatalf("%d appends failed", owner.failed)
	}

	answered := false
	read := &Read{Parts: make([]ReadPart, 1), Done: func(*Read) { answered = true }}
	consume := func() {
		part := &read.Parts[0]
		*part = ReadPart{Log: r.log, Offset: r.log.Frontiers().HighWatermark - 30, BytesMax: 1 << 20, Batches: part.Batches, pieces: part.pieces}
		read.BytesMax, read.BytesMin, answered = 1<<20, 1, false
		r.step.Read(read)
		until(func() bool { return answered })
		if part.Err != nil || part.Bytes == 0 {
			t.Fatalf("read: %d bytes, %v", part.Bytes, part.Err)
		}
		read.Release()
	}
	for range 100 {
		consume()
	}
	if n := testing.AllocsPerRun(1000, consume); n > 0 {
		t.Errorf("a read at the tail allocates %v times", n)
	}
}
