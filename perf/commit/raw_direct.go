package commit

import (
	"time"

	"ringlog/engine/disk"
)

// direct writes each append in whole blocks of its own, and each partition for
// itself: its flush starts when its writes have completed, whatever others do,
// and what is written meanwhile waits for the next.
type direct struct {
	load        *rawLoad
	bytes       int64
	appendBytes int // whole blocks
	parts       []directPart
	appends     map[*rawGroup][]directAppend
	arenas      map[*rawGroup][]byte
	writes      map[*rawGroup][]disk.Operation
}

// directPart is the file of a partition.
type directPart struct {
	file     disk.File
	position int64
	written  []*directAppend // no flush covers them
	flushing []*directAppend // the flush in flight does
	flush    disk.Operation
	inFlight bool
}

// directAppend is one append in flight.
type directAppend struct {
	group  *rawGroup
	part   *directPart
	pieces int // writes in flight
}

func newDirect(l *rawLoad) *direct {
	p := &direct{
		load: l, appendBytes: blocks(len(l.batch)), parts: make([]directPart, l.shape.partitions),
		appends: map[*rawGroup][]directAppend{}, arenas: map[*rawGroup][]byte{}, writes: map[*rawGroup][]disk.Operation{},
	}
	for _, g := range l.idle {
		p.appends[g] = make([]directAppend, l.shape.size)
		p.arenas[g] = disk.AlignedBytes(l.shape.size * p.appendBytes)
		p.writes[g] = make([]disk.Operation, 0, l.shape.size*divideUp(p.appendBytes, pieceBytes))
	}
	p.bytes = fileBytes(l, (l.options.InFlight+1)*p.appendBytes) // no two writes in flight meet
	return p
}

func (p *direct) files() (count int, bytes int64) { return len(p.parts), p.bytes }

func (p *direct) open(files []disk.File) {
	for i, file := range files {
		p.parts[i].file = file
	}
}

func (p *direct) advance() {
	for _, g := range p.load.idle {
		p.write(g)
	}
	p.load.idle = p.load.idle[:0]
}

// write submits all appends of a group.
func (p *direct) write(g *rawGroup) {
	l := p.load
	first, count := l.shape.of(g.slice)
	g.left = count
	arena, writes := p.arenas[g], p.writes[g][:0]
	for i := range count {
		a := &p.appends[g][i]
		*a = directAppend{group: g, part: &p.parts[first+i]}
		bytes := arena[i*p.appendBytes : (i+1)*p.appendBytes : (i+1)*p.appendBytes]
		clear(bytes[l.copyBatch(bytes, g.source[i]):])
		if a.part.position+int64(len(bytes)) > p.bytes {
			a.part.position = 0
		}
		before := len(writes)
		writes = appendPieces(writes, a.part.file, bytes, a.part.position, a)
		a.pieces = len(writes) - before
		a.part.position += int64(len(bytes))
		for k := before; k < len(writes); k++ {
			l.submit(&writes[k])
		}
	}
}

func (p *direct) completed(op *disk.Operation, now time.Time) {
	switch owner := op.Owner.(type) {
	case *directAppend:
		if owner.pieces--; owner.pieces > 0 {
			return
		}
		if !p.load.durable() {
			p.answer(owner, now)
			return
		}
		owner.part.written = append(owner.part.written, owner)
		p.maybeFlush(owner.part)
	case *directPart:
		owner.inFlight = false
		p.load.counters.commits++
		for _, a := range owner.flushing {
			p.answer(a, now)
		}
		owner.flushing = owner.flushing[:0]
		p.maybeFlush(owner)
	}
}

func (p *direct) maybeFlush(part *directPart) {
	if part.inFlight || len(part.written) == 0 {
		return
	}
	part.inFlight = true
	part.flushing, part.written = part.written, part.flushing
	part.flush = disk.Operation{Kind: disk.Flush, File: part.file, Owner: part}
	p.load.submit(&part.flush)
}

func (p *direct) answer(a *directAppend, now time.Time) {
	if a.group.left--; a.group.left == 0 {
		p.load.answer(a.group, now)
	}
}
