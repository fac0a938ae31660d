package replica

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// A snapshot is the producer table, little-endian:
//
//	bytes  head
//	4      "RLps"
//	2      version, 1
//	2      zero
//	4      CRC-32C of all that follows
//	4      number of producers
//
//	       each producer, the one that appended longest ago first
//	8      producer id
//	8      last append, Unix milliseconds
//	4      sequences known up to the last, without a gap
//	2      producer epoch
//	1      number of batches, 1 to 5
//	1      zero
//
//	       each of its batches, oldest first
//	8      base offset
//	8      max timestamp, Unix milliseconds
//	4      base sequence
//	4      last offset delta
//
// The order is the table's own, so that a restored table forgets in the same
// order as the one that was saved. Equal tables make equal bytes.
const (
	snapshotMagic         = "RLps"
	snapshotVersion       = 1
	snapshotHeadBytes     = 16
	snapshotCRCAt         = 8
	snapshotCheckedAt     = 12
	snapshotProducerBytes = 24
	snapshotBatchBytes    = 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendSnapshot implements engine.Replica.
func (p *Partition) AppendSnapshot(dst []byte) []byte {
	return p.producers.appendSnapshot(dst)
}

// Restore implements engine.Replica. It fails with ErrSnapshot, and leaves the
// replica empty, when snapshot is not one that AppendSnapshot makes.
func (p *Partition) Restore(snapshot []byte) error {
	table := newProducerTable(p.producers.producersMax, p.producers.expirationMillis)
	p.producers = table
	if snapshot == nil {
		return nil
	}
	if err := table.restore(snapshot); err != nil {
		p.producers = newProducerTable(table.producersMax, table.expirationMillis)
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	p.producers = table
	return nil
}

func (t *producerTable) appendSnapshot(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, snapshotMagic...)
	dst = binary.LittleEndian.AppendUint16(dst, snapshotVersion)
	dst = binary.LittleEndian.AppendUint16(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(t.slots)))
	for slot := t.oldest; slot != slotNone; slot = t.table[slot].newer {
		e := &t.table[slot]
		dst = binary.LittleEndian.AppendUint64(dst, uint64(e.id))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(e.touched))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(e.known))
		dst = binary.LittleEndian.AppendUint16(dst, uint16(e.epoch))
		dst = append(dst, e.kept, 0)
		for _, b := range e.batches[:e.kept] {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(b.baseOffset))
			dst = binary.LittleEndian.AppendUint64(dst, uint64(b.maxTimestamp))
			dst = binary.LittleEndian.AppendUint32(dst, uint32(b.baseSequence))
			dst = binary.LittleEndian.AppendUint32(dst, uint32(b.lastOffsetDelta))
		}
	}
	crc := crc32.Checksum(dst[start+snapshotCheckedAt:], castagnoli)
	binary.LittleEndian.PutUint32(dst[start+snapshotCRCAt:], crc)
	return dst
}

// restore fills an empty table. What it takes memory for is bounded by the
// snapshot's own length and by producersMax: a table that was saved under a
// larger bound keeps its newest entries.
func (t *producerTable) restore(snapshot []byte) error {
	if len(snapshot) < snapshotHeadBytes || string(snapshot[:len(snapshotMagic)]) != snapshotMagic {
		return fmt.Errorf("%d bytes without a head", len(snapshot))
	}
	version := binary.LittleEndian.Uint16(snapshot[4:])
	if version != snapshotVersion || binary.LittleEndian.Uint16(snapshot[6:]) != 0 {
		return fmt.Errorf("version %d, this one reads %d", version, snapshotVersion)
	}
	stored := binary.LittleEndian.Uint32(snapshot[snapshotCRCAt:])
	if crc := crc32.Checksum(snapshot[snapshotCheckedAt:], castagnoli); crc != stored {
		return fmt.Errorf("checksum %08x, stored %08x", crc, stored)
	}
	producers := binary.LittleEndian.Uint32(snapshot[snapshotCheckedAt:])
	touched := int64(math.MinInt64)
	rest := snapshot[snapshotHeadBytes:]
	for i := range producers {
		e, size, err := decodeProducer(rest)
		if err != nil {
			return fmt.Errorf("producer %d of %d: %w", i, producers, err)
		}
		if _, ok := t.slots[e.id]; ok || e.touched < touched {
			return fmt.Errorf("producer %d of %d: id %d out of order", i, producers, e.id)
		}
		touched = e.touched
		slot := t.add(e.id)
		t.table[slot] = e
		t.linkNewest(slot)
		rest = rest[size:]
	}
	if len(rest) != 0 {
		return fmt.Errorf("%d bytes behind the last producer", len(rest))
	}
	return nil
}

