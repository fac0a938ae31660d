package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/segment"
	"ringlog/record"
)

func (r *rig) move(l *Log, shard int) {
	r.Helper()
	if err := r.step.Move(context.Background(), l.ID(), shard); err != nil {
		r.Fatalf("move %s to shard %d: %v", l.Label(), shard, err)
	}
	if l.home.Load() != int32(shard) || l.shard.number != shard {
		r.Fatalf("%s is on shard %d", l.Label(), l.shard.number)
	}
}

// A log moves from shard to shard and nobody notices: the handle, the replica, what
// was appended and what is appended next, segments that are sealed and one that ends
// inside a block. A restart finds it where it went.
func TestLogMoves(t *testing.T) {
	r := newRig(t)
	r.config = LogConfig{SegmentBytes: 16 << 10, IndexIntervalBytes: 1024}
	r.tune = func(o *Options) { o.Shards = 3 }
	r.start()
	logs := r.openLogs(2)
	l := logs[0]
	r.log = l
	var all []record.Batch
	for round := range 9 {
		for n := range 5 {
			group := r.appendTo(uint64(100*round+n), 900, l)
			all = append(all, append(record.Batch(nil), group.Appends[0].Batch...))
		}
		before := l.Frontiers()
		r.move(l, (round+1)%3)
		if f := l.Frontiers(); f != before {
			t.Fatalf("frontiers went from %+v to %+v", before, f)
		}
		r.expect(all, r.readAll(0))
	}
	if replica := l.replica.(*aloneReplica); replica.batches != uint64(len(all)) || replica.replayed != 0 {
		t.Fatalf("the replica has %d batches, %d of them replayed", replica.batches, replica.replayed)
	}
	r.move(l, 2)
	r.crashShards()
	r.start()
	logs = r.openLogs(2)
	r.log = logs[0]
	if logs[0].home.Load() != 2 {
		t.Fatalf("after a restart it is on shard %d", logs[0].home.Load())
	}
	r.expect(all, r.readAll(0))
	r.move(logs[0], 0)
	r.close()
	r.start()
	r.log = r.openLogs(1)[0]
	r.expect(all, r.readAll(0))
	r.close()
}

// A log with enough for write-back waits in its queue, from which nothing is taken while the
// ring is nearly empty, even when a large append has brought everything to the segments
// meanwhile. It moves all the same.
func TestALogThatWaitsForWriteBackMoves(t *testing.T) {
	r := newRig(t)
	r.tune = func(o *Options) { o.Shards, o.JournalBytes = 2, 8<<20 }
	r.start()
	defer r.close()
	l := r.openLogs(1)[0]
	from, to := l.shard, r.step.shards[1-l.shard.number]
	for n := range uint64(4) {
		r.appendTo(n, 90<<10, l)
	}
	r.appendTo(9, 600<<10, l)
	if !l.back.queued || l.flushed.offset < l.next.offset {
		t.Fatalf("queued %v, %+v", l.back.queued, l.frontiers())
	}
	moved := false
	from.inbox.send(message{call: &call{ended: make(chan struct{}), run: func(j *job) error {
		err := from.moveAway(j, l, to)
		moved = err == nil
		return err
	}}})
	for range 10 {
		r.settle()
		r.pass(time.Millisecond)
	}
	if !moved || l.shard != to {
		t.Fatal("the log does not move")
	}
}

