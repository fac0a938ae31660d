package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/disk/portable"
	"ringlog/record"
)

// waiter is an owner that a goroutine waits for.
type waiter struct {
	AppendGroup
	consumed atomic.Int32
	answered chan struct{}
}

func (w *waiter) Consumed(*AppendGroup) { w.consumed.Add(1) }

func (w *waiter) Answered(*AppendGroup) {
	if w.consumed.Load() != 1 {
		panic("answered before it was consumed")
	}
	w.answered <- struct{}{}
}

// threaded is an engine on threads of its own, with open logs.
func threaded(t *testing.T, shards, count int, journalBytes int64) (*Engine, []*Log) {
	tail, cold := buffer.NewPool("tail", 8<<20), buffer.NewPool("cold", 8<<20)
	root := t.TempDir()
	e, err := New(Options{
		OpenDisk: func() (disk.Disk, error) { return portable.New(root, portable.Options{Workers: 2}) },
		Tail:     tail, Cold: cold, Shards: shards, JournalBytes: journalBytes, CheckpointInterval: 5 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("close: %v", err)
		}
		for _, pool := range []*buffer.Pool{tail, cold} {
			if err := pool.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	logs := make([]*Log, count)
	var opening sync.WaitGroup
	for n := range logs {
		opening.Go(func() {
			spec := LogSpec{ID: numbered(n), Label: fmt.Sprintf("log-%d", n), Replica: new(aloneReplica)}
			l, err := e.Create(context.Background(), spec)
			if err == nil {
				err = e.Lead(context.Background(), spec.ID, 1)
			}
			if err != nil {
				t.Error(err)
			}
			logs[n] = l
		})
	}
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return e, logs
}

// marked is a batch that says who made it, and as which one.
func marked(producer, number int) record.Batch {
	b := batchOf(uint64(producer)<<32|uint64(number), 1, 100+number%300, 1)
	binary.BigEndian.PutUint32(b[record.HeaderBytes:], uint32(producer))
	binary.BigEndian.PutUint32(b[record.HeaderBytes+4:], uint32(number))
	b.UpdateCRC()
	return b
}

// produceAll appends rounds groups to all logs, several under way, from one goroutine.
func produceAll(e *Engine, logs []*Log, producer, rounds int) error {
	window := make(chan *waiter, 4)
	for range cap(window) {
		window <- &waiter{answered: make(chan struct{}, 1)}
	}
	var waiting []*waiter
	finish := func() error {
		w := waiting[0]
		waiting = waiting[1:]
		<-w.answered
		for i := range w.Appends {
			if err := w.Appends[i].Err; err != nil {
				return fmt.Errorf("producer %d, log %d: %w", producer, i, err)
			}
		}
		window <- w
		return nil
	}
	for number := range rounds {
		if len(waiting) == cap(window) {
			if err := finish(); err != nil {
				return err
			}
		}
		w := <-window
		w.consumed.Store(0)
		w.Owner, w.Appends = w, w.Appends[:0]
		for _, l := range logs {
			w.Appends = append(w.Appends, Append{Log: l, Batch: marked(producer, number)})
		}
		waiting = append(waiting, w)
		e.Append(&w.AppendGroup)
	}
	for len(waiting) > 0 {
		if err := finish(); err != nil {
			return err
		}
	}
	return nil
}

// consumeAll reads all logs together until each has batches batches, and checks that those
// of each producer are in order.
func consumeAll(e *Engine, logs []*Log, batches int) error {
	answered := make(chan struct{}, 1)
	read := &Read{Parts: make([]ReadPart, len(logs)), Done: func(*Read) { answered <- struct{}{} }}
	offsets, seen := make([]int64, len(logs)), make([]map[uint32]uint32, len(logs))
	for i := range seen {
		seen[i] = map[uint32]uint32{}
	}
	for left := batches * len(logs); left > 0; {
		for i, l := range logs {
			read.Parts[i] = ReadPart{Log: l, Offset: offsets[i], BytesMax: 64 << 10, Batches: read.Parts[i].Batches, pieces: read.Parts[i].pieces}
		}
		read.BytesMax, read.BytesMin, read.Wait = 256<<10, 1, 20*time.Millisecond
		e.Read(read)
		if left%7 == 0 {
			e.Cancel(read)
		}
		<-answered
		for i := range read.Parts {
			p := &read.Parts[i]
			if p.Err != nil {
				return fmt.Errorf("log %d at %d: %w", i, offsets[i], p.Err)
			}
			for _, rest := range p.Batches {
				for len(rest) > 0 {
					batch, after, err := record.Next(rest)
					if err != nil {
						return err
					}
					rest = after
					if batch.LastOffset() < offsets[i] {
						continue
					}
					producer := binary.BigEndian.Uint32(batch[record.HeaderBytes:])
					number := binary.BigEndian.Uint32(batch[record.HeaderBytes+4:])
					if batch.BaseOffset() != offsets[i] || number != seen[i][producer] {
						return fmt.Errorf("log %d at %d: batch %d of producer %d at %d, want batch %d",
							i, offsets[i], number, producer, batch.BaseOffset(), seen[i][producer])
					}
					seen[i][producer]++
					offsets[i] = batch.LastOffset() + 1
					left--
				}
			}
		}
		read.Release()
	}
	return nil
}

// underLoad starts producers, and two readers of all that they send.
func underLoad(t *testing.T, work *sync.WaitGroup, e *Engine, logs []*Log, producers, rounds int) {
	for p := range producers {
		work.Go(func() {
			if err := produceAll(e, logs, p, rounds); err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 {
		work.Go(func() {
			if err := consumeAll(e, logs, producers*rounds); err != nil {
				t.Error(err)
			}
		})
	}
}

// ways runs a story without a commit journal and with one.
func ways(t *testing.T, story func(t *testing.T, journalBytes int64)) {
	t.Run("segments", func(t *testing.T) { story(t, 0) })
	t.Run("journal", func(t *testing.T) { story(t, 1<<20) })
}

// Producers, readers and everybody else on many threads: what one goroutine submits reaches each
// log in order, on whichever shard it lives.
func TestShardsOnThreads(t *testing.T) { ways(t, shardsOnThreads) }

func shardsOnThreads(t *testing.T, journalBytes int64) {
	const producers, rounds = 3, 150
	e, logs := threaded(t, 3, 7, journalBytes)
	var work sync.WaitGroup
	underLoad(t, &work, e, logs, producers, rounds)
	work.Go(func() {
		for n := range 20 {
			id := numbered(1000 + n)
			if _, err := e.Create(context.Background(), LogSpec{ID: id, Label: "passing", Replica: new(aloneReplica)}); err != nil {
				t.Error(err)
			}
			if _, err := e.Status(context.Background(), id); err != nil {
				t.Error(err)
			}
			if err := e.Delete(context.Background(), id); err != nil {
				t.Error(err)
			}
			e.Metrics()
		}
	})
	work.Wait()
}

// Reads that wait on several shards are answered when the engine ends under them.
func TestShardsEndUnderReads(t *testing.T) {
	e, logs := threaded(t, 3, 6, 1<<20)
	answered := make(chan *Read, 32)
	for i := range cap(answered) {
		read := &Read{BytesMax: 1 << 20, BytesMin: 1, Wait: time.Hour, Done: func(r *Read) { answered <- r }}
		for n := range 1 + i%len(logs) {
			read.Parts = append(read.Parts, ReadPart{Log: logs[n], BytesMax: 1 << 20})
		}
		e.Read(read)
	}
	if err := e.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for range cap(answered) {
		(<-answered).Release()
	}
}
