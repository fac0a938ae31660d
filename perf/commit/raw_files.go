package commit

import (
	"ringlog/engine/disk"
)

// filesBytes is the space of all partitions' files together, unless all the space
// there is is less, or each needs more. They are written from their start again when full.
const filesBytes = 1 << 30

// fileLayout appends to a file for each partition, as a log does: a round's
// batches follow the last ones, so the last block, when it was not full, is
// written again. Its earlier bytes are kept in tails.
type fileLayout struct {
	load  *rawLoad
	bytes int64
	parts []filePart
	tails []byte // a block for each partition
	count []int  // by slice: groups of it in the round that is gathered
}

// filePart is the file of a partition.
type filePart struct {
	file     disk.File
	position int64 // behind the last batch
}

func newFileLayout(l *rawLoad) *fileLayout {
	y := &fileLayout{
		load: l, parts: make([]filePart, l.shape.partitions), tails: make([]byte, l.shape.partitions*disk.BlockBytes),
		count: make([]int, l.shape.slices),
	}
	y.bytes = fileBytes(l, y.partBytes(l.options.InFlight))
	return y
}

// fileBytes is the size of a partition's file, which has room for atLeast bytes.
func fileBytes(l *rawLoad, atLeast int) int64 {
	share := min(filesBytes, l.options.SpaceBytes/2) / int64(l.shape.partitions)
	return int64(blocks(max(int(share), atLeast)))
}

// partBytes is the most that a round writes to a partition's file: appends
// batches and what its last block held before.
func (y *fileLayout) partBytes(appends int) int {
	return blocks(appends*len(y.load.batch) + disk.BlockBytes - 1)
}

func (y *fileLayout) files() (count int, bytes int64) { return len(y.parts), y.bytes }

func (y *fileLayout) open(files []disk.File) {
	for i, file := range files {
		y.parts[i].file = file
	}
}

func (y *fileLayout) groupsMax() int { return y.load.shape.window }

func (y *fileLayout) exclusive() bool { return true }

func (y *fileLayout) size(groups int) (arenaBytes, writes, flushes int) {
	// The worst is a slice for each group: then no append shares a block with another.
	parts := groups * y.load.shape.size
	flushes = min(parts, y.load.shape.partitions)
	if y.load.options.System == Syncfs {
		flushes = 1
	}
	return parts * y.partBytes(1), parts * divideUp(y.partBytes(1), pieceBytes), flushes
}

func (y *fileLayout) gather(r *round) {
	l := y.load
	clear(y.count)
	for _, g := range r.groups {
		y.count[g.slice]++
	}
	arena := r.arena
	for slice, groups := range y.count {
		if groups == 0 {
			continue
		}
		first, count := l.shape.of(slice)
		for i := range count {
			arena = arena[y.gatherPart(r, arena, first+i, i, slice):]
		}
	}
	if l.options.System == Syncfs {
		r.flushes = appendInPlace(r.flushes, disk.Operation{Kind: disk.SyncFilesystem, File: r.writes[0].File})
	}
}

// gatherPart lays out what the groups of a slice have for its i-th partition, and
// returns how much of the arena that took.
func (y *fileLayout) gatherPart(r *round, arena []byte, partition, i, slice int) int {
	l, p := y.load, &y.parts[partition]
	batches := y.count[slice] * len(l.batch)
	if p.position+int64(batches) > y.bytes {
		p.position = 0
	}
	tail := y.tails[partition*disk.BlockBytes:][:disk.BlockBytes]
	start := p.position / disk.BlockBytes * disk.BlockBytes
	at := copy(arena, tail[:p.position-start])
	for _, g := range r.groups {
		if g.slice == slice {
			at += l.copyBatch(arena[at:], g.source[i])
		}
	}
	p.position = start + int64(at)
	end := blocks(at)
	clear(arena[at:end])
	copy(tail, arena[at/disk.BlockBytes*disk.BlockBytes:at])
	r.writes = appendPieces(r.writes, p.file, arena[:end:end], start, nil)
	if l.options.System == Files {
		r.flushes = appendInPlace(r.flushes, disk.Operation{Kind: disk.Flush, File: p.file})
	}
	return end
}
