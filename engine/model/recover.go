package model

// merged is what a recovery makes of one log.
type merged struct {
	tags    [blocksMax]uint8
	end     uint8
	corrupt string // what is wrong, or ""
}

// journalRead is the ring as a recovery judges it.
type journalRead struct {
	frames [2 * slotsMax]frame // accepted, in order; run 0 is a bad one that a later calls flushed
	count  int
}

// readJournal orders the frames by sequence and finds the journal's end: the
// first bad frame that no later one calls flushed.
func (m *Machine) readJournal(s *State) (read journalRead) {
	c := s.checkpoint.visible()
	flushed := c.flushed
	for i := range m.Slots {
		if f := s.slots[i].visible(); f.run == c.run && f.sequence >= c.from {
			flushed = max(flushed, f.flushed)
		}
	}
	for sequence := c.from; sequence < c.from+m.Slots; sequence++ {
		f := s.slots[m.slot(sequence)].visible()
		if f.run != c.run || f.sequence != sequence {
			switch {
			case m.Broken.breaks(BehindEndApplied):
				continue
			case sequence > flushed || m.Broken.breaks(BadFrameEnds):
				return read
			}
			f = frame{}
		}
		read.frames[read.count] = f
		read.count++
	}
	return read
}

// scan is where the batches end that follow each other from block i on, below limit.
func (g *log) scan(i, limit uint8) uint8 {
	for i < limit {
		end := batchEnd(i)
		tag := g.blocks[i].visible()
		if end > limit || tag == 0 || end > i+1 && g.blocks[i+1].visible() != tag {
			break
		}
		i = end
	}
	return i
}

// merge is rule 9 for one log.
func (m *Machine) merge(s *State, l uint8, read *journalRead) (r merged) {
	g := &s.logs[l]
	named, saved := g.manifest.visible(), s.checkpoint.visible().logs[l]
	start, promised := uint8(0), uint8(0)
	if saved.generation == named.generation {
		start, promised = saved.safe, saved.durable
	}
	if named.sealed {
		start = max(start, named.second)
	}
	limit := uint8(blocksMax)
	r.end = g.scan(start, limit)
	if m.Broken.breaks(DropBeforeMerge) && r.end < named.second {
		limit = named.second
	}
	for i := range limit {
		r.tags[i] = g.blocks[i].visible()
	}
	unproven := false
	for i := range read.count {
		f := &read.frames[i]
		e := &f.entries[l]
		if f.run == 0 {
			unproven = true
			continue
		}
		if e.first == e.last || e.generation != named.generation && !m.Broken.breaks(OlderGenerationApplied) {
			continue
		}
		if e.first > r.end && !m.Broken.breaks(GapSkipped) {
			break
		}
		unproven = false
		promised = max(promised, e.durable)
		for i := max(e.first, start); i < min(e.last, r.end); i++ {
			if r.tags[i] != e.tag {
				r.corrupt = "an entry differs from the segment that it overlaps"
			}
		}
		if e.last <= r.end {
			continue
		}
		for i := max(e.first, r.end); i < e.last; i++ {
			r.tags[i] = e.tag
		}
		r.end = max(e.last, g.scan(e.last, limit))
	}
	if unproven {
		r.corrupt = "a damaged frame may have held entries of it"
	}
	if r.end < promised {
		r.corrupt = "it ends below what was recorded as durable"
	}
	if !m.Broken.breaks(KeepLeftovers) {
		for i := r.end; i < blocksMax; i++ {
			r.tags[i] = 0
		}
	}
	return r
}

