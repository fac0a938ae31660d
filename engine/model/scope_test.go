package model

import (
	"flag"
	"maps"
	"slices"
	"testing"
)

const statesDefault = 1_500_000

var (
	statesFlag = flag.Int("model.states", statesDefault, "states to look at in each scope, all there are if they are no more")
	deepFlag   = flag.Bool("model.deep", false, "explore the larger scopes, too: minutes, and gigabytes")
	seedsFlag  = flag.Uint64("model.seeds", 400, "random walks")
	firstFlag  = flag.Uint64("model.first", 1, "the seed of the first random walk")
)

// scopes are small enough to be explored as a whole. Each is about one part of
// the rules.
var scopes = map[string]Scope{
	"tiny":       {Logs: 1, Blocks: 3, Slots: 2, Appends: 2, Frames: 3, Flights: 2, Crashes: 1},
	"lives":      {Logs: 1, Blocks: 4, Slots: 2, Appends: 3, Frames: 3, Flights: 2, Crashes: 2, Kills: true},
	"two logs":   {Logs: 2, Blocks: 1, Slots: 2, Appends: 3, Frames: 3, Flights: 2, Crashes: 2, Kills: true},
	"segments":   {Logs: 1, Blocks: 3, Slots: 2, Appends: 3, Frames: 2, Flights: 1, Crashes: 1, Kills: true, Rolls: true},
	"names":      {Logs: 1, Blocks: 3, Slots: 2, Appends: 2, Frames: 2, Flights: 1, Crashes: 2, Kills: true, Rolls: true},
	"cuts":       {Logs: 1, Blocks: 3, Slots: 2, Appends: 3, Frames: 2, Flights: 1, Crashes: 1, Kills: true, Cuts: 1},
	"deletes":    {Logs: 2, Blocks: 1, Slots: 2, Appends: 2, Frames: 2, Flights: 1, Crashes: 1, Deletes: true},
	"rot":        {Logs: 1, Blocks: 3, Slots: 3, Appends: 3, Frames: 3, Flights: 1, Crashes: 1, Rots: 1},
	"rot of two": {Logs: 2, Blocks: 1, Slots: 3, Appends: 2, Frames: 3, Flights: 2, Crashes: 1, Rots: 1},
}

// deepScopes take minutes.
var deepScopes = map[string]Scope{
	"ring":          {Logs: 1, Blocks: 5, Slots: 3, Appends: 4, Frames: 5, Flights: 2, Crashes: 1},
	"deep ring":     {Logs: 1, Blocks: 5, Slots: 3, Appends: 5, Frames: 6, Flights: 3, Crashes: 2, Kills: true},
	"deep two logs": {Logs: 2, Blocks: 3, Slots: 2, Appends: 4, Frames: 3, Flights: 2, Crashes: 1, Kills: true},
	"deep cuts":     {Logs: 1, Blocks: 4, Slots: 2, Appends: 4, Frames: 3, Flights: 2, Crashes: 2, Kills: true, Cuts: 2, Rolls: true},
}

// everything is the scope of the random walks.
var everything = Scope{
	Logs: 2, Blocks: 5, Slots: 4, Appends: 12, Frames: 10, Flights: 3, Crashes: 3, Kills: true, Rolls: true, Cuts: 2, Deletes: true,
}

