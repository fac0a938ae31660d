package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"ringlog/engine/disk"
)

// Engine is the storage engine of one data directory. Its methods are safe for use by
// any goroutine; each of its logs lives on one of its shards, which one goroutine
// drives. Which one is said by the placement table, not by a hash: logs are dealt
// round, and one can be moved (rule 17).
type Engine struct {
	// namesDurable: the start has synced the directories of all logs. Set before any shard begins.
	namesDurable bool

	options   Options
	shards    []*shard
	registry  registry
	placement placement

	// routing is held, shared, from the look at where logs live to the end of the sending,
	// and alone while a log changes its shard: what is sent to the old one
	// lies in its inbox before the word that the log has moved. With one shard nobody takes it.
	routing sync.RWMutex

	// drive is how a blocking method waits: nil when loops drive the shards, else
	// it does a turn of all itself (Stepper).
	drive func() error

	// syncFailed is the first failure of a flush of everything. All shards stand on one
	// file system, so it concerns them all: no flush is believed any more (rule 13).
	syncFailed atomic.Pointer[error]

	spare spareReads // answers that wait for their consumers

	done   chan struct{} // closed when the engine answers nothing any more
	err    error         // why, once done is closed; nil after Close
	rested chan struct{} // closed when every shard has ended

	over struct {
		sync.Mutex
		running int // shards that have not ended
		done    bool
	}
}

var _ API = (*Engine)(nil)

// newEngine makes an engine whose shards have no disks yet.
func newEngine(options Options) (*Engine, error) {
	options = options.withDefaults()
	if options.Shards > ShardsMax {
		return nil, fmt.Errorf("engine: %d shards, at most %d are possible", options.Shards, ShardsMax)
	}
	e := &Engine{options: options, done: make(chan struct{}), rested: make(chan struct{})}
	e.placement.init(options.Shards)
	e.over.running = options.Shards
	for n := range options.Shards {
		e.shards = append(e.shards, newShard(e, n))
	}
	return e, nil
}

// notified asks to be told when memory comes back: whoever was refused some tries again.
func (e *Engine) notified() {
	notify := func() {
		for _, s := range e.shards {
			s.inbox.send(message{})
		}
	}
	e.options.Tail.Notify(notify)
	if e.options.Cold != e.options.Tail {
		e.options.Cold.Notify(notify)
	}
}

// begin reads what the shards left behind when they last ran, before any of them
// takes a log.
func (e *Engine) begin(ctx context.Context) error {
	b := boot{engine: e}
	if err := e.call(ctx, e.shards[0], b.run); err != nil {
		return err
	}
	return e.callAll(ctx, func(j *job, s *shard) error {
		s.keeper.begin(s, b.shares[s.number], b.stored[s.number].file)
		s.reserve.begin(b.reserves[s.number], b.stored[s.number].bytes)
		s.journal.startRun(b.store, b.runNow, b.sequence)
		return s.journal.openRing(j)
	})
}

// finish ends a shard. Called by whoever drives it. An error is that its disk is
// lost, and the end of the engine: what acknowledges for some partitions and
// not for others is worse than what stops.
func (e *Engine) finish(s *shard, err error) {
	if s.counted {
		return
	}
	s.counted = true
	s.end()
	e.over.Lock()
	defer e.over.Unlock()
	e.over.running--
	last := e.over.running == 0
	if (err != nil || last) && !e.over.done {
		e.over.done = true
		e.err = err
		e.registry.clear()
		close(e.done)
		for _, other := range e.shards {
			other.halted.Store(true)
			other.inbox.send(message{})
		}
	}
	if last {
		e.registry.clear()
		e.spare.close()
		close(e.rested)
	}
}

// call is one request that runs as a job on a shard.
type call struct {
	run   func(j *job) error
	err   error
	ended chan struct{}
}

func (c *call) begin(s *shard) {
	s.start("call", func(j *job) { c.finish(c.run(j)) })
}

func (c *call) finish(err error) {
	select {
	case <-c.ended: // abandoned, and answered by the shard's end
	default:
		c.err = err
		close(c.ended)
	}
}

// call runs f as a job on s and waits for its end, or for the context's: the job
// then goes on alone.
func (e *Engine) call(ctx context.Context, s *shard, f func(j *job) error) error {
	c := &call{run: f, ended: make(chan struct{})}
	if !s.inbox.send(message{call: c}) {
		return ErrClosed
	}
	return e.await(ctx, c)
}

