package model

// submitted is the end of the unbroken run of blocks that were handed to the disk.
func (g *log) submitted() uint8 {
	i := uint8(0)
	for i < g.next && (g.done&(1<<i) != 0 || g.blocks[i].flying) {
		i++
	}
	return i
}

// nextWrite is the next block to write, or next: in order, what frames hold
// already, and everything when the log goes direct.
func (g *log) nextWrite() uint8 {
	i := g.submitted()
	if i < g.entered || g.direct {
		return i
	}
	return g.next
}

// oneFile says whether what waits for a flush lies in one segment.
func (g *log) oneFile(written uint8) bool {
	return g.second == 0 || written <= g.second || g.safe >= g.second
}

func (m *Machine) canFlushLog(g *log) bool {
	written := m.completed(g)
	return written > g.safe && (g.oneFile(written) || m.Broken.breaks(FlushOneFile))
}

func (m *Machine) canFlushAll(s *State) bool {
	for l := range m.Logs {
		if g := &s.logs[l]; g.alive() && !g.fenced && g.cutting == notCutting && m.completed(g) > g.safe {
			return true
		}
	}
	return false
}

// submitFlush notes what a flush makes durable of each log: what had completed.
func (m *Machine) submitFlush(s *State, a Action) {
	s.flushing = true
	for l := range m.Logs {
		g := &s.logs[l]
		if a.Kind == FlushLog && l != a.Log || !g.alive() || g.fenced || g.cutting != notCutting {
			continue
		}
		g.captured = m.completed(g)
		first, last := uint8(0), uint8(blocksMax)
		if a.Kind == FlushLog && g.second > 0 {
			if g.captured <= g.second {
				last = g.second
			} else {
				first = g.second
			}
		}
		if m.Broken.breaks(FlushCoversInFlight) {
			g.captured = g.submitted()
		}
		if a.Kind == FlushAll && m.Broken.breaks(SyncWithoutFlush) {
			continue
		}
		for i := first; i < last; i++ {
			g.blocks[i].cover()
		}
	}
}

func (m *Machine) flushDone(s *State) {
	s.flushing = false
	for l := range m.Logs {
		g := &s.logs[l]
		for i := range g.blocks {
			g.blocks[i].harden()
		}
		g.safe, g.captured = max(g.safe, g.captured), 0
	}
}
