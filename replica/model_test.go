package replica

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// modelBatch is a batch that is in the model's log.
type modelBatch struct {
	madeBatch
	baseOffset int64
}

func (b modelBatch) end() int64 { return b.baseOffset + int64(b.records) }

// model says what idempotence means by looking through the whole log each
// time. It is slow, and short enough to be right.
type model struct {
	log []modelBatch // what the replica saw, oldest first
}

// judge returns "append", the base offset of the original, or an error's text.
func (m *model) judge(b madeBatch) string {
	if b.producerID < 0 {
		return "append"
	}
	var run []modelBatch // what the producer appended in its present epoch, without a gap
	for _, logged := range m.log {
		if logged.producerID != b.producerID {
			continue
		}
		if len(run) > 0 && (logged.epoch != run[0].epoch || logged.baseSequence != m.after(run)) {
			run = run[:0]
		}
		run = append(run, logged)
	}
	switch {
	case len(run) == 0:
		return "append"
	case b.epoch < run[0].epoch:
		return ErrInvalidProducerEpoch.Error()
	case b.epoch > run[0].epoch && b.baseSequence == 0:
		return "append"
	case b.epoch > run[0].epoch:
		return ErrOutOfOrderSequence.Error()
	}
	kept := run[max(0, len(run)-5):]
	for _, original := range kept {
		if original.baseSequence == b.baseSequence && original.records == b.records {
			return fmt.Sprint(original.baseOffset)
		}
	}
	if b.baseSequence == m.after(run) {
		return "append"
	}
	before := make(map[int32]bool) // every sequence that lies before what is kept
	for _, old := range run[:len(run)-len(kept)] {
		for i := range old.records {
			before[wrapped(int64(old.baseSequence)+int64(i))] = true
		}
	}
	for i := range b.records {
		if !before[wrapped(int64(b.baseSequence)+int64(i))] {
			return ErrOutOfOrderSequence.Error()
		}
	}
	return ErrDuplicateSequence.Error()
}

// after returns the sequence that follows run.
func (m *model) after(run []modelBatch) int32 {
	last := run[len(run)-1]
	return wrapped(int64(last.baseSequence) + int64(last.records))
}

func wrapped(sequence int64) int32 { return int32(sequence % (math.MaxInt32 + 1)) }

// modelTest drives a Partition and the model side by side.
type modelTest struct {
	*testLog
	t *rapid.T
	model
	sent []madeBatch    // what was produced, for retries
	due  map[int]string // the answer that each parked produce waits for

	snapshot   []byte // nil before the first
	snapshotAt int64  // the log's end when it was taken
	snapshotOf int    // how much of model.log it covers
}

// produce sends one batch and checks what becomes of it.
func (m *modelTest) produce(b madeBatch) {
	n := len(m.requests)
	m.sent = append(m.sent, b)
	want, next, highWatermark := m.judge(b), m.frontiers.Next, m.frontiers.HighWatermark
	said := m.testLog.produce(b)
	switch {
	case want == "append":
		m.expect(said, fmt.Sprintf("append %d at %d epoch %d", n, next, m.partition.epoch))
		m.log = append(m.log, modelBatch{b, next})
		m.due[n] = fmt.Sprint(next)
	case len(said) == 0: // a parked retry; its answer is checked by checkAnswers
		for _, original := range m.log {
			if fmt.Sprint(original.baseOffset) == want && original.end() > highWatermark {
				m.due[n] = want
				return
			}
		}
		m.t.Fatalf("produce %d is parked, want %s", n, want)
	default:
		m.expect(said, fmt.Sprintf("answer %d: %s", n, want))
	}
}

// randomBatch draws a batch that follows, repeats, skips or falls back.
func (m *modelTest) randomBatch() madeBatch {
	if len(m.sent) > 0 && rapid.IntRange(0, 2).Draw(m.t, "again") == 0 {
		back := rapid.IntRange(1, min(len(m.sent), 12)).Draw(m.t, "back")
		return m.sent[len(m.sent)-back]
	}
	id := rapid.Int64Range(-1, 2).Draw(m.t, "producer")
	records := rapid.Int32Range(1, 3).Draw(m.t, "records")
	if id < 0 {
		return plain(records)
	}
	epoch, next := int16(0), int32(math.MaxInt32-5) // near the end, so that sequences wrap
	for _, logged := range m.log {
		if logged.producerID == id {
			epoch, next = logged.epoch, wrapped(int64(logged.baseSequence)+int64(logged.records))
		}
	}
	switch rapid.IntRange(0, 9).Draw(m.t, "sequence") {
	case 0:
		next = wrapped(int64(next) + 1)
	case 1:
		next = wrapped(int64(next) - 1 + math.MaxInt32 + 1)
	case 2:
		epoch++
		next = 0
	case 3:
		epoch += int16(rapid.IntRange(-1, 1).Draw(m.t, "epoch"))
	}
	return from(id, max(epoch, 0), next, records)
}

