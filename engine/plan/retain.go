package plan

// Retained is one sealed segment as retention sees it, oldest first.
type Retained struct {
	Bytes          int64
	NextOffset     int64
	MaxTimestamp   int64 // Unix milliseconds, by the records; -1 when none
	AppendedMillis int64 // by the broker's clock, at the last append: see LastAppend
}

// Retain is what decides which segments of a log may go.
type Retain struct {
	NowMillis       int64
	RetentionMillis int64 // -1 keeps for ever
	RetentionBytes  int64 // -1 is no limit
	LogBytes        int64 // of all segments, the active one included
	// Start is the log's start offset: segments that end at or below it go whatever else holds.
	Start int64
	// HighWatermark bounds what may go: nothing that is not committed.
	HighWatermark int64
	// Delete: cleanup.policy has delete; else only what lies below Start goes.
	Delete bool
}

// Count returns how many of the sealed segments, from the oldest on, may go: a
// prefix, so that the log has no hole.
func (r Retain) Count(sealed []Retained) int {
	bytes := r.LogBytes
	for i, s := range sealed {
		if s.NextOffset > r.HighWatermark || !r.due(s, bytes) {
			return i
		}
		bytes -= s.Bytes
	}
	return len(sealed)
}

func (r Retain) due(s Retained, bytes int64) bool {
	if s.NextOffset <= r.Start {
		return true
	}
	if !r.Delete {
		return false
	}
	if r.RetentionBytes >= 0 && bytes-s.Bytes >= r.RetentionBytes {
		return true
	}
	return r.RetentionMillis >= 0 && r.NowMillis-s.Age(r.NowMillis) > r.RetentionMillis
}

// Age is the moment from which the segment's age counts: its last append, by the
// broker's clock, so that what was acknowledged stays for retention.ms whatever its producer's
// clock says, and a producer whose clock is ahead pins nothing. (Kafka counts from the largest
// timestamp: a producer that is two days behind loses its records two days early. What
// that is good for, mirrored history that goes when it went at its origin, goes later here: too
// long costs disk, too short costs records.) The largest timestamp stands in where
// the append lies in the future: the broker's own clock was ahead, and was put right.
func (s Retained) Age(nowMillis int64) int64 {
	if s.AppendedMillis > nowMillis && s.MaxTimestamp >= 0 && s.MaxTimestamp <= nowMillis {
		return s.MaxTimestamp
	}
	return s.AppendedMillis
}

// LastAppend is what a restart takes for the moment of the last append to the segment that was
// the active one: its manifest knows what held when it was written, perhaps long before the last
// append. The largest timestamp of the records tells, if it lies between the first append and now
// as an honest producer's does. Otherwise it is the restart: too late keeps the segment longer,
// too early would lose it.
func LastAppend(recordedMillis, createdMillis, maxTimestamp, nowMillis int64) int64 {
	if createdMillis <= maxTimestamp && maxTimestamp <= nowMillis {
		return max(recordedMillis, maxTimestamp)
	}
	return max(recordedMillis, nowMillis)
}

// RollByTime says whether an active segment that has bytes is so old that it
// should end although nothing is appended: so that a quiet log keeps its retention promise.
// Its first append counts, against segment.ms and, for a log that deletes by time,
// against retention.ms too when that is shorter.
func (r Retain) RollByTime(bytes, createdMillis, segmentMillis int64) bool {
	if bytes == 0 {
		return false
	}
	limit := segmentMillis
	if r.Delete && r.RetentionMillis >= 0 {
		limit = min(limit, r.RetentionMillis)
	}
	return r.NowMillis-createdMillis > limit
}

// Limit returns the position that no write of a reused segment may pass before
// the next checkpoint: leftovers are looked for only up to it, and a write that
// would pass it waits. appended is what the log appended since the last
// checkpoint: four times that makes the wait rare.
func Limit(submitted, appended, prepared int64) int64 {
	return min(RoundUp(submitted+limitAhead+4*appended), prepared)
}

const limitAhead = 64 << 20
