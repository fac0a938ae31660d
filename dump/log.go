package dump

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"

	"ringlog/engine/plan"
	"ringlog/engine/segment"
	"ringlog/meta"
	"ringlog/record"
)

// Log is one log of a Store.
type Log struct {
	ID       meta.LogID
	Manifest *segment.Manifest
	store    *Store
}

// fileName is the path of one of a segment's files, from the store's root.
func (l *Log) fileName(s *segment.Summary, suffix string) string {
	return path.Join(l.ID.String(), s.Name(suffix))
}

// segmentName is the path of the segment itself.
func (l *Log) segmentName(s *segment.Summary) string { return l.fileName(s, segment.LogSuffix) }

// Located is a batch and where it lies.
type Located struct {
	Batch    record.Batch // valid until the visit returns
	File     string       // from the store's root
	Position int64        // in it
	// Journal: it lies in the commit journal and in no segment yet.
	Journal bool
}

// Ending is where the batches of a log end.
type Ending struct {
	File     string // of the last segment
	Position int64
	Offset   int64
	// Reason is what is there instead of a batch; nil when the file ends.
	Reason error
}

// errEnough ends a visit early.
var errEnough = errors.New("dump: enough")

// Batches visits the batches of a log that have offsets from from up to, not including, to: those
// of its segments, then those that only the journals have, which may be nil. visit returns
// false to end it. A log that is damaged is visited up to the damage, which is the error.
func (l *Log) Batches(journals *Journals, from, to int64, visit func(Located) bool) (Ending, error) {
	var w walker
	end := Ending{Offset: l.Manifest.Segments[0].BaseOffset}
	if from >= to {
		return end, nil
	}
	merge := newMerge(l, journals)
	for i := range l.Manifest.Segments {
		s := &l.Manifest.Segments[i]
		upTo := int64(math.MaxInt64)
		if i+1 < len(l.Manifest.Segments) {
			upTo = l.Manifest.Segments[i+1].BaseOffset
		}
		if s.BaseOffset >= to {
			break
		}
		if s.Sealed && upTo <= from {
			end = Ending{File: l.segmentName(s), Position: s.Bytes, Offset: s.NextOffset}
			continue
		}
		var err error
		if end, err = l.segmentBatches(&w, s, merge, end.Offset, upTo, from, to, visit); err != nil {
			if errors.Is(err, errEnough) {
				err = nil
			}
			return end, err
		}
	}
	return end, nil
}

// segmentBatches is Batches of one segment.
func (l *Log) segmentBatches(w *walker, s *segment.Summary, merge *merge, next, upTo, from, to int64, visit func(Located) bool) (Ending, error) {
	end := Ending{File: l.segmentName(s), Offset: next}
	f, err := l.store.open(end.File)
	if err != nil {
		return end, err
	}
	defer f.Close()
	limit := f.size
	if s.Sealed {
		limit = s.Bytes
	}
	enough := false
	show := func(batch record.Batch, where Located) bool {
		if enough = batch.BaseOffset() >= to; enough {
			return false
		}
		if batch.LastOffset() >= from {
			enough = !visit(where)
		}
		return !enough
	}
	for {
		var err error
		end.Position, end.Reason, err = w.walk(f, end.Position, limit, func(batch record.Batch, position int64) bool {
			goes := batch.BaseOffset() >= end.Offset && s.Sealed || follows(batch, end.Offset, -1, s.BaseOffset)
			if !goes || !show(batch, Located{Batch: batch, File: end.File, Position: position}) {
				return false
			}
			end.Offset = batch.LastOffset() + 1
			return true
		})
		switch {
		case err != nil:
			return end, err
		case enough:
			return end, errEnough
		case s.Sealed && end.Position < s.Bytes:
			return end, &segment.CorruptError{File: end.File, Offset: end.Position, Reason: fmt.Sprintf("no batch follows offset %d: %v", end.Offset, end.Reason)}
		case s.Sealed:
			return end, nil
		}
		more, err := merge.extend(end.Offset, s.BaseOffset, upTo, func(batch record.Batch, e *entryRef) bool {
			if !show(batch, Located{Batch: batch, File: e.name, Position: e.position, Journal: true}) {
				return false
			}
			end.Offset = batch.LastOffset() + 1
			end.Position += int64(len(batch))
			return true
		})
		switch {
		case err != nil:
			return end, err
		case enough:
			return end, errEnough
		case !more:
			return end, nil
		}
	}
}

// Summary is a log at a glance.
type Summary struct {
	ID          string `json:"id"`
	Label       string `json:"label"` // "orders-3"
	Generation  uint64 `json:"generation"`
	StartOffset int64  `json:"start_offset"`
	// EndOffset is behind the last batch that segments and journals have.
	EndOffset int64 `json:"end_offset"`
	// JournalBatches are those that only the journals have.
	JournalBatches int    `json:"journal_batches"`
	Segments       int    `json:"segments"`
	Bytes          int64  `json:"bytes"` // of batches
	DiskBytes      int64  `json:"disk_bytes"`
	Cutting        bool   `json:"cutting,omitempty"` // a truncation was not finished
	Error          string `json:"error,omitempty"`
}

// Summary reads how far a log goes. It reads the segments that are not sealed.
func (l *Log) Summary(journals *Journals) Summary {
	m := l.Manifest
	s := Summary{ID: l.ID.String(), Label: m.Label, Generation: m.Gen, StartOffset: m.Start, Segments: len(m.Segments), Cutting: m.State == segment.Cutting}
	unsealed := m.Segments[len(m.Segments)-1].BaseOffset
	for i := len(m.Segments) - 1; i >= 0 && !m.Segments[i].Sealed; i-- {
		unsealed = m.Segments[i].BaseOffset
	}
	for i := range m.Segments {
		if m.Segments[i].Sealed {
			s.Bytes += m.Segments[i].Bytes
		}
		if info, err := fs.Stat(l.store.fsys, l.segmentName(&m.Segments[i])); err == nil {
			s.DiskBytes += info.Size()
		}
	}
	end, err := l.Batches(journals, unsealed, math.MaxInt64, func(at Located) bool {
		if at.Journal {
			s.JournalBatches++
		}
		s.Bytes += int64(len(at.Batch))
		return true
	})
	s.EndOffset = end.Offset
	if err != nil {
		s.Error = err.Error()
	}
	return s
}

// follows says whether a batch goes on where a log ends: as recovery decides.
func follows(batch record.Batch, next int64, lastEpoch int32, segmentBase int64) bool {
	return plan.Batch{BaseOffset: batch.BaseOffset(), LastOffset: batch.LastOffset(), Epoch: batch.LeaderEpoch(),
		Next: next, LastEpoch: lastEpoch, Segment: segmentBase}.Follows()
}
