package engine

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Each duration is in the class whose limits it lies between, at the limits too.
func TestADurationIsBetweenTheLimitsOfItsClass(t *testing.T) {
	for class := range DurationClasses - 1 {
		limit := DurationLimit(class)
		if class > 0 && limit <= DurationLimit(class-1) {
			t.Fatalf("class %d ends at %v, the one before at %v", class, limit, DurationLimit(class-1))
		}
		if below, at := durationClass(limit-1), durationClass(limit); below != class || at != class+1 {
			t.Errorf("around the limit %v of class %d are the classes %d and %d", limit, class, below, at)
		}
	}
	if got := durationClass(time.Hour); got != DurationClasses-1 {
		t.Errorf("an hour is of class %d", got)
	}
	if got := durationClass(-1); got != 0 {
		t.Errorf("a clock that was set back is of class %d", got)
	}
}

// Each is counted once, those beyond the scale too, and the shards' counts add up.
func TestDurationsAreCountedOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var c durationCounters
	for range 5000 {
		c.count(time.Duration(random.ExpFloat64() * float64(time.Second)))
	}
	one := c.read()
	sum := one
	sum.Add(&one)
	if one.Count() != 5000 || sum.Count() != 10_000 || one[DurationClasses-1] == 0 {
		t.Errorf("%d are counted, %d together, %d beyond the scale", one.Count(), sum.Count(), one[DurationClasses-1])
	}
}