// What is submitted while a log moves waits and is appended in order; a read that
// waited is answered, one that comes waits for the log.
func TestRequestsDuringAMove(t *testing.T) {
	r, logs := shardsRig(t, 2, 2)
	l := logs[0]
	r.log = l
	parked, parkedDone := joint(logs, 1, time.Hour)
	alone, aloneDone := joint(logs[:1], 1, time.Hour)
	r.step.Read(parked)
	r.step.Read(alone)
	r.settle()

	var groups []*produced
	held, heldDone := joint(logs[:1], 1, time.Hour)
	canceled, canceledDone := joint(logs[:1], 1<<20, time.Hour)
	moved := make([]error, 0, 1)
	c := &call{ended: make(chan struct{}), run: func(j *job) error {
		moved = append(moved, j.shard.moveAway(j, l, r.step.shards[1]))
		return nil
	}}
	r.step.shards[0].inbox.send(message{call: c})
	leaving := false
	for turns := 0; len(moved) == 0 || l.shard.number != 1; turns++ {
		if turns > 10_000 {
			t.Fatal("the log does not move")
		}
		if turns%3 == 0 && turns < 60 {
			group := groupOf(uint64(len(groups)), 300, logs...)
			groups = append(groups, group)
			r.step.Append(&group.AppendGroup)
		}
		if !leaving && l.home.Load() == 1 {
			leaving = true
			r.step.Read(held)
			r.step.Read(canceled)
			r.step.Cancel(canceled)
		}
		if err := r.step.Turn(); err != nil {
			t.Fatal(err)
		}
	}
	r.settle()
	r.step.Cancel(parked)
	r.step.Cancel(alone)
	r.step.Cancel(held)
	r.settle()
	if moved[0] != nil || !leaving {
		t.Fatalf("it moved with %v", moved[0])
	}
	var want []record.Batch
	for i, group := range groups {
		for k := range group.Appends {
			if a := &group.Appends[k]; group.consumed != 1 || group.answered != 1 || a.Err != nil || a.BaseOffset != int64(i) {
				t.Fatalf("group %d: consumed %d times, answered %d times, log %d at %d, %v", i, group.consumed, group.answered, k, a.BaseOffset, a.Err)
			}
		}
		want = append(want, group.Appends[0].Batch)
	}
	r.expect(want, r.readAll(0))
	for name, done := range map[string]int{"parked": *parkedDone, "alone": *aloneDone, "held": *heldDone, "canceled": *canceledDone} {
		if done != 1 {
			t.Errorf("the read that is %s was answered %d times", name, done)
		}
	}
	for _, read := range []*Read{parked, alone, held, canceled} {
		for i := range read.Parts {
			if err := read.Parts[i].Err; err != nil {
				t.Error(err)
			}
		}
		read.Release()
	}
	if m := r.step.Metrics(); m.WaitingAppends != 0 || m.ParkedReads != 0 || m.Shards[1].Logs != 2 {
		t.Errorf("%+v", m)
	}
	r.close()
	if n := r.tail.InUseBytes(); n != 0 {
		t.Fatalf("%d bytes are not given back", n)
	}
}

// What cannot be flushed does not move, and neither does what is not there.
func TestMovesThatCannotBe(t *testing.T) {
	r, logs := shardsRig(t, 2, 2)
	ctx := context.Background()
	if err := r.step.Move(ctx, numbered(77), 1); !errors.Is(err, ErrUnknownLog) {
		t.Errorf("an unknown log: %v", err)
	}
	if err := r.step.Move(ctx, logs[0].ID(), 2); err == nil {
		t.Error("a shard that there is not")
	}
	if err := r.step.Move(ctx, logs[0].ID(), 0); err != nil {
		t.Errorf("to where it is: %v", err)
	}
	logs[0].fail(errors.New("its segment cannot be written"))
	if err := r.step.Move(ctx, logs[0].ID(), 1); !errors.Is(err, ErrPoisoned) || logs[0].home.Load() != 0 {
		t.Errorf("a poisoned log: %v, it is on shard %d", err, logs[0].home.Load())
	}
	r.close()
	if err := r.step.Move(ctx, logs[1].ID(), 0); !errors.Is(err, ErrUnknownLog) && !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// The engine ends, in order or not, at any moment of a move: everything is answered
// once, all memory comes back, and the log is whole at the next start.
func TestEndDuringAMove(t *testing.T) {
	for turns := range 40 {
		r, logs := shardsRig(t, 2, 2)
		first := r.appendTo(1, 300, logs...)
		c := &call{ended: make(chan struct{}), run: func(j *job) error {
			return j.shard.moveAway(j, logs[0], r.step.shards[1])
		}}
		r.step.shards[0].inbox.send(message{call: c})
		for range turns / 2 {
			if err := r.step.Turn(); err != nil {
				t.Fatal(err)
			}
		}
		late := groupOf(2, 300, logs...)
		r.step.Append(&late.AppendGroup)
		read, done := joint(logs, 1<<20, time.Hour)
		r.step.Read(read)
		if turns%2 == 0 {
			r.close()
		} else {
			r.crashShards()
		}
		if *done != 1 || late.consumed != 1 || late.answered != 1 {
			t.Fatalf("after %d turns: the read is answered %d times, the group %d times", turns/2, *done, late.answered)
		}
		read.Release()
		if n := r.tail.InUseBytes() + r.cold.InUseBytes(); n != 0 {
			t.Fatalf("after %d turns: %d bytes are not given back", turns/2, n)
		}
		r.start()
		r.log = r.openLogs(2)[0]
		got := r.readAll(0)
		if len(got) == 0 || string(got[0]) != string(first.Appends[0].Batch) || late.Appends[0].Err == nil && len(got) != 2 {
			t.Fatalf("after %d turns: %d batches, the late one was answered with %v", turns/2, len(got), late.Appends[0].Err)
		}
		r.close()
	}
}

// Logs move about on threads while others produce, read, and ask: what one goroutine submits
// reaches each log in order.
func TestMovesUnderLoad(t *testing.T) { ways(t, movesUnderLoad) }

func movesUnderLoad(t *testing.T, journalBytes int64) {
	const producers, rounds = 2, 500
	e, logs := threaded(t, 3, 5, journalBytes)
	stop := make(chan struct{})
	var work, moving sync.WaitGroup
	underLoad(t, &work, e, logs, producers, rounds)
	moves := 0
	moving.Go(func() {
		dice := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := e.Move(context.Background(), logs[dice.IntN(len(logs))].ID(), dice.IntN(3)); err != nil {
				t.Error(err)
				return
			}
			moves++
		}
	})
	moving.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			l := logs[n%len(logs)]
			if _, err := e.Status(context.Background(), l.ID()); err != nil {
				t.Error(err)
				return
			}
			if again, err := e.Create(context.Background(), LogSpec{ID: l.ID(), Label: l.Label()}); err != nil || again != l {
				t.Errorf("%s is %p, was %p: %v", l.Label(), again, l, err)
				return
			}
		}
	})
	work.Wait()
	close(stop)
	moving.Wait()
	t.Logf("%d moves", moves)
}

