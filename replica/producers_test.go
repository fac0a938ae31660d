package replica

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// commit makes everything durable and throws the answers away.
func (l *testLog) commit() {
	l.t.Helper()
	l.durable(l.frontiers.Next)
}

// KIP-98, and what every client relies on: a retry of one of its last five
// batches is answered with the offset of the original and is not appended again.
func TestRetryOfTheLastFiveIsAnsweredWithItsOffset(t *testing.T) {
	l := newTestLog(t, Options{})
	for i := range int32(6) {
		l.produce(from(1, 0, 10*i, 10))
	}
	l.commit()
	for i := range int32(5) {
		n := len(l.requests)
		l.expect(l.produce(from(1, 0, 10*(i+1), 10)), fmt.Sprintf("answer %d: %d", n, 10*(i+1)))
	}
	l.expect(l.produce(from(1, 0, 0, 10)), "answer 11: "+ErrDuplicateSequence.Error())
	l.expect(l.produce(from(1, 0, 60, 10)), "append 12 at 60 epoch 7")
}

// Contract: a retry of a batch that is not durable yet is answered when its
// original is, no earlier and no later.
func TestRetryWaitsForItsOriginal(t *testing.T) {
	l := newTestLog(t, Options{})
	l.produce(from(1, 0, 0, 2)) // 0
	l.produce(from(2, 0, 0, 2)) // 1
	l.produce(from(1, 0, 2, 2)) // 2
	l.expect(l.produce(from(1, 0, 2, 2)))
	l.expect(l.produce(from(2, 0, 0, 2)))
	l.expect(l.produce(from(1, 0, 0, 2)))
	l.expect(l.produce(from(1, 0, 0, 2)))
	l.expect(l.durable(2), "high watermark 2", "answer 0: 0", "answer 5: 0", "answer 6: 0")
	l.expect(l.durable(5), "high watermark 5", "answer 1: 2", "answer 4: 2")
	l.expect(l.durable(6), "high watermark 6", "answer 2: 4", "answer 3: 4")
}

// What a batch meets whose producer has appended sequences 0 to 29 in batches
// of five under epoch 3, so that 5 to 29 are remembered.
func TestJudgement(t *testing.T) {
	const (
		appended = "append"
		stale    = "replica: producer epoch is not the current one"
		gap      = "replica: out of order sequence number"
		older    = "replica: duplicate of a batch older than the last five"
	)
	for _, c := range []struct {
		name  string
		batch madeBatch
		want  string // "append", the offset of the original, or an error
	}{
		{"the next sequence", from(1, 3, 30, 5), appended},
		{"a batch is missing between", from(1, 3, 35, 5), gap},
		{"one record is missing between", from(1, 3, 31, 5), gap},
		{"retry of the newest", from(1, 3, 25, 5), "25"},
		{"retry of the oldest remembered", from(1, 3, 5, 5), "5"},
		{"retry of one before", from(1, 3, 0, 5), older},
		{"part of one before", from(1, 3, 1, 3), older},
		{"retry of the newest with fewer records", from(1, 3, 25, 4), gap},
		{"retry of the newest with more records", from(1, 3, 25, 6), gap},
		{"across two that are remembered", from(1, 3, 20, 10), gap},
		{"across one before and one remembered", from(1, 3, 0, 10), gap},
		{"ends where sequences begin", from(1, 3, math.MaxInt32, 1), gap},
		{"half the sequence space away", from(1, 3, 1<<30+30, 5), gap},
		{"without a sequence", from(1, 3, -1, 5), gap},
		{"an older instance of the producer", from(1, 2, 30, 5), stale}, // fencing, KIP-98
		{"an older instance that starts over", from(1, 2, 0, 5), stale},
		{"without an epoch", from(1, -1, 30, 5), stale},
		{"a newer epoch from its start", from(1, 4, 0, 5), appended}, // KIP-360
		{"a newer epoch that goes on", from(1, 4, 30, 5), gap},
		{"a newer epoch from 1", from(1, 5, 1, 5), gap},
		{"another producer from 0", from(2, 0, 0, 5), appended},
		{"another producer in the middle", from(2, 9, 1234, 5), appended}, // KIP-360
		{"another producer at the last sequence", from(2, 0, math.MaxInt32, 1), appended},
		{"another producer without an epoch", from(2, -1, 0, 5), stale},
		{"another producer without a sequence", from(2, 0, -1, 5), gap},
		{"no producer id", plain(5), appended},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newTestLog(t, Options{})
			for i := range int32(6) {
				l.produce(from(1, 3, 5*i, 5))
			}
			l.commit()
			switch said := l.produce(c.batch); c.want {
			case appended:
				l.expect(said, "append 6 at 30 epoch 7")
			default:
				l.expect(said, "answer 6: "+c.want)
			}
		})
	}
}

