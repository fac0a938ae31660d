package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"ringlog/engine"
	"ringlog/record"
)

// madeBatch is the head of a v2 batch, all that a replica looks at.
type madeBatch struct {
	producerID   int64
	epoch        int16
	baseSequence int32
	records      int32
	maxTimestamp int64
}

// plain returns a batch of a producer without an id.
func plain(records int32) madeBatch {
	return madeBatch{producerID: -1, epoch: -1, baseSequence: -1, records: records}
}

// from returns a batch of an idempotent producer.
func from(producerID int64, epoch int16, baseSequence, records int32) madeBatch {
	return madeBatch{producerID: producerID, epoch: epoch, baseSequence: baseSequence, records: records}
}

func (m madeBatch) at(baseOffset int64) record.Batch {
	b := make(record.Batch, 61)
	binary.BigEndian.PutUint64(b[0:], uint64(baseOffset))
	binary.BigEndian.PutUint32(b[8:], 49)
	b[16] = 2
	binary.BigEndian.PutUint32(b[23:], uint32(m.records-1))
	binary.BigEndian.PutUint64(b[35:], uint64(m.maxTimestamp))
	binary.BigEndian.PutUint64(b[43:], uint64(m.producerID))
	binary.BigEndian.PutUint16(b[51:], uint16(m.epoch))
	binary.BigEndian.PutUint32(b[53:], uint32(m.baseSequence))
	binary.BigEndian.PutUint32(b[57:], uint32(m.records))
	return b
}

// reporter is what a test and a property have in common.
type reporter interface {
	Helper()
	Errorf(format string, arguments ...any)
	Fatalf(format string, arguments ...any)
}

// testLog plays the engine for one Partition: it gives offsets, keeps the
// batches, and writes down each effect as a word or two.
type testLog struct {
	t         reporter
	partition *Partition
	frontiers engine.Frontiers
	now       int64
	batches   []record.Batch
	requests  map[*engine.Append]int // the number of each produce, from 0
	answered  map[int]string
}

// newTestLog returns an empty log that leads under epoch 7.
func newTestLog(t reporter, options Options) *testLog {
	l := &testLog{t: t, partition: New(options), now: 1_000_000}
	l.requests = make(map[*engine.Append]int)
	l.answered = make(map[int]string)
	if err := l.partition.Restore(nil); err != nil {
		t.Fatalf("restore of nothing: %v", err)
	}
	l.expect(l.step(l.opened()))
	l.expect(l.step(engine.Event{Kind: engine.EventConfigured}))
	l.expect(l.step(l.lead(7)))
	return l
}

func (l *testLog) opened() engine.Event { return engine.Event{Kind: engine.EventOpened} }

func (l *testLog) lead(epoch int32) engine.Event {
	return engine.Event{Kind: engine.EventLead, Epoch: epoch}
}

func (l *testLog) step(event engine.Event) []string {
	l.t.Helper()
	event.Frontiers = l.frontiers
	var said []string
	for _, e := range l.partition.Step(l.now, &event, nil) {
		said = append(said, l.carryOut(e))
	}
	return said
}

func (l *testLog) carryOut(e engine.Effect) string {
	l.t.Helper()
	switch e.Kind {
	case engine.EffectAppend:
		batch := e.Append.Batch
		batch.SetBaseOffset(l.frontiers.Next)
		l.batches = append(l.batches, batch)
		said := fmt.Sprintf("append %d at %d epoch %d", l.requests[e.Append], l.frontiers.Next, e.Epoch)
		l.frontiers.Next += int64(batch.LastOffsetDelta()) + 1
		return said
	case engine.EffectHighWatermark:
		l.frontiers.HighWatermark = e.Offset
		return fmt.Sprintf("high watermark %d", e.Offset)
	case engine.EffectAnswer:
		n, ok := l.requests[e.Append]
		if !ok || l.answered[n] != "" {
			l.t.Fatalf("produce %d answered twice, or never asked for", n)
		}
		l.answered[n] = fmt.Sprint(e.Offset)
		said := fmt.Sprintf("answer %d: %d", n, e.Offset)
		if e.Err != nil {
			l.answered[n] = e.Err.Error()
			said = fmt.Sprintf("answer %d: %v", n, e.Err)
		}
		return said
	}
	l.t.Fatalf("effect of unknown kind %d", e.Kind)
	return ""
}

func (l *testLog) produce(m madeBatch) []string {
	l.t.Helper()
	request := &engine.Append{Batch: m.at(0)}
	l.requests[request] = len(l.requests)
	return l.step(engine.Event{Kind: engine.EventProduce, Append: request})
}

