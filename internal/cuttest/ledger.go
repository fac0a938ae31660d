package cuttest

import (
	"bytes"
	"fmt"

	"ringlog/engine"
	"ringlog/record"
)

// Progress of something that was asked for.
type Progress uint8

// Each is what its user knows.
const (
	Never Progress = iota
	Asked          // not answered: it may or may not have happened
	Done           // answered: it has happened for ever
)

// Placed is a batch and its offset.
type Placed struct {
	Base  int64
	Batch *Batch
}

func (p Placed) end() int64 { return p.Base + int64(p.Batch.records) }

// noCut is the value of Ledger.cut while no truncation is under way.
const noCut = -1

// Ledger is what the user of one log was told, and what it may therefore expect
// after a power cut. It belongs to one goroutine at a time.
type Ledger struct {
	ID      engine.LogID
	Label   string
	Relaxed bool // flush.messages > 1: an acknowledgement promises nothing here, a durable end does
	Retains bool // retention may take the oldest segments at any time

	Created, Deleted Progress

	start, startMax int64 // the log begins within
	must            int64 // what lies below survives
	end             int64 // where the next batch goes
	cut             int64 // the truncation under way, or noCut

	placed []Placed            // those whose offset is known, ascending
	sent   map[uint32][]*Batch // all, by CRC
	made   int                 // how many
	fresh  int                 // an older one that is not in placed must never be seen again

	producer int64
	sequence int32
}

// NewLedger starts the ledger of a log that is about to be created.
func NewLedger(id engine.LogID, label string) *Ledger {
	return &Ledger{ID: id, Label: label, cut: noCut, sent: map[uint32][]*Batch{}}
}

// Make makes the next batch of the log's producer.
func (l *Ledger) Make(nowMillis int64) *Batch {
	b := newBatch(l.ID, l.made, l.producer, l.sequence, nowMillis)
	l.made++
	l.sequence += b.records
	l.sent[b.bytes.CRC()] = append(l.sent[b.bytes.CRC()], b)
	return b
}

// Acknowledge notes that b was answered with success. Batches are answered in
// the order in which they were made.
func (l *Ledger) Acknowledge(b *Batch, base int64) error {
	if base != l.end {
		return fmt.Errorf("batch %d of %s is answered with offset %d, the log ends at %d", b.number, l.Label, base, l.end)
	}
	l.place(Placed{base, b})
	if !l.Relaxed {
		l.must = l.end
	}
	return nil
}

func (l *Ledger) place(p Placed) {
	l.placed = append(l.placed, p)
	l.end = p.end()
}

// Observe takes what the log publishes of itself: readers have seen it.
func (l *Ledger) Observe(f engine.Frontiers) {
	l.start = max(l.start, f.Start)
	l.must = max(l.must, f.Durable)
}

// AskStart notes that the start is going to be raised, GotStart that it was.
func (l *Ledger) AskStart(offset int64) { l.startMax = max(l.startMax, offset) }

// GotStart notes that the start was raised.
func (l *Ledger) GotStart(offset int64) { l.start = max(l.start, offset) }

// Cuttable returns a random batch boundary that the log can be truncated to.
func (l *Ledger) Cuttable(draw func(int) int) (offset int64, ok bool) {
	if len(l.placed) == 0 {
		return 0, false
	}
	p := l.placed[len(l.placed)-1-draw(min(4, len(l.placed)))]
	return p.Base, p.Base >= l.start
}

// AskCut notes that a truncation is under way; nothing may be in flight.
func (l *Ledger) AskCut(offset int64) { l.cut = offset }

// GotCut notes that everything at and above the cut is gone for ever, or, if
// refused, that nothing was cut.
func (l *Ledger) GotCut(refused bool) {
	cut := l.cut
	l.cut = noCut
	if refused {
		return
	}
	keep := len(l.placed)
	for keep > 0 && l.placed[keep-1].Base >= cut {
		keep--
	}
	l.placed = l.placed[:keep]
	l.end, l.must = cut, min(l.must, cut)
	l.fresh = l.made
	l.resume()
}