// After a refused batch the producer stands where it stood.
func TestRefusalChangesNothing(t *testing.T) {
	l := newTestLog(t, Options{})
	l.produce(from(1, 3, 0, 5))
	before := string(l.partition.AppendSnapshot(nil))
	l.produce(from(1, 3, 6, 5))
	l.produce(from(1, 2, 5, 5))
	l.produce(from(1, 4, 5, 5))
	l.produce(from(1, 3, 0, 5))
	if after := string(l.partition.AppendSnapshot(nil)); after != before {
		t.Errorf("side state after refusals and a retry\n  %x, before\n  %x", after, before)
	}
}

// A new epoch forgets the batches of the one before: they are not its retries.
func TestEpochBumpStartsOver(t *testing.T) {
	l := newTestLog(t, Options{})
	l.produce(from(1, 0, 0, 5))
	l.produce(from(1, 0, 5, 5))
	l.expect(l.produce(from(1, 1, 0, 5)), "append 2 at 10 epoch 7")
	l.commit()
	l.expect(l.produce(from(1, 1, 0, 5)), "answer 3: 10")
	l.expect(l.produce(from(1, 0, 10, 5)), "answer 4: "+ErrInvalidProducerEpoch.Error())
	l.expect(l.produce(from(1, 1, math.MaxInt32-4, 5)), "answer 5: "+ErrOutOfOrderSequence.Error()) // before 0 lies nothing
	l.expect(l.produce(from(1, 1, 5, 5)), "append 6 at 15 epoch 7")
}

// Sequences go from 2^31-1 to 0, inside a batch or between two.
func TestSequencesWrapAround(t *testing.T) {
	l := newTestLog(t, Options{})
	l.expect(l.produce(from(1, 0, math.MaxInt32-4, 5)), "append 0 at 0 epoch 7")
	l.expect(l.produce(from(1, 0, 0, 5)), "append 1 at 5 epoch 7")
	l.expect(l.produce(from(2, 0, math.MaxInt32-1, 5)), "append 2 at 10 epoch 7") // up to sequence 2
	l.expect(l.produce(from(2, 0, 3, 5)), "append 3 at 15 epoch 7")
	l.commit()
	l.expect(l.produce(from(1, 0, math.MaxInt32-4, 5)), "answer 4: 0")
	l.expect(l.produce(from(2, 0, math.MaxInt32-1, 5)), "answer 5: 10")
	for i := range int32(5) {
		l.produce(from(1, 0, 5+5*i, 5))
	}
	l.commit()
	l.expect(l.produce(from(1, 0, math.MaxInt32-4, 5)), "answer 11: "+ErrDuplicateSequence.Error())
	l.expect(l.produce(from(1, 0, math.MaxInt32-9, 5)), "answer 12: "+ErrOutOfOrderSequence.Error())
}

