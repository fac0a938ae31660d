package plan

import "time"

// Bounds of ScrubPiece: large enough to be worth a read, small enough that nobody waits behind one.
const (
	scrubPieceMin = 64 << 10
	scrubPieceMax = PieceBytes
)

// Scrub is what decides how fast, and how often, everything that is stored is read again, so that
// what has rotted is found before somebody needs it.
type Scrub struct {
	BytesPerSecond int64         // above 0
	Interval       time.Duration // from the begin of one pass to that of the next
}

// Piece is how much is read at a time: an eighth of a second's worth.
func (s Scrub) Piece() int64 {
	return min(max(RoundDown(s.BytesPerSecond/8), scrubPieceMin), scrubPieceMax)
}

// Due returns when the next piece is due, after one of so many bytes that was due at due and is read
// at now. Time in which the disk was busy with others is lost, not made up for: a burst is what
// the rate is there to prevent.
func (s Scrub) Due(due, now time.Duration, bytes int64) time.Duration {
	return max(due, now-time.Second) + time.Duration(float64(bytes)/float64(s.BytesPerSecond)*float64(time.Second))
}

// NextPass returns when a pass begins after one that ran from began to ended: one that takes
// longer than the interval is followed by the next at once.
func (s Scrub) NextPass(began, ended time.Duration) time.Duration {
	return max(began+s.Interval, ended)
}