// durable says that everything below offset is flushed.
func (l *testLog) durable(offset int64) []string {
	l.t.Helper()
	l.frontiers.Written = max(l.frontiers.Written, offset)
	l.frontiers.Durable = offset
	return l.step(engine.Event{Kind: engine.EventAdvanced})
}

func (l *testLog) written(offset int64) []string {
	l.t.Helper()
	l.frontiers.Written = offset
	return l.step(engine.Event{Kind: engine.EventAdvanced})
}

// truncate cuts the log and has the side state rebuilt, as the engine does.
func (l *testLog) truncate(next int64) []string {
	l.t.Helper()
	for len(l.batches) > 0 && l.batches[len(l.batches)-1].BaseOffset() >= next {
		l.batches = l.batches[:len(l.batches)-1]
	}
	l.frontiers.Next, l.frontiers.Written, l.frontiers.Durable = next, next, next
	if err := l.partition.Restore(nil); err != nil {
		l.t.Fatalf("restore of nothing: %v", err)
	}
	for _, b := range l.batches {
		l.partition.Replay(b)
	}
	return l.step(engine.Event{Kind: engine.EventTruncated})
}

func (l *testLog) expect(got []string, want ...string) {
	l.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		l.t.Errorf("effects\n  %q, want\n  %q", got, want)
	}
}

// Contract C2: a produce is answered when its last record is durable, not
// before, whatever became written meanwhile. The high watermark goes ahead of
// the answers, so that a fetch that follows an answer finds its records.
func TestProduceIsAnsweredOnceDurable(t *testing.T) {
	l := newTestLog(t, Options{})
	l.expect(l.produce(plain(3)), "append 0 at 0 epoch 7")
	l.expect(l.produce(plain(2)), "append 1 at 3 epoch 7")
	l.expect(l.written(5))
	l.expect(l.durable(2), "high watermark 2") // part of a batch: it moves, nobody is answered
	l.expect(l.durable(3), "high watermark 3", "answer 0: 0")
	l.expect(l.durable(3))
	l.expect(l.produce(plain(1)), "append 2 at 5 epoch 7")
	l.expect(l.durable(6), "high watermark 6", "answer 1: 3", "answer 2: 5")
}

// flush.messages > 1 relaxes a topic to what survives kill -9.
func TestRelaxedTopicCommitsWhatIsWritten(t *testing.T) {
	l := newTestLog(t, Options{})
	l.expect(l.step(engine.Event{Kind: engine.EventConfigured, Relaxed: true}))
	l.produce(plain(4))
	l.expect(l.written(4), "high watermark 4", "answer 0: 0")
	l.expect(l.durable(4))

	// Made strict while its high watermark is ahead of what is durable, the topic
	// keeps the high watermark and lets it rise again from there (contract C6).
	l.produce(plain(4))
	l.expect(l.written(8), "high watermark 8", "answer 1: 4")
	l.expect(l.step(engine.Event{Kind: engine.EventConfigured}))
	l.produce(plain(4))
	l.expect(l.written(12))
	l.expect(l.durable(6))
	l.expect(l.durable(12), "high watermark 12", "answer 2: 8")

	// And relaxed again, what is written already commits at once.
	l.produce(plain(1))
	l.expect(l.written(13))
	l.expect(l.step(engine.Event{Kind: engine.EventConfigured, Relaxed: true}), "high watermark 13", "answer 3: 12")
}

func TestOpeningCommitsWhatRecoveryFlushed(t *testing.T) {
	l := &testLog{t: t, partition: New(Options{})}
	l.frontiers = engine.Frontiers{Start: 10, Durable: 40, Written: 40, Next: 40}
	l.expect(l.step(l.opened()), "high watermark 40")
}

// Rule 11: a leader appends only under an epoch that was granted to it.
func TestOnlyAGrantedEpochAppends(t *testing.T) {
	l := &testLog{t: t, partition: New(Options{}), requests: make(map[*engine.Append]int), answered: make(map[int]string)}
	l.expect(l.step(l.opened()))
	l.expect(l.produce(plain(1)), "answer 0: "+ErrNotLeader.Error())
	l.expect(l.step(l.lead(3)))
	l.expect(l.produce(plain(1)), "append 1 at 0 epoch 3")
	l.expect(l.step(l.lead(9)))
	l.expect(l.step(l.lead(4))) // a late one does not lower it
	l.expect(l.produce(plain(1)), "append 2 at 1 epoch 9")
}