// callAll runs f on every shard at the same time, waits for all, and returns the
// first error in order of the shards.
func (e *Engine) callAll(ctx context.Context, f func(j *job, s *shard) error) error {
	var calls []*call
	var first error
	for _, s := range e.shards {
		c := &call{run: func(j *job) error { return f(j, s) }, ended: make(chan struct{})}
		if s.inbox.send(message{call: c}) {
			calls = append(calls, c)
		} else if first == nil {
			first = ErrClosed
		}
	}
	for _, c := range calls {
		if err := e.await(ctx, c); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// askLog runs f as onLog does and returns what it found. With an error that is the zero value and not
// what f has written: when the context ends, the job goes on alone, and may be about to.
func askLog[T any](ctx context.Context, e *Engine, id LogID, f func(j *job, l *Log) (T, error)) (T, error) {
	var found T
	err := e.onLog(ctx, id, func(j *job, l *Log) (err error) {
		found, err = f(j, l)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return found, nil
}

// await waits for the end of c.
func (e *Engine) await(ctx context.Context, c *call) error {
	for e.drive != nil {
		select {
		case <-c.ended:
			return c.err
		default:
		}
		if err := e.drive(); err != nil {
			select {
			case <-c.ended:
				return c.err
			default:
				return fmt.Errorf("%w: %w", ErrClosed, err)
			}
		}
	}
	select {
	case <-c.ended:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-e.done:
		select {
		case <-c.ended:
			return c.err
		default:
			return ErrClosed
		}
	}
}

// onLog runs f as a job on an open log.
func (e *Engine) onLog(ctx context.Context, id LogID, f func(j *job, l *Log) error) error {
	return e.callOwner(ctx, id, func(j *job) error {
		l, ok := j.shard.names[id]
		if !ok {
			return fmt.Errorf("%w: %s", ErrUnknownLog, id)
		}
		if l.closed != nil {
			return l.closed
		}
		l.jobs++
		err := f(j, l)
		l.jobs--
		return err
	})
}

// Log implements API.
func (e *Engine) Log(id LogID) (*Log, bool) { return e.registry.get(id) }

// Open implements API.
func (e *Engine) Open(ctx context.Context, spec LogSpec) (*Log, error) {
	return e.openLog(ctx, spec, false)
}

// Create implements API.
func (e *Engine) Create(ctx context.Context, spec LogSpec) (*Log, error) {
	return e.openLog(ctx, spec, true)
}

// openLog opens or creates a log on the shard that the placement table says, or
// gives it one. A new log's place is durable before the log is made.
func (e *Engine) openLog(ctx context.Context, spec LogSpec, create bool) (*Log, error) {
	_, fresh := e.placement.place(spec.ID)
	if fresh && create {
		if err := e.savePlacement(ctx); err != nil {
			e.placement.forget(spec.ID)
			return nil, fmt.Errorf("engine: place %s (%s): %w", spec.Label, spec.ID, err)
		}
	}
	var opened *Log
	err := e.callOwner(ctx, spec.ID, func(j *job) error {
		l, err := j.shard.openLog(j, spec, create)
		opened = l
		return err
	})
	if err != nil {
		if fresh {
			e.placement.forget(spec.ID)
		}
		return nil, err
	}
	return opened, nil
}

// Configure implements API.
func (e *Engine) Configure(ctx context.Context, id LogID, config LogConfig) error {
	return e.onLog(ctx, id, func(_ *job, l *Log) error {
		l.configure(config)
		return nil
	})
}

// Lead implements API.
func (e *Engine) Lead(ctx context.Context, id LogID, epoch int32) error {
	return e.onLog(ctx, id, func(_ *job, l *Log) error { return l.lead(epoch) })
}

// EpochEnd implements API.
func (e *Engine) EpochEnd(ctx context.Context, id LogID, epoch int32) (int32, int64, error) {
	type epochEnd struct {
		largest int32
		end     int64
	}
	found, err := askLog(ctx, e, id, func(_ *job, l *Log) (epochEnd, error) {
		largest, end := l.epochEnd(epoch)
		return epochEnd{largest, end}, nil
	})
	if err != nil {
		return -1, -1, err
	}
	return found.largest, found.end, nil
}

// Status implements API.
func (e *Engine) Status(ctx context.Context, id LogID) (LogStatus, error) {
	return askLog(ctx, e, id, func(_ *job, l *Log) (LogStatus, error) { return l.status(), nil })
}

// ReplicaSnapshot implements API.
func (e *Engine) ReplicaSnapshot(ctx context.Context, id LogID) ([]byte, error) {
	return askLog(ctx, e, id, func(_ *job, l *Log) ([]byte, error) { return l.replica.AppendSnapshot(nil), nil })
}

// Close implements API.
func (e *Engine) Close(ctx context.Context) error {
	err := e.callAll(ctx, func(j *job, s *shard) error { return s.close(j) })
	if e.drive != nil {
		for {
			select {
			case <-e.rested:
				return err
			default:
				if turnErr := e.drive(); turnErr != nil {
					return err
				}
			}
		}
	}
	select {
	case <-e.rested:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return err
}

// Info describes the disk that the engine stands on.
func (e *Engine) Info() disk.Info { return e.shards[0].info }