// recovered makes a Partition from the snapshot and the log above it.
func (m *modelTest) recovered() *Partition {
	p := New(Options{})
	if err := p.Restore(m.snapshot); err != nil {
		m.t.Fatalf("restore: %v", err)
	}
	from := m.snapshotOf
	if m.snapshot == nil {
		from = 0
	}
	for _, b := range m.log[from:] {
		p.Replay(b.at(b.baseOffset))
	}
	p.producers.touchReplayed(m.now)
	return p
}

// crash loses a part of what is not durable, and what was parked with it.
func (m *modelTest) crash() {
	end := rapid.Int64Range(m.frontiers.Durable, m.frontiers.Next).Draw(m.t, "survives")
	for len(m.log) > 0 && m.log[len(m.log)-1].end() > end {
		m.log = m.log[:len(m.log)-1]
	}
	end = 0
	if len(m.log) > 0 {
		end = m.log[len(m.log)-1].end()
	}
	if m.snapshotAt > end { // rule 12: side state counts only up to the recovered end
		m.snapshot = nil
	}
	clear(m.due)
	epoch := m.partition.epoch
	m.partition = m.recovered()
	m.frontiers.Durable, m.frontiers.Written, m.frontiers.Next = end, end, end
	m.frontiers.HighWatermark = 0
	m.step(m.opened())
	m.step(m.lead(epoch + 1))
}

// Property (rule 12, scenario 11): whatever producers send and whenever the
// broker dies, each produce is judged as a look through the whole log would
// judge it, and a replica that was restored from a snapshot and replayed what
// followed is, byte for byte, the one that lived through it.
func TestReplicaAgreesWithTheWholeLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &modelTest{testLog: newTestLog(t, Options{}), t: t, due: make(map[int]string)}
		t.Repeat(map[string]func(*rapid.T){
			"produce": func(t *rapid.T) { m.t = t; m.produce(m.randomBatch()) },
			"produce more": func(t *rapid.T) {
				m.t = t
				for range 5 {
					m.produce(m.randomBatch())
				}
			},
			"flush": func(t *rapid.T) {
				m.t = t
				m.durable(rapid.Int64Range(m.frontiers.Durable, m.frontiers.Next).Draw(t, "durable"))
			},
			"snapshot": func(t *rapid.T) {
				m.snapshot = m.partition.AppendSnapshot(nil)
				m.snapshotAt, m.snapshotOf = m.frontiers.Next, len(m.log)
			},
			"crash": func(t *rapid.T) { m.t = t; m.crash() },
			"": func(t *rapid.T) {
				m.t = t
				live := m.partition.AppendSnapshot(nil)
				if again := m.recovered().AppendSnapshot(nil); string(again) != string(live) {
					t.Fatalf("side state of a recovered replica\n  %x, of the one that lived\n  %x", again, live)
				}
				m.checkAnswers()
			},
		})
	})
}

// checkAnswers: what is answered got what was due, and everything that waits,
// waits for something above the high watermark.
func (m *modelTest) checkAnswers() {
	for n, want := range m.due {
		if got := m.answered[n]; got != "" && got != want {
			m.t.Fatalf("produce %d was answered %s, want %s", n, got, want)
		}
	}
	waiting := append([]parked(nil), m.partition.retries...)
	for q := m.partition.queue; q.count > 0; {
		waiting = append(waiting, *q.front())
		q.head, q.count = (q.head+1)&(len(q.ring)-1), q.count-1
	}
	for _, w := range waiting {
		if w.end <= m.frontiers.HighWatermark {
			m.t.Fatalf("produce %d waits for %d below the high watermark %d", m.requests[w.append], w.end, m.frontiers.HighWatermark)
		}
	}
}
