package model

// Bounds of every scope: a state is a value without pointers.
const (
	logsMax   = 2
	blocksMax = 5
	slotsMax  = 4
)

// Scope bounds what is tried out.
type Scope struct {
	Logs    uint8 // 1 or 2
	Blocks  uint8 // of each log; offsets and blocks are the same thing here
	Slots   uint8 // frames that the ring holds
	Appends uint8 // in all lives together
	Frames  uint8 // built in one life
	Flights uint8 // frames in flight at once
	Crashes uint8
	Kills   bool // a crash may be a kill, too
	Rolls   bool // a log may go on in a second segment, and the first be sealed
	Cuts    uint8
	Deletes bool
	Rots    uint8 // durable frames that are damaged
}

// boundary says whether a batch ends before block i: the batches are blocks 0,
// 1 and 2 together, 3, 4.
func boundary(i uint8) bool { return i != 2 }

// batchEnd is where the batch that begins at block i ends.
func batchEnd(i uint8) uint8 {
	if boundary(i + 1) {
		return i + 1
	}
	return i + 2
}

// entry is what a frame holds of one log: blocks first to last, all of one life.
type entry struct {
	generation  uint8
	first, last uint8 // last is exclusive; nothing when they are equal
	tag         uint8 // of the blocks: what their bytes are
	durable     uint8 // D when the frame was built
}

// frame is one frame of the ring. Run 0 is no frame, or a bad one.
type frame struct {
	run, sequence uint8
	flushed       uint8 // the highest sequence known flushed
	entries       [logsMax]entry
}

// manifest is one log.meta.
type manifest struct {
	generation uint8
	second     uint8 // first block of the second segment, 0 for none
	sealed     bool  // the first segment is
	cut        uint8 // cutting at this block, plus one; 0 is not
	deleted    bool
}

// checkpointLog is what a checkpoint says of a log.
type checkpointLog struct {
	generation, safe, durable uint8 // S and D
}

type checkpoint struct {
	run, from uint8
	flushed   uint8 // the highest sequence flushed
	logs      [logsMax]checkpointLog
}

// log is one log: its files, what the engine has in memory, and what was promised.
type log struct {
	blocks   [blocksMax]place[uint8] // content is the tag of a life; 0 is nothing
	manifest place[manifest]

	// Memory; of no meaning while the shard recovers.
	next     uint8
	safe     uint8 // S, not capped
	entered  uint8 // end of the last entry built
	done     uint8 // blocks whose write completed, a bit each
	captured uint8 // S when the flush in flight completes; 0 is not captured
	second   uint8 // first block of the second segment, named or not
	direct   bool
	cutting  cutStage

	// What was appended, and what was promised of it.
	tag      uint8 // of the present life and generation
	tags     [blocksMax]uint8
	end      uint8 // of tags
	promised uint8 // the highest D published
	written  uint8 // the highest written frontier published: survives a kill
	cut      uint8 // a truncation to this block, plus one, is under way
	settled  uint8 // where recoveries must end, plus one, since one began on a settled disk
	fenced   bool
}

// cutStage is how far a truncation is.
type cutStage uint8

const (
	notCutting cutStage = iota
	cutRecording
	cutDestroying
	cutFlushing
	cutRaising
)

// stage is how far the shard is: in recovery, or open.
type stage uint8

const (
	stageOpen stage = iota
	stageNames
	stageCut
	stageCutFlush
	stageCutRecord
	stageMerge
	stageSync
	stageCheckpoint
)

// State is the shard, its disk, and what was promised.
type State struct {
	stage      stage
	slots      [slotsMax]place[frame]
	checkpoint place[checkpoint]
	logs       [logsMax]log

	// Memory of the open shard.
	run, from, head uint8 // head is the next sequence
	flushed         uint8 // the highest sequence flushed
	flushTo         uint8 // of the journal flush in flight; 0 is none
	flushing        bool  // a flush of segments is in flight

	byKill           bool  // the last crash was a kill
	rotten           uint8 // sequence of the frame that was damaged, 0 for none
	appends, crashes uint8
	cuts, rots       uint8
}

