package crashtest

import (
	"flag"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringlog/engine"
	"ringlog/engine/internal/rule"
	"ringlog/replica"
)

var (
	seedsFlag      = flag.Uint64("crash.seeds", 0, "how many random scripts to explore; 0 is as many as a test run allows")
	firstFlag      = flag.Uint64("crash.first", 1, "the first seed of the random scripts")
	exhaustiveFlag = flag.Int("crash.exhaustive", 0, "outcomes to try of each power cut of the pairs, all there are if they are no more; 0 is one by chance")
	planFlag       = flag.String("crash.plan", "", "with -run TestReplay: the plan to replay: moves, pairs, random, deep, segments, tails or rot, or one of these with -shards behind it")
	seedFlag       = flag.Uint64("crash.seed", 0, "with -run TestReplay: the seed to replay")
	breakFlag      = flag.String("crash.break", "", "with -run TestReplay: the rule that the engine breaks")
)

// A plan makes the configuration of an exploration from a seed.
type plan struct {
	name   string
	config func(seed uint64) Config
}

// scene is what a pair of operations acts on: two logs, one of them relaxed,
// segments that are sealed and one that is not, and batches on their way.
var scene = Script{
	{Append, false}, {AppendBig, true}, {Roll, true}, {Create, true}, {Append, true}, {Checkpoint, true}, {AppendBig, false},
}

var pairs = Pairs()

// pairPlan: every sequence of two operations, every state that the disk is in meanwhile.
var pairPlan = plan{"pairs", func(seed uint64) Config {
	return Config{
		Seed: seed, Script: append(scene[:len(scene):len(scene)], pairs[seed%uint64(len(pairs))]...),
		Quiet: len(scene), Chance: 1, Cuts: 1, Kills: 0.3, Exhaustive: *exhaustiveFlag, Depth: 3, Nested: 0.0015, Observed: 0.02,
	}
}}

// randomPlan: long scripts, some of the states.
var randomPlan = plan{"random", func(seed uint64) Config {
	return Config{Seed: seed, Script: Random(seed, 20), Chance: 0.1, Cuts: 1, Kills: 0.5, Depth: 3, Nested: 0.003, Observed: 0.1}
}}

// deepPlan: one crash after another, and most of what is tried are crashes
// inside recoveries.
var deepPlan = plan{"deep", func(seed uint64) Config {
	return Config{Seed: seed, Script: Random(seed*uint64(len(themes))+crashTheme, 20), Chance: 0.05, Cuts: 1, Kills: 1, Depth: 3, Nested: 0.02, Observed: 0.02}
}}

// segmentPlan: segments come and go on a slow disk, and a kill is often
// followed by a power cut.
var segmentPlan = plan{"segments", func(seed uint64) Config {
	return Config{Seed: seed, Script: Random(seed*uint64(len(themes))+segmentTheme, 20), Chance: 0.2, Cuts: 1, Kills: 1, Depth: 2, Nested: 0.03, Observed: 0.02}
}}

// tailPlan: batches that end where blocks end, each state of the disk while they
// are on their way, and crashes soon after the recovery: what a lost batch left
// behind must not fit on.
var tailPlan = plan{"tails", func(seed uint64) Config {
	script := make(Script, 10)
	for i := range script {
		script[i] = Op{AppendBig, i%4 == 3}
		if i%2 == 1 {
			script[i].Kind = Append
		}
	}
	return Config{Seed: seed, Script: script, Chance: 0.5, Cuts: 1, Depth: 2, Nested: 0.1}
}}

// rotPlan: scripts without a crash, and then flipped bits.
var rotPlan = plan{"rot", func(seed uint64) Config {
	return Config{Seed: seed, Script: Random(seed*uint64(len(themes)), 30), Depth: 2, Rot: 60}
}}

// shardsOf makes a plan of one: the same scripts on engines with up to three shards,
// another number in each life.
func shardsOf(p plan) plan {
	return plan{p.name + "-shards", func(seed uint64) Config {
		config := p.config(seed)
		config.Shards = 3
		config.Script = append(config.Script[:config.Quiet:config.Quiet], config.Script[config.Quiet:].WithMoves(seed)...)
		return config
	}}
}

// movePlan: a move before or behind each operation, and every state that the disk is in meanwhile.
var movePlan = plan{"moves", func(seed uint64) Config {
	config := pairPlan.config(seed)
	config.Shards = 3
	config.Script = append(scene[:len(scene):len(scene)], movePairs[seed%uint64(len(movePairs))]...)
	return config
}}

var movePairs = MovePairs()

