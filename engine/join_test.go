package engine

import (
	"context"
	"errors"
	"testing"
	"time"
)

// joint is a read of all logs from their start.
func joint(logs []*Log, bytesMin int, wait time.Duration) (*Read, *int) {
	done := 0
	read := &Read{BytesMax: 1 << 20, BytesMin: bytesMin, Wait: wait, Done: func(*Read) { done++ }}
	for _, l := range logs {
		read.Parts = append(read.Parts, ReadPart{Log: l, BytesMax: 1 << 20})
	}
	return read, &done
}

func (r *rig) appendTo(seed uint64, size int, logs ...*Log) *produced {
	r.Helper()
	group := groupOf(seed, size, logs...)
	r.step.Append(&group.AppendGroup)
	r.settle()
	for i := range group.Appends {
		if err := group.Appends[i].Err; err != nil || group.answered != 1 {
			r.Fatalf("append: answered %d times, %v", group.answered, err)
		}
	}
	return group
}

// What the logs of several shards have comes in one answer, part by part.
func TestReadOverSeveralShards(t *testing.T) {
	r, logs := shardsRig(t, 3, 5)
	group := r.appendTo(1, 500, logs...)
	read, done := joint(logs, 1, time.Second)
	r.step.Read(read)
	r.settle()
	if *done != 1 {
		t.Fatalf("answered %d times", *done)
	}
	for i := range read.Parts {
		got := copyBatches(r, &read.Parts[i])
		if read.Parts[i].Err != nil || len(got) != 1 || string(got[0]) != string(group.Appends[i].Batch) {
			t.Fatalf("part %d: %d batches, %v", i, len(got), read.Parts[i].Err)
		}
		if f := read.Parts[i].Frontiers; f.HighWatermark != 1 {
			t.Fatalf("part %d: %+v", i, f)
		}
	}
	read.Release()
	r.close()
	if n := r.tail.InUseBytes(); n != 0 {
		t.Fatalf("%d bytes are not given back", n)
	}
}

// It waits on all shards, and is answered when any of them brings what is missing,
// or all of them together.
func TestReadWaitsOnSeveralShards(t *testing.T) {
	r, logs := shardsRig(t, 2, 2)
	read, done := joint(logs, 1, time.Minute)
	r.step.Read(read)
	r.settle()
	if m := r.step.Metrics(); *done != 0 || m.ParkedReads != 1 {
		t.Fatalf("answered %d times with nothing there, %d parked", *done, m.ParkedReads)
	}
	r.appendTo(1, 500, logs[1])
	if *done != 1 || read.Parts[0].Bytes != 0 || read.Parts[1].Bytes == 0 {
		t.Fatalf("answered %d times: %d and %d bytes", *done, read.Parts[0].Bytes, read.Parts[1].Bytes)
	}
	read.Release()

	one := read.Parts[1].Bytes
	read, done = joint(logs, 4*one, time.Minute)
	r.step.Read(read)
	for round := range 3 {
		r.settle()
		if *done != 0 {
			t.Fatalf("answered with %d batches of 4", 1+round)
		}
		r.appendTo(uint64(round+2), 500, logs[round%2])
	}
	if *done != 1 || read.Parts[0].Bytes+read.Parts[1].Bytes != 4*one {
		t.Fatalf("answered %d times with %d+%d bytes of %d", *done, read.Parts[0].Bytes, read.Parts[1].Bytes, 4*one)
	}
	read.Release()
	if m := r.step.Metrics(); m.ParkedReads != 0 {
		t.Fatalf("%d reads are parked", m.ParkedReads)
	}
	r.close()
}

