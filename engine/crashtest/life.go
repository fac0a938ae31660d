package crashtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/model"
	"ringlog/record"
)

// The engine's clocks and sizes in a run: small, so that a script of a few
// operations rolls, prepares, checkpoints and retains.
const (
	segmentBytes       = 16 << 10
	segmentMillis      = 3_600_000
	indexIntervalBytes = 1024
	checkpointInterval = 5 * time.Second
	retentionInterval  = 5 * time.Minute
	poolBytes          = 1 << 20
	journalBytes       = 128 << 10             // the smallest there is
	trimAge            = 11 * time.Second      // a second more than the oldest entry may become
	tick               = 20 * time.Microsecond // that the clock moves at each look at it
	startMillis        = 1_700_000_000_000
)

// turnsMax is far above what one operation needs: reaching it is standing still.
const turnsMax = 20_000

// life is one run of an engine, from its start on what a crash left to its end.
type life struct {
	x             *explorer
	disk          *crash.Disk // the first shard's; the others have its siblings
	shards        int
	journalBytes  int64 // of each shard's journal, 0 for none
	filesFlushMax int   // 1: two files are flushed by a flush of everything; 0 is the default
	stepper       *engine.Stepper
	pools         *pools // nil before start and after end
	dice          *rand.Rand

	depth  int  // how many crashes inside recoveries lie above it; 0 is the run itself
	killed bool // what it starts from is a kill, not a power cut
	faulty bool // the disk was told to fail: logs may be poisoned

	flushFailures []*crash.Fault // the rules by which flushes fail

	recovered bool   // every log is open and compared
	op        OpKind // that is performed, in a script

	observer *model.Observer // nil in a life that is not observed

	clock time.Duration
	wall  time.Duration // what NowMillis is ahead of clock

	logs       []*logLife
	unanswered int
	acked      int
	idle       int // looks in a row at an engine whose disks had nothing to do
}

// logLife is one log in one life.
type logLife struct {
	expectation
	log       *engine.Log // nil when it is not open
	producers [2]producer
}

// producer is one idempotent producer of a log.
type producer struct {
	id   int64
	next int32
	sent []*submission // newest last
}

// newLife prepares a life on what is on d, for logs that are expected there.
func (x *explorer) newLife(d *crash.Disk, expected []expectation, depth int, killed bool) *life {
	l := &life{x: x, disk: d, shards: x.drawShards(), journalBytes: x.drawJournal(depth), depth: depth, killed: killed}
	l.dice = rand.New(rand.NewPCG(x.draw(), 7))
	if l.dice.IntN(6) == 0 {
		l.filesFlushMax = 1
	}
	for _, e := range expected {
		l.logs = append(l.logs, &logLife{expectation: e})
	}
	return l
}

// expectations returns a copy of what is known at this moment.
func (l *life) expectations() []expectation {
	expected := make([]expectation, len(l.logs))
	for i, g := range l.logs {
		expected[i] = g.expectation
	}
	return expected
}

// start runs an engine on the disk.
func (l *life) start() error {
	l.pools = l.x.takePools()
	l.x.note(l, "an engine of %d shards, with journals of %d bytes", l.shards, l.journalBytes)
	options := engine.Options{
		OpenDisk:           l.openDisk(),
		Shards:             l.shards,
		Tail:               l.pools.tail,
		Cold:               l.pools.cold,
		JournalBytes:       l.journalBytes,
		FilesFlushMax:      l.filesFlushMax,
		NewStore:           l.x.newStore,
		CheckpointInterval: checkpointInterval,
		RetentionInterval:  retentionInterval,
		NowMillis:          func() int64 { return startMillis + (l.clock + l.wall).Milliseconds() },
		Monotonic: func() time.Duration {
			l.clock += tick
			return l.clock
		},
	}
	if l.x.config.Broken != 0 {
		options = options.Breaking(l.x.config.Broken)
	}
	stepper, err := engine.NewStepper(options)
	if err != nil {
		return fmt.Errorf("the engine does not start: %w", err)
	}
	l.stepper = stepper
	return nil
}

