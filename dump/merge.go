package dump

import (
	"fmt"

	"ringlog/engine/segment"
	"ringlog/record"
)

// merge goes on with a log where its segments end, by the entries that the journals have of
// it, as a start would (docs/journal.md): entries of another generation are ignored, what
// overlaps is compared, a gap ends it.
type merge struct {
	log     *Log
	entries []entryRef
	at      int   // the first that is not done
	from    int64 // the scan of the segments began at this offset

	// found tells what the scan has at an offset; nil when nothing is compared.
	found func(base int64) (crc uint32, bytes int, ok bool)
	// problem is why the log cannot be proven complete, or nil.
	problem *segment.CorruptError
	culprit *entryRef // of it
	// epoch is of the last batch, -1 when it is not known.
	epoch int32
}

// newMerge takes the entries of one log out of the journals, which may be nil.
func newMerge(l *Log, journals *Journals) *merge {
	m := &merge{log: l, epoch: -1}
	if journals != nil && l.Manifest.State != segment.Cutting { // before a cut everything was in the segments
		m.entries = journals.entries[l.ID]
	}
	return m
}

// highest is the highest durable end that an entry of the log's generation recorded.
func (m *merge) highest() (durable int64) {
	for i := range m.entries {
		if e := &m.entries[i]; e.Gen == m.log.Manifest.Gen {
			durable = max(durable, e.Durable)
		}
	}
	return durable
}

// unreached is the first entry that was not merged although it has offsets at or above next, or nil.
func (m *merge) unreached(next int64) *entryRef {
	for i := m.at; i < len(m.entries); i++ {
		if e := &m.entries[i]; e.Gen == m.log.Manifest.Gen && e.LastOffset >= next {
			return e
		}
	}
	return nil
}

// extend visits batches that follow offset next, in the segment that begins at base, and lie below
// upTo, where the next one begins. more says that there were some. visit returns false to end it.
func (m *merge) extend(next, base, upTo int64, visit func(batch record.Batch, e *entryRef) bool) (more bool, err error) {
	for ; m.at < len(m.entries) && m.problem == nil; m.at++ {
		e := &m.entries[m.at]
		if e.Gen != m.log.Manifest.Gen || e.LastOffset < m.from {
			continue
		}
		if !e.whole {
			m.fail(e, e.position, fmt.Sprintf("the batches from offset %d to %d, in frame %d, are damaged", e.FirstOffset, e.LastOffset, e.sequence))
			return more, nil
		}
		if e.PreviousEnd > next {
			return more, nil // a gap: what follows was never released, or the highest durable end tells
		}
		data, err := m.read(e)
		if err != nil {
			return more, err
		}
		for position := e.position; len(data) > 0; {
			batch, rest, err := record.Next(data)
			if err == nil {
				err = batch.Check()
			}
			if err != nil {
				m.fail(e, position, fmt.Sprintf("an entry of offsets %d to %d holds no batch: %v", e.FirstOffset, e.LastOffset, err))
				return more, nil
			}
			if batch.BaseOffset() >= upTo {
				return more, nil
			}
			data = rest
			if batch.BaseOffset() < next {
				if !m.agrees(batch, next) {
					m.fail(e, position, fmt.Sprintf("the journal has other bytes at offset %d than the segment", batch.BaseOffset()))
					return more, nil
				}
				position += int64(len(batch))
				continue
			}
			if !follows(batch, next, m.epoch, base) {
				return more, nil // never released: the highest durable end tells otherwise
			}
			at := *e
			at.position = position
			if !visit(batch, &at) {
				return more, nil
			}
			next, m.epoch, more = batch.LastOffset()+1, batch.LeaderEpoch(), true
			position += int64(len(batch))
		}
	}
	return more, nil
}

// agrees says whether a batch of the journal is what the segment has in its place.
func (m *merge) agrees(batch record.Batch, next int64) bool {
	if m.found == nil || batch.BaseOffset() < m.from || batch.LastOffset() >= next {
		return true
	}
	crc, bytes, ok := m.found(batch.BaseOffset())
	return ok && crc == batch.CRC() && bytes == len(batch)
}

func (m *merge) fail(e *entryRef, position int64, reason string) {
	m.problem, m.culprit = &segment.CorruptError{File: e.name, Offset: position, Reason: reason}, e
}

// read reads the batches of an entry.
func (m *merge) read(e *entryRef) ([]byte, error) {
	f, err := m.log.store.open(e.name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, e.bytes)
	n, err := f.readAt(data, e.position)
	return data[:n], err
}
