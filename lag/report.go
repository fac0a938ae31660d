package lag

import (
	"math"
	"time"
)

// Where warnings begin: the share of retention that a group has used up.
const (
	warningShare  = 0.5
	criticalShare = 0.8
)

// Never is a duration that does not end.
const Never = time.Duration(math.MaxInt64)

// Level is how near a group is to losing records to retention.
type Level int

// The levels, from good to bad.
const (
	LevelNone     Level = iota
	LevelWarning        // half of retention is used up
	LevelCritical       // four fifths are
	LevelLost           // records were deleted before the group had read them
)

func (l Level) String() string {
	return [...]string{"none", "warning", "critical", "lost"}[l]
}

// Report is what an observation means. Pointers are nil where something is not known.
type Report struct {
	// Records is how many are readable and not committed; None before the first commit.
	Records int64
	// Behind is how old the record is that comes next, 0 when there is none.
	Behind *time.Duration
	// Rates need an observation before.
	Rates *Rates
	// Drain is how long the group takes to catch up if its surplus stays what it is; Never when it has none.
	Drain *time.Duration
	// TimeShare and BytesShare are what is used up of retention by time and by size, 1 being all. By size it is an
	// estimate that takes records for equally large.
	TimeShare, BytesShare *float64
	// LossAt is the instant from which retention may delete records that the group has not read, if it goes on at its
	// speed; without an observation before, if it stands still. Deletion goes by whole segments and by turns, so it
	// comes later rather than sooner. The zero time is never, or unknown.
	LossAt time.Time
	// Lost is the range of offsets [LostFrom, LostUntil) that was deleted before the group had read it.
	LostFrom, LostUntil int64
	// LostTime is how much time of the log the lost range was, as far as the observation before can tell.
	LostTime *time.Duration
	// Stuck: the log grows and the position stays.
	Stuck bool
	// Ahead: the commit lies past the end of the log, which was truncated or created anew.
	Ahead bool
	Level Level
}

// Rates are per second, between two observations.
type Rates struct {
	Produced, Consumed float64 // records
	// Change is by how many records per second the lag grows; negative is catching up.
	Change float64
}

// Lost is how many records were deleted before the group had read them.
func (r *Report) Lost() int64 { return r.LostUntil - r.LostFrom }

// Share is the larger of the known shares of retention, nil when none is known.
func (r *Report) Share() *float64 {
	if r.TimeShare == nil || r.BytesShare != nil && *r.BytesShare > *r.TimeShare {
		return r.BytesShare
	}
	return r.TimeShare
}

// Analyse says what an observation means. The one before gives it speed; it may be nil.
func Analyse(now, before *Observation) Report {
	r := Report{Records: now.records(), Ahead: now.Committed > now.End}
	if before != nil && !before.precedes(now) {
		before = nil
	}
	if r.Records < 0 {
		return r
	}
	age, aged := now.age()
	if aged {
		r.Behind = &age
	}
	if before != nil {
		r.Rates = ratesOf(now, before)
		drain := DrainTime(r.Records, r.Rates.Consumed-r.Rates.Produced)
		r.Drain = &drain
		r.Stuck = r.Records > 0 && now.Committed == before.Committed && now.End > before.End
	}
	if aged && now.Retention > 0 {
		share := age.Seconds() / now.Retention.Seconds()
		r.TimeShare = &share
	}
	if bytes, ok := now.bytesBehind(); ok && now.RetentionBytes > 0 {
		share := bytes / float64(now.RetentionBytes)
		r.BytesShare = &share
	}
	r.LossAt = earlier(lossByTime(now, before), lossByBytes(now, before))
	r.findLoss(now, before)
	r.Level = r.level()
	return r
}

// DrainTime is how long a backlog takes to be worked off by a surplus of records per second: capacity that is left
// above what is produced.
func DrainTime(records int64, surplus float64) time.Duration {
	switch {
	case records <= 0:
		return 0
	case surplus <= 0:
		return Never
	}
	return duration(float64(records) / surplus)
}

// ratesOf takes the lag's change from what can be read, and not from the other two: records that retention deletes leave
// the lag too, and nobody consumed them.
func ratesOf(now, before *Observation) *Rates {
	seconds := now.At.Sub(before.At).Seconds()
	return &Rates{
		Produced: float64(now.End-before.End) / seconds,
		Consumed: float64(now.Committed-before.Committed) / seconds,
		Change:   float64(now.records()-before.records()) / seconds,
	}
}

func (r *Report) findLoss(now, before *Observation) {
	if now.Committed >= now.Start {
		return
	}
	r.LostFrom, r.LostUntil = now.Committed, now.Start
	if before != nil && before.Committed == now.Committed && before.Start <= before.Committed &&
		!before.NextTimestamp.IsZero() && now.NextTimestamp.After(before.NextTimestamp) {
		lost := now.NextTimestamp.Sub(before.NextTimestamp)
		r.LostTime = &lost
	}
}

func (r *Report) level() Level {
	share := r.Share()
	switch {
	case r.Lost() > 0:
		return LevelLost
	case share == nil || *share < warningShare:
		return LevelNone
	case *share < criticalShare:
		return LevelWarning
	}
	return LevelCritical
}

// lossByTime is when the age of the next record reaches retention. The age grows by a second each second, less what
// the group advances through the log's time meanwhile.
func lossByTime(now, before *Observation) time.Time {
	age, ok := now.age()
	if !ok || now.Retention <= 0 || now.records() == 0 {
		return time.Time{}
	}
	growth := 1.0
	if before != nil {
		earlier, ok := before.age()
		if ok {
			growth = (age - earlier).Seconds() / now.At.Sub(before.At).Seconds()
		}
	}
	return reached(now.At, age.Seconds(), now.Retention.Seconds(), growth)
}

// lossByBytes is when the bytes from the position on are as many as the log may hold.
func lossByBytes(now, before *Observation) time.Time {
	bytes, ok := now.bytesBehind()
	if !ok || now.RetentionBytes <= 0 || before == nil || now.records() == 0 {
		return time.Time{}
	}
	growth := bytes / float64(now.records()) * float64(now.records()-before.records()) / now.At.Sub(before.At).Seconds()
	return reached(now.At, bytes, float64(now.RetentionBytes), growth)
}

// reached is when a figure that grows per second is at its limit: now if it is there, the zero time if it never is.
func reached(now time.Time, figure, limit, growth float64) time.Time {
	switch {
	case figure >= limit:
		return now
	case growth <= 0:
		return time.Time{}
	}
	left := duration((limit - figure) / growth)
	if left == Never {
		return time.Time{}
	}
	return now.Add(left)
}

// earlier is the first of two instants of which the zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// duration turns seconds into a duration, and what does not fit into Never.
func duration(seconds float64) time.Duration {
	if seconds >= Never.Seconds() {
		return Never
	}
	return time.Duration(math.Round(seconds * float64(time.Second)))
}
