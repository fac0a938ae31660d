package lag

import "time"

// None stands for an offset that is not there.
const None int64 = -1

// Observation is one group's place in one partition at one instant.
type Observation struct {
	At time.Time
	// Committed is the offset that the group reads next, None before its first commit.
	Committed int64
	// Start is the first offset that the log holds, End the one that the next record gets.
	Start, End int64
	// NextTimestamp is that of the first record from max(Committed, Start) on; zero is unknown, or that there is none.
	NextTimestamp time.Time
	// Retention is how long records are kept by their timestamps (retention.ms); not above zero is for ever, or unknown.
	Retention time.Duration
	// RetentionBytes is what the log may hold (retention.bytes); not above zero is without limit, or unknown.
	RetentionBytes int64
	// LogBytes is what the log holds; not above zero is unknown.
	LogBytes int64
}

// position is the first offset that the group can still read.
func (o *Observation) position() int64 { return max(o.Committed, o.Start) }

// records is how many it can read and has not committed.
func (o *Observation) records() int64 {
	if o.Committed < 0 {
		return None
	}
	return max(o.End-o.position(), 0)
}

// age is how old the next record is; ok is false where that is not known. A producer whose clock is ahead makes none.
func (o *Observation) age() (age time.Duration, ok bool) {
	switch {
	case o.records() == 0:
		return 0, true
	case o.records() < 0, o.NextTimestamp.IsZero():
		return 0, false
	}
	return max(o.At.Sub(o.NextTimestamp), 0), true
}

// bytesBehind estimates the bytes from the position to the end, taking records for equally large.
func (o *Observation) bytesBehind() (bytes float64, ok bool) {
	records := o.records()
	switch {
	case records == 0:
		return 0, true
	case records < 0, o.LogBytes <= 0:
		return 0, false
	}
	return float64(o.LogBytes) * float64(records) / float64(o.End-o.Start), true
}

// precedes says whether rates between o and a later observation mean something: not across a reset of the group, or
// of a topic that was created anew.
func (o *Observation) precedes(later *Observation) bool {
	return later.At.After(o.At) && o.Committed >= 0 && later.Committed >= o.Committed && later.End >= o.End && later.Start >= o.Start
}