// Its time passes on all shards at once, and Cancel reaches all of them.
func TestReadOverSeveralShardsEnds(t *testing.T) {
	r, logs := shardsRig(t, 2, 4)
	read, done := joint(logs, 1000, 5*time.Second)
	r.appendTo(1, 100, logs[2])
	r.step.Read(read)
	r.settle()
	r.pass(4 * time.Second)
	if *done != 0 {
		t.Fatal("answered before its time")
	}
	r.pass(2 * time.Second)
	if *done != 1 || read.Parts[2].Bytes == 0 {
		t.Fatalf("answered %d times with %d bytes", *done, read.Parts[2].Bytes)
	}
	read.Release()

	read, done = joint(logs, 1000, time.Hour)
	r.step.Read(read)
	r.settle()
	r.step.Cancel(read)
	r.settle()
	if *done != 1 || read.Parts[2].Bytes == 0 {
		t.Fatalf("after Cancel: answered %d times with %d bytes", *done, read.Parts[2].Bytes)
	}
	r.step.Cancel(read) // harmless
	r.settle()
	read.Release()

	read, done = joint(logs, 1000, time.Hour)
	r.step.Read(read)
	r.settle()
	if err := r.step.Hasten(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.settle()
	if *done != 1 {
		t.Fatalf("after Hasten: answered %d times", *done)
	}
	read.Release()
	r.close()
}

// KIP-74 over shards: the bound holds for the sum, and only the first part that has
// anything may exceed it.
func TestReadOverSeveralShardsKeepsItsBound(t *testing.T) {
	r, logs := shardsRig(t, 2, 4)
	r.appendTo(1, 5000, logs[1], logs[2], logs[3])
	size := len(batchOf(1, 1, 5000, 1))
	for _, c := range []struct{ bytesMax, batches int }{{100, 1}, {size, 1}, {2*size - 1, 1}, {2 * size, 2}, {3 * size, 3}} {
		read, done := joint(logs, 1, 0)
		read.BytesMax = c.bytesMax
		r.step.Read(read)
		r.settle()
		batches := 0
		for i := range read.Parts {
			batches += len(copyBatches(r, &read.Parts[i]))
		}
		if *done != 1 || batches != c.batches {
			t.Errorf("%d bytes at most: answered %d times with %d batches, want %d", c.bytesMax, *done, batches, c.batches)
		}
		read.Release()
	}
	r.close()
}

// A part with an error answers at once, and a log that closes while the read waits for it does.
func TestReadOverSeveralShardsWithAnError(t *testing.T) {
	r, logs := shardsRig(t, 2, 4)
	read, done := joint(logs, 1, time.Hour)
	read.Parts[3].Offset = 7
	r.step.Read(read)
	r.settle()
	if *done != 1 || !errors.Is(read.Parts[3].Err, ErrOffsetOutOfRange) || read.Parts[0].Err != nil {
		t.Fatalf("answered %d times: %v, %v", *done, read.Parts[3].Err, read.Parts[0].Err)
	}
	read.Release()
	read, done = joint(logs, 1, time.Hour)
	r.step.Read(read)
	r.settle()
	if err := r.step.Delete(context.Background(), logs[1].ID()); err != nil {
		t.Fatal(err)
	}
	r.settle()
	if *done != 1 || !errors.Is(read.Parts[1].Err, ErrClosed) {
		t.Fatalf("answered %d times: %v", *done, read.Parts[1].Err)
	}
	read.Release()
	// The engine's end answers those that wait.
	read, done = joint([]*Log{logs[0], logs[3]}, 1, time.Hour)
	r.step.Read(read)
	r.settle()
	r.close()
	if *done != 1 || !errors.Is(errors.Join(read.Parts[0].Err, read.Parts[1].Err), ErrClosed) {
		t.Fatalf("answered %d times: %v, %v", *done, read.Parts[0].Err, read.Parts[1].Err)
	}
	read.Release()
}

// Abandoned at any moment, a joined read is answered once and all memory comes back.
func TestReadOverSeveralShardsAbandoned(t *testing.T) {
	for turns := range 12 {
		r, logs := shardsRig(t, 3, 3)
		r.appendTo(1, 100, logs[0])
		enough, done := joint(logs, 1, time.Hour)
		waiting, waited := joint(logs, 10_000, time.Hour)
		r.step.Read(enough)
		r.step.Read(waiting)
		for i := range turns {
			if i == turns/2 {
				r.step.Cancel(waiting)
			}
			if err := r.step.Turn(); err != nil {
				t.Fatal(err)
			}
		}
		r.crashShards()
		if *done != 1 || *waited != 1 {
			t.Fatalf("after %d turns: answered %d and %d times", turns, *done, *waited)
		}
		enough.Release()
		waiting.Release()
		if n := r.tail.InUseBytes() + r.cold.InUseBytes(); n != 0 {
			t.Fatalf("after %d turns: %d bytes are not given back", turns, n)
		}
	}
}

// crashShards ends all shards as kill -9 does.
func (r *rig) crashShards() {
	for _, s := range r.step.shards {
		for s.disk.InFlight() > 0 {
			s.finished, _ = s.disk.Wait(s.finished[:0], -1)
		}
	}
	r.step.Abandon()
	for _, s := range r.step.shards {
		_ = s.disk.Close()
	}
}
