package compact

import "math"

// NoHorizon is Segment.HorizonMillis of a segment without tombstones that are to go.
const NoHorizon int64 = 0

// spanMax is how many offsets a segment may span: what its index can address.
const spanMax = math.MaxInt32

// Segment is one segment that may be compacted: sealed, durable and committed.
type Segment struct {
	BaseOffset     int64
	NextOffset     int64
	Bytes          int64
	CreatedMillis  int64 // broker's clock at the first append
	AppendedMillis int64 // broker's clock at the last append
	HorizonMillis  int64 // when its first tombstones may go (KIP-534), NoHorizon for never
}

// Policy is what a topic's configuration asks for.
type Policy struct {
	DirtyRatioMin float64 // min.cleanable.dirty.ratio: compacted when more than this share is dirty
	LagMinMillis  int64   // min.compaction.lag.ms, from the last append of a segment
	LagMaxMillis  int64   // max.compaction.lag.ms, from the first append of a segment
	SegmentBytes  int64   // segment.bytes: small segments are merged up to it
}

// Reason says why a log is to be compacted.
type Reason uint8

const (
	// None: it is not.
	None Reason = iota
	// Dirty: the dirty share is above the policy's.
	Dirty
	// Overdue: a record has waited for longer than max.compaction.lag.ms.
	Overdue
	// Expired: tombstones in the clean part have been readable for long enough.
	Expired
)

// String names the reason for logs.
func (r Reason) String() string {
	return [...]string{None: "none", Dirty: "dirty", Overdue: "overdue", Expired: "expired tombstones"}[r]
}

// Log is what is decided about. Segments ascend, without a hole.
type Log struct {
	NowMillis int64
	Cleaned   int64 // everything below was compacted
	Segments  []Segment
}

// Decision is what to do with a log.
type Decision struct {
	Reason Reason
	// Keys are mapped from From to To; equal when only tombstones are to go.
	From, To int64
	// Ratio is the dirty share of what may be compacted, from 0 to 1.
	Ratio float64
	// OverdueMillis is for how long a record has waited beyond max.compaction.lag.ms.
	OverdueMillis int64
}

// Decide says whether and why the log is to be compacted, and its dirty range. Segments are
// taken in order: one that is too young (min.compaction.lag.ms) protects those after it.
// The broker's clock counts, not the records': a producer with a wrong one can neither
// hurry nor hold up compaction.
func (l Log) Decide(p Policy) Decision {
	d := Decision{From: l.from(), To: l.from()}
	clean, dirty := int64(0), int64(0)
	expired := false
	for i := range l.Segments {
		s := &l.Segments[i]
		if s.NextOffset <= d.From {
			clean += s.Bytes
			expired = expired || s.expired(l.NowMillis)
			continue
		}
		if max(l.NowMillis-s.AppendedMillis, 0) < p.LagMinMillis { // a clock that was put back holds up nothing
			break
		}
		if d.To == d.From {
			// A minimum above the maximum wins: a promise before a wish.
			waited := max(l.NowMillis-s.CreatedMillis, 0)
			d.OverdueMillis = max(waited-max(p.LagMaxMillis, p.LagMinMillis), 0)
		}
		dirty += s.Bytes
		d.To = s.NextOffset
	}
	if dirty > 0 {
		d.Ratio = float64(dirty) / float64(dirty+clean)
	}
	switch {
	case d.To > d.From && d.OverdueMillis > 0:
		d.Reason = Overdue
	case d.To > d.From && d.Ratio > p.DirtyRatioMin:
		d.Reason = Dirty
	case expired:
		d.Reason, d.To = Expired, d.From
	}
	return d
}

// from is where the dirty part begins: retention may have deleted all that was clean.
func (l Log) from() int64 {
	if len(l.Segments) == 0 {
		return l.Cleaned
	}
	return max(l.Cleaned, l.Segments[0].BaseOffset)
}

func (s *Segment) expired(nowMillis int64) bool {
	return s.HorizonMillis != NoHorizon && s.HorizonMillis <= nowMillis
}

// Chosen says which segments are written anew, by their index: those that begin below end. When only
// tombstones are to go, it is the clean segments that have such.
func (l Log) Chosen(d Decision, end int64) []int {
	var chosen []int
	for i := range l.Segments {
		s := &l.Segments[i]
		switch {
		case d.Reason != Expired && s.BaseOffset < end,
			d.Reason == Expired && s.NextOffset <= d.From && s.expired(l.NowMillis):
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// Joins says whether a chosen segment goes into the file that was begun for another and has so many
// bytes: as long as that cannot become larger than segment.bytes, and one index can address it. What counts is what
// was left of those before, so a log of few keys ends up in few files at once.
func (l Log) Joins(p Policy, d Decision, first int, bytes int64, next int) bool {
	s := &l.Segments[next]
	return d.Reason != Expired && bytes+s.Bytes <= p.SegmentBytes && s.NextOffset-1-l.Segments[first].BaseOffset <= spanMax
}
