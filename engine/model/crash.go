package model

// choice hands out the digits of one outcome of a crash: each place takes one.
type choice uint32

func (c *choice) take(outcomes int) int {
	digit := int(*c) % outcomes
	*c /= choice(outcomes)
	return digit
}

// outcomes is how many states of the disk a crash may leave.
func (m *Machine) outcomes(s *State, kill bool) uint32 {
	n := s.checkpoint.outcomes(kill)
	for i := range m.Slots {
		n *= s.slots[i].outcomes(kill)
	}
	for l := range m.Logs {
		g := &s.logs[l]
		n *= g.manifest.outcomes(kill)
		for i := range m.Blocks {
			n *= g.blocks[i].outcomes(kill)
		}
	}
	return uint32(n)
}

// crashes appends every crash in every outcome.
func (m *Machine) crashes(s *State, to []Action) []Action {
	if s.crashes >= m.Crashes {
		return to
	}
	for choice := range m.outcomes(s, false) {
		to = append(to, Action{Kind: PowerCut, Choice: choice})
	}
	if m.Kills {
		for choice := range m.outcomes(s, true) {
			to = append(to, Action{Kind: ProcessEnd, Choice: choice})
		}
	}
	return to
}

// crash ends the process or the power: one outcome stays on the disk, nothing in memory.
func (m *Machine) crash(s *State, a Action) {
	kill, outcome := a.Kind == ProcessEnd, choice(a.Choice)
	wasOpen := s.stage == stageOpen
	s.checkpoint.crash(kill, outcome.take(s.checkpoint.outcomes(kill)))
	for i := range m.Slots {
		p := &s.slots[i]
		p.crash(kill, outcome.take(p.outcomes(kill)))
	}
	for l := range m.Logs {
		g := &s.logs[l]
		g.manifest.crash(kill, outcome.take(g.manifest.outcomes(kill)))
		for i := range m.Blocks {
			p := &g.blocks[i]
			p.crash(kill, outcome.take(p.outcomes(kill)))
		}
		g.loseUnnamed()
		if wasOpen || !kill && s.byKill {
			g.settled = 0
		}
	}
	switch {
	case wasOpen:
		s.byKill = kill
	case !kill:
		s.byKill = false
	}
	s.crashes++
	s.stage = stageNames
	s.run, s.from, s.head, s.flushed, s.flushTo, s.flushing = 0, 0, 0, 0, 0, false
	for l := range m.Logs {
		s.logs[l].forget()
	}
}

// loseUnnamed removes a second segment that no manifest names.
func (g *log) loseUnnamed() {
	if g.second == 0 || g.manifest.visible().second > 0 {
		return
	}
	for i := g.second; i < blocksMax; i++ {
		g.blocks[i] = place[uint8]{}
	}
}

// forget is what the end of the process does to a log. Where a named second
// segment begins is kept: its name may be taken back by a power cut.
func (g *log) forget() {
	if g.manifest.visible().second == 0 {
		g.second = 0
	}
	g.next, g.safe, g.entered, g.done, g.captured = 0, 0, 0, 0, 0
	g.direct, g.cutting = false, notCutting
}

// rottable appends the damage of every frame that a recovery would read.
func (m *Machine) rottable(s *State, to []Action) []Action {
	c := s.checkpoint.visible()
	for i := range m.Slots {
		if f := s.slots[i].visible(); f.run == c.run && f.sequence >= c.from {
			to = append(to, Action{Kind: Rot, At: f.sequence})
		}
	}
	return to
}

// rot damages a frame, and all there is of it.
func (m *Machine) rot(s *State, sequence uint8) {
	s.rots++
	s.rotten = sequence
	s.slots[m.slot(sequence)] = place[frame]{}
}
