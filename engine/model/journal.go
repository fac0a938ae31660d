package model

// canBuild says whether a frame may be built: something waits, and the ring has
// a place for it that nobody needs.
func (m *Machine) canBuild(s *State) bool {
	if s.head-s.from >= m.Slots || s.head > m.Frames || m.inFlight(s) >= m.Flights || s.slots[m.slot(s.head)].flying {
		return false
	}
	for l := range m.Logs {
		if s.logs[l].waits() {
			return true
		}
	}
	return false
}

func (m *Machine) inFlight(s *State) uint8 {
	n := uint8(0)
	for i := range s.slots {
		if s.slots[i].flying {
			n++
		}
	}
	return n
}

// waits says whether a log has batches for the next frame.
func (g *log) waits() bool {
	return !g.direct && !g.fenced && g.cutting == notCutting && g.next > g.entered && g.alive() &&
		!(g.manifest.flying && g.manifest.flight.deleted)
}

// build makes a frame of everything that waits and submits it.
func (m *Machine) build(s *State) {
	f := frame{run: s.run, sequence: s.head, flushed: s.flushed}
	for l := range m.Logs {
		g := &s.logs[l]
		if !g.waits() {
			continue
		}
		f.entries[l] = entry{
			generation: g.manifest.visible().generation, first: g.entered, last: g.next, tag: g.tag, durable: m.durable(s, l),
		}
		g.entered = g.next
	}
	s.slots[m.slot(s.head)].submit(f)
	s.head++
}

// flushTarget is the sequence up to which a flush submitted now makes frames
// durable: the write of each, and of every earlier one, has completed.
func (m *Machine) flushTarget(s *State) uint8 {
	switch {
	case m.Broken.breaks(JournalFlushCoversInFlight):
		return s.head - 1
	case m.Broken.breaks(ReleaseBehindHole):
		to := s.flushed
		for sequence := s.flushed + 1; sequence < s.head; sequence++ {
			if !s.slots[m.slot(sequence)].flying {
				to = sequence
			}
		}
		return to
	}
	return m.completedFrames(s)
}

func (m *Machine) journalFlushed(s *State) {
	for i := range s.slots {
		s.slots[i].harden()
	}
	s.flushed, s.flushTo = s.flushTo, 0
	if m.Broken.breaks(JournalFlushRaisesS) {
		for l := range m.Logs {
			g := &s.logs[l]
			g.safe = max(g.safe, m.completed(g))
		}
	}
}

// entersInFlight says whether a frame that is not flushed has an entry of the log.
func (m *Machine) entersInFlight(s *State, l uint8) bool {
	for sequence := s.flushed + 1; sequence < s.head; sequence++ {
		if e := m.frameOf(s, sequence).entries[l]; e.first < e.last {
			return true
		}
	}
	return false
}

func (m *Machine) canGoDirect(s *State, l uint8) bool {
	g := &s.logs[l]
	return !g.direct && g.next > g.entered && (m.Broken.breaks(AnyWay|DirectDuringEntry) || !m.entersInFlight(s, l))
}

func (m *Machine) canGoJournal(g *log) bool {
	return g.direct && boundary(g.submitted()) && (m.Broken.breaks(AnyWay|BackBeforeFlush) || g.submitted() <= g.safe)
}

// wantsCheckpoint says whether a checkpoint would free space or shorten a scan.
func (m *Machine) wantsCheckpoint(s *State) bool {
	next, last := m.nextCheckpoint(s), &s.checkpoint.durable
	if next.from != last.from {
		return true
	}
	for l := range m.Logs {
		if next.logs[l].safe != last.logs[l].safe || next.logs[l].generation != last.logs[l].generation {
			return true
		}
	}
	return false
}

// nextCheckpoint is what a checkpoint says that is written now.
func (m *Machine) nextCheckpoint(s *State) checkpoint {
	c := checkpoint{run: s.run, flushed: s.flushed}
	for l := range m.Logs {
		g := &s.logs[l]
		switch {
		case g.fenced:
			c.logs[l] = s.checkpoint.durable.logs[l]
		case !m.forgotten(g):
			c.logs[l] = checkpointLog{g.manifest.visible().generation, m.flushedEnd(g), m.durable(s, l)}
		}
	}
	for c.from = s.from; c.from < s.head && !m.needs(s, c.from); c.from++ {
	}
	return c
}

// flushedEnd is S as a checkpoint takes it.
func (m *Machine) flushedEnd(g *log) uint8 {
	safe := m.safeNamed(g)
	if m.Broken.breaks(CheckpointBeforeSync) {
		safe = max(safe, g.captured)
	}
	return safe
}

func (m *Machine) forgotten(g *log) bool {
	if m.Broken.breaks(ForgetAsked) {
		return g.manifest.latest().deleted
	}
	return !g.alive()
}

// needs says whether the segments of a log still need an entry of a frame.
func (m *Machine) needs(s *State, sequence uint8) bool {
	for l := range m.Logs {
		g := &s.logs[l]
		e := m.frameOf(s, sequence).entries[l]
		if g.fenced || m.forgotten(g) || e.first == e.last || e.generation != g.manifest.visible().generation {
			continue
		}
		safe := m.flushedEnd(g)
		if m.Broken.breaks(FromByWritten) {
			safe = max(safe, m.completed(g))
		}
		if e.last > safe {
			return true
		}
	}
	return false
}
