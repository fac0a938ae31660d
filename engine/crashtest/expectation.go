package crashtest

import (
	"cmp"
	"fmt"
	"slices"

	"ringlog/engine"
)

// progress of something that was asked for.
type progress uint8

const (
	never progress = iota
	asked          // not answered: it may or may not have happened
	done           // answered: it has happened for ever
)

// placement is a batch and the offset that it is known to have.
type placement struct {
	base  int64
	batch *submission
	epoch int32 // leader epoch, where it was read
}

func (p placement) end() int64 { return p.base + int64(p.batch.records) }

// noCut is the value of expectation.cut when no truncation is under way.
const noCut = -1

// expectation is what the user of one log knows of it. Copies share placed,
// which is only ever appended to or replaced, so a copy is a moment in time.
type expectation struct {
	id      engine.LogID
	label   string
	relaxed bool

	created progress
	deleted progress

	// must is where everything below survives a power cut, mustKill (≥ must) a
	// kill: the highest acknowledged, seen or published as such.
	must     int64
	mustKill int64

	// The log begins in [start, startMax].
	start    int64
	startMax int64

	cut int64 // the truncation under way, or noCut

	placed []placement // every batch whose offset is known, ascending
	epoch  int32       // the highest that was granted

	// fresh is the first submission after the last recovery. An older one that
	// is not in placed was not found then: it must never come back.
	fresh int

	poisoned string // the error that the log was poisoned by, or ""
}

// end is the offset behind the last batch whose offset is known.
func (e *expectation) end() int64 {
	if n := len(e.placed); n > 0 {
		return e.placed[n-1].end()
	}
	return 0
}

// place notes that b is at base for ever. The error is a broken promise.
func (e *expectation) place(base int64, b *submission) error {
	i, found := e.search(base)
	if found && e.placed[i].batch == b {
		return nil
	}
	if e.cut != noCut && base >= e.cut && base < e.end() {
		e.applyCut() // the log goes on behind the cut before we were told of it
		i, found = e.search(base)
	}
	switch {
	case found:
		return fmt.Errorf("offset %d of %s is batch %d and batch %d", base, e.label, e.placed[i].batch.number, b.number)
	case b.gone:
		return fmt.Errorf("batch %d is back at %d of %s", b.number, base, e.label)
	case i < len(e.placed) || i > 0 && e.placed[i-1].end() > base:
		return fmt.Errorf("batch %d at %d of %s lies across another", b.number, base, e.label)
	}
	if at, ok := e.find(b); ok {
		return fmt.Errorf("batch %d is at %d and at %d of %s", b.number, at, base, e.label)
	}
	e.placed = append(e.placed[:len(e.placed):len(e.placed)], placement{base: base, batch: b})
	return nil
}

// search returns where in placed the batch at base is, or would be.
func (e *expectation) search(base int64) (int, bool) {
	return slices.BinarySearchFunc(e.placed, base, func(p placement, base int64) int { return cmp.Compare(p.base, base) })
}

// find returns where b is known to be.
func (e *expectation) find(b *submission) (int64, bool) {
	for i := len(e.placed) - 1; i >= 0; i-- {
		if e.placed[i].batch == b {
			return e.placed[i].base, true
		}
	}
	return 0, false
}

// acknowledged notes that everything below end was acknowledged.
func (e *expectation) acknowledged(end int64) {
	if !e.relaxed {
		e.must = max(e.must, end)
	}
	e.mustKill = max(e.mustKill, e.must, end)
}

// observe takes what the log publishes of itself. The error is a broken promise.
func (e *expectation) observe(f engine.Frontiers) error {
	if f.Start > f.HighWatermark || f.HighWatermark > f.Written || f.Durable > f.Written || f.Written > f.Next ||
		!e.relaxed && f.HighWatermark > f.Durable {
		return fmt.Errorf("frontiers of %s are out of order: %+v", e.label, f)
	}
	if f.Start < e.start || f.Start > e.startMax {
		return fmt.Errorf("%s begins at %d, expected in [%d, %d]", e.label, f.Start, e.start, e.startMax)
	}
	e.start = f.Start
	e.must = max(e.must, f.Durable)
	e.acknowledged(f.HighWatermark)
	e.mustKill = max(e.mustKill, f.Written)
	return nil
}

