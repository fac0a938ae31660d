package engine

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Durations are counted in classes, four to each doubling: a percentile is known to
// a quarter of itself, and counting is one addition.
const (
	durationShift   = 16 // the first class ends at 1 << 16 ns, 66 µs
	durationOctaves = 16 // and the last but one at 4.3 s
	durationParts   = 4  // classes in an octave
	// DurationClasses is the number of classes of Durations; the last one has no end.
	DurationClasses = 1 + durationOctaves*durationParts + 1
)

// Durations says how many durations there were of each class.
type Durations [DurationClasses]int64

// DurationLimit returns where a class ends: durations below it are in this
// class or an earlier one. REQUIRES: 0 ≤ class < DurationClasses-1.
func DurationLimit(class int) time.Duration {
	if class == 0 {
		return 1 << durationShift
	}
	octave, part := (class-1)/durationParts, (class-1)%durationParts
	return time.Duration(durationParts+part+1) << (durationShift + octave) / durationParts
}

// durationClass returns the class of a duration.
func durationClass(d time.Duration) int {
	if d < 1<<durationShift {
		return 0
	}
	octave := bits.Len64(uint64(d)) - 1 - durationShift
	if octave >= durationOctaves {
		return DurationClasses - 1
	}
	part := int(uint64(d) >> (durationShift + octave - 2) & (durationParts - 1)) // the two bits below the first
	return 1 + octave*durationParts + part
}

// Count is how many there were.
func (d *Durations) Count() (n int64) {
	for _, count := range d {
		n += count
	}
	return n
}

// Add adds what another count has.
func (d *Durations) Add(o *Durations) {
	for class, count := range o {
		d[class] += count
	}
}

// durationCounters is Durations while they are being counted.
type durationCounters [DurationClasses]atomic.Int64

func (c *durationCounters) count(d time.Duration) { c[durationClass(d)].Add(1) }

func (c *durationCounters) read() (d Durations) {
	for class := range c {
		d[class] = c[class].Load()
	}
	return d
}
