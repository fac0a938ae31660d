package killtest

import (
	"fmt"
	"sync"
)

// Table is what producers of a compacted topic were told. Each key has one producer, in one
// partition, whose sequences say which of its values is newer. Its methods may be called from any
// goroutine.
type Table struct {
	mu           sync.Mutex
	sent         map[Name]Entry
	acknowledged map[Name]Position
	keys         map[string]*keyState
	ends         map[int32]int64 // by partition: behind the last record that anybody was told of
}

// Entry is what was sent under a name.
type Entry struct {
	Key       string
	Partition int32
	Tombstone bool
}

// keyState is what is known of one key, in sequences of its producer; -1 is none.
type keyState struct {
	promised  int64 // the newest that was acknowledged or read: nothing older may be the last
	tombstone int64 // the newest tombstone that was sent: it may be gone, with all that was older
}

// KeyedRecord is one record of a compacted topic as it is found.
type KeyedRecord struct {
	Offset    int64
	Name      Name
	Key       string
	Tombstone bool
	Intact    bool // it is, byte for byte, what a sender of that name sends
}

// NewTable returns an empty memory.
func NewTable() *Table {
	return &Table{sent: map[Name]Entry{}, acknowledged: map[Name]Position{}, keys: map[string]*keyState{}, ends: map[int32]int64{}}
}

// Send notes that a record may be in the log from now on.
func (t *Table) Send(name Name, entry Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent[name] = entry
	state := t.keys[entry.Key]
	if state == nil {
		state = &keyState{promised: -1, tombstone: -1}
		t.keys[entry.Key] = state
	}
	if entry.Tombstone {
		state.tombstone = name.Sequence
	}
}

// Acknowledge notes that it, or a newer one of its key, must be the last one of the key.
func (t *Table) Acknowledge(name Name, at Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acknowledged[name] = at
	state := t.keys[t.sent[name].Key]
	state.promised = max(state.promised, name.Sequence)
	t.ends[at.Partition] = max(t.ends[at.Partition], at.Offset+1)
}

// Check judges what a reader finds from offset 0 to the end of each partition while all producers are
// quiet, and goes on from there: what was once read is promised.
func (t *Table) Check(found map[int32][]KeyedRecord) []Anomaly {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := tableChecker{table: t, at: map[Name]Position{}, last: map[string]Name{}}
	for _, partition := range sortedKeys(found) {
		c.partition(partition, found[partition])
	}
	for partition, end := range t.ends {
		records := found[partition]
		if len(records) == 0 || records[len(records)-1].Offset+1 < end {
			c.report(KindShrunk, "partition %d has %d records and does not come to %d, of which somebody was told", partition, len(records), end)
		}
	}
	for _, key := range sortedKeys(t.keys) {
		c.key(key, t.keys[key])
	}
	return c.anomalies
}

// tableChecker is one judgement under way. The table is locked by its caller.
type tableChecker struct {
	checker
	table *Table
	at    map[Name]Position
	last  map[string]Name // by key: what a reader ends with
}

// partition reads one partition through: rising offsets, bytes, uniqueness, order.
func (c *tableChecker) partition(partition int32, records []KeyedRecord) {
	before := int64(-1)
	sequences := map[int32]int64{} // by producer: found last
	for _, record := range records {
		at := Position{partition, record.Offset}
		if record.Offset <= before {
			c.report(KindReordered, "%v comes after offset %d", at, before)
		}
		before = max(before, record.Offset)
		name := record.Name
		sent, known := c.table.sent[name]
		if fault := misfit(record, sent, known); fault != nil {
			c.report(fault.Kind, "%v at %v %s", name, at, fault.Text)
			continue
		}
		if promised, told := c.table.acknowledged[name]; told && promised != at || sent.Partition != partition {
			c.report(KindMoved, "%v is at %v; it was sent to partition %d and acknowledged at %v", name, at, sent.Partition, promised)
		}
		if twice, again := c.at[name]; again {
			c.report(KindDuplicate, "%v is at %v and at %v", name, twice, at)
		}
		if previous, any := sequences[name.Producer]; any && previous > name.Sequence {
			c.report(KindReordered, "%v at %v comes after %d of the same producer", name, at, previous)
		}
		sequences[name.Producer] = name.Sequence
		c.at[name], c.last[record.Key] = at, name
	}
}

// misfit says in what a record is not what was sent under its name.
func misfit(record KeyedRecord, sent Entry, known bool) *Anomaly {
	switch {
	case !record.Intact:
		return &Anomaly{KindChanged, "was sent by nobody in these bytes"}
	case !known:
		return &Anomaly{KindForeign, "was never sent"}
	case sent.Key != record.Key || sent.Tombstone != record.Tombstone:
		return &Anomaly{KindChanged, fmt.Sprintf("has key %q, tombstone %t; sent was %q, %t", record.Key, record.Tombstone, sent.Key, sent.Tombstone)}
	}
	return nil
}

// key judges what a reader ends with for one key.
func (c *tableChecker) key(key string, state *keyState) {
	switch name, there := c.last[key]; {
	case there && name.Sequence < state.promised:
		kind, promised := KindLost, Name{name.Producer, state.promised}
		if c.table.sent[promised].Tombstone {
			kind = KindBack
		}
		c.report(kind, "key %s ends with %v; %v was promised", key, name, promised)
	case there:
		state.promised = name.Sequence
	case state.promised > state.tombstone:
		c.report(KindLost, "key %s is gone; %d of its producer was promised, and the last tombstone is %d", key, state.promised, state.tombstone)
	}
}