// decodeProducer reads one entry and the number of bytes it took, and checks
// every relation that the table relies on.
func decodeProducer(from []byte) (producer, int, error) {
	if len(from) < snapshotProducerBytes {
		return producer{}, 0, fmt.Errorf("cut short after %d bytes", len(from))
	}
	e := producer{
		id:      int64(binary.LittleEndian.Uint64(from)),
		touched: int64(binary.LittleEndian.Uint64(from[8:])),
		known:   int32(binary.LittleEndian.Uint32(from[16:])),
		epoch:   int16(binary.LittleEndian.Uint16(from[20:])),
		kept:    from[22],
	}
	size := snapshotProducerBytes + int(e.kept)*snapshotBatchBytes
	switch {
	case e.id < 0 || e.epoch < 0 || from[23] != 0:
		return producer{}, 0, fmt.Errorf("id %d, epoch %d", e.id, e.epoch)
	case e.kept < 1 || e.kept > batchesKept:
		return producer{}, 0, fmt.Errorf("%d batches", e.kept)
	case len(from) < size:
		return producer{}, 0, fmt.Errorf("cut short after %d bytes", len(from))
	}
	for i := range int(e.kept) {
		at := from[snapshotProducerBytes+i*snapshotBatchBytes:]
		b := sequencedAt{
			baseOffset:      int64(binary.LittleEndian.Uint64(at)),
			maxTimestamp:    int64(binary.LittleEndian.Uint64(at[8:])),
			baseSequence:    int32(binary.LittleEndian.Uint32(at[16:])),
			lastOffsetDelta: int32(binary.LittleEndian.Uint32(at[20:])),
		}
		switch {
		case b.baseOffset < 0 || b.baseSequence < 0 || b.lastOffsetDelta < 0 || b.end() < 0:
			return producer{}, 0, fmt.Errorf("batch %d has a negative field", i)
		case i > 0 && b.baseSequence != sequenceAfter(e.lastSequence, 1):
			return producer{}, 0, fmt.Errorf("batch %d does not follow the one before", i)
		case i > 0 && b.baseOffset < e.batches[i-1].end():
			return producer{}, 0, fmt.Errorf("batch %d lies below the one before", i)
		}
		e.batches[i] = b
		e.lastSequence = b.lastSequence()
	}
	if e.known < e.keptSequences() || e.known > sequencesKnownMax {
		return producer{}, 0, fmt.Errorf("%d sequences known, %d remembered", e.known, e.keptSequences())
	}
	return e, size, nil
}

// ProducerState is one producer of a snapshot, for people and tools.
type ProducerState struct {
	ID           int64
	Epoch        int16
	LastSequence int32
	// LastTimestamp is the largest timestamp of its last batch, in Unix milliseconds.
	LastTimestamp int64
	// LastAppend is when that was appended, in Unix milliseconds by the broker's clock.
	LastAppend int64
}

// ReadProducers returns the producers of a snapshot that AppendSnapshot made, the one that
// appended longest ago first. It fails with ErrSnapshot for anything else.
func ReadProducers(snapshot []byte) ([]ProducerState, error) {
	table := newProducerTable(math.MaxInt32, math.MaxInt64)
	if err := table.restore(snapshot); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	states := make([]ProducerState, 0, len(table.slots))
	for slot := table.oldest; slot != slotNone; slot = table.table[slot].newer {
		e := &table.table[slot]
		states = append(states, ProducerState{ID: e.id, Epoch: e.epoch, LastSequence: e.lastSequence,
			LastTimestamp: e.batches[e.kept-1].maxTimestamp, LastAppend: e.touched})
	}
	return states, nil
}
