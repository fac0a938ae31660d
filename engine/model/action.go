package model

import "fmt"

// Kind says what an Action does.
type Kind uint8

// What may happen. Crash and Recover aside, the shard is open.
const (
	Append       Kind = iota + 1 // a batch to a log
	Build                        // a frame of what waits, and submit it
	FrameDone                    // the write of the frame with sequence At completes
	FlushJournal                 // submit a flush of the journal
	JournalFlushed
	GoDirect   // a log leaves the journal
	GoJournal  // and comes back
	Write      // submit the write of block At
	Written    // it completes
	FlushLog   // submit a flush of the one file with unflushed bytes of a log
	FlushAll   // submit a syncfs, with its fdatasync
	Flushed    // it completes
	Save       // submit a checkpoint
	Saved      // it is durable
	Roll       // a log goes on in its second segment, its name is submitted
	Seal       // submit that the first segment is sealed
	Named      // a manifest is durable
	Cut        // truncate a log at block At
	CutOn      // the next step of that
	Delete     // a log; its manifest says so when it is durable
	Rot        // damage the frame with sequence At, before a recovery
	PowerCut   // outcome Choice
	ProcessEnd // a kill, outcome Choice
	Recover    // the next step of it
)

var kindNames = [...]string{
	Append: "append", Build: "build frame", FrameDone: "frame written", FlushJournal: "flush journal",
	JournalFlushed: "journal flushed", GoDirect: "go direct", GoJournal: "go journal", Write: "write", Written: "written",
	FlushLog: "flush file", FlushAll: "syncfs", Flushed: "flushed", Save: "write checkpoint", Saved: "checkpoint durable",
	Roll: "roll", Seal: "seal", Named: "manifest durable", Cut: "cut", CutOn: "go on cutting", Delete: "delete", Rot: "damage frame",
	PowerCut: "POWER CUT", ProcessEnd: "KILL", Recover: "recover",
}

// Action is one step.
type Action struct {
	Kind    Kind
	Log, At uint8
	Choice  uint32 // of a crash: which of the outcomes
}

// String tells what is done to what.
func (a Action) String() string {
	switch a.Kind {
	case Append, GoDirect, GoJournal, FlushLog, Roll, Seal, Named, CutOn, Delete:
		return fmt.Sprintf("%s, log %d", kindNames[a.Kind], a.Log)
	case Write, Written, Cut:
		return fmt.Sprintf("%s, log %d block %d", kindNames[a.Kind], a.Log, a.At)
	case FrameDone, Rot:
		return fmt.Sprintf("%s %d", kindNames[a.Kind], a.At)
	case PowerCut, ProcessEnd:
		return fmt.Sprintf("%s, outcome %d", kindNames[a.Kind], a.Choice)
	}
	return kindNames[a.Kind]
}

// Actions appends everything that may happen next, each in every way.
func (m *Machine) Actions(s *State, to []Action) []Action {
	if s.stage != stageOpen {
		to = append(to, Action{Kind: Recover})
		if s.stage == stageNames && s.rots < m.Rots {
			to = m.rottable(s, to)
		}
		return m.crashes(s, to)
	}
	for l := range m.Logs {
		to = m.logActions(s, l, to)
	}
	to = m.journalActions(s, to)
	if !s.flushing && m.canFlushAll(s) {
		to = append(to, Action{Kind: FlushAll})
	}
	if s.flushing {
		to = append(to, Action{Kind: Flushed})
	}
	if s.checkpoint.flying {
		to = append(to, Action{Kind: Saved})
	} else if m.wantsCheckpoint(s) {
		to = append(to, Action{Kind: Save})
	}
	return m.crashes(s, to)
}

func (m *Machine) journalActions(s *State, to []Action) []Action {
	if m.canBuild(s) {
		to = append(to, Action{Kind: Build})
	}
	for sequence := s.from; sequence < s.head; sequence++ {
		if s.slots[m.slot(sequence)].flying {
			to = append(to, Action{Kind: FrameDone, At: sequence})
		}
	}
	if s.flushTo == 0 && m.flushTarget(s) > s.flushed {
		to = append(to, Action{Kind: FlushJournal})
	}
	if s.flushTo > 0 {
		to = append(to, Action{Kind: JournalFlushed})
	}
	return to
}

