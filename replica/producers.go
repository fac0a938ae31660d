package replica

import (
	"math"

	"ringlog/record"
)

// batchesKept is how many batches of a producer are remembered. A client has at
// most five requests in flight to a broker, so it retries one of these (KIP-98,
// max.in.flight.requests.per.connection).
const batchesKept = 5

// sequencesKnownMax is where an entry stops counting what it saw: far enough
// below half of the sequence space that before and after cannot be mistaken
// once sequences have wrapped around.
const sequencesKnownMax = 1 << 30

// touchedByReplay marks entries that recovery touched: when, nobody knows, so
// EventOpened counts as their last append.
const touchedByReplay = math.MaxInt64

// sequenced is what a batch says of its producer.
type sequenced struct {
	producerID      int64
	maxTimestamp    int64
	baseSequence    int32
	lastOffsetDelta int32
	epoch           int16
}

// isSequenced reports whether batch comes from an idempotent producer.
func isSequenced(batch record.Batch) bool { return batch.HasProducerID() }

func sequencedOf(batch record.Batch) sequenced {
	return sequenced{
		producerID:      batch.ProducerID(),
		maxTimestamp:    batch.MaxTimestamp(),
		baseSequence:    batch.BaseSequence(),
		lastOffsetDelta: batch.LastOffsetDelta(),
		epoch:           batch.ProducerEpoch(),
	}
}

// sequencedAt is a batch that has an offset.
type sequencedAt struct {
	baseOffset      int64
	maxTimestamp    int64
	baseSequence    int32
	lastOffsetDelta int32
}

// end returns the offset after its last record.
func (b sequencedAt) end() int64 { return b.baseOffset + int64(b.lastOffsetDelta) + 1 }

// lastSequence returns the sequence of its last record.
func (b sequencedAt) lastSequence() int32 { return sequenceAfter(b.baseSequence, b.lastOffsetDelta) }

// sequenceAfter returns the sequence that is n after s; 0 follows 2^31-1.
func sequenceAfter(s, n int32) int32 {
	return int32((uint32(s) + uint32(n)) & math.MaxInt32)
}

// sequencesBack returns how far s lies behind last; 0 is last itself.
func sequencesBack(last, s int32) int32 {
	return int32((uint32(last) - uint32(s)) & math.MaxInt32)
}

// verdict says what a producer table makes of a batch.
type verdict uint8

const (
	verdictAppend verdict = iota + 1
	verdictRetry          // of a batch that is remembered
	verdictOlderRetry
	verdictOutOfOrder
	verdictStaleEpoch
)

// refusal returns the error that v is answered with, nil when it is none.
func (v verdict) refusal() error {
	switch v {
	case verdictOlderRetry:
		return ErrDuplicateSequence
	case verdictOutOfOrder:
		return ErrOutOfOrderSequence
	case verdictStaleEpoch:
		return ErrInvalidProducerEpoch
	}
	return nil
}

// slotNone is the slot of no producer.
const slotNone int32 = -1

// producer is the entry of one producer id.
type producer struct {
	id      int64
	touched int64 // Unix milliseconds by the broker's clock at the last append, or touchedByReplay

	// known counts the sequences up to lastSequence that were seen being
	// appended under epoch without a gap, up to sequencesKnownMax. It tells a
	// retry that is too old to be answered from a batch that never arrived.
	known        int32
	lastSequence int32
	epoch        int16

	// batches[:kept] are the newest, oldest first; kept ≥ 1. Their sequences
	// follow one another and end at lastSequence, their offsets ascend.
	kept    uint8
	batches [batchesKept]sequencedAt

	newer, older int32 // slots of the neighbours by last append, or slotNone
}

// start makes b the first batch that is known of its producer.
func (e *producer) start(b sequenced, baseOffset int64) {
	e.epoch = b.epoch
	e.known = 0
	e.kept = 0
	e.push(b, baseOffset)
}

