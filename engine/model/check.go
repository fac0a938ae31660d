package model

import "fmt"

// check says what is wrong with a state that an action led to, or "".
func (m *Machine) check(before *State, a Action, s *State) string {
	if a.Kind == Build {
		if wrong := m.checkReuse(before, s); wrong != "" {
			return wrong
		}
	}
	for l := range m.Logs {
		g := &s.logs[l]
		if g.fenced || !g.alive() {
			continue
		}
		wrong := ""
		switch {
		case s.stage == stageOpen && g.cutting == notCutting:
			wrong = m.checkFrontiers(s, l)
		case s.stage == stageMerge || s.stage == stageSync || s.stage == stageCheckpoint:
			wrong = m.checkRecovered(s, l)
		}
		if wrong != "" {
			return fmt.Sprintf("log %d: %s", l, wrong)
		}
	}
	return ""
}

// checkFrontiers: D ≤ next and S ≤ next, D ends a batch and never falls; HW is D.
func (m *Machine) checkFrontiers(s *State, l uint8) string {
	g := &s.logs[l]
	durable := m.durable(s, l)
	switch {
	case durable > g.next || g.safe > g.next || m.completed(g) > g.next:
		return fmt.Sprintf("frontiers are out of order: S %d, W %d, D %d, next %d", g.safe, m.completed(g), durable, g.next)
	case !boundary(durable):
		return fmt.Sprintf("D is %d, inside a batch", durable)
	case durable < g.promised:
		return fmt.Sprintf("D falls from %d to %d", g.promised, durable)
	}
	return ""
}

// checkReuse: a place of the ring is not overwritten while published bytes of a
// log that it holds are not durable in the segments, as the disk sees it.
func (m *Machine) checkReuse(before, s *State) string {
	sequence := before.head
	old := before.slots[m.slot(sequence)].visible()
	if old.run != s.run {
		return ""
	}
	for l := range m.Logs {
		g, e := &before.logs[l], old.entries[l]
		named := g.manifest.durable
		if g.fenced || named.deleted || e.generation != named.generation {
			continue
		}
		for i := e.first; i < min(e.last, g.promised); i++ {
			if g.blocks[i].durable != g.tags[i] || g.second > 0 && i >= g.second && named.second == 0 {
				return fmt.Sprintf("frame %d overwrites frame %d, which alone holds block %d of log %d", sequence, old.sequence, i, l)
			}
		}
	}
	return ""
}

// checkRecovered: everything promised is there with the same bytes, nothing that
// was never appended or was cut away, and recovery gives the same each time.
func (m *Machine) checkRecovered(s *State, l uint8) string {
	g := &s.logs[l]
	read := m.readJournal(s)
	r := m.merge(s, l, &read)
	if r.corrupt != "" {
		if s.rotten > 0 {
			return ""
		}
		return "a crash is taken for corruption: " + r.corrupt
	}
	for i := range min(r.end, blocksMax) {
		if i >= g.end || r.tags[i] != g.tags[i] {
			return fmt.Sprintf("block %d is of life %d after recovery, and was of %d, up to %d", i, r.tags[i], g.tags[i], g.end)
		}
	}
	need := g.promised
	if s.byKill {
		need = g.written
	}
	if r.end < need && !m.unwitnessed(s) && (g.cut == 0 || r.end != g.cut-1) {
		return fmt.Sprintf("recovery ends at %d and %d was promised", r.end, need)
	}
	if g.settled > 0 && r.end != g.settled-1 {
		return fmt.Sprintf("recovery ends at %d, and began as one that ends at %d", r.end, g.settled-1)
	}
	g.settled = r.end + 1
	return ""
}

// unwitnessed says whether a damaged frame was the last word: nothing that can be
// read calls it flushed, so it looks like a torn one.
func (m *Machine) unwitnessed(s *State) bool {
	if s.rotten == 0 {
		return false
	}
	c := s.checkpoint.visible()
	if c.flushed >= s.rotten {
		return false
	}
	for i := range m.Slots {
		if f := s.slots[i].visible(); f.run == c.run && f.flushed >= s.rotten {
			return false
		}
	}
	return true
}
