package crashtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"

	"ringlog/engine"
	"ringlog/engine/disk/crash"
	"ringlog/engine/internal/rule"
)

// Config says what to explore. Seed and Script decide everything.
type Config struct {
	Seed   uint64
	Script Script

	// Shards is the most that an engine has; each life has another number. 0 and 1
	// are always one.
	Shards int

	// Journal says that engines have a commit journal: each life another, or none. The
	// first one of a script with a Quiet part always has the smallest there is.
	Journal bool

	// Broken is a rule that the engine does not keep, to test the test; 0 is none.
	Broken rule.Rule
	// EpochStays breaks rule 11 as well: a restarted leader goes on under the
	// epoch that it had.
	EpochStays bool
	// NewReplica makes the replica of a log.
	NewReplica func() engine.Replica

	// Quiet is how many operations of the script only set the scene.
	Quiet int
	// Chance is how likely each state of the disk is looked at; 1 is all of them.
	Chance float64
	// Cuts is how many outcomes of a power cut are tried at each state that is looked at.
	Cuts  int
	Kills float64 // how likely a kill is tried, too
	// Exhaustive, when it is not 0, tries every outcome of a power cut there is
	// where there are no more than that, and else as many, instead of Cuts.
	Exhaustive int
	// Depth is how many crashes lie inside each other, the first in the
	// script and the others each in a recovery; at least 1. Nested is how likely
	// each state of a recovery is looked at.
	Depth  int
	Nested float64

	// Observed is how likely a life that begins with a crash in a script is held
	// against package model; the lives of the script itself always are, unless
	// bits rot.
	Observed float64

	// Rot is how many bits are flipped after the script, one at a time.
	Rot int
	// RotRing flips them while the journal's ring holds what the segments do not.
	RotRing bool

	// Trace keeps what happened, for a failure's report.
	Trace bool
}

// Result is what an exploration did.
type Result struct {
	Points  int            // crashes recovered from
	Depths  []int          // the same by depth: [0] in the script, [1] in a recovery from one of those, ...
	Acked   int            // appends acknowledged in the script
	States  int            // of the disk, seen in the script
	Derived int            // frontiers that package model derived, and found no lower than published
	Doing   map[string]int // Points by what the engine was doing when it crashed; one may count for several
	Failure *Failure
}

// Failure is a broken promise.
type Failure struct {
	Seed   uint64
	Script Script
	Err    error
	Trace  []string
}

// Error tells what was broken, and what led to it when it was traced.
func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, script: %s\n%v", f.Seed, f.Script, f.Err)
	for _, line := range f.Trace {
		b.WriteString("\n  ")
		b.WriteString(line)
	}
	return b.String()
}

// explorer is one exploration.
type explorer struct {
	config      Config
	dice        *rand.Rand
	submissions *submissions
	producerID  int64
	result      Result
	failure     error
	trace       []string
	looking     bool // the scene is set
	steps       int  // of the script's disk when it was last looked at
	onDisk      *crash.Disk
	idlePools   []*pools
}