// Scenario 12: after a failed flush nothing is acknowledged ever again, and the
// first error is what everybody hears.
func TestFailureAnswersEverythingWithTheFirstError(t *testing.T) {
	l := newTestLog(t, Options{})
	first := errors.New("flush: input/output error")
	l.produce(from(1, 0, 0, 2))
	l.produce(plain(1))
	l.produce(from(1, 0, 0, 2)) // a retry, parked beside its original
	l.expect(l.step(engine.Event{Kind: engine.EventFailed, Err: first}),
		"answer 0: "+first.Error(), "answer 1: "+first.Error(), "answer 2: "+first.Error())
	l.expect(l.step(engine.Event{Kind: engine.EventClosing, Err: engine.ErrClosed}))
	l.expect(l.produce(plain(1)), "answer 3: "+first.Error())
}

func TestClosingAnswersWhatIsParked(t *testing.T) {
	l := newTestLog(t, Options{})
	l.produce(plain(1))
	l.expect(l.step(engine.Event{Kind: engine.EventClosing, Err: engine.ErrClosed}), "answer 0: "+engine.ErrClosed.Error())
	l.expect(l.produce(plain(1)), "answer 1: "+engine.ErrClosed.Error())
}

func TestTruncationRefusesWhatItCutsAway(t *testing.T) {
	l := newTestLog(t, Options{})
	l.produce(from(1, 0, 0, 2))
	l.produce(from(1, 0, 2, 2))
	l.produce(from(1, 0, 2, 2)) // a retry
	l.expect(l.truncate(2), "high watermark 2", "answer 0: 0",
		"answer 1: "+ErrTruncated.Error(), "answer 2: "+ErrTruncated.Error())
	l.expect(l.produce(from(1, 0, 2, 2)), "append 3 at 2 epoch 7")
	l.durable(4)
	l.now += DefaultProducerExpiration.Milliseconds() // the cut rebuilt the table: its entries are as young as it
	l.expect(l.produce(from(1, 0, 7, 2)), "append 4 at 4 epoch 7")
	l.expect(l.truncate(0), "high watermark 0", "answer 4: "+ErrTruncated.Error())
}

// A parked queue that is never empty wraps around its ring without growing.
func TestParkedQueueKeepsOrderAcrossWrapAndGrowth(t *testing.T) {
	var q parkedQueue
	next, oldest := int64(0), int64(0)
	push := func(n int) {
		for range n {
			q.push(parked{end: next})
			next++
		}
	}
	pop := func(n int) {
		for range n {
			if got := q.popFront().end; got != oldest {
				t.Fatalf("popped %d, want %d", got, oldest)
			}
			oldest++
		}
	}
	push(parkedMin - 3)
	for range 100 {
		push(3)
		pop(3)
	}
	if len(q.ring) != parkedMin {
		t.Errorf("ring of %d for at most %d parked", len(q.ring), parkedMin)
	}
	push(50)
	if got := q.popBack().end; got != next-1 {
		t.Errorf("newest is %d, want %d", got, next-1)
	}
	pop(q.count)
	for i, p := range q.ring {
		if p != (parked{}) {
			t.Errorf("slot %d still holds what was popped", i)
		}
	}
}

func TestSteadyStateProducesAllocateNothing(t *testing.T) {
	p := New(Options{})
	effects := make([]engine.Effect, 0, 16)
	event := engine.Event{Kind: engine.EventOpened}
	effects = p.Step(0, &event, effects[:0])
	event = engine.Event{Kind: engine.EventLead, Epoch: 1}
	effects = p.Step(0, &event, effects[:0])

	batch := from(1, 0, 0, 1).at(0)
	request := &engine.Append{Batch: batch}
	sequence, next := int32(0), int64(0)
	produce := func() {
		for range 4 {
			binary.BigEndian.PutUint32(batch[53:], uint32(sequence))
			event = engine.Event{Kind: engine.EventProduce, Append: request, Frontiers: engine.Frontiers{Next: next}}
			effects = p.Step(1, &event, effects[:0])
			sequence++
			next++
			event.Append = request // the same one again: a retry, parked
			event.Frontiers.Next = next
			effects = p.Step(1, &event, effects[:0])
		}
		event = engine.Event{Kind: engine.EventAdvanced, Frontiers: engine.Frontiers{Durable: next, Written: next, Next: next}}
		effects = p.Step(1, &event, effects[:0])
		if len(effects) != 9 {
			t.Fatalf("%d effects, want a high watermark and 8 answers", len(effects))
		}
	}
	produce()
	if allocs := testing.AllocsPerRun(1000, produce); allocs != 0 {
		t.Errorf("%v allocations in four produces, four retries and a commit", allocs)
	}
}
