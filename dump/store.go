package dump

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"ringlog/engine/segment"
	"ringlog/meta"
)

// ErrNotFound is returned when there is no such log.
var ErrNotFound = errors.New("dump: there is no such log here")

// Names beside the log directories that package engine gives.
const (
	spillSuffix   = ".spill"
	deletedSuffix = ".deleted"
)

// storedBytesMax bounds the small files that are read whole; the engine's bounds are lower.
const storedBytesMax = 1 << 30

// Store is the storage engine's directory as it is found.
type Store struct {
	fsys fs.FS

	// LogIDs are the logs whose directories are there, in order.
	LogIDs []meta.LogID
	// Checkpoints and Journals are the shards that have such a file, in order.
	Checkpoints, Journals []int
	// Spills are logs with journal entries that were put aside.
	Spills []meta.LogID
	// Deleted are directories of deleted logs whose files go.
	Deleted []string
	// Placement: there is a placement table.
	Placement bool
	// Strangers are names that no engine gives.
	Strangers []string
}

// Open lists the engine's directory, which fsys is the root of.
func Open(fsys fs.FS) (*Store, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("dump: %w", err)
	}
	s := &Store{fsys: fsys}
	for _, entry := range entries {
		s.sort(entry.Name(), entry.IsDir())
	}
	slices.Sort(s.Checkpoints)
	slices.Sort(s.Journals)
	return s, nil
}

func (s *Store) sort(name string, directory bool) {
	id, isLog := parseLogID(name)
	spilled, isSpill := strings.CutSuffix(name, spillSuffix)
	spillOf, isSpillOfLog := parseLogID(spilled)
	shard, kind, isShard := segment.ParseShardName(name)
	switch {
	case directory && isLog:
		s.LogIDs = append(s.LogIDs, id)
	case directory && strings.HasSuffix(name, deletedSuffix):
		s.Deleted = append(s.Deleted, name)
	case directory:
		s.Strangers = append(s.Strangers, name)
	case isSpill && isSpillOfLog:
		s.Spills = append(s.Spills, spillOf)
	case isShard && kind == segment.CheckpointKind:
		s.Checkpoints = append(s.Checkpoints, shard)
	case isShard && kind == segment.JournalKind:
		s.Journals = append(s.Journals, shard)
	case isShard: // a reserve: nothing but space
	case name == segment.PlacementName:
		s.Placement = true
	case strings.HasSuffix(name, segment.NewSuffix): // was being written, or is space for the next one
	default:
		s.Strangers = append(s.Strangers, name)
	}
}

// parseLogID reads the name of a log's directory.
func parseLogID(name string) (id meta.LogID, ok bool) {
	if len(name) != 2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(name))
	return id, err == nil && id.String() == name
}

// readFile reads a small file whole.
func (s *Store) readFile(name string) ([]byte, error) {
	info, err := fs.Stat(s.fsys, name)
	if err != nil {
		return nil, fmt.Errorf("dump: %w", err)
	}
	if info.Size() > storedBytesMax {
		return nil, &segment.CorruptError{File: name, Reason: fmt.Sprintf("%d bytes are more than any writer makes", info.Size())}
	}
	content, err := fs.ReadFile(s.fsys, name)
	if err != nil {
		return nil, fmt.Errorf("dump: %w", err)
	}
	return content, nil
}

// file is one that is read at positions.
type file struct {
	fs.File
	io.ReaderAt
	name string
	size int64
}

// open opens a file that is read at positions; the caller closes it.
func (s *Store) open(name string) (*file, error) {
	opened, err := s.fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("dump: %w", err)
	}
	info, err := opened.Stat()
	reader, ok := opened.(io.ReaderAt)
	if err == nil && !ok {
		err = fmt.Errorf("%w: reading %s at positions", errors.ErrUnsupported, name)
	}
	if err != nil {
		_ = opened.Close()
		return nil, fmt.Errorf("dump: %w", err)
	}
	return &file{File: opened, ReaderAt: reader, name: name, size: info.Size()}, nil
}

// readAt fills data from position on, as far as the file goes.
func (f *file) readAt(data []byte, position int64) (n int, err error) {
	n, err = f.ReadAt(data, position)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("dump: reading %s: %w", f.name, err)
	}
	return n, err
}

// Checkpoint reads what a shard knew to be durable.
func (s *Store) Checkpoint(shard int) (*segment.Checkpoint, error) {
	content, err := s.readFile(segment.CheckpointName(shard))
	if err != nil {
		return nil, err
	}
	return segment.DecodeCheckpoint(content)
}

// ReadPlacement reads on which shard each log lives.
func (s *Store) ReadPlacement() (*segment.Placement, error) {
	content, err := s.readFile(segment.PlacementName)
	if err != nil {
		return nil, err
	}
	return segment.DecodePlacement(content)
}

// checkpoints returns the last word of all checkpoints on each log. Of one
// generation the durable end only rises; of two with the same end the one that allows more is
// the safe one. A damaged checkpoint says nothing.
func (s *Store) checkpoints() map[meta.LogID]segment.CheckpointLog {
	last := make(map[meta.LogID]segment.CheckpointLog)
	for _, shard := range s.Checkpoints {
		p, err := s.Checkpoint(shard)
		if err != nil {
			continue
		}
		for _, entry := range p.Logs {
			before, known := last[entry.LogID]
			if !known || entry.Gen > before.Gen || entry.Gen == before.Gen &&
				(entry.Durable > before.Durable || entry.Durable == before.Durable && entry.Limit > before.Limit) {
				last[entry.LogID] = entry
			}
		}
	}
	return last
}

// Log reads the manifest of one log.
func (s *Store) Log(id meta.LogID) (*Log, error) {
	if _, found := slices.BinarySearchFunc(s.LogIDs, id, func(a, b meta.LogID) int { return strings.Compare(string(a[:]), string(b[:])) }); !found {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	name := path.Join(id.String(), segment.ManifestName)
	content, err := s.readFile(name)
	if err != nil {
		return nil, err
	}
	manifest, err := segment.DecodeManifest(content)
	if err != nil {
		return nil, inFile(err, name)
	}
	return &Log{ID: id, Manifest: manifest, store: s}, nil
}

// inFile makes a decoder's complaint name the file instead of its kind.
func inFile(err error, name string) error {
	var corrupt *segment.CorruptError
	if errors.As(err, &corrupt) {
		return &segment.CorruptError{File: name, Offset: corrupt.Offset, Reason: corrupt.Reason}
	}
	return fmt.Errorf("%s: %w", name, err)
}