// openDisk returns what opens the disk of one shard after the other.
func (l *life) openDisk() func() (disk.Disk, error) {
	next, number := l.disk, 0
	if l.isObserved() {
		l.observer = newObserver(l.disk)
	}
	return func() (disk.Disk, error) {
		p := &probe{Disk: next, look: l.look, progress: l.progress, number: number, observer: l.observer, published: l.holdPublished}
		number++
		if p.Disk == nil {
			p.Disk = l.disk.Sibling()
		}
		next = nil
		if l.x.config.Trace {
			p.trace = l.traceOperation
		}
		return p, nil
	}
}

// withJournal is what countDoing counts when there is a journal, whatever is done.
const withJournal = "in all with a journal"

// countDoing counts what the engine is doing when it is about to crash.
func (l *life) countDoing(doing map[string]int) {
	if l.journalBytes > 0 {
		doing[withJournal]++
	}
	switch {
	case l.stepper == nil && l.depth > 0:
		doing["starting again"]++ // journals are read and merged, checkpoints and rings made
		return
	case l.stepper == nil:
		doing["starting"]++
		return
	case !l.recovered:
		doing["opening logs"]++
	case l.depth == 0:
		switch l.op {
		case Truncate, Move, Delete, Create, Retain, AdvanceStart, Restart:
			doing[opNames[l.op]]++
		}
	}
	l.stepper.Doing(func(what string) { doing[what]++ })
}

// traceOperation notes an operation that changed something and finished.
func (l *life) traceOperation(op *disk.Operation) {
	switch op.Kind {
	case disk.Read, disk.ReadDirectory, disk.Close:
		return
	case disk.Open:
		if op.Flags&(disk.Create|disk.Truncate) == 0 {
			return
		}
	}
	name := op.Path
	if op.Kind.UsesFile() {
		name = fmt.Sprintf("file %d", op.File)
	} else if op.Kind == disk.Open {
		name = fmt.Sprintf("%s as file %d", op.Path, op.File)
	}
	l.x.note(l, "    disk: %s %s %s at %d, %d bytes, err %v", op.Kind, name, op.NewPath, op.Offset, len(op.Buffer)+int(op.Length), op.Err)
}

// end stops the engine where it stands. All memory must come back.
func (l *life) end() error {
	if l.stepper != nil {
		l.stepper.Abandon()
		l.stepper = nil
	}
	if l.observer != nil {
		l.x.result.Derived += l.observer.Derivations()
		l.observer = nil
	}
	for _, g := range l.logs {
		g.log = nil
	}
	p := l.pools
	if p == nil || l.x.failure != nil {
		return nil
	}
	l.pools = nil
	return l.x.givePools(p)
}

// look is called at every state of the disk that a crash could leave.
func (l *life) look() error {
	for _, g := range l.logs {
		if g.log != nil {
			if err := g.observe(g.log.Frontiers()); err != nil {
				return l.x.fail(err)
			}
		}
	}
	return l.x.at(l)
}

// idleMax is how many looks in a row may find an engine that waits for an answer and
// no disk that has anything to do.
const idleMax = 2_000

// progress counts looks that find nothing. A clock may be what is waited for.
func (l *life) progress(busy bool) error {
	if l.idle++; busy {
		l.idle = 0
	}
	if l.idle%100 == 99 && l.stepper != nil {
		if at, ok := l.stepper.NextTimer(); ok {
			l.clock = max(l.clock, at)
		}
	}
	if l.idle > idleMax {
		return l.x.fail(errors.New("no progress: the engine waits and its disks have nothing to do"))
	}
	return nil
}

