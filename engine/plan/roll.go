package plan

import "math"

// Roll is what decides whether a batch begins a new segment.
type Roll struct {
	Position     int64 // bytes in the active segment
	BatchBytes   int64
	SegmentBytes int64 // segment.bytes
	// RelativeOffset is the distance of the batch's last offset from the segment's base.
	RelativeOffset int64
	AgeMillis      int64 // since the segment's first append
	SegmentMillis  int64 // segment.ms
}

// Due says whether the active segment ends before the batch. An empty segment never
// does: a batch larger than segment.bytes has one of its own.
func (r Roll) Due() bool {
	if r.Position == 0 {
		return false
	}
	return r.Position+r.BatchBytes > r.SegmentBytes ||
		r.RelativeOffset > math.MaxInt32 ||
		r.SegmentMillis > 0 && r.AgeMillis >= r.SegmentMillis
}