// A producer whose state began in the middle may still have batches on their way
// that were never appended. They must not be taken for old retries: that answer
// means "it is in the log".
func TestWhatWasNeverSeenIsNoDuplicate(t *testing.T) {
	l := newTestLog(t, Options{})
	for i := range int32(7) {
		l.expect(l.produce(from(1, 0, 100+10*i, 10)), fmt.Sprintf("append %d at %d epoch 7", i, 10*i))
	}
	l.expect(l.produce(from(1, 0, 90, 10)), "answer 7: "+ErrOutOfOrderSequence.Error())
	l.expect(l.produce(from(1, 0, 95, 10)), "answer 8: "+ErrOutOfOrderSequence.Error())
	l.expect(l.produce(from(1, 0, 100, 10)), "answer 9: "+ErrDuplicateSequence.Error())
}

// Retention and DeleteRecords take records, not what is known of their producer
// (KIP-360); once it has expired any sequence is accepted from it again.
func TestIdleProducerExpires(t *testing.T) {
	l := newTestLog(t, Options{ProducerExpiration: time.Minute})
	l.produce(from(1, 5, 0, 10))
	l.commit()
	l.frontiers.Start = 10

	l.now += time.Minute.Milliseconds() - 1
	l.expect(l.produce(from(1, 5, 20, 10)), "answer 1: "+ErrOutOfOrderSequence.Error())
	l.expect(l.produce(from(1, 5, 0, 10)), "answer 2: 0")

	l.now++
	l.expect(l.produce(from(1, 5, 20, 10)), "append 3 at 10 epoch 7")
	l.expect(l.produce(from(1, 4, 30, 10)), "answer 4: "+ErrInvalidProducerEpoch.Error())
}

// Expiry goes by the broker's clock: what a copier of old records appends, or
// one that dates them into the future, is remembered as long as anything else.
func TestTimestampsDoNotExpireProducers(t *testing.T) {
	for _, timestamp := range []int64{-1, 0, math.MaxInt64} {
		l := newTestLog(t, Options{ProducerExpiration: time.Minute})
		m := from(1, 0, 0, 1)
		m.maxTimestamp = timestamp
		l.produce(m)
		l.commit()
		l.now += time.Minute.Milliseconds() - 1
		l.expect(l.produce(from(1, 0, 0, 1)), "answer 1: 0")
		l.now++
		l.expect(l.produce(from(1, 0, 7, 1)), "append 2 at 1 epoch 7")
	}
}

// A clock that steps back leaves the order of forgetting as it was.
func TestClockMayStepBack(t *testing.T) {
	l := newTestLog(t, Options{ProducersMax: 2, ProducerExpiration: time.Minute})
	l.produce(from(1, 0, 0, 1))
	l.now -= time.Hour.Milliseconds()
	l.produce(from(2, 0, 0, 1))
	snapshot := l.partition.AppendSnapshot(nil)
	if err := New(Options{}).Restore(snapshot); err != nil {
		t.Errorf("snapshot after the clock stepped back: %v", err)
	}
	l.produce(from(3, 0, 0, 1)) // 1 makes room
	l.commit()
	l.expect(l.produce(from(2, 0, 0, 1)), "answer 3: 1")
	l.expect(l.produce(from(3, 0, 0, 1)), "answer 4: 2")
}

func TestBoundOnProducersForgetsTheIdlest(t *testing.T) {
	l := newTestLog(t, Options{ProducersMax: 3})
	l.produce(from(1, 0, 0, 1))
	l.produce(from(2, 0, 0, 1))
	l.produce(from(3, 0, 0, 1))
	l.produce(from(1, 0, 1, 1)) // 1 is in use: 2 goes first
	l.produce(from(4, 0, 0, 1))
	l.commit()
	l.expect(l.produce(from(1, 0, 0, 1)), "answer 5: 0")
	l.expect(l.produce(from(3, 0, 0, 1)), "answer 6: 2")
	l.expect(l.produce(from(2, 0, 50, 1)), "append 7 at 5 epoch 7")
	for id := range int64(1000) {
		l.produce(from(100+id, 0, 0, 1))
	}
	if got := len(l.partition.producers.table); got != 3 {
		t.Errorf("table of %d entries, bound 3", got)
	}
}

