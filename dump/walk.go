package dump

import (
	"bytes"
	"encoding/binary"
	"errors"

	"ringlog/engine/plan"
	"ringlog/record"
)

const (
	// walkBytesFirst and walkBytesLarge are the sizes of reads; a batch may need more.
	walkBytesFirst = 64 << 10
	walkBytesLarge = 1 << 20
	// walkBytesMax bounds the memory for one batch, as recovery does.
	walkBytesMax = 256 << 20
)

// walker reads the batches of a file in order.
type walker struct {
	data []byte // what was read, from at on
	at   int64
	have int
}

// visitor takes one batch whose checksum holds; it returns false to end the walk before it.
type visitor func(batch record.Batch, position int64) bool

// walk visits the batches from position on that end at or below limit. It returns the
// position behind the last one visited, and why it ended there: nil when visit said so or the
// limit was reached, else what the bytes are instead of a batch. err is a failure to read.
func (w *walker) walk(f *file, position, limit int64, visit visitor) (end int64, reason, err error) {
	w.have = 0
	limit = min(limit, f.size)
	for position < limit {
		batch, reason, err := w.batchAt(f, position, limit)
		if err != nil || reason != nil {
			return position, reason, err
		}
		if !visit(batch, position) {
			return position, nil, nil
		}
		position += int64(len(batch))
	}
	return position, nil, nil
}

// batchAt reads the batch at position, or says what is there instead.
func (w *walker) batchAt(f *file, position, limit int64) (batch record.Batch, reason, err error) {
	view, err := w.view(f, position, record.HeaderBytes, limit)
	if err != nil {
		return nil, nil, err
	}
	if len(view) < record.HeaderBytes {
		return nil, record.ErrShort, nil
	}
	if _, _, reason := record.Next(view); reason != nil && !errors.Is(reason, record.ErrShort) {
		return nil, reason, nil
	}
	size := int64(record.Batch(view).SizeBytes())
	if size > walkBytesMax || position+size > limit {
		return nil, record.ErrShort, nil
	}
	if view, err = w.view(f, position, int(size), limit); err != nil {
		return nil, nil, err
	}
	batch, _, reason = record.Next(view)
	if reason == nil {
		reason = batch.Check()
	}
	return batch, reason, nil
}

// view returns what the file has from position on, at least size bytes of it if there are so many.
func (w *walker) view(f *file, position int64, size int, limit int64) ([]byte, error) {
	if position >= w.at && position+int64(size) <= w.at+int64(w.have) {
		return w.data[position-w.at : w.have], nil
	}
	want := walkBytesFirst
	if w.have > 0 { // it goes on
		want = walkBytesLarge
	}
	want = int(min(int64(max(size, want)), limit-position))
	if len(w.data) < want {
		w.data = make([]byte, plan.PowerOfTwo(int64(want)))
	}
	n, err := f.readAt(w.data[:want], position)
	w.at, w.have = position, n
	return w.data[:n], err
}

// resync looks behind damage for the next batch whose checksum holds, and whose offsets lie at or
// above from: where the damaged bytes end. found is false when there is none below limit.
func (w *walker) resync(f *file, position, limit, from int64) (at int64, batch record.Batch, found bool, err error) {
	const magicAt = 16 // of a batch; docs/format/record-batch.md
	limit = min(limit, f.size)
	for at = position; at+record.HeaderBytes <= limit; {
		view, err := w.view(f, at, record.HeaderBytes, limit)
		if err != nil || len(view) < record.HeaderBytes {
			return at, nil, false, err
		}
		// Where no magic is, nothing else is looked at.
		next := bytes.IndexByte(view[magicAt:len(view)-record.HeaderBytes+magicAt+1], record.Magic)
		if next < 0 {
			at += int64(len(view) - record.HeaderBytes + 1)
			continue
		}
		at += int64(next)
		if int64(binary.BigEndian.Uint64(view[next:])) >= from {
			batch, reason, err := w.batchAt(f, at, limit)
			if err != nil {
				return at, nil, false, err
			}
			if reason == nil {
				return at, batch, true, nil
			}
		}
		at++
	}
	return limit, nil, false, nil
}
