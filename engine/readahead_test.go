package engine

import (
	"testing"
	"time"

	"ringlog/engine/disk"
	"ringlog/record"
)

// behind makes a log of which nothing is in memory: count batches of size bytes in several segments.
func behind(t *testing.T, count, size int) (*rig, []record.Batch) {
	r, _ := crashRig(t, LogConfig{SegmentBytes: 3 << 20}, nil)
	all := r.fill(count, size)
	r.pass(time.Second)
	r.evictAll()
	if start := r.log.tail.startOffset(r.log); start < all[count-2].BaseOffset() {
		t.Fatalf("the tail begins at %d of %d", start, r.log.next.offset)
	}
	return r, all
}

// scan reads the log from offset 0 on by fetches of bytesMax.
func (r *rig) scan(bytesMax int) []record.Batch {
	r.Helper()
	var got []record.Batch
	for offset := int64(0); offset < r.log.Frontiers().HighWatermark; {
		batches, err := r.read(offset, bytesMax)
		if err != nil || len(batches) == 0 {
			r.Fatalf("at %d: %d batches, %v", offset, len(batches), err)
		}
		got = append(got, batches...)
		offset = batches[len(batches)-1].LastOffset() + 1
		r.settle() // reading ahead
	}
	return got
}

// A consumer that goes on where it stopped is read ahead for, across segments and whatever it asks
// for at a time, and gets exactly what is stored.
func TestSequentialReaderIsReadAheadFor(t *testing.T) {
	for _, bytesMax := range []int{50 << 10, 1 << 20, 4 << 20} {
		r, all := behind(t, 200, 60_000)
		r.expect(all, r.scan(bytesMax))
		m := r.step.Metrics()
		if m.AheadHitBytes < m.ColdReadBytes/2 {
			t.Errorf("%d at a time: %d of %d bytes had been read ahead", bytesMax, m.AheadHitBytes, m.ColdReadBytes)
		}
		if m.AheadBytes > m.ColdReadBytes*5/4 {
			t.Errorf("%d at a time: %d bytes read ahead for %d served", bytesMax, m.AheadBytes, m.ColdReadBytes)
		}
		if in, most := r.cold.InUseBytes(), int64(slotsMax*coldBytesMax); in > most {
			t.Errorf("%d bytes lie read ahead for one consumer", in)
		}
		r.pass(2 * streamIdle)
		if in := r.cold.InUseBytes(); in != 0 || r.log.streams != nil {
			t.Errorf("%d bytes are held for a consumer that does not come back", in)
		}
	}
}

// Reads here and there cost nothing beyond themselves.
func TestScatteredReadsAreNotReadAheadFor(t *testing.T) {
	r, all := behind(t, 100, 60_000)
	for i := range 33 {
		want := all[i*37%33*3] // never where another one ended
		got, err := r.read(want.BaseOffset(), 1)
		if err != nil {
			t.Fatal(err)
		}
		r.expect([]record.Batch{want}, got)
		r.settle()
	}
	if m := r.step.Metrics(); m.AheadBytes > m.ColdReadBytes/10 {
		t.Errorf("%d bytes were read ahead for %d", m.AheadBytes, m.ColdReadBytes)
	}
}

