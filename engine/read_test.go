package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"ringlog/record"
)

// Rule 15: a reader at the tail gets slices of the very memory that the batch was
// appended to and is written from; no byte of a record is copied for it.
func TestTailReadsAreSlicesOfTheTail(t *testing.T) {
	r, _ := crashRig(t, LogConfig{}, nil)
	r.fill(3, 5000)
	read := &Read{Parts: []ReadPart{{Log: r.log, BytesMax: 1 << 20}}, BytesMax: 1 << 20}
	read.Done = func(*Read) {}
	r.step.Read(read)
	r.settle()
	defer read.Release()
	part := &read.Parts[0]
	if part.Err != nil || part.Bytes == 0 {
		t.Fatalf("%d bytes, %v", part.Bytes, part.Err)
	}
	for i, slice := range part.Batches {
		inTail := false
		for _, c := range r.log.tail.held() {
			if base := record.Batch(slice).BaseOffset(); base >= c.baseOffset && base < c.nextOffset {
				for at := range c.bytes {
					inTail = inTail || &c.bytes[at] == &slice[0]
				}
			}
		}
		if !inTail {
			t.Errorf("slice %d of the answer is a copy", i)
		}
	}
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

// Rule 15: the cold memory is bounded, and readers whose parts together exceed it
// wait neither for themselves nor for each other: who has something is answered with
// it. What one read holds leaves room for others.
func TestColdReadsLargerThanTheColdMemory(t *testing.T) {
	r, d := crashRig(t, LogConfig{}, nil)
	all := r.fill(4, 500<<10)
	r.again(d, 3)
	const readers, parts = 8, 40
	limit := r.cold.LimitBytes()
	for _, each := range []int{1, readers} {
		reads, done := make([]Read, each), 0
		for i := range reads {
			read := &reads[i]
			for range parts {
				read.Parts = append(read.Parts, ReadPart{Log: r.log, BytesMax: 1 << 20})
			}
			read.BytesMax = 1 << 30
			read.Done = func(*Read) {
				done++
				bytes := 0
				for i := range read.Parts {
					if err := read.Parts[i].Err; err != nil {
						t.Errorf("part %d: %v", i, err)
					}
					bytes += read.Parts[i].Bytes
				}
				if first := copyBatches(r, &read.Parts[0]); len(first) == 0 {
					t.Error("the first part is empty")
				} else {
					r.expect(all[:len(first)], first)
				}
				if int64(bytes) > limit/coldShare {
					t.Errorf("a read holds %d bytes of %d", bytes, limit)
				}
				read.Release()
			}
			r.step.Read(read)
		}
		r.settle()
		if done != each {
			t.Fatalf("%d of %d reads are answered", done, each)
		}
		if in := r.cold.InUseBytes(); in != 0 {
			t.Fatalf("%d bytes of the cold memory are not given back", in)
		}
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

// A cold read finds its batch also when the index was made with a larger
// interval than the configuration has now.
func TestColdReadBehindASparseIndex(t *testing.T) {
	r, d := crashRig(t, LogConfig{IndexIntervalBytes: 64 << 10}, nil)
	all := r.fill(100, 1000)
	r.close()
	r.config.IndexIntervalBytes = 512
	r.on(d.Kill(1))
	r.start()
	r.open()
	for _, want := range all {
		got, err := r.read(want.LastOffset(), 1)
		if err != nil {
			t.Fatal(err)
		}
		r.expect([]record.Batch{want}, got)
	}
}