// Recovery does not know when the log's batches came: opening counts, so a
// broker that was down for a day remembers their producers.
func TestReplayedProducersExpireFromOpening(t *testing.T) {
	l := newTestLog(t, Options{ProducerExpiration: time.Minute})
	l.produce(from(1, 0, 0, 1))
	l.produce(from(2, 0, 0, 1))
	snapshot := l.partition.AppendSnapshot(nil)
	l.produce(from(2, 0, 1, 1))
	l.commit()

	l.partition = New(Options{ProducerExpiration: time.Minute})
	if err := l.partition.Restore(snapshot); err != nil {
		t.Fatalf("restore: %v", err)
	}
	l.partition.Replay(l.batches[2])
	l.now += 24 * time.Hour.Milliseconds()
	l.step(l.opened())
	l.step(l.lead(8))
	l.expect(l.produce(from(2, 0, 1, 1)), "answer 3: 2")
	l.expect(l.produce(from(1, 0, 77, 1)), "append 4 at 3 epoch 8") // its last append is in the snapshot: a day ago
	l.now += time.Minute.Milliseconds()
	l.expect(l.produce(from(2, 0, 77, 1)), "append 5 at 4 epoch 8")
}

// The clock may be behind when the broker comes back; the table's order is not
// the clock's business, so its snapshot can still be read.
func TestClockMayBeBehindAfterARestart(t *testing.T) {
	l := newTestLog(t, Options{})
	l.produce(from(1, 0, 0, 1))
	snapshot := l.partition.AppendSnapshot(nil)
	l.produce(from(2, 0, 0, 1))
	if err := l.partition.Restore(snapshot); err != nil {
		t.Fatalf("restore: %v", err)
	}
	l.partition.Replay(l.batches[1])
	l.now -= time.Hour.Milliseconds()
	l.step(l.opened())
	if err := l.partition.Restore(l.partition.AppendSnapshot(nil)); err != nil {
		t.Errorf("snapshot of a restart with the clock behind: %v", err)
	}
}

// A control batch names a producer and has no sequence (KIP-98): it is nobody's next.
func TestReplayPassesControlBatchesOver(t *testing.T) {
	l := newTestLog(t, Options{})
	l.produce(from(1, 0, 0, 5))
	before := string(l.partition.AppendSnapshot(nil))
	l.partition.Replay(from(1, 0, -1, 1).at(5))
	l.partition.Replay(from(2, 0, -1, 1).at(6))
	l.partition.Replay(plain(3).at(7))
	if after := string(l.partition.AppendSnapshot(nil)); after != before {
		t.Errorf("side state\n  %x, before\n  %x", after, before)
	}
}

// What compaction must keep: the batches that a retry is answered from, of producers that are not expired.
func TestRememberedBatches(t *testing.T) {
	table := newProducerTable(10, 1000)
	for n := range int32(7) {
		table.append(sequenced{producerID: 1, baseSequence: 2 * n, lastOffsetDelta: 1}, int64(100+2*n), 50)
	}
	table.append(sequenced{producerID: 2}, 200, 500)
	if got, want := table.remembered(600, []int64{9}), []int64{9, 200, 104, 106, 108, 110, 112}; !slices.Equal(got, want) {
		t.Errorf("%v, want the last five of one and the only one of the other: %v", got, want)
	}
	if got := table.remembered(1050, nil); !slices.Equal(got, []int64{200}) {
		t.Errorf("%v, and the first producer is expired", got)
	}
	table.replay(sequenced{producerID: 1, baseSequence: 14}, 300)
	if got := table.remembered(1050, nil); len(got) != 6 || !slices.Contains(got, 300) {
		t.Errorf("%v, and the first producer was replayed", got)
	}
}