func (m *Machine) logActions(s *State, l uint8, to []Action) []Action {
	g := &s.logs[l]
	if g.cutting != notCutting {
		return append(to, Action{Kind: CutOn, Log: l})
	}
	naming := g.manifest.flying
	if naming {
		to = append(to, Action{Kind: Named, Log: l})
	}
	if g.fenced || !g.alive() || naming && g.manifest.flight.deleted {
		return to
	}
	if s.appends < m.Appends && batchEnd(g.next) <= m.Blocks {
		to = append(to, Action{Kind: Append, Log: l})
	}
	if m.canGoDirect(s, l) {
		to = append(to, Action{Kind: GoDirect, Log: l})
	}
	if m.canGoJournal(g) {
		to = append(to, Action{Kind: GoJournal, Log: l})
	}
	for i := range g.next {
		if g.blocks[i].flying {
			to = append(to, Action{Kind: Written, Log: l, At: i})
		}
	}
	if i := g.nextWrite(); i < g.next {
		to = append(to, Action{Kind: Write, Log: l, At: i})
	}
	if !s.flushing && m.canFlushLog(g) {
		to = append(to, Action{Kind: FlushLog, Log: l})
	}
	if naming {
		return to
	}
	return m.manifestActions(s, l, to)
}

func (m *Machine) manifestActions(s *State, l uint8, to []Action) []Action {
	g := &s.logs[l]
	if m.Rolls && g.second == 0 && g.next > 0 {
		to = append(to, Action{Kind: Roll, Log: l})
	}
	if m.Rolls && g.second > 0 && !g.manifest.visible().sealed {
		safe := g.safe
		if m.Broken.breaks(SealAtDurable) {
			safe = m.durable(s, l)
		}
		if safe >= g.second {
			to = append(to, Action{Kind: Seal, Log: l})
		}
	}
	if s.cuts < m.Cuts {
		for at := range g.next {
			if boundary(at) && (g.second == 0 || at > g.second) && m.canCut(s, l, at) {
				to = append(to, Action{Kind: Cut, Log: l, At: at})
			}
		}
	}
	if m.Deletes {
		to = append(to, Action{Kind: Delete, Log: l})
	}
	return to
}

// Step does one thing that may happen.
func (m *Machine) Step(s State, a Action) State {
	g := &s.logs[a.Log]
	switch a.Kind {
	case Append:
		s.appends++
		end := batchEnd(g.next)
		for i := g.next; i < end; i++ {
			g.tags[i] = g.tag
		}
		g.next, g.end = end, end
	case Build:
		m.build(&s)
	case FrameDone:
		s.slots[m.slot(a.At)].complete()
	case FlushJournal:
		s.flushTo = m.flushTarget(&s)
		for i := range s.slots {
			s.slots[i].cover()
		}
	case JournalFlushed:
		m.journalFlushed(&s)
	case GoDirect:
		g.direct = true
	case GoJournal:
		g.direct, g.entered = false, max(g.entered, g.submitted())
	case Write:
		g.blocks[a.At].submit(g.tags[a.At])
	case Written:
		g.blocks[a.At].complete()
		g.done |= 1 << a.At
	case FlushLog, FlushAll:
		m.submitFlush(&s, a)
	case Flushed:
		m.flushDone(&s)
	case Save:
		s.checkpoint.submit(m.nextCheckpoint(&s))
		if m.Broken.breaks(ReuseBeforeCheckpoint) {
			s.from = s.checkpoint.flight.from
		}
	case Saved:
		s.checkpoint.replaced()
		s.from = s.checkpoint.durable.from
	case Rot:
		m.rot(&s, a.At)
	case PowerCut, ProcessEnd:
		m.crash(&s, a)
	case Recover:
		m.recover(&s)
	default:
		m.stepManifest(&s, a)
	}
	m.publish(&s)
	return s
}

// publish raises what was promised.
func (m *Machine) publish(s *State) {
	if s.stage != stageOpen {
		return
	}
	for l := range m.Logs {
		g := &s.logs[l]
		if g.cutting == notCutting && g.alive() && !g.fenced {
			g.promised = max(g.promised, m.durable(s, l))
			g.written = max(g.written, g.promised, m.writtenFrontier(s, l))
		}
	}
}
