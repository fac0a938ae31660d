package model

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
)

// Report is what an exploration did.
type Report struct {
	States   int              // distinct ones
	Steps    int              // tried
	Depth    int              // actions of the longest shortest trace
	Complete bool             // there are no more states in the scope
	Kinds    [Recover + 1]int // steps tried of each kind
	Wrong    string
	Trace    []Action // to the state that is wrong
}

// String is the report as tests log it.
func (r *Report) String() string {
	all := "stopped"
	if r.Complete {
		all = "complete"
	}
	text := fmt.Sprintf("%d states, %d steps, depth %d, %s", r.States, r.Steps, r.Depth, all)
	if r.Wrong == "" {
		return text
	}
	var b strings.Builder
	b.WriteString(text + ": " + r.Wrong)
	for i, a := range r.Trace {
		fmt.Fprintf(&b, "\n%4d  %s", i+1, a)
	}
	return b.String()
}

// origin is how a state was first reached.
type origin struct {
	from   int32
	action Action
}

// Explore goes through the states breadth first until it has seen depth actions
// (0 is no bound), statesMax states, or all, and stops at the first that is
// wrong. States are told apart by a hash of 64 bits: among ten million, two
// differ and share one with a probability of 3 in a million.
func (m *Machine) Explore(depth, statesMax int) (report Report) {
	start := m.Start()
	level := []State{start}
	first := int32(0) // number of level[0]
	origins := []origin{{from: -1}}
	seen := map[uint64]struct{}{start.hash(): {}}
	var actions []Action
	for ; len(level) > 0 && (depth == 0 || report.Depth < depth); report.Depth++ {
		var next []State
		for i := range level {
			actions = m.Actions(&level[i], actions[:0])
			for _, a := range actions {
				s := m.Step(level[i], a)
				report.Steps++
				report.Kinds[a.Kind]++
				wrong := m.check(&level[i], a, &s)
				h := s.hash()
				if _, known := seen[h]; known && wrong == "" {
					continue
				}
				seen[h] = struct{}{}
				origins = append(origins, origin{first + int32(i), a})
				next = append(next, s)
				if wrong != "" {
					report.States, report.Wrong = len(seen), wrong
					report.Trace = traceTo(origins)
					report.Depth++
					return report
				}
			}
			if len(seen) >= statesMax {
				report.States = len(seen)
				return report
			}
		}
		first += int32(len(level))
		level = next
	}
	report.States, report.Complete = len(seen), len(level) == 0
	return report
}

// traceTo is the way to the last of the origins.
func traceTo(origins []origin) []Action {
	var reversed []Action
	for at := len(origins) - 1; at > 0; at = int(origins[at].from) {
		reversed = append(reversed, origins[at].action)
	}
	trace := make([]Action, 0, len(reversed))
	for i := len(reversed) - 1; i >= 0; i-- {
		trace = append(trace, reversed[i])
	}
	return trace
}

// crashOdds is how many other actions a walk does for each crash, about.
const crashOdds = 24

// Walk does random actions, as many as length, and starts over when there is
// nothing left to do, as often as there is length for it.
func (m *Machine) Walk(seed uint64, length int) (report Report) {
	dice := rand.New(rand.NewPCG(seed, 3))
	var actions []Action
	s := m.Start()
	for report.Steps < length {
		actions = m.Actions(&s, actions[:0])
		crashes := 0
		for crashes < len(actions) && isCrash(actions[len(actions)-1-crashes].Kind) {
			crashes++
		}
		others := len(actions) - crashes
		if len(actions) == 0 {
			s, report.Trace = m.Start(), nil
			continue
		}
		a := actions[0]
		if crashes > 0 && (others == 0 || dice.IntN(crashOdds) == 0) {
			a = actions[others+dice.IntN(crashes)]
		} else {
			a = actions[dice.IntN(others)]
		}
		before := s
		s = m.Step(s, a)
		report.Steps++
		report.Kinds[a.Kind]++
		report.Trace = append(report.Trace, a)
		report.Depth = max(report.Depth, len(report.Trace))
		if report.Wrong = m.check(&before, a, &s); report.Wrong != "" {
			return report
		}
	}
	report.Trace = nil
	return report
}

func isCrash(k Kind) bool { return k == PowerCut || k == ProcessEnd }

// digest is a hash of 64 bits that is fed small numbers.
type digest struct {
	sum, word uint64
	count     int
}

func (d *digest) add(values ...uint8) {
	for _, v := range values {
		d.word = d.word<<8 | uint64(v)
		if d.count++; d.count&7 == 0 {
			d.mix()
		}
	}
}

func (d *digest) mix() {
	high, low := bits.Mul64(d.sum^d.word^0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93^uint64(d.count))
	d.sum = bits.RotateLeft64(d.sum, 23) ^ high ^ low
	d.word = 0
}

func (d *digest) flag(values ...bool) {
	set := uint8(0)
	for _, v := range values {
		set <<= 1
		if v {
			set |= 1
		}
	}
	d.add(set)
}

// hash tells states apart. Places that are quiet add a byte beside what they hold.
func (s *State) hash() uint64 {
	var d digest
	d.add(uint8(s.stage), s.run, s.from, s.head, s.flushed, s.flushTo, s.rotten, s.appends, s.crashes, s.cuts, s.rots)
	d.flag(s.flushing, s.byKill)
	hashPlace(&d, &s.checkpoint, (*checkpoint).hash)
	for i := range s.slots {
		hashPlace(&d, &s.slots[i], (*frame).hash)
	}
	for l := range s.logs {
		g := &s.logs[l]
		for i := range g.blocks {
			hashPlace(&d, &g.blocks[i], func(tag *uint8, d *digest) { d.add(*tag) })
		}
		hashPlace(&d, &g.manifest, (*manifest).hash)
		d.add(g.next, g.safe, g.entered, g.done, g.captured, g.second, uint8(g.cutting),
			g.tag, g.end, g.promised, g.written, g.cut, g.settled)
		d.add(g.tags[:]...)
		d.flag(g.direct, g.fenced)
	}
	d.mix()
	d.count++
	d.mix()
	return d.sum
}

func hashPlace[T comparable](d *digest, p *place[T], of func(*T, *digest)) {
	d.add(p.count<<4 | p.covered)
	d.flag(p.flying)
	of(&p.durable, d)
	for i := range p.count {
		of(&p.cached[i], d)
	}
	if p.flying {
		of(&p.flight, d)
	}
}

func (f *frame) hash(d *digest) {
	if d.add(f.run); f.run == 0 {
		return
	}
	d.add(f.sequence, f.flushed)
	for i := range f.entries {
		e := &f.entries[i]
		d.add(e.generation, e.first, e.last, e.tag, e.durable)
	}
}

func (n *manifest) hash(d *digest) {
	d.add(n.generation, n.second, n.cut)
	d.flag(n.sealed, n.deleted)
}

func (c *checkpoint) hash(d *digest) {
	d.add(c.run, c.from, c.flushed)
	for i := range c.logs {
		d.add(c.logs[i].generation, c.logs[i].safe, c.logs[i].durable)
	}
}
