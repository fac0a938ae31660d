package cuttest

import (
	"strings"
	"testing"

	"ringlog/engine"
)

// scene is a log of six batches, the first four of them acknowledged.
func scene(t *testing.T) (*Ledger, []Placed) {
	t.Helper()
	l := NewLedger(engine.LogID{1}, "scene")
	l.Created = Done
	var found []Placed
	end := int64(0)
	for i := range 6 {
		p := Placed{end, l.Make(1)}
		end = p.end()
		found = append(found, p)
		if i < 4 {
			if err := l.Acknowledge(p.Batch, p.Base); err != nil {
				t.Fatal(err)
			}
		}
	}
	return l, found
}

func frontiers(found []Placed) engine.Frontiers {
	var f engine.Frontiers
	if len(found) > 0 {
		f.Start, f.Next = found[0].Base, found[len(found)-1].end()
	}
	f.HighWatermark, f.Durable, f.Written = f.Next, f.Next, f.Next
	return f
}

func TestAnHonestLogPasses(t *testing.T) {
	for length := 4; length <= 6; length++ {
		l, found := scene(t)
		if err := l.Check(frontiers(found[:length]), found[:length]); err != nil {
			t.Errorf("%d of 6 batches, 4 of them acknowledged: %v", length, err)
		}
	}
	l, found := scene(t)
	l.Relaxed, l.must = true, 0
	if err := l.Check(frontiers(found[:1]), found[:1]); err != nil {
		t.Errorf("a relaxed log lost what was not durable: %v", err)
	}
	l, found = scene(t)
	l.AskCut(found[2].Base)
	for _, length := range []int{2, 4, 6} {
		if err := l.Check(frontiers(found[:length]), found[:length]); err != nil {
			t.Errorf("a truncation to 2 batches is under way and there are %d: %v", length, err)
		}
	}
	l, found = scene(t)
	l.AskStart(found[2].Base)
	if err := l.Check(frontiers(found[2:]), found[2:]); err != nil {
		t.Errorf("the start was about to be raised, and was: %v", err)
	}
}

// TestEveryBrokenPromiseIsFound plants each of them.
func TestEveryBrokenPromiseIsFound(t *testing.T) {
	for name, plant := range map[string]struct {
		says string
		do   func(l *Ledger, found []Placed) []Placed
	}{
		"an acknowledged batch is lost": {"is lost", func(l *Ledger, found []Placed) []Placed { return found[:3] }},
		"a durable end is lost": {"is lost", func(l *Ledger, found []Placed) []Placed {
			l.Observe(engine.Frontiers{Durable: found[5].end()})
			return found[:5]
		}},
		"a truncation went too far": {"is lost", func(l *Ledger, found []Placed) []Placed {
			l.AskCut(found[2].Base)
			return found[:1]
		}},
		"an answered truncation is undone": {"is back", func(l *Ledger, found []Placed) []Placed {
			l.AskCut(found[2].Base)
			l.GotCut(false)
			return found
		}},
		"what a start did not find is back": {"is back", func(l *Ledger, found []Placed) []Placed {
			l.Adopt(frontiers(found[:4]), found[:4])
			return found
		}},
		"an answered start is undone": {"begins at", func(l *Ledger, found []Placed) []Placed {
			l.AskStart(found[2].Base)
			l.GotStart(found[2].Base)
			return found[1:]
		}},
		"the start is raised by nobody": {"begins at", func(l *Ledger, found []Placed) []Placed { return found[1:] }},
		"a hole":                        {"hole", func(l *Ledger, found []Placed) []Placed { return append(found[:2:2], found[3:]...) }},
		"a batch in another's place": {"", func(l *Ledger, found []Placed) []Placed {
			found[1].Batch = found[5].Batch
			return found
		}},
		"the order is another": {"", func(l *Ledger, found []Placed) []Placed {
			a, b := found[4], found[5]
			return append(found[:4:4], Placed{a.Base, b.Batch}, Placed{a.Base + int64(b.Batch.records), a.Batch})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l, found := scene(t)
			found = plant.do(l, found)
			err := l.Check(frontiers(found), found)
			if err == nil || !strings.Contains(err.Error(), plant.says) {
				t.Errorf("the ledger says %v", err)
			}
		})
	}
}

func TestOnlyWhatWasMadeIsIdentified(t *testing.T) {
	l, found := scene(t)
	read := found[3].Batch.Bytes()
	read.SetBaseOffset(77)
	read.SetLeaderEpoch(3)
	if b, err := l.Identify(read); err != nil || b != found[3].Batch {
		t.Errorf("batch 3 is not known again: %v", err)
	}
	read[len(read)-1] ^= 1
	if _, err := l.Identify(read); err == nil {
		t.Error("a flipped bit is not noticed")
	}
	read.UpdateCRC()
	if _, err := l.Identify(read); err == nil {
		t.Error("a batch that nobody made is taken for one")
	}
	if err := l.Acknowledge(found[4].Batch, found[4].Base+1); err == nil {
		t.Error("an offset that leaves a hole is accepted")
	}
}
