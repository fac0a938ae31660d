package group

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestTimersFireInTheOrderOfTheirTimes(t *testing.T) {
	var all timers
	var fired []string
	named := func(name string) *timer {
		return &timer{fire: func(c call) { fired = append(fired, fmt.Sprint(name, "@", c.nowMillis)) }}
	}
	a, b, c, d := named("a"), named("b"), named("c"), named("d")
	if all.nextMillis() != math.MaxInt64 {
		t.Error("nothing is set, and there is a next time")
	}
	all.arm(a, 30)
	all.arm(b, 10)
	all.arm(c, 20)
	all.arm(d, 20) // with c, but set later
	all.arm(a, 5)  // earlier than before
	all.arm(b, 40) // later than before
	all.disarm(c)  // not at all
	all.disarm(c)  // harmless
	all.arm(c, 20) // set again: now it is behind d
	if !a.isSet() || all.nextMillis() != 5 {
		t.Errorf("next is %d, want 5", all.nextMillis())
	}
	all.run(call{nowMillis: 4})
	all.run(call{nowMillis: 25})
	if got := strings.Join(fired, " "); got != "a@25 d@25 c@25" {
		t.Errorf("fired %s", got)
	}
	if a.isSet() || !b.isSet() || all.nextMillis() != 40 {
		t.Errorf("next is %d, want 40", all.nextMillis())
	}
}

func TestATimerMaySetItselfAgain(t *testing.T) {
	var all timers
	count := 0
	again := &timer{}
	again.fire = func(c call) {
		count++
		all.arm(again, c.nowMillis+10)
	}
	all.arm(again, 0)
	for now := int64(0); now < 100; now++ {
		all.run(call{nowMillis: now})
	}
	if count != 10 {
		t.Errorf("fired %d times, want 10", count)
	}
}