// push adds the batch that follows.
func (e *producer) push(b sequenced, baseOffset int64) {
	if e.kept == batchesKept {
		copy(e.batches[:], e.batches[1:])
		e.kept--
	}
	added := sequencedAt{
		baseOffset:      baseOffset,
		maxTimestamp:    b.maxTimestamp,
		baseSequence:    b.baseSequence,
		lastOffsetDelta: b.lastOffsetDelta,
	}
	e.batches[e.kept] = added
	e.kept++
	e.lastSequence = added.lastSequence()
	e.known = int32(min(int64(e.known)+int64(b.lastOffsetDelta)+1, sequencesKnownMax))
}

// keptSequences counts the sequences of the remembered batches, up to
// sequencesKnownMax.
func (e *producer) keptSequences() int32 {
	sequences := int64(0)
	for _, b := range e.batches[:e.kept] {
		sequences += int64(b.lastOffsetDelta) + 1
	}
	return int32(min(sequences, sequencesKnownMax))
}

// find returns the remembered batch that b repeats.
func (e *producer) find(b sequenced) (sequencedAt, bool) {
	for i := int(e.kept) - 1; i >= 0; i-- {
		if kept := e.batches[i]; kept.baseSequence == b.baseSequence && kept.lastOffsetDelta == b.lastOffsetDelta {
			return kept, true
		}
	}
	return sequencedAt{}, false
}

// sawBeforeKept reports whether all of b was appended before the oldest batch
// that is remembered.
func (e *producer) sawBeforeKept(b sequenced) bool {
	oldest := e.batches[0].baseSequence
	inKept := sequencesBack(e.lastSequence, oldest) // sequences remembered, less one
	first := sequencesBack(e.lastSequence, b.baseSequence)
	last := sequencesBack(e.lastSequence, sequenceAfter(b.baseSequence, b.lastOffsetDelta))
	return first < e.known && last <= first && last > inKept
}

// producerTable remembers the producers of one partition. Entries live in one
// slice and name each other by slot, so that the garbage collector has no
// pointers to follow; the list through newer and older orders them by last
// append, which makes both expiry and eviction a look at its end.
type producerTable struct {
	producersMax     int
	expirationMillis int64

	slots  map[int64]int32 // by producer id
	table  []producer      // by slot
	unused []int32         // slots of table whose producer was forgotten
	newest int32           // slot of the last append, or slotNone
	oldest int32           // slot that goes first, or slotNone
}

func newProducerTable(producersMax int, expirationMillis int64) producerTable {
	return producerTable{
		producersMax:     producersMax,
		expirationMillis: expirationMillis,
		slots:            make(map[int64]int32),
		newest:           slotNone,
		oldest:           slotNone,
	}
}

// judge says what becomes of b; for verdictRetry also which batch it repeats.
// The order of the questions is Kafka's: a retry is recognized before its
// sequence is looked at.
func (t *producerTable) judge(b sequenced) (verdict, sequencedAt) {
	switch {
	case b.epoch < 0:
		return verdictStaleEpoch, sequencedAt{}
	case b.baseSequence < 0:
		return verdictOutOfOrder, sequencedAt{}
	}
	slot, ok := t.slots[b.producerID]
	if !ok {
		return verdictAppend, sequencedAt{} // expired, evicted or new: all the same, whatever the sequence (KIP-360)
	}
	e := &t.table[slot]
	switch {
	case b.epoch < e.epoch:
		return verdictStaleEpoch, sequencedAt{}
	case b.epoch > e.epoch && b.baseSequence == 0:
		return verdictAppend, sequencedAt{}
	case b.epoch > e.epoch:
		return verdictOutOfOrder, sequencedAt{}
	}
	if original, ok := e.find(b); ok {
		return verdictRetry, original
	}
	switch {
	case b.baseSequence == sequenceAfter(e.lastSequence, 1):
		return verdictAppend, sequencedAt{}
	case e.sawBeforeKept(b):
		return verdictOlderRetry, sequencedAt{}
	}
	return verdictOutOfOrder, sequencedAt{}
}