// Machine is a scope and the rules that it keeps.
type Machine struct {
	Scope
	Broken Rules
}

// Start is an empty shard at its first run.
func (m *Machine) Start() State {
	s := State{run: 1, from: 1, head: 1}
	s.checkpoint.durable = checkpoint{run: 1, from: 1}
	for l := range m.Logs {
		g := &s.logs[l]
		g.tag = 1
		g.manifest.durable = manifest{generation: 1}
		s.checkpoint.durable.logs[l] = checkpointLog{generation: 1}
	}
	return s
}

// slot is where a frame of this sequence lies.
func (m *Machine) slot(sequence uint8) uint8 { return sequence % m.Slots }

// frameOf is the frame with this sequence as the engine remembers it.
func (m *Machine) frameOf(s *State, sequence uint8) *frame {
	p := &s.slots[m.slot(sequence)]
	f := p.latest()
	return &f
}

// alive says whether the log is there, as its files say.
func (g *log) alive() bool { return !g.manifest.visible().deleted }

// named is where the part of the log ends whose name is durable.
func (g *log) named() uint8 {
	if g.second > 0 && g.manifest.visible().second == 0 {
		return g.second
	}
	return blocksMax
}

// completed is W.
func (m *Machine) completed(g *log) uint8 {
	end := uint8(0)
	for i := range g.next {
		switch {
		case g.done&(1<<i) == 0:
			if !m.Broken.breaks(WriteBehindHole) {
				return end
			}
		case boundary(i+1) || m.Broken.breaks(SplitBatch):
			end = i + 1
		}
	}
	return end
}

// safeNamed is S as far as names are durable.
func (m *Machine) safeNamed(g *log) uint8 {
	if m.Broken.breaks(UnnamedReleased) {
		return g.safe
	}
	return min(g.safe, g.named())
}

// journaled is where the unbroken run of entries ends that begins at or below
// safe, in the frames up to a sequence: J, or its written twin J'.
func (m *Machine) journaled(s *State, l, safe, to uint8) uint8 {
	generation := s.logs[l].manifest.visible().generation
	end, begun := safe, !m.Broken.breaks(JFromAboveS)
	for sequence := s.from; sequence <= to; sequence++ {
		e := m.frameOf(s, sequence).entries[l]
		if e.first == e.last || e.generation != generation {
			continue
		}
		if e.first <= end || !begun || m.Broken.breaks(JWithoutContiguity) {
			end = max(end, e.last)
		}
		begun = true
	}
	return end
}

// frontier is what may be published of S, or W, and the frames up to a sequence:
// no further than the first segment whose name is not durable.
func (m *Machine) frontier(s *State, l, safe, to uint8) uint8 {
	named := s.logs[l].named()
	if m.Broken.breaks(JournaledUncapped) {
		return m.journaled(s, l, min(safe, named), to)
	}
	end := m.journaled(s, l, safe, to)
	if m.Broken.breaks(UnnamedReleased) {
		return end
	}
	return min(end, named)
}

// durable is D.
func (m *Machine) durable(s *State, l uint8) uint8 {
	return m.frontier(s, l, s.logs[l].safe, s.flushed)
}

// writtenFrontier is max(W, J').
func (m *Machine) writtenFrontier(s *State, l uint8) uint8 {
	return m.frontier(s, l, max(m.completed(&s.logs[l]), s.logs[l].safe), m.completedFrames(s))
}

// completedFrames is the last of the unbroken run of frames whose write completed.
func (m *Machine) completedFrames(s *State) uint8 {
	to := s.flushed
	for to+1 < s.head && !s.slots[m.slot(to+1)].flying {
		to++
	}
	return to
}
