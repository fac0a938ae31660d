package coord

import "testing"

// However many groups come to grief, the log gets some lines at once and then one a second, and each says how many it
// stands for.
func TestEventsAreLoggedInMeasure(t *testing.T) {
	limits := eventLimits{}
	logged, named := int64(0), int64(0)
	for millis := range int64(10_000) {
		for range 3 {
			if skipped, ok := limits.allow("lost", 1_700_000_000_000+millis); ok {
				logged++
				named += 1 + skipped
			}
		}
	}
	if want := int64(eventBurst + 10); logged != want {
		t.Errorf("%d lines in 10 s, want %d", logged, want)
	}
	if last := limits["lost"].skipped; named+last != 30_000 {
		t.Errorf("the lines stand for %d of 30000 events, and %d are still to be named", named, last)
	}
	if skipped, ok := limits.allow("another", 1_700_000_000_000); !ok || skipped != 0 {
		t.Errorf("another message: logged %t, skipped %d", ok, skipped)
	}
}