// resume lets the producer go on behind the last batch that is there, or be
// another one.
func (l *Ledger) resume() {
	if n := len(l.placed); n > 0 {
		last := l.placed[n-1].Batch
		l.producer, l.sequence = last.producer, last.sequence+last.records
		return
	}
	l.producer, l.sequence = l.producer+1, 0
}

// Identify returns the batch that was read, which must be one that was made.
func (l *Ledger) Identify(read record.Batch) (*Batch, error) {
	if err := read.Check(); err != nil {
		return nil, fmt.Errorf("what is served at %d of %s is no whole batch: %w", read.BaseOffset(), l.Label, err)
	}
	for _, b := range l.sent[read.CRC()] {
		if bytes.Equal(b.bytes[keptFrom:], read[keptFrom:]) {
			return b, nil
		}
	}
	return nil, fmt.Errorf("the batch at %d of %s was made by nobody", read.BaseOffset(), l.Label)
}

// Check compares what a start found, all of it, with what must be there and
// what may be.
func (l *Ledger) Check(f engine.Frontiers, found []Placed) error {
	if highest := max(l.start, l.startMax); f.Start < l.start || f.Start > highest && !l.Retains {
		return fmt.Errorf("%s begins at %d, expected in [%d, %d]", l.Label, f.Start, l.start, highest)
	}
	if f.HighWatermark != f.Next {
		return fmt.Errorf("%s ends at %d and only %d is committed", l.Label, f.Next, f.HighWatermark)
	}
	must := l.must
	if l.cut != noCut && f.Next == l.cut {
		must = min(must, l.cut)
	}
	if f.Next < must {
		return fmt.Errorf("%s ends at %d: [%d, %d) was promised and is lost (relaxed %t, cut under way at %d)", l.Label, f.Next, f.Next, must, l.Relaxed, l.cut)
	}
	at := f.Start
	for i, p := range found {
		if i == 0 && p.Base <= at && p.end() > at {
			at = p.Base // the start may lie inside a batch
		}
		if p.Base != at {
			return fmt.Errorf("%s has a hole: batch %d is at %d, expected at %d", l.Label, p.Batch.number, p.Base, at)
		}
		at = p.end()
	}
	if at != f.Next {
		return fmt.Errorf("%s can be read up to %d and ends at %d", l.Label, at, f.Next)
	}
	return l.checkPlaced(found)
}

// checkPlaced compares batch by batch: what was known to be somewhere is there
// or nowhere, and nothing comes back.
func (l *Ledger) checkPlaced(found []Placed) error {
	known := make(map[*Batch]int64, len(l.placed))
	for _, p := range l.placed {
		known[p.Batch] = p.Base
	}
	last := -1
	for _, p := range found {
		base, placed := known[p.Batch]
		switch {
		case placed && base != p.Base:
			return fmt.Errorf("batch %d of %s was at %d and is at %d", p.Batch.number, l.Label, base, p.Base)
		case !placed && p.Batch.number < l.fresh:
			return fmt.Errorf("batch %d is back at %d of %s: it was cut away or lost before", p.Batch.number, p.Base, l.Label)
		case p.Batch.number <= last:
			return fmt.Errorf("batch %d of %s comes behind batch %d", p.Batch.number, l.Label, last)
		}
		last = p.Batch.number
	}
	return nil
}

// Adopt makes what a start published the new truth: it was shown to readers,
// and what it did not find must never come back.
func (l *Ledger) Adopt(f engine.Frontiers, found []Placed) {
	l.Created, l.Deleted = Done, Never
	l.placed = append([]Placed(nil), found...)
	l.start, l.startMax = f.Start, f.Start
	l.must, l.end, l.cut = f.Next, f.Next, noCut
	l.fresh = l.made
	l.resume()
}

// remembered is how many batches of a producer can be sent again (KIP-98).
const remembered = 5

// Retries returns the batches that can be sent again: each must be answered
// with its offset and not appended.
func (l *Ledger) Retries() []Placed {
	from := len(l.placed)
	for from > 0 && len(l.placed)-from < remembered && l.placed[from-1].Batch.producer == l.producer {
		from--
	}
	return l.placed[from:]
}

// Frontier returns where the log is known to end, and the largest start that
// can be asked for.
func (l *Ledger) Frontier() (start, end int64) { return l.start, l.end }
