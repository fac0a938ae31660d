package model

// stepManifest does what changes a log's files, but for their bytes.
func (m *Machine) stepManifest(s *State, a Action) {
	g := &s.logs[a.Log]
	next := g.manifest.visible()
	switch a.Kind {
	case Roll:
		g.second = g.next
		next.second = g.second
		g.manifest.submit(next)
	case Seal:
		next.sealed = true
		g.manifest.submit(next)
	case Delete:
		next.deleted = true
		g.manifest.submit(next)
	case Named:
		g.manifest.replaced()
	case Cut:
		s.cuts++
		g.cutting = cutRecording
		g.cut = a.At + 1
		next.cut = g.cut
		g.manifest.submit(next)
	case CutOn:
		m.cutOn(g)
	default:
		panic("model: a step that does not exist: " + a.String())
	}
}

// canCut says whether a truncation may begin to be recorded: what lies below
// the cut is flushed in the segments, and no write of them is under way.
func (m *Machine) canCut(s *State, l, at uint8) bool {
	g := &s.logs[l]
	safe := m.safeNamed(g)
	if m.Broken.breaks(TruncateAtDurable) {
		safe = m.durable(s, l)
	}
	for i := range g.blocks {
		if g.blocks[i].flying {
			return false
		}
	}
	return safe >= at && !s.flushing
}

// cutOn is the next step of a truncation.
func (m *Machine) cutOn(g *log) {
	at := g.cut - 1
	switch g.cutting {
	case cutRecording:
		g.manifest.replaced()
		g.cutting = cutDestroying
	case cutDestroying:
		g.destroy(at)
		g.cutting = cutFlushing
	case cutFlushing:
		g.flush()
		g.manifest.submit(m.raised(g))
		g.cutting = cutRaising
	case cutRaising:
		g.manifest.replaced()
		g.cutting = notCutting
		g.next, g.safe, g.entered, g.direct = at, at, at, false
		g.done &= 1<<at - 1
		g.tag++
		g.forgetCut()
	}
}

// destroy makes everything from a block on read as nothing.
func (g *log) destroy(from uint8) {
	for i := from; i < blocksMax; i++ {
		if g.blocks[i].visible() != 0 {
			g.blocks[i].write(0)
		}
	}
}

func (g *log) flush() {
	for i := range g.blocks {
		g.blocks[i].flush()
	}
}

// raised is the manifest of a log whose cut is done.
func (m *Machine) raised(g *log) manifest {
	next := g.manifest.visible()
	next.cut = 0
	if !m.Broken.breaks(GenerationStays) {
		next.generation++
	}
	return next
}

// forgetCut takes what was cut away out of the promises.
func (g *log) forgetCut() {
	at := g.cut - 1
	g.cut = 0
	g.end, g.promised, g.written = min(g.end, at), min(g.promised, at), min(g.written, at)
	for i := at; i < blocksMax; i++ {
		g.tags[i] = 0
	}
}