// recover does the next step of a recovery. Each can be the last one before
// another crash, and all are found again from what is visible.
func (m *Machine) recover(s *State) {
	switch s.stage {
	case stageNames:
		s.stage = stageMerge
		for l := range m.Logs {
			g := &s.logs[l]
			if !m.Broken.breaks(NamesTrusted) {
				g.manifest.flush()
			}
			if g.recovers() && g.manifest.visible().cut > 0 {
				s.stage = stageCut
			}
		}
	case stageCut:
		m.eachCut(s, func(g *log, at uint8) { g.destroy(at) })
		s.stage = stageCutFlush
	case stageCutFlush:
		m.eachCut(s, func(g *log, _ uint8) {
			g.flush()
			g.manifest.submit(m.raised(g))
		})
		s.stage = stageCutRecord
	case stageCutRecord:
		m.eachCut(s, func(g *log, at uint8) {
			g.manifest.replaced()
			g.cut = at + 1
			g.forgetCut()
		})
		s.stage = stageMerge
	case stageMerge:
		m.applyNext(s)
	case stageSync:
		if !m.Broken.breaks(CheckpointBeforeMerged) {
			m.syncAll(s)
		}
		s.checkpoint.submit(m.recoveredCheckpoint(s))
		s.stage = stageCheckpoint
		if m.Broken.breaks(OpenBeforeCheckpoint) {
			m.open(s)
		}
	case stageCheckpoint:
		s.checkpoint.replaced()
		m.syncAll(s)
		m.open(s)
	}
}

func (g *log) recovers() bool { return g.alive() && !g.fenced }

func (m *Machine) eachCut(s *State, do func(g *log, at uint8)) {
	for l := range m.Logs {
		g := &s.logs[l]
		if at := g.manifest.visible().cut; at > 0 && g.recovers() {
			do(g, at-1)
		}
	}
}

// applyNext writes the first block that differs from what the merge says, and
// goes on when there is none.
func (m *Machine) applyNext(s *State) {
	read := m.readJournal(s)
	for l := range m.Logs {
		g := &s.logs[l]
		if !g.recovers() {
			continue
		}
		r := m.merge(s, l, &read)
		if r.corrupt != "" {
			g.fenced = true
			continue
		}
		for i := range g.blocks {
			if g.blocks[i].visible() != r.tags[i] {
				g.blocks[i].write(r.tags[i])
				return
			}
		}
	}
	s.stage = stageSync
}

// syncAll is a syncfs with its fdatasync.
func (m *Machine) syncAll(s *State) {
	for i := range s.slots {
		s.slots[i].flush()
	}
	for l := range m.Logs {
		s.logs[l].flush()
	}
}

// recoveredCheckpoint begins a run in which the ring is empty.
func (m *Machine) recoveredCheckpoint(s *State) checkpoint {
	last := s.checkpoint.visible()
	c := checkpoint{run: last.run + 1, from: 1}
	if m.Broken.breaks(RunStays) {
		c.run = last.run
	}
	for l := range m.Logs {
		switch g := &s.logs[l]; {
		case g.fenced:
			c.logs[l] = last.logs[l]
		case g.alive():
			end := g.scan(0, blocksMax)
			c.logs[l] = checkpointLog{g.manifest.visible().generation, end, end}
		}
	}
	return c
}

// open begins the next run on what the recovery made durable.
func (m *Machine) open(s *State) {
	c := s.checkpoint.latest()
	s.stage, s.byKill = stageOpen, false
	s.run, s.from, s.head, s.flushed = c.run, 1, 1, 0
	for i := range s.slots {
		// Nobody reads a frame of an older run from here on.
		if p := &s.slots[i]; p.visible().run < s.checkpoint.durable.run {
			*p = place[frame]{}
		}
	}
	for l := range m.Logs {
		g := &s.logs[l]
		g.settled, g.cut = 0, 0
		if !g.recovers() {
			continue
		}
		end := c.logs[l].safe
		g.next, g.safe, g.entered, g.done = end, end, end, 1<<end-1
		g.second = g.manifest.visible().second
		g.tag++
		g.promised, g.written, g.end = end, end, end
		for i := end; i < blocksMax; i++ {
			g.tags[i] = 0
		}
	}
}