// Rules 1 to 9 of docs/architecture.md: whatever happens in whatever order, and
// whatever a crash leaves of it, inside recoveries too, D is a prefix that stays,
// and recovery finds it. Every state of each scope is looked at.
func TestEveryState(t *testing.T) {
	explored := 0
	explore := func(name string, scope Scope, statesMax int) {
		t.Run(name, func(t *testing.T) {
			r := (&Machine{Scope: scope}).Explore(0, statesMax)
			explored += r.States
			t.Log(&r)
			if r.Wrong != "" {
				t.Fail()
			}
			if !r.Complete && statesMax >= statesDefault {
				t.Errorf("the scope has more states than that: it is no longer explored as a whole")
			}
			for kind := Append; kind <= Recover; kind++ {
				if scope.has(kind) && r.Kinds[kind] == 0 {
					t.Errorf("%q never happens", kindNames[kind])
				}
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(scopes)) {
		explore(name, scopes[name], *statesFlag)
	}
	if *deepFlag {
		for _, name := range slices.Sorted(maps.Keys(deepScopes)) {
			explore(name, deepScopes[name], 40_000_000)
		}
	}
	t.Logf("%d states in all", explored)
}

// has says whether something of the kind must happen somewhere in the scope.
func (c Scope) has(k Kind) bool {
	switch k {
	case Roll, Seal:
		return c.Rolls
	case Named:
		return c.Rolls || c.Deletes
	case Cut, CutOn:
		return c.Cuts > 0
	case Delete:
		return c.Deletes
	case Rot:
		return c.Rots > 0
	case ProcessEnd:
		return c.Kills
	}
	return true
}

// The same on long ways through a scope that nobody can explore as a whole.
func TestRandomWalks(t *testing.T) {
	m := Machine{Scope: everything}
	steps := 0
	for seed := *firstFlag; seed < *firstFlag+*seedsFlag; seed++ {
		r := m.Walk(seed, 2000)
		steps += r.Steps
		if r.Wrong != "" {
			t.Fatalf("seed %d: %s", seed, &r)
		}
	}
	t.Logf("%d walks, %d steps", *seedsFlag, steps)
}

// A machine that never fails proves nothing: each rule is broken in turn, and
// the exploration has to notice. Two rules together are those of which each
// alone is enough: both must be broken before a promise is.
func TestEveryBrokenRuleIsNoticed(t *testing.T) {
	for _, row := range []struct {
		broken Rules
		scope  string
	}{
		{FlushCoversInFlight, "tiny"},
		{JournalFlushCoversInFlight, "tiny"},
		{ReleaseBehindHole, "tiny"},
		{WriteBehindHole, "tiny"},
		{SplitBatch, "tiny"},
		{FlushOneFile, "segments"},
		{JournalFlushRaisesS, "tiny"},
		{JWithoutContiguity | BackBeforeFlush, "tiny"},
		{JFromAboveS | BackBeforeFlush, "tiny"},
		{ReuseBeforeCheckpoint, "lives"},
		{CheckpointBeforeSync, "tiny"},
		{FromByWritten, "tiny"},
		{SyncWithoutFlush, "tiny"},
		{OlderGenerationApplied, "cuts"},
		{GenerationStays, "cuts"},
		{TruncateAtDurable, "cuts"},
		{SealAtDurable, "segments"},
		{UnnamedReleased, "segments"},
		{GapSkipped, "rot"},
		{GapSkipped | BackBeforeFlush, "tiny"},
		{GapSkipped | BehindEndApplied, "tiny"},
		{BadFrameEnds, "rot"},
		{RunStays, "lives"},
		{OpenBeforeCheckpoint, "lives"},
		{CheckpointBeforeMerged, "lives"},
		{NamesTrusted, "names"},
		{KeepLeftovers, "lives"},
		{ForgetAsked, "deletes"},
		{DropBeforeMerge, "segments"},
	} {
		m := Machine{Scope: scopes[row.scope], Broken: row.broken}
		r := m.Explore(0, 1_000_000)
		if r.Wrong == "" {
			t.Errorf("%s: not noticed in %q: %s", row.broken, row.scope, &r)
			continue
		}
		t.Logf("%-35s noticed in %q at depth %2d, after %6d states: %s", row.broken, row.scope, r.Depth, r.States, r.Wrong)
		if again := m.replay(r.Trace); again != r.Wrong {
			t.Errorf("%s: the trace leads to %q", row.broken, again)
		}
	}
}

// replay does a trace and says what is wrong at its end.
func (m *Machine) replay(trace []Action) (wrong string) {
	s := m.Start()
	for _, a := range trace {
		before := s
		s = m.Step(s, a)
		wrong = m.check(&before, a, &s)
	}
	return wrong
}

// Rules that the others make superfluous, as far as crashes go: no state of the
// scopes is wrong without one of them. If one of these fails, the other rule that
// stands for it was weakened, and docs/journal.md has to say so.
func TestSpareRules(t *testing.T) {
	for _, row := range []struct {
		broken Rules
		why    string
		scopes []string
	}{
		{AnyWay, "J counts an entry only when S or J has reached its beginning, and a merge stops at a gap", []string{"tiny", "segments"}},
		{JWithoutContiguity, "an entry begins at D or at the end of the one before, because of the ways", []string{"tiny", "two logs"}},
		{JWithoutContiguity | DirectDuringEntry, "the entry in flight begins at or below what goes direct", []string{"tiny", "two logs"}},
		{GapSkipped, "frames are released in order, and entries have no gaps because of the ways", []string{"tiny", "two logs"}},
		{BehindEndApplied, "what lies behind the end is true or lies behind a gap", []string{"tiny", "two logs"}},
		{JournaledUncapped, "a merge writes into the last segment that is named", []string{"segments", "names"}},
	} {
		for _, name := range row.scopes {
			r := (&Machine{Scope: scopes[name], Broken: row.broken}).Explore(0, 1_000_000)
			if r.Wrong != "" || !r.Complete {
				t.Errorf("%s, although %s: %s", row.broken, row.why, &r)
			}
		}
	}
}

func TestEveryRuleHasAName(t *testing.T) {
	if Rules(1)<<(len(ruleNames)-1) != DropBeforeMerge {
		t.Fatalf("%d names", len(ruleNames))
	}
}
