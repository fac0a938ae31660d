package engine

import (
	"math/rand/v2"
	"slices"
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

// A percentile is within a quarter of what the durations themselves say, and
// what came since an earlier count has its own.
func TestPercentilesOfDurations(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var c durationCounters
	count := func(n int, typical time.Duration) (counted []time.Duration) {
		for range n {
			d := time.Duration(random.ExpFloat64()*float64(typical)) + 100*time.Microsecond
			c.count(d)
			counted = append(counted, d)
		}
		slices.Sort(counted)
		return counted
	}
	check := func(d Durations, sorted []time.Duration) {
		t.Helper()
		if d.Count() != int64(len(sorted)) {
			t.Errorf("%d are counted of %d", d.Count(), len(sorted))
		}
		for _, part := range []float64{0.5, 0.99} {
			want := sorted[int(part*float64(len(sorted)))]
			if got := d.Quantile(part); float64(got) < 0.75*float64(want) || float64(got) > 1.25*float64(want) {
				t.Errorf("percentile %v is %v, counted %v", 100*part, got, want)
			}
		}
	}
	fast := count(5000, time.Millisecond)
	before := c.read()
	check(before, fast)
	slow := count(5000, 30*time.Millisecond)
	check(c.read().Since(&before), slow)

	var none Durations
	if got := none.Quantile(0.99); got != 0 {
		t.Errorf("of nothing the percentile is %v", got)
	}
	none[DurationClasses-1] = 1
	if got := none.Quantile(0.5); got != DurationLimit(DurationClasses-2) {
		t.Errorf("what is beyond the scale counts as %v", got)
	}
}