// Explore runs the script and every crash that config asks for.
func Explore(config Config) (result Result) {
	x := &explorer{
		config:      config,
		dice:        rand.New(rand.NewPCG(config.Seed, 2)),
		submissions: newSubmissions(),
		result:      Result{Depths: make([]int, config.Depth+1), Doing: make(map[string]int)},
	}
	defer func() {
		if p := recover(); p != nil {
			x.failure = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if x.failure != nil {
			x.result.Failure = &Failure{Seed: config.Seed, Script: config.Script, Err: x.failure, Trace: x.trace}
		}
		result = x.result
	}()
	if err := x.run(); err != nil {
		_ = x.fail(err)
	}
	return
}

// run is the script, in one life after another.
func (x *explorer) run() error {
	l := x.newLife(crash.New(crash.Options{Seed: x.config.Seed}), nil, 0, false)
	if err := l.start(); err != nil {
		return err
	}
	l.recovered = true
	err := l.create()
	for i, op := range x.config.Script {
		if err != nil {
			break
		}
		x.looking = i >= x.config.Quiet
		l, err = l.perform(op)
	}
	if err == nil {
		err = l.finish()
	}
	x.result.Acked += l.acked
	if endErr := l.end(); err == nil {
		err = endErr
	}
	if closeErr := x.closePools(); err == nil {
		err = closeErr
	}
	return err
}

// finish comes to rest, compares, closes, and recovers once more.
func (l *life) finish() error {
	if err := l.settle(); err != nil {
		return err
	}
	l.disk.ClearFaults()
	for _, g := range l.logs {
		if g.log == nil {
			continue
		}
		if err := l.readBack(g); err != nil {
			return err
		}
		if err := l.produceAtLast(g); err != nil {
			return err
		}
	}
	next, err := l.restart()
	if err == nil && l.x.config.Rot > 0 {
		err = l.x.rot(next)
	}
	if endErr := next.end(); err == nil && next != l {
		err = endErr
	}
	return err
}

// at is called at every state of the disk in the life l.
func (x *explorer) at(l *life) error {
	if x.failure != nil {
		return crash.ErrCrashed
	}
	if l.depth == 0 {
		return x.inScript(l)
	}
	if l.depth >= x.config.Depth || x.dice.Float64() >= x.config.Nested {
		return nil
	}
	return x.fail(x.branchTo(l, x.dice.IntN(4) == 0))
}

// inScript looks at a state of the disk in the script, unless nothing has
// happened to it since the last one.
func (x *explorer) inScript(l *life) error {
	if x.onDisk == l.disk && x.steps == l.disk.Steps() {
		return nil
	}
	x.onDisk, x.steps = l.disk, l.disk.Steps()
	x.result.States++
	if !x.looking || x.config.Chance < 1 && x.dice.Float64() >= x.config.Chance {
		return nil
	}
	if x.config.Exhaustive > 0 {
		for d := range l.disk.CrashOutcomes(x.config.Exhaustive) {
			if err := x.fail(x.branch(l, d, false)); err != nil {
				return err
			}
		}
	} else {
		for range x.config.Cuts {
			if err := x.fail(x.branchTo(l, false)); err != nil {
				return err
			}
		}
	}
	if x.dice.Float64() < x.config.Kills {
		if err := x.fail(x.branchTo(l, true)); err != nil {
			return err
		}
	}
	return nil
}

// branchTo draws one outcome of a crash of l at this moment.
func (x *explorer) branchTo(l *life, kill bool) error {
	d, kill := l.outcome(kill)
	return x.branch(l, d, kill)
}

// branch recovers from what a crash of l at this moment leaves, and looks at
// everything.
func (x *explorer) branch(l *life, d *crash.Disk, kill bool) error {
	marked, submitted := len(x.trace), len(x.submissions.all)
	x.result.Points++
	x.result.Depths[l.depth]++
	l.countDoing(x.result.Doing)
	// What a kill leaves of a disk that came out of a power cut is no more than
	// what the cut left, until a recovery has flushed it.
	next := x.newLife(d, l.expectations(), l.depth+1, kill && (l.recovered || l.killed))
	next.clock, next.wall = l.clock, l.wall
	err := next.lookAround()
	if endErr := next.end(); err == nil {
		err = endErr
	}
	if err == nil && x.failure == nil {
		x.trace = x.trace[:marked]
		x.submissions.forget(submitted)
	}
	return err
}

// lookAround recovers, and tries what clients would do next.
func (l *life) lookAround() error {
	if err := l.recover(); err != nil {
		return err
	}
	l.recovered = true
	for _, g := range l.logs {
		if g.log == nil {
			continue
		}
		if err := l.retryAll(g); err != nil {
			return fmt.Errorf("after the recovery of %s: %w", g.label, err)
		}
	}
	return nil
}

// fail ends the exploration if err is not nil. It returns an error that ends a
// disk, or nil.
func (x *explorer) fail(err error) error {
	if err == nil {
		return nil
	}
	if x.failure == nil && !errors.Is(err, crash.ErrCrashed) {
		x.failure = err
	}
	return crash.ErrCrashed
}

// drawShards draws how many shards the engine of a life has: half of them as
// many as there may be.
func (x *explorer) drawShards() int {
	if x.config.Shards <= 1 {
		return 1
	}
	return min(1+x.dice.IntN(2*x.config.Shards), x.config.Shards)
}

// drawJournal draws how large the journal of a life is: none, the smallest, or twice that.
func (x *explorer) drawJournal(depth int) int64 {
	switch {
	case !x.config.Journal:
		return 0
	case x.config.Quiet > 0 && depth == 0 && !x.looking:
		return journalBytes
	}
	return [...]int64{0, journalBytes, journalBytes, journalBytes, 2 * journalBytes, 2 * journalBytes}[x.dice.IntN(6)]
}

// newStore makes the secret of a data directory from the seed.
func (x *explorer) newStore() (store [16]byte) {
	binary.LittleEndian.PutUint64(store[:], x.config.Seed)
	binary.LittleEndian.PutUint64(store[8:], x.draw())
	return store
}

func (x *explorer) draw() uint64 { return x.dice.Uint64() }

func (x *explorer) newProducerID() int64 {
	x.producerID++
	return x.producerID
}

// note writes a line into the trace.
func (x *explorer) note(l *life, format string, arguments ...any) {
	if x.config.Trace {
		x.trace = append(x.trace, strings.Repeat("    ", l.depth)+fmt.Sprintf(format, arguments...))
	}
}

// noteFound writes what a recovery found, and what was expected.
func (x *explorer) noteFound(l *life, g *logLife, f engine.Frontiers, found []placement) {
	if !x.config.Trace {
		return
	}
	var b strings.Builder
	for _, p := range found {
		fmt.Fprintf(&b, " %d:#%d", p.base, p.batch.number)
		if p.batch.producer >= 0 {
			fmt.Fprintf(&b, "(%d/%d)", p.batch.producer, p.batch.sequence)
		}
	}
	x.note(l, "%s recovered to [%d, %d), promised [%d, %d) after a cut and %d after a kill (it was a kill: %v):%s",
		g.label, f.Start, f.Next, g.start, g.must, g.mustKill, l.killed, b.String())
}