// until drives the engine until condition holds.
func (l *life) until(condition func() bool) error {
	for turns := 0; !condition(); turns++ {
		if err := l.stepper.Turn(); err != nil {
			return err
		}
		if turns > turnsMax {
			return l.x.fail(errors.New("no progress: the engine is busy and gets nowhere"))
		}
		if l.stepper.Idle() && !condition() {
			// Only a clock can help now.
			at, ok := l.stepper.NextTimer()
			if !ok {
				return l.x.fail(fmt.Errorf("no progress: the engine is idle and %d appends wait for their answer", l.unanswered))
			}
			l.clock = max(l.clock, at)
		}
	}
	return nil
}

// settle lets everything come to rest.
func (l *life) settle() error {
	if err := l.until(func() bool { return l.unanswered == 0 }); err != nil {
		return err
	}
	for turns := 0; !l.stepper.Idle(); turns++ {
		if err := l.stepper.Turn(); err != nil {
			return err
		}
		if turns > turnsMax {
			return l.x.fail(errors.New("no progress: the engine never comes to rest"))
		}
	}
	if err := l.stepper.Turn(); err != nil {
		return err
	}
	return l.holdAtRest()
}

// turns does n turns, whatever they do.
func (l *life) turns(n int) error {
	for range n {
		if err := l.stepper.Turn(); err != nil {
			return err
		}
	}
	return nil
}

func (l *life) spec(g *logLife) engine.LogSpec {
	return engine.LogSpec{ID: g.id, Label: g.label, Config: g.config(), Replica: l.x.config.NewReplica()}
}

func (g *logLife) config() engine.LogConfig {
	c := engine.LogConfig{
		SegmentBytes: segmentBytes, SegmentMillis: segmentMillis, IndexIntervalBytes: indexIntervalBytes,
		RetentionMillis: -1, RetentionBytes: -1, FileDeleteMillis: 1000, Delete: true,
	}
	if g.relaxed {
		c.FlushMessages, c.FlushMillis = 1000, 50
	}
	return c
}

// recover opens every log that should be there and holds it against what was
// promised; then it is the new truth.
func (l *life) recover() error {
	if err := l.start(); err != nil {
		return err
	}
	for _, g := range l.logs {
		if err := l.recoverLog(g); err != nil {
			return fmt.Errorf("recover %s: %w", g.label, err)
		}
	}
	return nil
}

func (l *life) recoverLog(g *logLife) error {
	if g.created == never {
		return nil
	}
	ctx := context.Background()
	log, err := l.stepper.Open(ctx, l.spec(g))
	switch {
	case g.deleted == done && errors.Is(err, engine.ErrUnknownLog):
		return nil
	case g.deleted == done && err == nil:
		return errors.New("it was deleted and is back")
	case g.deleted == asked && errors.Is(err, engine.ErrUnknownLog):
		g.deleted = done
		return nil
	case g.created == asked && errors.Is(err, engine.ErrUnknownLog):
		log, err = l.stepper.Create(ctx, l.spec(g))
	}
	if err != nil {
		return err
	}
	status, err := l.stepper.Status(ctx, g.id)
	if err != nil {
		return err
	}
	if status.Err != nil {
		return fmt.Errorf("it opens poisoned: %w", status.Err)
	}
	found, err := l.readAll(log)
	if err != nil {
		return err
	}
	f := log.Frontiers()
	l.x.noteFound(l, g, f, found)
	if err := g.check(f, found, l.killed); err != nil {
		return err
	}
	if err := l.checkEpochs(g, found); err != nil {
		return err
	}
	g.adopt(f, found, len(l.x.submissions.all))
	g.log = log
	if !l.x.config.EpochStays {
		g.epoch++
	}
	if err := l.stepper.Lead(ctx, g.id, g.epoch); err != nil {
		return err
	}
	g.resumeProducers(l.x)
	return nil
}

// checkEpochs asks for the end of every epoch that was found (KIP-101).
func (l *life) checkEpochs(g *logLife, found []placement) error {
	for i, p := range found {
		if i+1 < len(found) && found[i+1].epoch == p.epoch {
			continue
		}
		if i+1 < len(found) && found[i+1].epoch < p.epoch {
			return fmt.Errorf("epoch %d follows %d at %d", found[i+1].epoch, p.epoch, p.end())
		}
		epoch, end, err := l.stepper.EpochEnd(context.Background(), g.id, p.epoch)
		if err != nil {
			return err
		}
		if epoch != p.epoch || end != p.end() {
			return fmt.Errorf("epoch %d ends at %d, and is said to: epoch %d at %d", p.epoch, p.end(), epoch, end)
		}
	}
	return nil
}