// plans is all of them.
func plans() []plan {
	base := []plan{movePlan, pairPlan, randomPlan, deepPlan, segmentPlan, tailPlan, rotPlan}
	all := append([]plan(nil), base...)
	for _, p := range base {
		all = append(all, shardsOf(p), journalOf(p), journalOf(shardsOf(p)))
	}
	for _, p := range []plan{journalPairPlan, framePlan, slowPlan, ringQuietPlan, trimPlan, trimDeepPlan, trimFailPlan} {
		all = append(all, p, shardsOf(p))
	}
	return append(all, ringRotPlan)
}

// journalOf makes a plan of one: the same scripts on engines that have a commit journal, of
// another size in each life, or none.
func journalOf(p plan) plan {
	return plan{p.name + "-journal", func(seed uint64) Config {
		config := p.config(seed)
		config.Journal = true
		return config
	}}
}

// ringScenes are what a pair of operations acts on when there is a journal: a ring
// that is empty, one that is half full, one that was just trimmed, and one that has wrapped.
var ringScenes = func() []Script {
	logs := Script{{Append, false}, {Create, true}, {Create, true}, {Append, true}, {Roll, true}}
	more := func(ops ...Op) Script { return append(logs[:len(logs):len(logs)], ops...) }
	flood, age := Op{Flood, true}, Op{Age, true}
	return []Script{
		more(age), more(flood, Op{Append, false}), more(flood, Op{Roll, false}, flood, age, Op{Append, true}),
		more(flood, flood, flood, flood, Op{AppendBig, false}),
	}
}()

var journalPairs = JournalPairs()

// journalPairPlan: every sequence of two operations in every scene, and every state that the
// disk is in meanwhile.
var journalPairPlan = plan{"trim-pairs", func(seed uint64) Config {
	scene := ringScenes[seed%uint64(len(ringScenes))]
	pair := journalPairs[seed/uint64(len(ringScenes))%uint64(len(journalPairs))]
	return Config{
		Seed: seed, Script: append(scene[:len(scene):len(scene)], pair...), Journal: true, Shards: 1 + int(seed/7%2),
		Quiet: len(scene), Chance: 0.5, Cuts: 1, Kills: 0.3, Exhaustive: *exhaustiveFlag, Depth: 3, Nested: 0.0015, Observed: 0.02,
	}
}}

// trimPlan: the ring wraps several times while logs roll, move, are cut and deleted.
var trimPlan = plan{"trims", func(seed uint64) Config {
	return Config{Seed: seed, Script: trimTheme.script(seed, 24), Journal: true, Chance: 0.02, Cuts: 1, Kills: 0.5, Depth: 3, Nested: 0.001, Observed: 0.05}
}}

// framePlan: frames on their way, and one crash after another.
var framePlan = plan{"frames", func(seed uint64) Config {
	return Config{Seed: seed, Script: frameTheme.script(seed, 12), Journal: true, Chance: 0.06, Cuts: 1, Kills: 0.2, Depth: 2, Nested: 0.0005, Observed: 0.02}
}}

// slowPlan: the ring comes round while the checkpoint that lets go of it is still on its way.
var slowPlan = plan{"slow", func(seed uint64) Config {
	return Config{Seed: seed, Script: slowTheme.script(seed, 20), Journal: true, Chance: 0.02, Cuts: 1, Kills: 0.5, Depth: 2, Nested: 0.0005, Observed: 0.02}
}}

// ringQuietPlan: long scripts of which no crash is tried but those in the scripts: whatever is
// noticed, the observer noticed (observe.go).
var ringQuietPlan = plan{"ring-quiet", func(seed uint64) Config {
	return Config{Seed: seed, Script: slowTheme.script(seed, 40), Journal: true, Depth: 1}
}}

// trimDeepPlan: the same with most crashes inside recoveries.
var trimDeepPlan = plan{"trims-deep", func(seed uint64) Config {
	return Config{Seed: seed, Script: trimTheme.script(seed, 14), Journal: true, Chance: 0.004, Cuts: 1, Kills: 1, Depth: 3, Nested: 0.004, Observed: 0.02}
}}

// trimFailPlan: the same on a disk that fails.
var trimFailPlan = plan{"trims-fail", func(seed uint64) Config {
	return Config{Seed: seed, Script: failTheme.script(seed, 24), Journal: true, Chance: 0.02, Cuts: 1, Kills: 0.3, Depth: 3, Nested: 0.001, Observed: 0.05}
}}

