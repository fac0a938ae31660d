package dump

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"ringlog/engine/journal"
	"ringlog/engine/segment"
	"ringlog/meta"
)

// ringReadBytes is how much of a journal is read at a time; a longer frame is read by itself.
const ringReadBytes = 4 << 20

// Ring is one shard's commit journal, as a start would find it.
type Ring struct {
	Shard int
	Bytes int64 // of the file
	// Head is nil when it is damaged; HeadError says how.
	Head      *segment.Ring
	HeadError error
	// Checkpoint is nil when there is none, or a damaged one: CheckpointError.
	Checkpoint      *segment.Checkpoint
	CheckpointError error
	// Store is the secret that its frames bear.
	Store [16]byte
	// Frames are those found, by position. Known ones are of the run that counts and needed.
	Frames  []FrameAt
	Verdict journal.Verdict

	name   string // of the file
	needed []int  // the Frames that were judged; Verdict's indexes are into it
}

// FrameAt is a frame and where it lies. Its batches are not kept.
type FrameAt struct {
	journal.Header
	Position int64
	Bytes    int
	Entries  []EntryAt
	Whole    bool
	// Error is what is wrong with its table, or nil.
	Error error
	// Needed: it is not of an older lap, that is, some segment may lack what it has.
	Needed bool
}

// EntryAt is an entry of a frame, and where its batches lie in the file.
type EntryAt struct {
	journal.Entry
	Position int64
	Bytes    int
	Whole    bool
}

