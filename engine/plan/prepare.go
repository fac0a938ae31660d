package plan

import (
	"math"
	"time"
)

// Steps in which space is reserved ahead of a log's writes. Small at first,
// because ten thousand idle logs must not reserve gigabytes; large for a busy
// log, because each step costs a journal commit of the file system.
const (
	PrepareStepMin = 256 << 10
	PrepareStepMax = 64 << 20

	prepareSoon = 2 * time.Second  // a step used up faster than this was too small
	prepareLate = 60 * time.Second // one that lasted longer was too large
)

// PrepareStep returns the next step, given the last one and how long it lasted.
func PrepareStep(last int64, lasted time.Duration) int64 {
	switch {
	case last < PrepareStepMin:
		return PrepareStepMin
	case lasted < prepareSoon:
		last *= 2
	case lasted > prepareLate:
		last /= 2
	}
	return min(max(last, PrepareStepMin), PrepareStepMax)
}

// Bounds of FreeBytesMin: at least a gigabyte and a fiftieth of the disk, but of a small one
// no more than a tenth.
const (
	freeBytesLeast   = 1 << 30
	freeShare        = 50
	freeShareOfSmall = 10
)

// FreeBytesMin is how much of a file system of totalBytes is kept free when nobody says otherwise.
func FreeBytesMin(totalBytes int64) int64 {
	return min(max(freeBytesLeast, totalBytes/freeShare), totalBytes/freeShareOfSmall)
}

// Prepare is what decides how much of a log's files to reserve next.
type Prepare struct {
	Position      int64 // bytes in the active segment
	PreparedBytes int64 // reserved of it
	SegmentBytes  int64 // segment.bytes
	NeedBytes     int64 // of the append that waits for room, 0 when none waits
	NeedsComing   bool  // that append begins a new segment
	ComingBytes   int64 // reserved of the next segment, 0 when there is none
	StepBytes     int64
}

// Space says what to reserve: the active segment up to ActiveTo, or the coming
// one up to ComingTo; both 0 when there is nothing to do now.
type Space struct {
	ActiveTo int64
	ComingTo int64
}

// Next decides. A step begins when half of the last one is used, so that the
// log seldom waits for it; the coming segment is begun when the active one is
// reserved to its end.
func (p Prepare) Next() Space {
	target := RoundUp(p.SegmentBytes)
	if p.NeedsComing {
		if p.ComingBytes >= RoundUp(p.NeedBytes) {
			return Space{}
		}
		return Space{ComingTo: RoundUp(max(min(p.StepBytes, target), p.NeedBytes))}
	}
	if need := p.Position + p.NeedBytes; p.NeedBytes > 0 && need > p.PreparedBytes {
		return Space{ActiveTo: RoundUp(max(need, min(p.PreparedBytes+p.StepBytes, target)))}
	}
	if p.PreparedBytes < target {
		if p.PreparedBytes-p.Position < p.StepBytes/2 {
			return Space{ActiveTo: RoundUp(min(p.PreparedBytes+p.StepBytes, target))}
		}
		return Space{}
	}
	if p.ComingBytes == 0 && p.Position > 0 {
		return Space{ComingTo: RoundUp(min(p.StepBytes, target))}
	}
	return Space{}
}

// NothingBelow returns the position below which Next will go on to say that there
// is nothing to do, when it says so now and nothing but Position changes.
func (p Prepare) NothingBelow() int64 {
	if p.NeedsComing || p.NeedBytes > 0 {
		return 0
	}
	if p.PreparedBytes < RoundUp(p.SegmentBytes) {
		return p.PreparedBytes - p.StepBytes/2
	}
	if p.ComingBytes == 0 {
		return 1 // with the first byte the next segment is begun
	}
	return math.MaxInt64
}

// BlockBytes is the unit of direct I/O.
const BlockBytes = 4096

// RoundUp returns n rounded up to whole blocks.
func RoundUp(n int64) int64 { return (n + BlockBytes - 1) &^ (BlockBytes - 1) }

// RoundDown returns n rounded down to whole blocks.
func RoundDown(n int64) int64 { return n &^ (BlockBytes - 1) }
