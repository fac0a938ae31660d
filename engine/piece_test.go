package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"ringlog/record"
)

// begun asks for the log from offset 0 on and returns the answer without releasing it.
func (r *rig) begun(bytesMax int) *Read {
	r.Helper()
	done := false
	read := &Read{Parts: []ReadPart{{Log: r.log, BytesMax: bytesMax}}, BytesMax: bytesMax, Done: func(*Read) { done = true }}
	r.step.Read(read)
	r.settle()
	if p := &read.Parts[0]; !done || p.Err != nil || len(p.Batches) < 2 {
		r.Fatalf("answered: %v, %d slices, %v", done, len(p.Batches), p.Err)
	}
	return read
}

// evictAll gives up all tail cache.
func (r *rig) evictAll() {
	for r.step.shards[0].tail.evict() {
	}
}

// finish takes an answer slice by slice, as a connection does whose peer reads slowly.
func (r *rig) finish(read *Read) (restored int, err error) {
	r.Helper()
	for k := range read.Parts[0].Batches {
		read.Return(0, k)
		if !read.Lend(0, k) {
			restored++
			answered := false
			r.step.Restore(read, 0, k, func(e error) { answered, err = true, e })
			r.settle()
			if !answered {
				r.Fatal("restoring a piece has no end")
			}
			if err != nil {
				return restored, err
			}
			if !read.Lend(0, k) {
				r.Fatal("a restored piece is not there")
			}
		}
	}
	return restored, nil
}

// Rule 15: an answer whose consumer does not read keeps no tail memory. What is still in the
// tail when it goes on comes from there, the rest from the segment: the same bytes.
func TestAnswerOutlivesItsTailMemory(t *testing.T) {
	r, _ := crashRig(t, LogConfig{}, nil)
	all := r.fill(12, 100<<10)
	read := r.begun(1 << 30)
	if restored, err := r.finish(read); restored != 0 || err != nil {
		t.Fatalf("%d pieces restored from the tail, %v", restored, err)
	}
	read.Release()

	read = r.begun(1 << 30)
	pieces := len(read.Parts[0].Batches)
	read.Return(0, 0)
	r.evictAll()
	if in := r.tail.InUseBytes(); in > 0 && !r.journals() {
		t.Fatalf("%d bytes of tail memory are held for a consumer that does not read", in)
	}
	var got []record.Batch
	for k := range pieces {
		read.Return(0, k)
		if read.Lend(0, k) {
			t.Fatal("evicted memory is lent")
		}
		r.step.Restore(read, 0, k, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
		r.settle()
		if !read.Lend(0, k) {
			t.Fatal("a restored piece is not there")
		}
		if in, most := r.cold.InUseBytes(), int64(2*pieceBytesMax); in > most {
			t.Errorf("one piece holds %d bytes", in)
		}
		one := ReadPart{Batches: read.Parts[0].Batches[k : k+1]}
		got = append(got, copyBatches(r, &one)...)
	}
	r.expect(all, got)
	read.Release()
	if in := r.cold.InUseBytes(); in != 0 {
		t.Errorf("%d bytes of cold memory are not given back", in)
	}
}

// Cold memory of an answer that waits stays while nobody wants it, goes to whoever does, and is
// read again.
func TestAnswerGivesItsColdMemoryToWhoNeedsIt(t *testing.T) {
	r, d := crashRig(t, LogConfig{}, nil)
	r.fill(8, 100<<10)
	d = r.again(d, 3)
	read := r.begun(1 << 30)
	read.Return(0, 0)
	if !read.Lend(0, 0) {
		t.Fatal("cold memory that nobody wants is gone")
	}
	read.Return(0, 0)
	held := r.cold.TryGet(int(r.cold.LimitBytes() / 2)) // hardly anything is left
	if held == nil {
		t.Fatal("no memory")
	}
	var others []*Read
	for range 12 {
		if r.step.spare.mu.oldest == nil {
			break
		}
		others = append(others, r.begun(1<<30))
	}
	if r.step.spare.given.Load() == 0 {
		t.Error("the answer that waits gave nothing up")
	}
	for _, other := range others {
		other.Release()
	}
	held.Release()
	if restored, err := r.finish(read); restored == 0 || err != nil {
		t.Errorf("%d pieces restored, %v", restored, err)
	}
	read.Release()
	if in := r.cold.InUseBytes(); in != 0 {
		t.Errorf("%d bytes of cold memory are not given back", in)
	}
	_ = d
}

// What was cut or deleted under an answer that waits is not sent as something else.
func TestAnswerWhoseBytesAreGone(t *testing.T) {
	for name, take := range map[string]func(r *rig) error{
		"cut":     func(r *rig) error { return r.step.Truncate(context.Background(), r.id, 0) },
		"deleted": func(r *rig) error { return r.step.Delete(context.Background(), r.id) },
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := crashRig(t, LogConfig{}, nil)
			r.fill(8, 100<<10)
			read := r.begun(1 << 30)
			read.Return(0, 0)
			if err := take(r); err != nil {
				t.Fatal(err)
			}
			if name == "cut" {
				r.fill(8, 100<<10) // others, at the same offsets
			}
			r.evictAll()
			_, err := r.finish(read)
			if !errors.Is(err, ErrGivenUp) && !errors.Is(err, ErrClosed) {
				t.Errorf("finished with %v", err)
			}
			read.Release()
		})
	}
}

