package journal

import (
	"cmp"
	"slices"
)

// Found is what a search of the ring has to say of one frame: one for each that
// Parse returned, also with a damaged table. Their order does not matter.
type Found struct {
	Run, Sequence, Flushed, From uint64
	Whole                        bool
}

// Trim is what the checkpoint says of the journal.
type Trim struct {
	Run, From, Flushed uint64
}

// Range is the sequences From, From+1, … To-1.
type Range struct {
	From, To uint64
}

// Verdict is what a restart has to do with the frames that it found. Its lists
// are ascending and hold indexes into found, or sequences.
type Verdict struct {
	// Run is the run that was judged: the checkpoint's, or without one the highest
	// that was found.
	Run uint64
	// Take are the frames to be merged. One that is not whole, but was flushed, is
	// among them: its whole entries count.
	Take []int
	// Damaged are the sequences that were flushed, may still be needed, and are
	// not there, or not whole: corruption.
	Damaged []Range
	// Dropped are the frames behind the journal's end, and those that are damaged
	// and that nobody calls flushed. Nothing in them was acknowledged.
	Dropped []int
	// Ahead are frames of a run above the checkpoint's. No writer makes them: a run is
	// durable in the checkpoint before its first frame is written. They are
	// corruption (an older checkpoint was put back, or the ring is another's), and
	// none of them is taken.
	Ahead []int
	// Next and NextRun are where the next run begins: above every sequence and
	// every run that was seen anywhere, so that nothing that lies in the ring can ever
	// pass for one of its frames.
	Next, NextRun uint64
}

// Judge decides which of the frames found in a ring a restart takes
// (architecture.md, rules 5 and 9).
//
// Only frames of the run judged count. The journal begins at the highest From of
// the checkpoint and of any of them; what lies below is of older laps, may be
// half overwritten, and is ignored however it looks. It ends at the first sequence
// above every Flushed whose frame is missing or not whole: the torn end, which
// nobody was told of. A bad one at or below some Flushed is damage, and the journal
// goes on behind it.
//
// A frame that is not whole is a witness all the same: its header is intact, and
// what it says of other frames was true when it was built, whether or not its
// own batches ever arrived. Without that, a frame that was flushed and lost would
// pass for the torn end when the one frame that knew better was torn itself.
//
// known is false when the checkpoint was lost. Then the highest run found is
// judged. Where its needed frames begin is only known from their own headers, which
// may say less than the checkpoint did: a frame that is missing may have been
// trimmed and overwritten by one that cannot be read, and is no proof of an end.
// So every whole frame counts. Merging more than necessary is safe, for merging
// compares and never skips a gap; ending too early would lose, in silence, what
// was acknowledged.
func Judge(found []Found, checkpoint Trim, known bool) Verdict {
	v := Verdict{Run: checkpoint.Run}
	if !known {
		checkpoint = Trim{}
		v.Run = highestRun(found)
	}
	from, flushed := max(checkpoint.From, 1), checkpoint.Flushed // sequences begin at 1
	v.Next, v.NextRun = max(from, flushed+1), v.Run+1
	var order []int
	for i := range found {
		f := &found[i]
		v.Next, v.NextRun = max(v.Next, f.Sequence+1), max(v.NextRun, f.Run+1)
		switch {
		case f.Run > v.Run:
			v.Ahead = append(v.Ahead, i)
		case f.Run == v.Run:
			order = append(order, i)
			from, flushed = max(from, f.From), max(flushed, f.Flushed)
		}
	}
	order = bySequence(found, order, from)
	expected, ended := from, false
	for _, i := range order {
		f := &found[i]
		torn := !f.Whole && f.Sequence > flushed
		hole := f.Sequence > expected && f.Sequence-1 > flushed
		ended = ended || known && hole // a torn one before is a hole too
		if ended || torn {
			v.Dropped = append(v.Dropped, i)
			continue
		}
		v.damage(expected, min(f.Sequence, flushed+1))
		if !f.Whole {
			v.damage(f.Sequence, f.Sequence+1)
		}
		v.Take = append(v.Take, i)
		expected = f.Sequence + 1
	}
	v.damage(expected, flushed+1)
	return v
}

func highestRun(found []Found) (run uint64) {
	for i := range found {
		run = max(run, found[i].Run)
	}
	return run
}

// bySequence puts frames in order and leaves out those below from. No writer
// makes a sequence twice in a run; if it is there twice, the whole one counts.
func bySequence(found []Found, order []int, from uint64) []int {
	slices.SortFunc(order, func(a, b int) int {
		f, g := &found[a], &found[b]
		switch {
		case f.Sequence != g.Sequence:
			return cmp.Compare(f.Sequence, g.Sequence)
		case f.Whole != g.Whole && f.Whole:
			return -1
		case f.Whole != g.Whole:
			return 1
		}
		return cmp.Compare(a, b)
	})
	order = slices.CompactFunc(order, func(a, b int) bool { return found[a].Sequence == found[b].Sequence })
	return slices.DeleteFunc(order, func(i int) bool { return found[i].Sequence < from })
}

// damage adds the sequences from from up to to.
func (v *Verdict) damage(from, to uint64) {
	last := len(v.Damaged) - 1
	switch {
	case from >= to:
	case last >= 0 && v.Damaged[last].To == from:
		v.Damaged[last].To = to
	default:
		v.Damaged = append(v.Damaged, Range{from, to})
	}
}
