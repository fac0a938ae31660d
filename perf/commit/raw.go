package commit

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/disk/backend"
	"ringlog/perf"
	"ringlog/record"
)

// pieceBytes is the most that a raw program gives to the device in one write;
// larger ones are cut and their pieces are in flight together.
const pieceBytes = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// rawLoad is a run of a raw program. Everything belongs to the goroutine that
// owns the disk.
type rawLoad struct {
	options   *Options
	directory string
	shape     shape
	batch     record.Batch
	meter     *meter
	report    *Report

	disk     disk.Disk
	rotation *rotation
	idle     []*rawGroup // submitted, and waiting for the program to take them; oldest first
	counters counters
	checksum uint32 // of all batches: what is computed has to be used
	finished []*disk.Operation
}

// rawGroup is one group: an append to each partition of its slice.
type rawGroup struct {
	slice  int
	source []record.Batch
	since  time.Time // of its submission, which is when it became idle
	left   int       // Direct: its appends that are not answered
}

// program is a way to commit.
type program interface {
	// files says how many there are, and of how many bytes each.
	files() (count int, bytes int64)
	// open takes the files.
	open(files []disk.File)
	// advance starts what can be started, idle groups among it.
	advance()
	// completed takes an operation that has succeeded.
	completed(op *disk.Operation, now time.Time)
}

func runRaw(ctx context.Context, l *rawLoad) error {
	ended := make(chan error, 1)
	go func() { ended <- l.run(ctx) }() // the disk locks its owner to a thread
	return <-ended
}

func (l *rawLoad) run(ctx context.Context) (err error) {
	l.disk, err = backend.Open(l.directory, l.options.Disk, backend.Options{})
	if err != nil {
		return fmt.Errorf("perf: commit: %w", err)
	}
	defer func() { err = errors.Join(err, l.disk.Close()) }()
	info := l.disk.Info()
	l.report.Notes = append(l.report.Notes, fmt.Sprintf("disk %s, direct %v", info.Name, info.Direct))
	l.newGroups()
	var p program
	switch l.options.System {
	case Journal:
		p = newRounds(l, newJournalLayout(l))
	case Direct:
		p = newDirect(l)
	default:
		p = newRounds(l, newFileLayout(l))
	}
	count, bytes := p.files()
	if int64(count)*bytes > l.options.SpaceBytes {
		return fmt.Errorf("perf: commit: %d files of %d bytes are more than the space of %d", count, bytes, l.options.SpaceBytes)
	}
	preparer := &perf.Preparer{Disk: l.disk}
	files, err := preparer.Make(count, bytes, perf.Recycled, disk.AlignedBytes(pieceBytes))
	if !l.options.Keep {
		defer func() { err = errors.Join(err, preparer.Remove(files)) }()
	}
	if err != nil {
		return err
	}
	p.open(files)
	now := time.Now()
	for _, g := range l.idle {
		g.since = now
	}
	l.meter.begin(now, func() counters { return l.counters })
	return l.loop(ctx, p)
}

func (l *rawLoad) newGroups() {
	l.rotation = newRotation(l.shape)
	for i, source := range newSource(l.batch, l.shape.window, l.shape.size) {
		l.idle = append(l.idle, &rawGroup{slice: i % l.shape.slices, source: source})
	}
}

// loop commits until the meter has enough, and then waits for what is in flight.
func (l *rawLoad) loop(ctx context.Context, p program) error {
	for {
		if l.meter.over() || ctx.Err() != nil {
			l.idle = l.idle[:0]
		}
		p.advance()
		if l.disk.InFlight() == 0 {
			return context.Cause(ctx)
		}
		var err error
		if l.finished, err = l.disk.Wait(l.finished[:0], -1); err != nil {
			return fmt.Errorf("perf: commit: %w", err)
		}
		now := time.Now()
		for _, op := range l.finished {
			if op.Err == nil && op.Kind == disk.Write && op.Done != len(op.Buffer) {
				op.Err = fmt.Errorf("write of %d bytes stopped after %d", len(op.Buffer), op.Done)
			}
			if op.Err != nil {
				return fmt.Errorf("perf: commit: %w", op.Err)
			}
			p.completed(op, now)
		}
	}
}

// answer counts a group that is as safe as it has to be, and submits it again.
func (l *rawLoad) answer(g *rawGroup, now time.Time) {
	_, count := l.shape.of(g.slice)
	l.meter.answered(now, g.since, count)
	g.slice, g.since = l.rotation.after(g.slice), now
	l.idle = append(l.idle, g)
}

// copyBatch is the work on a batch that nothing can do without: one copy and
// one checksum. It returns the bytes copied.
func (l *rawLoad) copyBatch(to []byte, batch record.Batch) int {
	n := copy(to, batch)
	l.checksum ^= crc32.Checksum(to[:n], castagnoli)
	return n
}

func (l *rawLoad) durable() bool { return l.options.Durability == perf.Durable }

// submit hands an operation to the disk and counts it.
func (l *rawLoad) submit(op *disk.Operation) {
	if op.Kind == disk.Write {
		l.counters.deviceBytes += int64(len(op.Buffer))
	}
	l.disk.Submit(op)
}

// appendPieces appends the writes of bytes at offset to operations, which has to
// have room: operations in flight must not move.
func appendPieces(operations []disk.Operation, file disk.File, bytes []byte, offset int64, owner any) []disk.Operation {
	for len(bytes) > 0 {
		piece := bytes[:min(pieceBytes, len(bytes))]
		bytes = bytes[len(piece):]
		operations = appendInPlace(operations, disk.Operation{
			Kind: disk.Write, File: file, Buffer: piece[:len(piece):len(piece)], Offset: offset, Owner: owner,
		})
		offset += int64(len(piece))
	}
	return operations
}

func appendInPlace(operations []disk.Operation, op disk.Operation) []disk.Operation {
	if len(operations) == cap(operations) {
		panic("perf: more operations than were reckoned with")
	}
	return append(operations, op)
}

func blocks(bytes int) int { return divideUp(bytes, disk.BlockBytes) * disk.BlockBytes }