// append records b, which judge let pass, at baseOffset.
func (t *producerTable) append(b sequenced, baseOffset, nowMillis int64) {
	if t.newest != slotNone {
		// A clock that steps back must not put the list out of order.
		nowMillis = max(nowMillis, t.table[t.newest].touched)
	}
	t.record(b, baseOffset, nowMillis)
}

// replay records a batch of the log, which is right whatever the table says.
func (t *producerTable) replay(b sequenced, baseOffset int64) {
	if b.epoch >= 0 && b.baseSequence >= 0 { // control batches carry no sequence
		t.record(b, baseOffset, touchedByReplay)
	}
}

func (t *producerTable) record(b sequenced, baseOffset, touched int64) {
	slot, ok := t.slots[b.producerID]
	if !ok {
		slot = t.add(b.producerID)
		t.table[slot].start(b, baseOffset)
	} else {
		e := &t.table[slot]
		if b.epoch == e.epoch && b.baseSequence == sequenceAfter(e.lastSequence, 1) {
			e.push(b, baseOffset)
		} else {
			e.start(b, baseOffset)
		}
		t.unlink(slot)
	}
	t.table[slot].touched = touched
	t.linkNewest(slot)
}

// touchReplayed gives the entries that recovery touched a time.
func (t *producerTable) touchReplayed(nowMillis int64) {
	first := t.newest // of those that were replayed: they are the newest
	for first != slotNone && t.table[first].touched == touchedByReplay {
		first = t.table[first].older
	}
	if first != slotNone {
		nowMillis = max(nowMillis, t.table[first].touched)
	}
	for slot := t.newest; slot != first; slot = t.table[slot].older {
		t.table[slot].touched = nowMillis
	}
}

// expire forgets the producers that have not appended for too long.
func (t *producerTable) expire(nowMillis int64) {
	for t.oldest != slotNone && nowMillis-t.table[t.oldest].touched >= t.expirationMillis {
		t.forget(t.oldest)
	}
}

// remembered appends the base offsets of the batches of all producers that are not expired.
func (t *producerTable) remembered(nowMillis int64, offsets []int64) []int64 {
	for slot := t.newest; slot != slotNone; slot = t.table[slot].older {
		e := &t.table[slot]
		if nowMillis-e.touched >= t.expirationMillis {
			break // those behind it are older
		}
		for _, b := range e.batches[:e.kept] {
			offsets = append(offsets, b.baseOffset)
		}
	}
	return offsets
}

// add returns a slot for a producer that is not in the table, making room first.
func (t *producerTable) add(id int64) int32 {
	if len(t.slots) == t.producersMax {
		t.forget(t.oldest)
	}
	var slot int32
	if n := len(t.unused); n > 0 {
		slot, t.unused = t.unused[n-1], t.unused[:n-1]
	} else {
		slot = int32(len(t.table))
		t.table = append(t.table, producer{})
	}
	t.table[slot].id = id
	t.slots[id] = slot
	return slot
}

func (t *producerTable) forget(slot int32) {
	t.unlink(slot)
	delete(t.slots, t.table[slot].id)
	t.unused = append(t.unused, slot)
}

func (t *producerTable) unlink(slot int32) {
	e := &t.table[slot]
	if e.newer == slotNone {
		t.newest = e.older
	} else {
		t.table[e.newer].older = e.older
	}
	if e.older == slotNone {
		t.oldest = e.newer
	} else {
		t.table[e.older].newer = e.newer
	}
}

func (t *producerTable) linkNewest(slot int32) {
	e := &t.table[slot]
	e.newer, e.older = slotNone, t.newest
	if t.newest == slotNone {
		t.oldest = slot
	} else {
		t.table[t.newest].newer = slot
	}
	t.newest = slot
}
