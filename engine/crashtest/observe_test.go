package crashtest

import (
	"testing"

	"ringlog/engine/internal/rule"
)

// quietPlan: random scripts of which no crash is tried but those in the scripts
// themselves: whatever is noticed, the observer noticed.
var quietPlan = plan{"quiet", func(seed uint64) Config {
	return Config{Seed: seed, Script: Random(seed, 20), Depth: 1}
}}

// Rules 1, 2, 6 and 9: an observer that sees only operations and frontiers
// notices a frontier that runs ahead of the disk, without a crash that would have
// had to come at the right moment.
func TestAnObserverNoticesWithoutACrash(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip(tooLong)
	}
	for _, broken := range []rule.Rule{
		rule.FlushCoversInFlight, rule.ReleaseOutOfOrder, rule.AcknowledgeWritten, rule.FlushOneFile, rule.CountShortWrites,
		rule.AcknowledgeUnnamed, rule.SkipDirectorySync, rule.SkipFileFlush, rule.PublishStartEarly,
		rule.SealBeforeFlush, rule.RecycleBeforeManifest,
	} {
		seed, _, failure := quietPlan.catch(broken, mutantSeedsMax)
		if failure == nil {
			t.Errorf("%s: not noticed in %d seeds", broken, mutantSeedsMax)
			continue
		}
		t.Logf("%-22s noticed at seed %d: %.150s", broken, seed, failure.Err)
		if r := quietPlan.explore(seed, 0, false); r.Failure != nil {
			t.Errorf("seed %d fails with every rule kept, too: %v", seed, r.Failure)
		}
	}
}
