package engine

import (
	"errors"
	"fmt"

	"ringlog/engine/disk"
	"ringlog/engine/plan"
	"ringlog/record"
)

const (
	// A walk begins with a small read: of ten thousand logs most have little behind
	// their checkpoint, and what follows is reserved space. Each further read is larger.
	walkBytesFirst = 16 << 10
	walkBytesLarge = 1 << 20
	// walkBytesMax bounds the memory for one batch while a file is walked; a length
	// above it is damage, whatever else the header says.
	walkBytesMax = 256 << 20
)

// walker reads the batches of a segment file in order, by large reads into
// memory of its own. Recovery, replay and the rebuilding of indexes use it, one
// log at a time on a shard's start, so it takes its memory from the heap.
type walker struct {
	data []byte // aligned
	at   int64  // file position of data[0]
	have int    // bytes of data that were read
	next int64  // how much to read next
}

// visitor takes one batch whose checksum holds; it returns false to end the walk
// before it.
type visitor func(batch record.Batch, position int64) bool

// walk visits the batches from position on, none of which may end above limit,
// and returns the position behind the last one visited, and why it ended there: nil when
// visit said so or the limit was reached, a *record.CorruptError or ErrShort for bytes
// that are no batch. err is a failure to read.
func (w *walker) walk(j *job, f *segmentFile, position, limit int64, visit visitor) (end int64, reason, err error) {
	f.pins++
	defer func() { f.pins-- }()
	if err := j.shard.files.open(j, f); err != nil {
		return position, nil, err
	}
	w.have, w.next = 0, walkBytesFirst
	limit = min(limit, f.prepared)
	for position < limit {
		if err := w.fill(j, f, position, record.HeaderBytes, limit); err != nil {
			return position, nil, err
		}
		view := w.view(position)
		if len(view) < record.HeaderBytes {
			return position, record.ErrShort, nil
		}
		size := int64(record.Batch(view).SizeBytes())
		if _, _, err := record.Next(view); err != nil && !errors.Is(err, record.ErrShort) {
			return position, err, nil
		}
		if size > walkBytesMax || position+size > limit {
			return position, record.ErrShort, nil
		}
		if err := w.fill(j, f, position, int(size), limit); err != nil {
			return position, nil, err
		}
		batch, _, reason := record.Next(w.view(position))
		if reason == nil {
			reason = batch.Check()
		}
		if reason != nil {
			return position, reason, nil
		}
		if !visit(batch, position) {
			return position, nil, nil
		}
		position += size
	}
	return position, nil, nil
}

// view is what was read from position on.
func (w *walker) view(position int64) []byte {
	if position < w.at || position >= w.at+int64(w.have) {
		return nil
	}
	return w.data[position-w.at : w.have]
}

// fill makes sure that size bytes from position on are there, as far as the file has them.
func (w *walker) fill(j *job, f *segmentFile, position int64, size int, limit int64) error {
	if len(w.view(position)) >= size {
		return nil
	}
	start := plan.RoundDown(position)
	need := plan.RoundUp(position + int64(size) - start)
	want := min(max(need, w.next), plan.RoundUp(limit)-start)
	w.next = min(w.next*4, walkBytesLarge)
	if int64(len(w.data)) < want {
		w.data = disk.AlignedBytes(int(plan.PowerOfTwo(want)))
	}
	w.at, w.have = start, 0
	n, err := j.readAll(f.file, w.data[:want], start)
	if err != nil {
		return fmt.Errorf("engine: read %s: %w", f.path(), err)
	}
	w.have = n
	return nil
}
