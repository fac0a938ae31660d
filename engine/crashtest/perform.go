package crashtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
)

// logsMax bounds the logs of one run.
const logsMax = 4

// perform carries out one operation. It returns the life that goes on, which
// is another one after a restart.
func (l *life) perform(op Op) (*life, error) {
	l.x.note(l, "── %s", op)
	l.op = op.Kind
	var err error
	switch op.Kind {
	case Restart:
		return l.restart()
	case Kill, Cut:
		return l.crash(op.Kind == Kill)
	case Create:
		err = l.create()
	case Flush:
		err = l.settle()
	case Checkpoint:
		l.clock += checkpointInterval
		err = l.turns(1)
	case Pester:
		l.pester()
	case Fail:
		l.failDisk()
	case Flood:
		err = l.flood()
	case Age:
		l.clock += trimAge
		err = l.turns(1)
	case Pass:
		l.clock += [...]time.Duration{time.Millisecond, 60 * time.Millisecond, 700 * time.Millisecond, 4 * time.Second}[l.dice.IntN(4)]
		err = l.turns(1)
	default:
		if g := l.pick(); g != nil {
			err = l.performOn(g, op.Kind)
		}
	}
	switch {
	case err != nil:
	case op.Settle:
		err = l.settle()
	default:
		err = l.turns(l.dice.IntN(4))
	}
	return l, err
}

