package dump

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"ringlog/engine/journal"
	"ringlog/engine/segment"
	"ringlog/internal/layout"
	"ringlog/meta"
	"ringlog/record"
)

// ErrUnknownFile is returned for a file that none of the formats is in.
var ErrUnknownFile = errors.New("dump: neither the name nor the first bytes are of a file of Ringlog")

// Kind says what a file of the engine is.
type Kind uint8

// The kinds of files.
const (
	UnknownFile Kind = iota
	SegmentFile
	StoredFile // one block: manifest, checkpoint, index, snapshot, placement
	JournalFile
	SpillFile
)

// KindOf says what a file is, by its name and, where that tells nothing, by its first bytes.
func KindOf(fsys fs.FS, name string) (Kind, error) {
	base := path.Base(name)
	if _, kind, ok := segment.ParseShardName(base); ok && kind == segment.JournalKind {
		return JournalFile, nil
	}
	if id, isSpill := strings.CutSuffix(base, spillSuffix); isSpill {
		if _, ok := parseLogID(id); ok {
			return SpillFile, nil
		}
	}
	f, err := (&Store{fsys: fsys}).open(name)
	if err != nil {
		return UnknownFile, err
	}
	defer f.Close()
	head := make([]byte, record.HeaderBytes)
	n, err := f.readAt(head, 0)
	if err != nil {
		return UnknownFile, err
	}
	if _, stored := segment.KindOf(head[:n]); stored {
		return StoredFile, nil
	}
	if _, _, suffix, ok := segment.ParsePassName(base); ok && suffix == segment.LogSuffix || segment.IsPrepared(base) {
		return SegmentFile, nil
	}
	if _, _, err := record.Next(head[:n]); err == nil || errors.Is(err, record.ErrShort) && n == len(head) {
		return SegmentFile, nil
	}
	return UnknownFile, fmt.Errorf("%w: %s", ErrUnknownFile, name)
}

// SegmentBatches visits the batches of one segment file, without regard to what log.meta or the
// journal say. visit returns false to end it.
func SegmentBatches(fsys fs.FS, name string, visit func(Located) bool) (Ending, error) {
	f, err := (&Store{fsys: fsys}).open(name)
	if err != nil {
		return Ending{}, err
	}
	defer f.Close()
	var w walker
	end := Ending{File: name}
	var older error
	end.Position, end.Reason, err = w.walk(f, 0, f.size, func(batch record.Batch, position int64) bool {
		if batch.BaseOffset() < end.Offset {
			older = fmt.Errorf("a batch of offset %d, of an earlier life of the file", batch.BaseOffset())
			return false
		}
		end.Offset = batch.LastOffset() + 1
		return visit(Located{Batch: batch, File: name, Position: position})
	})
	if older != nil {
		end.Reason = older
	}
	return end, err
}

// Stored reads a file of one block: its kind, what it holds as the type that package segment decodes it
// into, and the names of its bytes. What can be read of a damaged one comes with the error.
func Stored(fsys fs.FS, name string) (kind segment.Kind, content any, data []byte, fields []layout.Field, err error) {
	s := &Store{fsys: fsys}
	if data, err = s.readFile(name); err != nil {
		return kind, nil, nil, nil, err
	}
	if kind, fields, err = segment.Annotate(data); err != nil {
		return kind, nil, data, fields, inFile(err, name)
	}
	switch kind {
	case segment.KindManifest:
		content, err = segment.DecodeManifest(data)
	case segment.KindCheckpoint:
		content, err = segment.DecodeCheckpoint(data)
	case segment.KindSnapshot:
		content, err = segment.DecodeSnapshot(data)
	case segment.KindPlacement:
		content, err = segment.DecodePlacement(data)
	case segment.KindIndex, segment.KindTimeIndex:
		content, err = s.indexOf(name, kind, data)
	}
	if err != nil {
		return kind, nil, data, fields, inFile(err, name)
	}
	return kind, content, data, fields, nil
}

// indexOf reads an index file together with its other half, which has to lie beside it.
func (s *Store) indexOf(name string, kind segment.Kind, data []byte) (*segment.Index, error) {
	base, pass, _, ok := segment.ParsePassName(path.Base(name))
	if !ok {
		return nil, fmt.Errorf("dump: the name of an index is its segment's first offset: %s", name)
	}
	other := segment.TimeIndexSuffix
	if kind == segment.KindTimeIndex {
		other = segment.IndexSuffix
	}
	half, err := s.readFile(path.Join(path.Dir(name), segment.PassName(base, pass, other)))
	if err != nil {
		return nil, err
	}
	if kind == segment.KindTimeIndex {
		data, half = half, data
	}
	return segment.DecodeIndex(base, data, half)
}

// StoreID is the secret that the frames of this directory bear, as a checkpoint or a journal has
// it; ok is false when neither can be read.
func (s *Store) StoreID() (store [16]byte, ok bool) {
	for _, shard := range s.Checkpoints {
		if p, err := s.Checkpoint(shard); err == nil && p.Store != store {
			return p.Store, true
		}
	}
	for _, shard := range s.Journals {
		if r, err := s.Ring(shard); err == nil && r.Store != store {
			return r.Store, true
		}
	}
	return store, false
}

// SpillOf is the log whose entries a file has that were put aside.
func SpillOf(name string) (id meta.LogID, ok bool) {
	text, isSpill := strings.CutSuffix(path.Base(name), spillSuffix)
	id, ok = parseLogID(text)
	return id, ok && isSpill
}

// FrameBytes reads a frame again, with the names of its bytes.
func (s *Store) FrameBytes(name string, at *FrameAt, store [16]byte) (data []byte, fields []layout.Field, err error) {
	f, err := s.open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data = make([]byte, at.Bytes)
	n, err := f.readAt(data, at.Position)
	if err != nil {
		return nil, nil, err
	}
	frame, err := journal.Parse(data[:n], store)
	if frame.Bytes() == 0 {
		return data[:n], nil, err
	}
	return data[:n], journal.Annotate(&frame, data), err
}
