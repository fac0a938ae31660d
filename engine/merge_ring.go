package engine

import (
	"errors"

	"ringlog/engine/disk"
	"ringlog/engine/journal"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
)

// ring is what was found of one shard's journal.
type ring struct {
	shard      int
	checkpoint segment.Checkpoint
	known      bool // the checkpoint could be read
	frames     []journal.Frame
	found      []journal.Found
	verdict    journal.Verdict
}

// read finds the frames that are still needed, and judges them.
func (r *ring) read(j *job) error {
	file, size, err := j.open(segment.JournalName(r.shard), disk.ReadOnly)
	if err != nil {
		return err
	}
	if err = r.readHead(j, file); err == nil {
		err = r.readFrames(j, file, size)
	}
	if closeErr := j.close(file); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	p := &r.checkpoint
	r.verdict = journal.Judge(r.found, journal.Trim{Run: p.Run, From: p.From, Flushed: p.Flushed}, r.known)
	return nil
}

// readHead learns the store id from the ring when the checkpoint cannot tell it.
func (r *ring) readHead(j *job, file disk.File) error {
	block := disk.AlignedBytes(segment.RingHeadBytes)
	if _, err := j.readAll(file, block, 0); err != nil {
		return err
	}
	head, err := segment.DecodeRing(block)
	if errors.Is(err, ErrCorrupt) {
		j.shard.logger.Error("the head of a commit journal is damaged", "shard", r.shard, "error", err)
		return nil
	}
	if err == nil && !r.known {
		r.checkpoint.Store = head.Store
	}
	return err
}

// readFrames looks for frames at every block: behind a damaged one the next is
// somewhere.
func (r *ring) readFrames(j *job, file disk.File, size int64) error {
	window := disk.AlignedBytes(int(min(plan.RoundUp(size), ringReadBytes)))
	for at := int64(segment.RingHeadBytes); at < size; {
		data := window[:min(int64(len(window)), plan.RoundUp(size-at))]
		if err := j.readPieces(file, data, at); err != nil {
			return err
		}
		next := 0
		for next < len(data) {
			f, err := journal.Skim(data[next:], r.checkpoint.Store)
			var short *journal.ShortError
			if errors.As(err, &short) && next > 0 && short.Bytes <= len(window) {
				break // the window goes on from here
			}
			if errors.Is(err, segment.ErrNewerFormat) {
				return err
			}
			if f.Bytes() == 0 {
				next += plan.BlockBytes
				continue
			}
			r.keep(&f)
			if err == nil {
				next += f.Bytes()
			} else {
				next += plan.BlockBytes // its table is damaged: a frame of another lap may begin inside
			}
		}
		at += int64(next)
	}
	return nil
}

// keep takes a frame that can matter. It refers to memory that is read into again, so
// what is kept is a copy. Of the others, half of the ring or more, nobody looks at the batches.
func (r *ring) keep(f *journal.Frame) {
	p := &r.checkpoint
	if r.known && (f.Run < p.Run || f.Run == p.Run && f.Sequence < p.From) {
		return
	}
	kept := f.Clone()
	r.found = append(r.found, journal.Found{Run: f.Run, Sequence: f.Sequence, Flushed: f.Flushed, From: f.From, Whole: kept.Whole()})
	r.frames = append(r.frames, kept)
}

// spares says whether the damaged frames are there, with tables that do not name
// the log.
func (r *ring) spares(damage journal.Range, g *merge) bool {
	left := damage.To - damage.From
	for _, i := range r.verdict.Take {
		if f := &r.frames[i]; f.Sequence >= damage.From && f.Sequence < damage.To && f.Len() > 0 {
			left--
		}
	}
	if left > 0 {
		return false
	}
	for i := range g.entries {
		if e := &g.entries[i]; e.at.ring == r && e.at.sequence >= damage.From && e.at.sequence < damage.To && !e.whole {
			return false
		}
	}
	return true
}