// What lies read ahead is bounded, and goes to whoever needs memory: many scans together are served, each
// exactly, from a cold memory that could not hold what they all would like to have ahead.
func TestManyScansShareTheColdMemory(t *testing.T) {
	r, all := behind(t, 150, 60_000)
	type scan struct {
		read   Read
		offset int64
		got    int
		done   bool
	}
	scans := make([]scan, 24)
	for rounds := 0; ; rounds++ {
		left := 0
		for i := range scans {
			s := &scans[i]
			if s.offset >= r.log.Frontiers().HighWatermark {
				continue
			}
			left++
			s.done = false
			s.read.Parts = []ReadPart{{Log: r.log, Offset: s.offset, BytesMax: (i%3 + 1) * 300_000}}
			s.read.BytesMax, s.read.Done = 1<<30, func(*Read) {
				s.done = true
				got := copyBatches(r, &s.read.Parts[0])
				r.expect(all[s.got:s.got+len(got)], got)
				s.got += len(got)
				if len(got) > 0 {
					s.offset = got[len(got)-1].LastOffset() + 1
				}
				s.read.Release() // others wait for the memory
			}
			r.step.Read(&s.read)
		}
		if left == 0 {
			break
		}
		r.settle()
		for i := range scans {
			s := &scans[i]
			if len(s.read.Parts) > 0 && !s.done {
				t.Fatal("a scan waits for ever")
			}
		}
		if held, limit := r.step.shards[0].reads.cold.streams.held, r.cold.LimitBytes()/aheadShare; held > limit {
			t.Fatalf("%d bytes lie read ahead, the bound is %d", held, limit)
		}
		if rounds > 2000 {
			t.Fatal("the scans make no progress")
		}
	}
	for i := range scans {
		if scans[i].got != len(all) {
			t.Errorf("scan %d got %d of %d batches", i, scans[i].got, len(all))
		}
	}
}

// A truncation takes what was read ahead with it.
func TestWhatWasReadAheadIsCutToo(t *testing.T) {
	r, all := behind(t, 100, 60_000)
	offset := int64(0)
	for range 3 {
		got, err := r.read(offset, 100_000)
		if err != nil {
			t.Fatal(err)
		}
		offset = got[len(got)-1].LastOffset() + 1
		r.settle()
	}
	if r.step.shards[0].reads.cold.streams.held == 0 {
		t.Fatal("nothing was read ahead")
	}
	if err := r.step.Truncate(t.Context(), r.id, offset); err != nil {
		t.Fatal(err)
	}
	more := r.fill(40, 60_000)
	r.pass(time.Second)
	r.evictAll()
	r.expect(append(all[:offset/2:offset/2], more...), r.scan(1<<20))
}

// From Engine.Read behind the tail to Release nothing is allocated, read ahead or not.
func TestColdReadAllocatesNothing(t *testing.T) {
	r := newRig(t)
	r.config = LogConfig{SegmentBytes: 64 << 20}
	r.opened = func() (disk.Disk, error) { return &instantDisk{content: make(map[disk.File][]byte)}, nil }
	r.start()
	r.open()
	for i := range 400 {
		r.produce(batchOf(uint64(i), 1, 20_000, 1))
	}
	r.evictAll()
	answered := false
	read := &Read{Parts: make([]ReadPart, 1), Done: func(*Read) { answered = true }}
	offset, step := int64(0), int64(0)
	consume := func() {
		part := &read.Parts[0]
		*part = ReadPart{Log: r.log, Offset: offset, BytesMax: 300_000, Batches: part.Batches, pieces: part.pieces}
		read.BytesMax, answered = 1<<20, false
		r.step.Read(read)
		for !answered || !r.step.Idle() {
			if err := r.step.Turn(); err != nil {
				t.Fatal(err)
			}
		}
		if part.Err != nil || part.Bytes == 0 {
			t.Fatalf("at %d: %d bytes, %v", offset, part.Bytes, part.Err)
		}
		last := part.Batches[len(part.Batches)-1]
		if offset = lastOffset(last) + 1; step > 0 {
			offset += step
		}
		if offset >= 380 {
			offset = 0
		}
		read.Release()
	}
	for _, step = range []int64{0, 7} {
		for range 200 {
			consume()
		}
		if n := testing.AllocsPerRun(500, consume); n > 0 {
			t.Errorf("a read behind the tail allocates %v times (%d apart)", n, step)
		}
	}
	if m := r.step.Metrics(); m.AheadHitBytes == 0 || m.TailReads > 0 || m.AheadHitBytes == m.ColdReadBytes {
		t.Errorf("%d bytes read ahead of %d, %d from the tail", m.AheadHitBytes, m.ColdReadBytes, m.TailReads)
	}
}