// applyCut forgets everything at and above the cut, which has happened.
func (e *expectation) applyCut() {
	cut := e.cut
	e.cut = noCut
	e.must, e.mustKill = min(e.must, cut), min(e.mustKill, cut)
	for i, p := range e.placed {
		if p.base >= cut {
			for _, dead := range e.placed[i:] {
				// A retry of it that waited for the cut may be appended anew.
				dead.batch.gone = dead.batch.outstanding == 0
			}
			e.placed = e.placed[:i:i]
			return
		}
	}
}

// check compares what a recovery found, all of it, with what must and what may
// be there. killed says that the machine lived on.
func (e *expectation) check(f engine.Frontiers, found []placement, killed bool) error {
	must := e.must
	if killed {
		must = e.mustKill
	}
	if f.Start < e.start || f.Start > max(e.start, e.startMax) {
		return fmt.Errorf("%s begins at %d after recovery, expected in [%d, %d]", e.label, f.Start, e.start, e.startMax)
	}
	end := f.HighWatermark
	if f.Next != end {
		return fmt.Errorf("%s ends at %d after recovery and only %d is committed", e.label, f.Next, end)
	}
	if e.cut != noCut && end == e.cut {
		must = min(must, e.cut)
	}
	if end < must {
		return fmt.Errorf("%s ends at %d after recovery: [%d, %d) was promised to survive", e.label, end, end, must)
	}
	at := f.Start
	for i, p := range found {
		if i == 0 && p.base <= at && p.end() > at {
			at = p.base // the start may lie inside a batch
		}
		if p.base != at {
			return fmt.Errorf("%s has a hole: batch %d is at %d, expected at %d", e.label, p.batch.number, p.base, at)
		}
		at = p.end()
	}
	if at != end {
		return fmt.Errorf("%s can be read up to %d, its high watermark is %d", e.label, at, end)
	}
	return e.checkPlaced(found, end)
}

// checkPlaced compares batch by batch.
func (e *expectation) checkPlaced(found []placement, end int64) error {
	known := make(map[int64]*submission, len(e.placed))
	for _, p := range e.placed {
		if p.base < end {
			known[p.base] = p.batch
		}
	}
	seen := make(map[*submission]int64, len(found))
	for _, p := range found {
		if b := known[p.base]; b != nil && b != p.batch {
			return fmt.Errorf("offset %d of %s was batch %d and is batch %d after recovery", p.base, e.label, b.number, p.batch.number)
		}
		if known[p.base] == nil && (p.batch.gone || p.batch.number < e.fresh && !p.batch.anew) {
			return fmt.Errorf("batch %d is back at %d of %s: it was cut away, lost or refused before", p.batch.number, p.base, e.label)
		}
		if other, twice := seen[p.batch]; twice {
			return fmt.Errorf("batch %d is at %d and at %d of %s", p.batch.number, other, p.base, e.label)
		}
		seen[p.batch] = p.base
	}
	for _, p := range e.placed {
		if base, ok := seen[p.batch]; ok && base != p.base {
			return fmt.Errorf("batch %d of %s was at %d and is at %d after recovery", p.batch.number, e.label, p.base, base)
		}
	}
	return nil
}

// adopt makes what a recovery published the new truth: readers may have seen
// it, and what it did not find is gone. submitted is the number of submissions so far.
func (e *expectation) adopt(f engine.Frontiers, found []placement, submitted int) {
	e.placed = found[:len(found):len(found)]
	e.start = f.Start
	e.startMax = max(e.startMax, f.Start)
	e.must, e.mustKill = f.HighWatermark, f.HighWatermark
	e.cut = noCut
	e.created, e.deleted = done, never
	e.fresh = submitted
	e.poisoned = ""
}
