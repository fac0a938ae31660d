package compact

import (
	"fmt"

	"ringlog/record"
)

// Mapper reads the dirty part of a log, batch after batch, and notes the newest record of each key.
type Mapper struct {
	Keys   *Keys
	Reader record.Reader // with the limit of what may be decompressed

	end  int64
	full bool
}

// NewMapper returns a mapper of the records from offset from on.
func NewMapper(keys *Keys, from int64) *Mapper { return &Mapper{Keys: keys, end: from} }

// End is up to where the keys are mapped.
func (m *Mapper) End() int64 { return m.end }

// Full says that the map took no more: End is where the next pass begins.
func (m *Mapper) Full() bool { return m.full }

// Add takes the next batch, one whose checksum was verified. The error is of records that cannot be read.
func (m *Mapper) Add(batch record.Batch) error {
	if m.full || batch.LastOffset() < m.end {
		return nil
	}
	if !batch.Control() && batch.RecordCount() > 0 {
		if err := m.addRecords(batch); err != nil {
			return fmt.Errorf("the batch at offset %d: %w", batch.BaseOffset(), err)
		}
	}
	if !m.full {
		m.end = batch.LastOffset() + 1
	}
	return nil
}

func (m *Mapper) addRecords(batch record.Batch) error {
	m.Reader.Reset(batch)
	defer m.Reader.Close()
	for m.Reader.Next() {
		r := m.Reader.Record()
		if r.Offset < m.end || r.Key == nil {
			continue
		}
		if !m.Keys.Put(HashOf(r.Key), r.Offset) {
			// The records behind it stay as they are. One of a key that was mapped before
			// may be newer than the map says; that one then counts too, and is kept.
			m.end, m.full = r.Offset, true
			return nil
		}
	}
	return m.Reader.Err()
}
