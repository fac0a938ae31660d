package killtest

import (
	"fmt"
	"slices"
	"sync"
)

// Position is a place in a topic.
type Position struct {
	Partition int32
	Offset    int64
}

// String returns the position as it is printed in findings.
func (p Position) String() string { return fmt.Sprintf("%d@%d", p.Partition, p.Offset) }

// History is what producers and consumers of one topic saw. Its methods may be
// called from any goroutine.
type History struct {
	mu           sync.Mutex
	sent         map[int32]int64   // by producer: how many it sent, as sequences 0, 1, 2, …
	acknowledged map[Name]Position // answered with success
	seen         map[Position]Name // shown to a consumer while the load ran
	ends         map[int32]int64   // by partition: the largest high watermark anybody was told
	faults       []Anomaly         // found while the load ran
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{
		sent:         map[int32]int64{},
		acknowledged: map[Name]Position{},
		seen:         map[Position]Name{},
		ends:         map[int32]int64{},
	}
}

// Send gives the next record of a producer its name. It counts as sent from
// here on: it may be in the log.
func (h *History) Send(producer int32) Name {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := Name{producer, h.sent[producer]}
	h.sent[producer]++
	return name
}

// Acknowledge notes that a record's produce was answered with success: it must
// be in the log.
func (h *History) Acknowledge(name Name, at Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acknowledged[name] = at
	h.ends[at.Partition] = max(h.ends[at.Partition], at.Offset+1)
}

// See notes that a consumer was shown a record. Two values at one offset are a
// fault at once.
func (h *History) See(at Position, value []byte) {
	name, intact := ParseValue(value)
	h.mu.Lock()
	defer h.mu.Unlock()
	before, again := h.seen[at]
	switch {
	case !intact:
		h.faults = append(h.faults, Anomaly{KindChanged, fmt.Sprintf("a consumer was shown %d bytes at %v that nobody sent", len(value), at)})
	case again && before != name:
		h.faults = append(h.faults, Anomaly{KindTwoValues, fmt.Sprintf("a consumer was shown %v at %v, and before that %v", name, at, before)})
	default:
		h.seen[at] = name
		h.ends[at.Partition] = max(h.ends[at.Partition], at.Offset+1)
	}
}

// Counts returns how many records were sent, acknowledged, and shown.
func (h *History) Counts() (sent, acknowledged, seen int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, count := range h.sent {
		sent += count
	}
	return sent, int64(len(h.acknowledged)), int64(len(h.seen))
}

// Record is one record of the log as it is found.
type Record struct {
	Offset int64
	Name   Name
	Intact bool // it is, byte for byte, what a sender of that name sends
}

// Found makes a Record of what was read.
func Found(offset int64, value []byte) Record {
	name, intact := ParseValue(value)
	return Record{offset, name, intact}
}

// Check judges a log, read from its start to its high watermark, against the
// history. All producers must be quiet. ordered says whether each producer had
// idempotence, or one request in flight: only then is order and uniqueness
// promised.
func (h *History) Check(log map[int32][]Record, ordered bool) []Anomaly {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := checker{history: h, found: map[Name]Position{}, anomalies: slices.Clone(h.faults)}
	for _, partition := range sortedKeys(log) {
		c.partition(partition, log[partition], ordered)
	}
	c.acknowledged()
	c.seen(log)
	return c.anomalies
}