// resumeProducers lets producers go on where the log ends, those that are not
// in it as new ones.
func (g *logLife) resumeProducers(x *explorer) {
	for i := range g.producers {
		p := &g.producers[i]
		*p = producer{id: x.newProducerID()}
	}
	slots := map[int64]int{}
	for i := len(g.placed) - 1; i >= 0 && len(slots) < len(g.producers); i-- {
		b := g.placed[i].batch
		if _, taken := slots[b.producer]; b.producer >= 0 && !taken {
			slots[b.producer] = len(slots)
			g.producers[slots[b.producer]].id = b.producer
		}
	}
	for _, placed := range g.placed {
		if slot, ok := slots[placed.batch.producer]; ok {
			p := &g.producers[slot]
			p.next = placed.batch.lastSequence() + 1
			p.sent = append(p.sent, placed.batch)
		}
	}
}

// readAll returns every batch that log serves from its start on.
func (l *life) readAll(log *engine.Log) ([]placement, error) {
	var found []placement
	_, err := l.read(log, log.Frontiers().Start, func(batch record.Batch, b *submission) error {
		found = append(found, placement{batch.BaseOffset(), b, batch.LeaderEpoch()})
		return nil
	})
	return found, err
}

// read calls see for every batch that log serves from offset on, and returns
// where that ends. What it serves must be whole and submitted to this log.
func (l *life) read(log *engine.Log, offset int64, see func(record.Batch, *submission) error) (int64, error) {
	for {
		answered := false
		read := &engine.Read{
			Parts:    []engine.ReadPart{{Log: log, Offset: offset, BytesMax: poolBytes / 4}},
			BytesMax: poolBytes / 4, BytesMin: 1,
			Done: func(*engine.Read) { answered = true },
		}
		l.stepper.Read(read)
		if err := l.until(func() bool { return answered }); err != nil {
			return offset, err
		}
		next, err := l.seeAll(log, &read.Parts[0], offset, see)
		if err == nil {
			err = read.Parts[0].Err
		}
		read.Release()
		if errors.Is(err, engine.ErrOffsetOutOfRange) {
			// Retention was quicker; the start that it is about to publish counts.
			if err := l.until(func() bool { return log.Frontiers().Start > offset }); err != nil {
				return offset, err
			}
			offset = log.Frontiers().Start
			continue
		}
		if err != nil {
			return offset, fmt.Errorf("read at offset %d: %w", offset, err)
		}
		if next == offset {
			return offset, nil
		}
		offset = next
	}
}

// seeAll looks at the answer of a read at offset and returns where to go on.
func (l *life) seeAll(log *engine.Log, part *engine.ReadPart, offset int64, see func(record.Batch, *submission) error) (int64, error) {
	for _, bytes := range part.Batches {
		for len(bytes) > 0 {
			batch, rest, err := record.Next(bytes)
			if err != nil {
				return offset, fmt.Errorf("what is served is no run of batches: %s", err) // not the engine's word for damage
			}
			b, err := l.x.submissions.identify(batch)
			if err != nil {
				return offset, err
			}
			if b.log != log.ID() {
				return offset, fmt.Errorf("batch %d of log %s is served at %d of %s", b.number, b.log, batch.BaseOffset(), log.Label())
			}
			if batch.LastOffset() >= part.Frontiers.HighWatermark {
				return offset, fmt.Errorf("batch %d ends at %d, above the high watermark %d", b.number, batch.LastOffset(), part.Frontiers.HighWatermark)
			}
			if err := see(batch, b); err != nil {
				return offset, err
			}
			offset, bytes = batch.LastOffset()+1, rest
		}
	}
	return offset, nil
}
