package dump

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"ringlog/engine/segment"
	"ringlog/record"
)

// indexCheck holds the index of a segment against its batches as they are walked.
type indexCheck struct {
	index *segment.Index // nil: there is none to check
	name  string         // of the offset index
	at    int            // the entry that comes next
	limit int64          // positions from here on are not in the file
	fault string         // the first that was found
	ended int64          // the offset at the covered position, -1 until the walk has been there
}

// index reads the two index files of a segment.
func (c *logCheck) index(s *segment.Summary) *indexCheck {
	name, timeName := c.log.fileName(s, segment.IndexSuffix), c.log.fileName(s, segment.TimeIndexSuffix)
	x := &indexCheck{name: name, limit: math.MaxInt64, ended: -1}
	offsets, err := c.store.readFile(name)
	times, timesErr := c.store.readFile(timeName)
	if err = errors.Join(err, timesErr); errors.Is(err, fs.ErrNotExist) {
		if s.Sealed {
			c.report.note(name, c.label, "the segment has no index; it is rebuilt when it is needed")
		}
		return x
	}
	if err == nil {
		x.index, err = segment.DecodeIndex(s.BaseOffset, offsets, times)
	}
	if err == nil {
		c.report.Indexes++
		return x
	}
	var corrupt *segment.CorruptError
	if errors.As(err, &corrupt) && corrupt.File == segment.KindTimeIndex.String() {
		name = timeName
	}
	c.stored(err, name, c.label, Rebuilt, doNothing)
	return x
}

// batch takes the next batch of the segment; maxTimestamp is the largest of those before it.
func (x *indexCheck) batch(position int64, batch record.Batch, maxTimestamp int64) {
	if x.index == nil || x.fault != "" {
		return
	}
	if position == x.index.Position {
		x.ended = batch.BaseOffset()
	}
	for x.at < x.index.Entries() {
		at, base, before := x.index.Entry(x.at)
		switch {
		case at > position:
			return
		case at < position:
			x.fault = fmt.Sprintf("entry %d points at byte %d, where no batch begins", x.at, at)
			return
		case base != batch.BaseOffset() || before != maxTimestamp:
			x.fault = fmt.Sprintf("entry %d says offset %d behind timestamp %d, and the batch at byte %d is offset %d behind %d", x.at, base, before, at, batch.BaseOffset(), maxTimestamp)
			return
		}
		x.at++
	}
}

// judge reports what is wrong with the index of a segment whose batches are whole.
func (x *indexCheck) judge(c *logCheck, s *segment.Summary) {
	if x.index == nil {
		return
	}
	end := min(c.position, x.limit)
	switch covered := x.index.Position; {
	case x.fault != "":
	case s.Sealed && covered != s.Bytes:
		x.fault = fmt.Sprintf("it covers %d bytes of the %d of its sealed segment", covered, s.Bytes)
	case covered > end && c.untold.found: // its batches are there, behind the end: that is judged by itself
	case covered > end:
		x.fault = fmt.Sprintf("it covers %d bytes, and the segment's batches end at %d", covered, end)
	case x.at != x.index.Entries():
		x.fault = fmt.Sprintf("entry %d points behind the batches", x.at)
	case s.Sealed && x.index.NextOffset != s.NextOffset, x.ended >= 0 && x.ended != x.index.NextOffset:
		x.fault = fmt.Sprintf("it says offset %d at byte %d", x.index.NextOffset, covered)
	}
	if x.fault != "" {
		c.report.damage(Damage{Severity: Rebuilt, File: x.name, Log: c.label, What: x.fault, Do: doNothing})
	}
}