// ringRotPlan: flipped bits while the ring holds what the segments do not.
var ringRotPlan = plan{"ring-rot", func(seed uint64) Config {
	return Config{Seed: seed, Script: themes[0].script(seed, 12), Journal: true, Depth: 2, Rot: 60, RotRing: true}
}}

// explore runs one exploration.
func (p plan) explore(seed uint64, broken rule.Rule, trace bool) Result {
	config := p.config(seed)
	config.Broken, config.Trace = broken, trace
	// The epoch of a new leader is a second sign against leftovers (rule 10).
	config.EpochStays = broken == rule.KeepLeftovers || broken == 0 && p.name == tailPlan.name
	config.NewReplica = func() engine.Replica { return replica.New(replica.Options{}) }
	return Explore(config)
}

// replay is the command that shows a failure again.
func (p plan) replay(seed uint64, broken rule.Rule) string {
	command := fmt.Sprintf("go test ./engine/crashtest -run TestReplay -v -args -crash.plan=%s -crash.seed=%d", p.name, seed)
	if broken != 0 {
		command += fmt.Sprintf(" -crash.break=%q", broken)
	}
	return command
}

// totals of explorations that ran side by side.
type totals struct {
	sync.Mutex
	scripts, states, points, acked, derived int
	depths                                  []int
	doing                                   map[string]int
}

func (s *totals) add(r Result) {
	s.Lock()
	defer s.Unlock()
	s.scripts++
	s.states += r.States
	s.points += r.Points
	s.acked += r.Acked
	s.derived += r.Derived
	if s.doing == nil {
		s.doing = make(map[string]int)
	}
	for what, n := range r.Doing {
		s.doing[what] += n
	}
	for depth, n := range r.Depths {
		if depth == len(s.depths) {
			s.depths = append(s.depths, 0)
		}
		s.depths[depth] += n
	}
}

func (s *totals) String() string {
	var doing strings.Builder
	for _, what := range slices.Sorted(maps.Keys(s.doing)) {
		fmt.Fprintf(&doing, "; %s %d", what, s.doing[what])
	}
	return fmt.Sprintf("%d scripts, %d states of the disk, %d crashes recovered from (%d in scripts, %d in their recoveries, %d in the recoveries of those), %d appends acknowledged in scripts, %d frontiers derived%s",
		s.scripts, s.states, s.points, s.depths[0], s.depths[1], s.depths[2], s.acked, s.derived, doing.String())
}

// sweep explores the seeds from first on, count of them, on all processors.
func (p plan) sweep(t *testing.T, first, count uint64) *totals {
	t.Helper()
	var sum totals
	var next, failures atomic.Uint64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for failures.Load() < 3 {
				seed := first + next.Add(1) - 1
				if seed >= first+count {
					return
				}
				r := p.explore(seed, 0, false)
				sum.add(r)
				if r.Failure != nil {
					failures.Add(1)
					t.Errorf("%v\nshow it again with\n  %s", r.Failure, p.replay(seed, 0))
				}
			}
		})
	}
	workers.Wait()
	return &sum
}

// Contract C2 to C4 and scenarios 1, 3 to 7, 9 to 12, 16, 17, 35: every
// sequence of two operations, overlapping and one after the other, with a power
// cut and a kill at every state that the disk goes through. Most known crash
// bugs of file systems and stores need no more than that.
func TestEveryPairOfOperations(t *testing.T) {
	sum := pairPlan.sweep(t, 0, share(uint64(len(pairs))))
	t.Log(sum)
}

// The same with long scripts, several lives, slow and failing disks.
func TestRandomScripts(t *testing.T) {
	count := *seedsFlag
	if count == 0 {
		count = share(60)
	}
	sum := randomPlan.sweep(t, *firstFlag, count)
	t.Log(sum)
}

// The same with one crash after another: in scripts, in their recoveries, and in
// the recoveries of those (scenario 16).
func TestCrashesInsideRecoveries(t *testing.T) {
	count := *seedsFlag
	if count == 0 {
		count = share(20)
	}
	t.Log(deepPlan.sweep(t, *firstFlag, count))
	t.Log(segmentPlan.sweep(t, *firstFlag, count))
	t.Log(tailPlan.sweep(t, *firstFlag, count))
}

// Contract C7, scenarios 8 and 10: a flipped bit in any file, or on its way from
// the disk, is noticed and never served, and what is below the checkpoint is
// never taken for a torn tail.
func TestFlippedBits(t *testing.T) {
	count := *seedsFlag
	if count == 0 {
		count = share(60)
	}
	sum := rotPlan.sweep(t, *firstFlag, count)
	t.Log(sum)
}