// pick draws a log that is open.
func (l *life) pick() *logLife {
	var open []*logLife
	for _, g := range l.logs {
		if g.log != nil {
			open = append(open, g)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return open[l.dice.IntN(len(open))]
}

func (l *life) performOn(g *logLife, kind OpKind) error {
	switch kind {
	case Append:
		for range 1 + l.dice.IntN(3) {
			// Half of them are alike: a batch then ends where the one that was
			// lost in its place ended, and what lay behind that one fits on.
			records, valueBytes := int32(1), 600 // more than a sector
			if l.dice.IntN(2) == 0 {
				records, valueBytes = 1+l.dice.Int32N(4), l.dice.IntN(300)
			}
			l.produce(g, l.dice.IntN(3), records, valueBytes)
		}
	case AppendBig:
		return l.appendBig(g)
	case Roll:
		if l.dice.IntN(2) == 0 {
			l.produce(g, l.dice.IntN(3), 1, 20)
			if err := l.turns(1); err != nil { // a turn has one time: the next one rolls
				return err
			}
		}
		l.wall += segmentMillis * time.Millisecond
		l.produce(g, l.dice.IntN(3), 1, 20)
	case Retry:
		p := &g.producers[l.dice.IntN(len(g.producers))]
		if n := len(p.sent); n > 0 {
			if b := p.sent[n-1-l.dice.IntN(min(n, batchesRemembered))]; !b.gone {
				l.x.note(l, "send batch %d again", b.number)
				l.send(g, b, anyOffset)
			}
		}
	case Read:
		return l.readBack(g)
	case Truncate:
		return l.truncate(g)
	case AdvanceStart:
		return l.advanceStart(g)
	case Retain:
		return l.retain(g)
	case Delete:
		return l.delete(g)
	case Move:
		return l.move(g)
	}
	return nil
}

// floodBytes is about what one Flood sends: with the blocks that frames fill up it is
// a third of the smallest journal.
const floodBytes = 28 << 10

// flood sends small batches to all logs, few at a time, so that many frames become of
// them, and sometimes many at once, so that several frames are on their way together.
func (l *life) flood() error {
	burst := 0
	for sent := 0; sent < floodBytes; {
		g := l.pick()
		if g == nil {
			return nil
		}
		valueBytes := 200 + l.dice.IntN(2400)
		sent += valueBytes
		l.produce(g, l.dice.IntN(3), 1, valueBytes)
		if burst > 0 {
			burst--
			continue
		}
		if l.dice.IntN(8) == 0 {
			burst = 10
		}
		if err := l.turns(l.dice.IntN(3)); err != nil {
			return err
		}
	}
	return nil
}

// move brings a log to a shard, perhaps the one where it is.
func (l *life) move(g *logLife) error {
	to := l.dice.IntN(l.shards)
	l.x.note(l, "move %s to shard %d", g.label, to)
	return l.tolerate("move "+g.label, l.stepper.Move(context.Background(), g.id, to))
}

// blockOverhead is what a batch of one record takes besides its value, for
// values between 64 and 8110 bytes.
const blockOverhead = 82

// appendBig sends a batch of several blocks. Half of them end where a block
// ends: only there can something that was left behind a lost batch fit on,
// because the block in which a log ends is always written whole.
func (l *life) appendBig(g *logLife) error {
	valueBytes := 4000 + 1000*l.dice.IntN(9)
	if l.dice.IntN(2) == 0 {
		var err error
		if valueBytes, err = l.upToBlock(g); err != nil {
			return l.tolerate("status of "+g.label, err)
		}
	}
	l.produce(g, l.dice.IntN(3), 1, valueBytes)
	return nil
}

// upToBlock returns how large the value of a batch of one record must be for
// the log to end where a block ends.
func (l *life) upToBlock(g *logLife) (valueBytes int, err error) {
	status, err := l.stepper.Status(context.Background(), g.id)
	if err != nil {
		return 0, err
	}
	end := status.Segments[len(status.Segments)-1].Bytes
	valueBytes = disk.BlockBytes - int(end%disk.BlockBytes) - blockOverhead
	if valueBytes < 64 || l.dice.IntN(2) == 0 {
		valueBytes += disk.BlockBytes
	}
	return valueBytes, nil
}

// tolerate passes over the errors that a disk that was told to fail causes.
func (l *life) tolerate(what string, err error) error {
	if err == nil || l.faulty && l.x.failure == nil && !l.disk.Crashed() {
		if err != nil {
			l.x.note(l, "%s: %v", what, err)
		}
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (l *life) create() error {
	if len(l.logs) == logsMax {
		return nil
	}
	n := len(l.logs)
	g := &logLife{expectation: expectation{label: fmt.Sprintf("log-%d", n), relaxed: n%2 == 1, cut: noCut, created: asked}}
	binary.BigEndian.PutUint64(g.id[8:], uint64(n+1))
	l.logs = append(l.logs, g)
	log, err := l.stepper.Create(context.Background(), l.spec(g))
	if err != nil {
		return l.tolerate("create "+g.label, err)
	}
	g.created = done
	g.log = log
	g.epoch = 1
	g.resumeProducers(l.x)
	return l.tolerate("lead "+g.label, l.stepper.Lead(context.Background(), g.id, g.epoch))
}

func (l *life) delete(g *logLife) error {
	g.deleted = asked
	g.log = nil
	l.x.note(l, "delete %s", g.label)
	if err := l.stepper.Delete(context.Background(), g.id); err != nil {
		return l.tolerate("delete "+g.label, err)
	}
	g.deleted = done
	return nil
}

func (l *life) truncate(g *logLife) error {
	if g.cut != noCut || len(g.placed) == 0 {
		return nil
	}
	cut := g.placed[len(g.placed)-1-l.dice.IntN(min(4, len(g.placed)))].base
	if cut < g.start {
		return nil
	}
	g.cut = cut
	l.x.note(l, "truncate %s to %d, it is promised up to %d", g.label, cut, g.must)
	if err := l.stepper.Truncate(context.Background(), g.id, cut); errors.Is(err, engine.ErrOffsetOutOfRange) {
		g.cut = noCut // retention was quicker: nothing was cut
		return nil
	} else if err != nil {
		return l.tolerate("truncate "+g.label, err)
	}
	if g.cut != noCut {
		g.applyCut()
	}
	// What is on its way may be cut off from what it follows.
	for i := range g.producers {
		g.producers[i] = producer{id: l.x.newProducerID()}
	}
	return nil
}

func (l *life) advanceStart(g *logLife) error {
	f := g.log.Frontiers()
	if f.HighWatermark == f.Start {
		return nil
	}
	to := f.Start + l.dice.Int64N(f.HighWatermark-f.Start) + 1
	g.startMax = max(g.startMax, to)
	l.x.note(l, "advance the start of %s to %d", g.label, to)
	if err := l.stepper.AdvanceStart(context.Background(), g.id, to); err != nil {
		return l.tolerate("advance the start of "+g.label, err)
	}
	g.start = max(g.start, to)
	return nil
}

// retain makes one segment enough for a while.
func (l *life) retain(g *logLife) error {
	config := g.config()
	config.RetentionBytes = segmentBytes
	g.startMax = math.MaxInt64
	if err := l.stepper.Configure(context.Background(), g.id, config); err != nil {
		return l.tolerate("configure "+g.label, err)
	}
	l.clock += retentionInterval
	if err := l.turns(1 + l.dice.IntN(8)); err != nil {
		return err
	}
	return l.tolerate("configure "+g.label, l.stepper.Configure(context.Background(), g.id, g.config()))
}

// readBack reads all that may be read and compares it with what is known.
func (l *life) readBack(g *logLife) error {
	found, err := l.readAll(g.log)
	if err != nil {
		return err
	}
	for i, p := range found {
		if i > 0 && found[i-1].end() != p.base {
			return fmt.Errorf("%s has a hole at %d", g.label, found[i-1].end())
		}
		if p.base < g.start && i > 0 {
			continue
		}
		if len(g.placed) > 0 && p.base < g.placed[0].base {
			continue // below what this life has learnt
		}
		if err := g.place(p.base, p.batch); err != nil {
			return err
		}
		g.acknowledged(p.end())
	}
	return nil
}

// restart closes the engine as a broker does and starts the next one on what
// is then on the disk.
func (l *life) restart() (*life, error) {
	if err := l.stepper.Close(context.Background()); err != nil && (!l.faulty || l.x.failure != nil) {
		return l, fmt.Errorf("close: %w", err)
	}
	return l.succeed(l.dice.IntN(2) == 0)
}

// crash ends the process or the power where it stands.
func (l *life) crash(killed bool) (*life, error) { return l.succeed(killed) }

// succeed ends this life and begins the next, which recovers.
func (l *life) succeed(killed bool) (*life, error) {
	d, killed := l.outcome(killed)
	expected := l.expectations()
	l.x.result.Acked += l.acked
	l.acked = 0
	if err := l.end(); err != nil {
		return l, err
	}
	next := l.x.newLife(d, expected, 0, killed)
	next.clock, next.wall = l.clock, l.wall
	if err := next.recover(); err != nil {
		return next, err
	}
	next.recovered = true
	return next, nil
}

// outcome draws the disk that a crash at this moment leaves, and whether it
// was a kill. There is none after a failed flush: the kernel then calls clean
// what never became durable, the next process reads it and its own flush
// succeeds for nothing. Only the power cut tells what is there.
func (l *life) outcome(killed bool) (*crash.Disk, bool) {
	seed := l.x.draw()
	for _, failure := range l.flushFailures {
		killed = killed && failure.Fired() == 0
	}
	if killed {
		l.x.note(l, "kill, outcome %#x", seed)
		return l.disk.Kill(seed), true
	}
	l.x.note(l, "power cut, outcome %#x", seed)
	return l.disk.Crash(seed), false
}

// pester makes the disk slow and short, which it may be.
func (l *life) pester() {
	ways := 3
	if l.journalBytes > 0 {
		ways = 4
	}
	switch l.dice.IntN(ways) {
	case 3: // meanwhile the ring must not be used as if it were there
		l.disk.AddFault(crash.Fault{Path: "shard-*.checkpoint*", Effect: crash.Delay, Times: 10, Completions: 20 + l.dice.IntN(100)})
	case 0:
		l.disk.AddFault(crash.Fault{Kind: disk.Write, Effect: crash.Short, Probability: 0.5, Times: 10})
	case 1:
		l.disk.AddFault(crash.Fault{Kind: disk.Write, Effect: crash.Delay, Probability: 0.5, Times: 10, Completions: 1 + l.dice.IntN(4)})
	case 2:
		kinds := []disk.Kind{disk.Flush, disk.Flush, disk.SyncFilesystem, disk.SyncDirectory, disk.Rename, disk.Preallocate}
		l.disk.AddFault(crash.Fault{Kind: kinds[l.dice.IntN(len(kinds))], Effect: crash.Delay, Probability: 0.5, Times: 10, Completions: 1 + l.dice.IntN(40)})
	}
}

// failDisk makes the disk fail, which it may do, too.
func (l *life) failDisk() {
	l.faulty = true
	failures := []crash.Fault{
		{Kind: disk.Write, Err: syscall.EIO, Times: 1},
		{Kind: disk.Write, Err: syscall.ECANCELED, Times: 1},
		{Kind: disk.Write, Err: syscall.ENOSPC, Times: 1},
		{Kind: disk.Flush, Err: syscall.EIO, Times: 1},
		{Kind: disk.Flush, Err: syscall.EIO, Times: 1},
		{Kind: disk.Flush, Err: syscall.EIO, Times: 1},
		{Kind: disk.SyncFilesystem, Err: syscall.EIO, Times: 1},
		{Kind: disk.SyncDirectory, Err: syscall.EIO, Times: 1},
		{Kind: disk.Preallocate, Err: syscall.ENOSPC, Times: 1 + l.dice.IntN(3)},
		{Kind: disk.Rename, Err: syscall.EIO, Times: 1},
		{Kind: disk.Open, Err: syscall.EMFILE, Times: 1},
	}
	if l.journalBytes > 0 {
		const ring, segments = "shard-*.journal*", "*/*"
		failures = append(failures,
			crash.Fault{Kind: disk.Write, Path: segments, Err: syscall.EIO, Times: 1},
			crash.Fault{Kind: disk.Write, Path: segments, Err: syscall.EIO, Times: 1},
			crash.Fault{Kind: disk.Write, Path: segments, Err: syscall.ENOSPC, Times: 3},
			crash.Fault{Kind: disk.Write, Path: ring, Err: syscall.EIO, Times: 1},
			crash.Fault{Kind: disk.Flush, Path: ring, Err: syscall.EIO, Times: 1},
			crash.Fault{Kind: disk.SyncFilesystem, Err: syscall.EIO, Times: 1},
			crash.Fault{Kind: disk.Read, Path: ring, Err: syscall.EIO, Times: 1},
			crash.Fault{Kind: disk.Rename, Path: "shard-*.checkpoint*", Err: syscall.EIO, Times: 3},
			crash.Fault{Kind: disk.Rename, Path: "shard-*.checkpoint*", Err: syscall.EIO, Times: 3},
			crash.Fault{Kind: 0, Path: "*.spill*", Err: syscall.EIO, Times: 1},
			crash.Fault{Kind: 0, Path: "shard-*.checkpoint*", Err: syscall.EIO, Times: 1},
		)
	}
	failure := failures[l.dice.IntN(len(failures))]
	failure.Probability = 0.5
	rule := l.disk.AddFault(failure)
	switch failure.Kind {
	case 0, disk.Flush, disk.SyncFilesystem, disk.SyncDirectory:
		l.flushFailures = append(l.flushFailures, rule)
	}
	l.x.note(l, "the disk is about to fail: %s of %q with %v", failure.Kind, failure.Path, failure.Err)
}
