package crashtest

import (
	"runtime"
	"sync"
	"testing"

	"ringlog/engine/internal/rule"
)

// mutantSeedsMax is within how many seeds each broken rule must be noticed.
const mutantSeedsMax = 300

// beyond are the rules that no script here breaks visibly, and why.
var beyond = map[rule.Rule]string{
	rule.IgnoreLimit: "a limit is 64 MiB ahead in a reused segment, more than these scripts write",
}

// planFor returns the plan that notices a broken rule soonest.
func planFor(broken rule.Rule) plan {
	switch broken {
	case rule.TrustCheckpointEnd:
		return rotPlan // a disk that keeps what was flushed never asks that question
	case rule.KeepLeftovers:
		return tailPlan
	case rule.FlushActiveOnly, rule.TrustNames, rule.PublishStartEarly:
		return segmentPlan
	case rule.TrustIndex:
		return deepPlan
	case rule.MoveUnflushed:
		return journalOf(movePlan)
	}
	return randomPlan
}

// catch explores seed after seed until one notices that the engine breaks a
// rule. It returns that seed, 0 for none, and the crashes that it took.
func (p plan) catch(broken rule.Rule, seeds uint64) (seed uint64, points int, failure *Failure) {
	for seed := uint64(1); seed <= seeds; seed++ {
		r := p.explore(seed, broken, false)
		points += r.Points
		if r.Failure != nil {
			return seed, points, r.Failure
		}
	}
	return 0, points, nil
}

const tooLong = "takes a minute, and an exploration is one goroutine: make test runs it, without the race detector"

// An explorer that never fails proves nothing. Each rule of the engine is broken
// in turn, and the explorer has to notice; with the rule kept, the same seed
// passes.
func TestEveryBrokenRuleIsNoticed(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip(tooLong)
	}
	rules := make(chan rule.Rule)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for broken := range rules {
				p := planFor(broken)
				seed, points, failure := p.catch(broken, mutantSeedsMax)
				if failure == nil {
					t.Errorf("%s: not noticed in %d seeds, %d crashes", broken, mutantSeedsMax, points)
					continue
				}
				t.Logf("%-22s noticed at seed %d after %d crashes: %.150s", broken, seed, points, failure.Err)
				if r := p.explore(seed, 0, false); r.Failure != nil {
					t.Errorf("seed %d fails with every rule kept, too: %v", seed, r.Failure)
				}
			}
		})
	}
	for _, broken := range rule.All() {
		if why := beyond[broken]; why != "" {
			t.Logf("%-22s not tried: %s", broken, why)
			continue
		}
		rules <- broken
	}
	close(rules)
	workers.Wait()
}
