package stream

import (
	"testing"
	"time"
)

// Timeouts count what peers had time for: ticks at their pace in full, the time
// that the process did not run hardly.
func TestTimeoutsCountNoPause(t *testing.T) {
	const every = 25 * time.Millisecond
	began := time.Unix(1000, 0)
	var clock countedTime
	tick := began
	start := clock.advance(tick, 2*every)
	for range 4 {
		tick = tick.Add(every)
		clock.advance(tick, 2*every)
	}
	tick = tick.Add(every + every/2) // late, as ticks are
	if got, want := clock.advance(tick, 2*every).Sub(start), 5*every+every/2; got != want {
		t.Errorf("after ticks at their pace %v have passed, want %v", got, want)
	}
	before := clock.now
	tick = tick.Add(time.Minute)
	if got := clock.advance(tick, 2*every).Sub(before); got != 2*every {
		t.Errorf("a pause of a minute counts as %v, want %v", got, 2*every)
	}
}