// Rule 8: the file of a segment that retention took waits for the answers that may have to read
// it again; one that waits longer than file.delete.delay.ms waits for none.
func TestRecyclingWaitsForAnswers(t *testing.T) {
	for name, late := range map[string]bool{"in time": false, "too late": true} {
		t.Run(name, func(t *testing.T) {
			config := LogConfig{SegmentBytes: 256 << 10, RetentionBytes: 512 << 10, Delete: true, FileDeleteMillis: 10_000}
			r, _ := crashRig(t, config, func(o *Options) { o.RetentionInterval = time.Second })
			all := r.fill(2, 100<<10)
			read := r.begun(1 << 20)
			file := read.Parts[0].pieces[0].file
			read.Return(0, 0)
			more := r.fill(10, 100<<10)
			r.evictAll()
			r.pass(3 * time.Second)
			if start := r.log.Frontiers().Start; start <= all[1].BaseOffset() || !file.gone {
				t.Fatalf("retention did nothing: the log starts at %d", start)
			}
			if late {
				r.pass(10 * time.Second)
			}
			_, err := r.finish(read)
			if late != errors.Is(err, ErrGivenUp) || !late && err != nil {
				t.Errorf("finished with %v", err)
			}
			read.Release()
			r.pass(time.Second)
			if n := file.leases.Load(); n != 0 || !file.revoked {
				t.Errorf("the file has %d leases; given up: %v", n, file.revoked)
			}
			start := r.log.Frontiers().Start
			rest := append(all, more...)
			r.expect(rest[start/2:], r.readAll(start))
		})
	}
}

// While a new start is on its way to the disk, a read below it gets neither an error, because
// the old start is still what everybody is told, nor records.
func TestReadWhileTheStartMoves(t *testing.T) {
	r, _ := crashRig(t, LogConfig{}, nil)
	r.fill(5, 1000)
	moved := &call{ended: make(chan struct{}), run: func(j *job) error { return r.log.advanceStart(j, 6) }}
	r.step.shards[0].inbox.send(message{call: moved})
	during := 0
	for ended := false; !ended; {
		read := &Read{Parts: []ReadPart{{Log: r.log, BytesMax: 1}}, BytesMax: 1}
		done := false
		read.Done = func(*Read) {
			done = true
			p := &read.Parts[0]
			switch start := p.Frontiers.Start; {
			case errors.Is(p.Err, ErrOffsetOutOfRange) != (start == 6):
				t.Errorf("start %d: %v", start, p.Err)
			case r.log.start != start:
				during++
			}
		}
		r.step.Read(read)
		for !done {
			if err := r.step.Turn(); err != nil {
				t.Fatal(err)
			}
		}
		read.Release()
		select {
		case <-moved.ended:
			ended = true
		default:
		}
	}
	if moved.err != nil || during == 0 {
		t.Errorf("%v; %d reads while the start moved", moved.err, during)
	}
}

// The cache window is how far back everything is in memory: since the start, or since what was evicted last.
func TestCacheWindow(t *testing.T) {
	r, _ := crashRig(t, LogConfig{}, nil)
	window := func() time.Duration { return r.step.Metrics().CacheWindow }
	r.pass(time.Second)
	if got := window(); got != time.Second {
		t.Errorf("a second after the start: %v", got)
	}
	r.fill(1, 600<<10)
	r.pass(5 * time.Second)
	r.fill(1, 600<<10)
	r.pass(5 * time.Second)
	if got := window(); got < 11*time.Second {
		t.Errorf("nothing was evicted: %v", got)
	}
	if !r.step.shards[0].tail.evict() {
		t.Fatal("nothing to evict")
	}
	if got := window(); got < 5*time.Second || got > 10*time.Second {
		t.Errorf("the older of two records is evicted, appended 10 s ago; the other one 5 s ago: %v", got)
	}
}
