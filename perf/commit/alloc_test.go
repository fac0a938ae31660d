package commit

import (
	"testing"
	"time"

	"ringlog/engine"
	"ringlog/engine/disk"
)

// What a run does for each commit allocates nothing: a garbage collector would be
// measured with it.
func TestACommitAllocatesNothing(t *testing.T) {
	o := Options{DataDir: "unused", Partitions: 6, RecordBytes: 700, InFlight: 2, WarmUp: time.Nanosecond}
	o.EnsureDefaults()
	batch, err := newBatch(o.RecordBytes)
	if err != nil {
		t.Fatal(err)
	}
	m := newMeter(&o, len(batch))
	now := time.Now()
	m.begin(now, func() counters { return counters{} })
	m.answered(now.Add(time.Second), now, 1)

	for _, system := range []System{Journal, Syncfs, Files} {
		o.System = system
		l := &rawLoad{options: &o, shape: shapeOf(&o, len(batch)), batch: batch, meter: m}
		l.newGroups()
		var y layout = newFileLayout(l)
		if system == Journal {
			y = newJournalLayout(l)
		}
		p := newRounds(l, y)
		count, _ := p.files()
		p.open(make([]disk.File, count))
		r := &p.rounds[0]
		r.groups = append(r.groups, l.idle[:p.groupsMax()]...)
		if n := testing.AllocsPerRun(100, func() {
			r.writes, r.flushes = r.writes[:0], r.flushes[:0]
			y.gather(r)
			m.answered(now.Add(2*time.Second), now, len(r.groups))
		}); n > 0 {
			t.Errorf("%s: %v allocations", system, n)
		}
	}

	e := &engineLoad{options: &o, shape: shapeOf(&o, len(batch)), batch: batch, meter: m}
	e.logs, e.next = make([]*engine.Log, o.Partitions), make([]int64, o.Partitions)
	groups := e.newGroups()
	if n := testing.AllocsPerRun(100, func() {
		for _, g := range groups {
			e.assign(g, (g.slice+1)%e.shape.slices)
			for i := range g.Appends {
				g.Appends[i].BaseOffset = e.next[g.slice*e.shape.size+i]
			}
			if err := e.check(g); err != nil {
				t.Fatal(err)
			}
			g.Answered(&g.AppendGroup)
		}
		for range groups {
			<-e.answered
		}
	}); n > 0 {
		t.Errorf("engine: %v allocations", n)
	}
}