// What was sent to the old shard before the log turned away is taken there first, however much
// lies before it: a log that is at rest may still have appends in the inbox.
func TestMoveWaitsForWhatWasSentBefore(t *testing.T) {
	r := newRig(t)
	r.tune = func(o *Options) {
		o.Shards = 2
		o.OpenDisk = func() (disk.Disk, error) {
			return &watchedDisk{instantDisk: new(instantDisk), see: func(op *disk.Operation) {
				if op.Kind == disk.Open && strings.HasSuffix(op.Path, segment.LogSuffix) {
					op.Flags |= disk.Create // the segment is there, whichever shard opens it
				}
			}}, nil
		}
	}
	r.start()
	logs := r.openLogs(3)
	l, busy := logs[0], logs[2]
	var moved error
	c := &call{ended: make(chan struct{}), run: func(j *job) error {
		moved = j.shard.moveAway(j, l, r.step.shards[1])
		return moved
	}}
	r.step.shards[0].inbox.send(message{call: c})
	for turns := 0; l.home.Load() == 0; turns++ {
		if turns > 1000 {
			t.Fatal("the log does not turn away")
		}
		for range messagesPerTurn + 100 {
			r.step.Append(&groupOf(1, 8, busy).AppendGroup)
		}
		if err := r.step.Turn(); err != nil {
			t.Fatal(err)
		}
	}
	// As a sender that looked where the log lives just before.
	for range 2 * messagesPerTurn {
		r.step.Append(&groupOf(1, 8, busy).AppendGroup)
	}
	before, after := groupOf(2, 8, l), groupOf(3, 8, l)
	first := r.step.shards[0].inbox.close()
	r.step.shards[0].inbox.mu.closed = false
	before.Appends[0].shard = 0
	before.expect(1)
	for _, m := range first {
		if m.call != nil { // the fence
			r.step.shards[0].inbox.send(message{group: &before.AppendGroup})
		}
		r.step.shards[0].inbox.send(m)
	}
	r.step.Append(&after.AppendGroup)
	for n := 0; before.answered+after.answered < 2; n++ {
		if err := r.step.Turn(); err != nil {
			t.Fatal(err)
		}
		if n > 10_000 {
			t.Fatal("nothing moves any more")
		}
	}
	if moved != nil || before.Appends[0].BaseOffset != 0 || after.Appends[0].BaseOffset != 1 {
		t.Fatalf("the earlier batch is at %d, the later one at %d, %v", before.Appends[0].BaseOffset, after.Appends[0].BaseOffset, moved)
	}
	r.step.Abandon()
}