// Rule 17: the same with several shards, whose number changes whenever an engine
// starts, and logs that move: what one shard's checkpoint says is found by another.
func TestScriptsOfSeveralShards(t *testing.T) {
	count := *seedsFlag
	if count == 0 {
		count = share(3)
	}
	for _, kind := range []func(plan) plan{func(p plan) plan { return p }, journalOf} {
		t.Log(kind(movePlan).sweep(t, *firstFlag, min(3*count, uint64(len(movePairs)))))
		for _, p := range []plan{pairPlan, randomPlan, deepPlan, segmentPlan, tailPlan, rotPlan} {
			t.Log(kind(shardsOf(p)).sweep(t, *firstFlag, count))
		}
	}
}

// The journal, beside all of the above: the same scripts on engines that have one, of another
// size in each life, or none; every pair of operations on a ring that is empty, half
// full, just trimmed or has wrapped; and scripts in which it is trimmed all the time.
func TestScriptsWithAJournal(t *testing.T) {
	base := []plan{pairPlan, randomPlan, deepPlan, segmentPlan, tailPlan, rotPlan}
	var all totals
	for _, p := range base { // and on several shards in the test before
		all.sweep(t, journalOf(p), 9)
	}
	for _, s := range []struct {
		plan  plan
		seeds uint64
	}{
		{journalPairPlan, 29}, {framePlan, 72}, {slowPlan, 48}, {trimPlan, 50}, {trimDeepPlan, 25}, {trimFailPlan, 72},
		{shardsOf(trimPlan), 16}, {shardsOf(trimDeepPlan), 6}, {shardsOf(trimFailPlan), 20},
	} {
		all.sweep(t, s.plan, s.seeds)
	}
	t.Log("all: ", &all)
	if want := 50_000; share(uint64(want)) == uint64(want) && *seedsFlag == 0 && all.doing[withJournal] < want {
		t.Errorf("%d crashes were of engines with a journal, want %d", all.doing[withJournal], want)
	}
}

// Rules 4, 5 and 9: a flipped bit in the ring, or anywhere else while the ring holds what the
// segments do not, is noticed, but in the last commit (see life.excuse).
func TestFlippedBitsBesideARing(t *testing.T) {
	var all totals
	all.sweep(t, ringRotPlan, 40)
	t.Log(&all)
}

// sweep adds what a plan finds from the first seed on: count of them, or as many
// as the flags say.
func (s *totals) sweep(t *testing.T, p plan, count uint64) {
	t.Helper()
	if *seedsFlag > 0 {
		count = *seedsFlag
	} else {
		count = share(count)
	}
	began := time.Now()
	sum := p.sweep(t, *firstFlag, count)
	t.Logf("%s, %v: %v", p.name, time.Since(began).Round(time.Millisecond), sum)
	s.merge(sum)
}

func (s *totals) merge(other *totals) {
	s.add(Result{Doing: other.doing, Depths: other.depths, States: other.states, Points: other.points, Acked: other.acked, Derived: other.derived})
	s.scripts += other.scripts - 1
}

// share is how much of count a run does: the race detector makes it slow and
// finds nothing in code of one goroutine.
func share(count uint64) uint64 {
	if raceEnabled || testing.Short() {
		return max(1, count/20)
	}
	return count
}

// A seed is the whole run: what failed once fails again, and a fix can be seen to be one.
func TestASeedReplaysExactly(t *testing.T) {
	for _, p := range []plan{randomPlan, framePlan, trimFailPlan, shardsOf(trimPlan), ringRotPlan} {
		const seed = 5
		first, again := p.explore(seed, 0, false), p.explore(seed, 0, false)
		if !reflect.DeepEqual(first, again) {
			t.Errorf("seed %d of plan %s gives %+v and then %+v", seed, p.name, first, again)
		}
	}
}

const nothingToReplay = "replays the exploration that -crash.plan and -crash.seed name, and none is named"

// TestReplay shows one exploration again, with its trace.
func TestReplay(t *testing.T) {
	if *planFlag == "" {
		t.Skip(nothingToReplay)
	}
	var broken rule.Rule
	for _, r := range rule.All() {
		if r.String() == *breakFlag {
			broken = r
		}
	}
	for _, p := range plans() {
		if p.name == *planFlag {
			r := p.explore(*seedFlag, broken, true)
			if r.Failure != nil {
				t.Fatal(r.Failure)
			}
			t.Logf("no failure: %d crashes, %d appends acknowledged", r.Points, r.Acked)
		}
	}
}
