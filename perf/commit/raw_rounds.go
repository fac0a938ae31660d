package commit

import (
	"time"

	"ringlog/engine/disk"
)

// rounds commits groups together: all of their writes, then, when these have
// completed, the flush, and when that has, the answers. Of its two rounds one
// may be flushed while the other is gathered and written; at most one is being flushed.
type rounds struct {
	load     *rawLoad
	layout   layout
	rounds   [2]round
	writing  []bool // by slice: in a round whose writes are in flight
	flushing bool
}

// round is one commit.
type round struct {
	state   roundState
	groups  []*rawGroup
	arena   []byte
	writes  []disk.Operation
	flushes []disk.Operation
	left    int // operations of the present state that are in flight
}

type roundState uint8

const (
	roundIdle roundState = iota
	roundWriting
	roundWritten // waits for the flush of the other one
	roundFlushing
)

// layout is where the batches of a round go.
type layout interface {
	files() (count int, bytes int64)
	open(files []disk.File)
	// groupsMax is how many groups make a round as large as is useful.
	groupsMax() int
	// size returns what a round of groups may need: bytes of its arena, writes, flushes.
	size(groups int) (arenaBytes, writes, flushes int)
	// exclusive says that two rounds must not write to one slice at a time.
	exclusive() bool
	// gather copies the batches of r.groups into r.arena and appends to r.writes
	// and r.flushes.
	gather(r *round)
}

func newRounds(l *rawLoad, y layout) *rounds {
	p := &rounds{load: l, layout: y, writing: make([]bool, l.shape.slices)}
	for i := range p.rounds {
		r := &p.rounds[i]
		arena, writes, flushes := y.size(p.groupsMax())
		r.arena = disk.AlignedBytes(arena)
		r.writes, r.flushes = make([]disk.Operation, 0, writes), make([]disk.Operation, 0, flushes)
		if l.options.Serial {
			break // the other one has no memory and stays idle
		}
	}
	return p
}

// groupsMax is how many groups a round takes: half of them, so that the other half can be
// written meanwhile, or all.
func (p *rounds) groupsMax() int {
	groups := p.load.shape.window
	if !p.load.options.Serial {
		groups = divideUp(groups, 2)
	}
	return min(groups, p.layout.groupsMax())
}

func (p *rounds) files() (count int, bytes int64) { return p.layout.files() }

func (p *rounds) open(files []disk.File) { p.layout.open(files) }

func (p *rounds) advance() {
	for i := range p.rounds {
		r := &p.rounds[i]
		if r.state == roundIdle && cap(r.writes) > 0 {
			p.write(r)
		}
		if r.state == roundWritten && !p.flushing {
			p.flush(r)
		}
	}
}

// write starts a round with the groups that wait.
func (p *rounds) write(r *round) {
	l := p.load
	kept := l.idle[:0]
	for _, g := range l.idle {
		if len(r.groups) == p.groupsMax() || p.layout.exclusive() && p.writing[g.slice] {
			kept = append(kept, g)
			continue
		}
		r.groups = append(r.groups, g)
	}
	l.idle = kept
	if len(r.groups) == 0 {
		return
	}
	for _, g := range r.groups {
		p.writing[g.slice] = true
	}
	r.writes, r.flushes = r.writes[:0], r.flushes[:0]
	p.layout.gather(r)
	r.state, r.left = roundWriting, len(r.writes)
	for i := range r.writes {
		r.writes[i].Owner = r
		l.submit(&r.writes[i])
	}
}

func (p *rounds) flush(r *round) {
	p.flushing = true
	r.state, r.left = roundFlushing, len(r.flushes)
	for i := range r.flushes {
		r.flushes[i].Owner = r
		p.load.submit(&r.flushes[i])
	}
}

func (p *rounds) completed(op *disk.Operation, now time.Time) {
	r := op.Owner.(*round)
	if r.left--; r.left > 0 {
		return
	}
	if r.state == roundWriting {
		for _, g := range r.groups {
			p.writing[g.slice] = false
		}
		if p.load.durable() {
			r.state = roundWritten
			return
		}
	} else {
		p.flushing = false
	}
	p.load.counters.commits++
	for _, g := range r.groups {
		p.load.answer(g, now)
	}
	r.state, r.groups = roundIdle, r.groups[:0]
}

// journalLayout puts everything one behind the other into one file, written
// round and round.
type journalLayout struct {
	load     *rawLoad
	file     disk.File
	bytes    int64
	position int64
}

// frameHeaderBytes stands for what a frame says of itself and its entries: one
// block. Each entry has its checksum behind it.
const (
	frameHeaderBytes = disk.BlockBytes
	checksumBytes    = 4

	// frameBytesUseful is where a flush has become cheap beside its writes: larger
	// frames would only be copied in one go while the device waits.
	frameBytesUseful = 16 << 20
)

func newJournalLayout(l *rawLoad) *journalLayout {
	y := &journalLayout{load: l}
	frame, _, _ := y.size(min(l.shape.window, y.groupsMax()))
	y.bytes = int64(blocks(int(max(l.options.JournalBytes, 4*int64(frame)))))
	return y
}

func (y *journalLayout) files() (count int, bytes int64) { return 1, y.bytes }

func (y *journalLayout) open(files []disk.File) { y.file = files[0] }

func (y *journalLayout) groupsMax() int {
	return max(frameBytesUseful/(y.load.shape.size*len(y.load.batch)), 1)
}

func (y *journalLayout) exclusive() bool { return false }

func (y *journalLayout) size(groups int) (arenaBytes, writes, flushes int) {
	arenaBytes = blocks(frameHeaderBytes + groups*y.load.shape.size*(len(y.load.batch)+checksumBytes))
	return arenaBytes, divideUp(arenaBytes, pieceBytes), 1
}

func (y *journalLayout) gather(r *round) {
	l := y.load
	at := frameHeaderBytes
	for _, g := range r.groups {
		_, count := l.shape.of(g.slice)
		for _, batch := range g.source[:count] {
			at += l.copyBatch(r.arena[at:], batch)
			sum := l.checksum
			r.arena[at], r.arena[at+1], r.arena[at+2], r.arena[at+3] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
			at += checksumBytes
		}
	}
	end := blocks(at)
	clear(r.arena[at:end])
	if y.position+int64(end) > y.bytes { // a frame does not straddle the end
		y.position = 0
	}
	r.writes = appendPieces(r.writes, y.file, r.arena[:end], y.position, nil)
	y.position += int64(end)
	r.flushes = appendInPlace(r.flushes, disk.Operation{Kind: disk.Flush, File: y.file})
}
