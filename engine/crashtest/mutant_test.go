package crashtest

import (
	"runtime"
	"sync"
	"testing"

	"ringlog/engine/internal/rule"
)

// mutantSeedsMax is within how many seeds each broken rule must be noticed.
const mutantSeedsMax = 500

// beyond are the rules that no script here breaks visibly, and why.
var beyond = map[rule.Rule]string{
	rule.DirectInFlight:        "alone it loses nothing: an entry behind it begins at S, which a flush has made durable, and counts only when the frame before it does",
	rule.FlushActiveOnly:       "a start syncs the file system before it scans, so what earlier lives wrote is flushed whatever recovery flushes",
	rule.ReuseBeforeCheckpoint: "needs a cut between a frame and the checkpoint that let go of its place: met once in 241 seeds, and not in 500 of the present dice",
	rule.SwapBeforeManifest:    withCompaction,
	rule.SwapUnflushed:         withCompaction,
	rule.ForgetProducers:       withCompaction,
	rule.IgnoreLimit:           "a limit is 64 MiB ahead in a reused segment, more than these scripts write",
}

const withCompaction = "these scripts know each batch by its bytes, so nothing is compacted: TestBrokenRulesOfCompactionAreNoticed"

// plansFor returns the plans that notice a broken rule soonest; of a rule that is kept
// in two places, one for each.
func plansFor(broken rule.Rule) []plan {
	switch broken {
	case rule.TrustCheckpointEnd:
		return []plan{rotPlan} // a disk that keeps what was flushed never asks that question
	case rule.KeepLeftovers:
		return []plan{tailPlan}
	case rule.FlushActiveOnly, rule.TrustNames, rule.PublishStartEarly:
		return []plan{segmentPlan}
	case rule.TrustIndex:
		return []plan{deepPlan}
	case rule.MoveUnflushed:
		return []plan{journalOf(movePlan)}
	case rule.FlushCoversInFlight, rule.AcknowledgeWritten, rule.FlushOneFile:
		return []plan{randomPlan, trimPlan}
	case rule.TrustDamage:
		return []plan{ringRotPlan}
	case rule.ForgetSpill:
		return []plan{trimFailPlan}
	case rule.TrimByWritten, rule.ReuseBeforeCheckpoint:
		return []plan{ringQuietPlan}
	case rule.OpenBeforeFlush, rule.TrimBeforeSync:
		return []plan{trimPlan}
	case rule.OverlapTailBlock:
		return []plan{framePlan}
	}
	if broken >= rule.DirectInFlight {
		return []plan{framePlan}
	}
	return []plan{randomPlan}
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

// mustNotice tests that the plan notices that a rule is broken, and nothing with the rule kept.
func (p plan) mustNotice(t *testing.T, broken rule.Rule) {
	seed, points, failure := p.catch(broken, mutantSeedsMax)
	if failure == nil {
		t.Errorf("%s: not noticed in %d seeds of plan %s, %d crashes", broken, mutantSeedsMax, p.name, points)
		return
	}
	t.Logf("%-22s noticed by plan %s at seed %d after %d crashes: %.150s", broken, p.name, seed, points, failure.Err)
	if r := p.explore(seed, 0, false); r.Failure != nil {
		t.Errorf("seed %d fails with every rule kept, too: %v", seed, r.Failure)
	}
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
				for _, p := range plansFor(broken) {
					p.mustNotice(t, broken)
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