// Ring reads the journal of a shard and judges it as a start would.
func (s *Store) Ring(shard int) (*Ring, error) {
	r := &Ring{Shard: shard, name: segment.JournalName(shard)}
	if r.Checkpoint, r.CheckpointError = s.Checkpoint(shard); r.Checkpoint != nil {
		r.Store = r.Checkpoint.Store
	}
	f, err := s.open(r.name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r.Bytes = f.size
	head := make([]byte, segment.RingHeadBytes)
	n, err := f.readAt(head, 0)
	if err != nil {
		return nil, err
	}
	if r.Head, err = segment.DecodeRing(head[:n]); err != nil {
		r.HeadError = inFile(err, r.name)
	} else if r.Checkpoint == nil {
		r.Store = r.Head.Store
	}
	if err := r.search(f); err != nil {
		return nil, err
	}
	r.judge()
	return r, nil
}

// search looks for frames at every block: behind a damaged one the next is somewhere.
func (r *Ring) search(f *file) error {
	window := make([]byte, min(ringReadBytes, max(f.size, journal.BlockBytes)))
	for at := int64(segment.RingHeadBytes); at < f.size; {
		n, err := f.readAt(window, at)
		if err != nil {
			return err
		}
		data := window[:n]
		next := 0
		for next < len(data) {
			frame, err := journal.Parse(data[next:], r.Store)
			var short *journal.ShortError
			if errors.As(err, &short) && short.Bytes > len(window) && at+int64(next)+int64(short.Bytes) <= f.size {
				window = make([]byte, short.Bytes)
				break
			}
			if errors.As(err, &short) && next > 0 && short.Bytes <= len(window) {
				break // the window goes on from here
			}
			if errors.Is(err, segment.ErrNewerFormat) {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			if frame.Bytes() == 0 {
				next += journal.BlockBytes
				continue
			}
			r.Frames = append(r.Frames, frameAt(&frame, at+int64(next), err))
			if err == nil {
				next += frame.Bytes()
			} else {
				next += journal.BlockBytes // its table is damaged: one of another lap may begin inside
			}
		}
		at += int64(next)
	}
	return nil
}

// frameAt takes what is kept of a frame that was found at position.
func frameAt(f *journal.Frame, position int64, err error) FrameAt {
	at := FrameAt{Header: f.Header, Position: position, Bytes: f.Bytes(), Whole: f.Whole(), Error: err}
	data := position + journal.HeaderBytes
	for i := range f.Len() {
		e, batches, whole := f.At(i)
		at.Entries = append(at.Entries, EntryAt{Entry: e, Position: data, Bytes: len(batches), Whole: whole})
		data += int64(len(batches))
	}
	return at
}

// known says whether there is a checkpoint that knows of the journal.
func (r *Ring) known() bool { return r.Checkpoint != nil && r.Checkpoint.Run > 0 }

// judge decides which frames a start takes.
func (r *Ring) judge() {
	var found []journal.Found
	var trim journal.Trim
	if r.known() {
		trim = journal.Trim{Run: r.Checkpoint.Run, From: r.Checkpoint.From, Flushed: r.Checkpoint.Flushed}
	}
	for i := range r.Frames {
		f := &r.Frames[i]
		if r.known() && (f.Run < trim.Run || f.Run == trim.Run && f.Sequence < trim.From) {
			continue // of an older lap
		}
		f.Needed = true
		r.needed = append(r.needed, i)
		found = append(found, journal.Found{Run: f.Run, Sequence: f.Sequence, Flushed: f.Flushed, From: f.From, Whole: f.Whole})
	}
	r.Verdict = journal.Judge(found, trim, r.known())
}

// Taken returns the frames that a start merges, in order.
func (r *Ring) Taken() (frames []*FrameAt) {
	for _, i := range r.Verdict.Take {
		frames = append(frames, &r.Frames[r.needed[i]])
	}
	return frames
}

// Spill reads the journal entries of a log that were put aside. A damaged frame ends them; it is the error.
func (s *Store) Spill(id meta.LogID, store [16]byte) ([]FrameAt, error) {
	name := id.String() + spillSuffix
	content, err := s.readFile(name)
	if err != nil {
		return nil, err
	}
	var frames []FrameAt
	for at := 0; at < len(content); {
		frame, err := journal.Parse(content[at:], store)
		if err != nil {
			return frames, &segment.CorruptError{File: name, Offset: int64(at), Reason: err.Error()}
		}
		frames = append(frames, frameAt(&frame, int64(at), nil))
		at += frame.Bytes()
	}
	return frames, nil
}

// entryRef is an entry of a log that a start merges, and where its batches lie.
type entryRef struct {
	journal.Entry
	name     string // of the file
	sequence uint64
	position int64
	bytes    int
	whole    bool
}

// Journals are the commit journals of all shards, and what was put aside of them.
type Journals struct {
	Rings []*Ring
	// SpillErrors are what is wrong with files of entries that were put aside.
	SpillErrors []error

	entries map[meta.LogID][]entryRef // what a start would merge, in the order in which it would
}

// ReadJournals reads and judges all journals.
func (s *Store) ReadJournals() (*Journals, error) {
	j := &Journals{entries: make(map[meta.LogID][]entryRef)}
	var store [16]byte
	for _, shard := range s.Journals {
		r, err := s.Ring(shard)
		if err != nil {
			return nil, err
		}
		j.Rings = append(j.Rings, r)
		store = r.Store
	}
	for _, shard := range s.Checkpoints {
		if p, err := s.Checkpoint(shard); err == nil && p.Store != [16]byte{} {
			store = p.Store
		}
	}
	for _, id := range s.Spills {
		frames, err := s.Spill(id, store)
		if err != nil {
			j.SpillErrors = append(j.SpillErrors, err)
		}
		for i := range frames {
			j.take(id.String()+spillSuffix, &frames[i])
		}
	}
	for _, r := range j.Rings {
		for _, f := range r.Taken() {
			j.take(r.name, f)
		}
	}
	for id := range j.entries {
		slices.SortStableFunc(j.entries[id], func(a, b entryRef) int {
			return cmp.Or(cmp.Compare(a.Gen, b.Gen), cmp.Compare(a.PreviousEnd, b.PreviousEnd))
		})
	}
	return j, nil
}

// damaged says whether some frame that was flushed is bad or gone: what follows a gap may then have
// been acknowledged.
func (j *Journals) damaged() bool {
	for _, r := range j.Rings {
		if len(r.Verdict.Damaged) > 0 || len(r.Verdict.Ahead) > 0 {
			return true
		}
	}
	return false
}

// take hands the entries of a frame to their logs.
func (j *Journals) take(name string, f *FrameAt) {
	for i := range f.Entries {
		e := &f.Entries[i]
		j.entries[e.LogID] = append(j.entries[e.LogID], entryRef{Entry: e.Entry, name: name, sequence: f.Sequence,
			position: e.Position, bytes: e.Bytes, whole: e.Whole})
	}
}
