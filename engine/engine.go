package engine

import (
	"context"
	"fmt"
	"time"

	"ringlog/engine/disk"
)

// Engine is the storage engine of one data directory. Its methods are safe for use by
// any goroutine; its logs live on a shard, which one goroutine drives.
//
// There is one shard so far: one device, up to four cores. More of them would
// each own a disk and a set of logs placed by a stored table (rule 17).
type Engine struct {
	options  Options
	inbox    inbox
	shard    *shard
	counters counters
	registry registry

	// drive is how a blocking method waits: nil when a loop drives the shard, else
	// it does a turn itself (Stepper).
	drive func() error
	done  chan struct{} // closed when the shard is over
	err   error         // why, once done is closed; nil after Close
}

var _ API = (*Engine)(nil)

// Stepper is an Engine without a goroutine: nothing happens but in Turn, and in
// the methods that wait, which do turns until they have their answer. With a
// disk, clocks and callers that are functions of a seed, a whole run is one.
// It is for tests and simulations; all calls come from one goroutine.
type Stepper struct{ *Engine }

// NewStepper opens a data directory to be driven by the caller.
func NewStepper(options Options) (*Stepper, error) {
	e, err := newEngine(options)
	if err != nil {
		return nil, err
	}
	s := &Stepper{Engine: e}
	e.drive = s.Turn
	if err := e.begin(context.Background()); err != nil {
		return nil, err
	}
	return s, nil
}

// Turn does one turn of the shard. It waits for the disk if something is in
// flight, and returns at once otherwise. The error is that the disk has ended.
func (s *Stepper) Turn() error {
	select {
	case <-s.done:
		return ErrClosed
	default:
	}
	wait := time.Duration(0)
	if s.shard.disk.InFlight() > 0 {
		wait = -1
	}
	err := s.shard.turn(wait)
	if err != nil || s.shard.closed {
		s.finish(err)
	}
	return err
}

// Idle says that nothing would happen without new input, the disk or a clock.
func (s *Stepper) Idle() bool { return s.shard.disk.InFlight() == 0 && s.shard.idle() }

// NextTimer returns when, on Options.Monotonic, the shard has something to do
// by the clock alone; ok is false when it has not.
func (s *Stepper) NextTimer() (at time.Duration, ok bool) { return s.shard.timers.next() }

// Abandon ends the shard where it stands, as a crash does; whatever waits is
// answered with ErrClosed. The disk is left as it is, and must do nothing more
// with the operations that it has.
func (s *Stepper) Abandon() {
	logs := s.shard.logs
	s.finish(ErrClosed)
	for _, l := range logs {
		for w := l.writes.first; w != nil; w = w.next {
			s.shard.commit.releaseMemory(w)
		}
	}
}

func newEngine(options Options) (*Engine, error) {
	options = options.withDefaults()
	e := &Engine{options: options, done: make(chan struct{})}
	d, err := options.OpenDisk()
	if err != nil {
		return nil, fmt.Errorf("engine: open the disk: %w", err)
	}
	e.inbox.wake = d.Wake
	e.shard = newShard(0, d, options, &e.inbox, &e.counters)
	e.shard.faults = options.faults
	e.shard.registry = &e.registry
	// Whoever was refused memory is told when some comes back.
	notify := func() { e.inbox.send(message{}) }
	options.Tail.Notify(notify)
	if options.Cold != options.Tail {
		options.Cold.Notify(notify)
	}
	return e, nil
}

// begin reads what the shard left behind when it last ran.
func (e *Engine) begin(ctx context.Context) error {
	return e.call(ctx, func(j *job) error { return e.shard.begin(j) })
}

// finish ends the shard. Called once, by whoever drives it.
func (e *Engine) finish(err error) {
	select {
	case <-e.done:
		return
	default:
	}
	e.shard.end()
	e.registry.clear()
	e.err = err
	close(e.done)
}

// call is one request that runs as a job on the shard.
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

// call runs f as a job and waits for its end, or for the context's: the job
// then goes on alone.
func (e *Engine) call(ctx context.Context, f func(j *job) error) error {
	c := &call{run: f, ended: make(chan struct{})}
	if !e.inbox.send(message{call: c}) {
		return ErrClosed
	}
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
	return e.call(ctx, func(j *job) error {
		l, ok := e.shard.names[id]
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

// Append implements API.
func (e *Engine) Append(group *AppendGroup) {
	if !e.inbox.send(message{group: group}) {
		refuseGroup(group, ErrClosed)
	}
}

// Read implements API.
func (e *Engine) Read(read *Read) {
	read.state.deadline = e.options.Monotonic() + max(read.Wait, 0)
	if !e.inbox.send(message{read: read}) {
		refuseRead(read, ErrClosed)
	}
}

// Cancel implements API.
func (e *Engine) Cancel(read *Read) { e.inbox.send(message{cancel: read}) }

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

func (e *Engine) openLog(ctx context.Context, spec LogSpec, create bool) (*Log, error) {
	var opened *Log
	err := e.call(ctx, func(j *job) error {
		l, err := e.shard.openLog(j, spec, create)
		opened = l
		return err
	})
	if err != nil {
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
	largest, end := int32(-1), int64(-1)
	err := e.onLog(ctx, id, func(_ *job, l *Log) error {
		largest, end = l.epochEnd(epoch)
		return nil
	})
	return largest, end, err
}

// Status implements API.
func (e *Engine) Status(ctx context.Context, id LogID) (LogStatus, error) {
	var status LogStatus
	err := e.onLog(ctx, id, func(_ *job, l *Log) error {
		status = l.status()
		return nil
	})
	return status, err
}

// Close implements API.
func (e *Engine) Close(ctx context.Context) error {
	err := e.call(ctx, func(j *job) error { return e.shard.close(j) })
	if e.drive != nil {
		for {
			select {
			case <-e.done:
				return err
			default:
				if turnErr := e.drive(); turnErr != nil {
					return err
				}
			}
		}
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return err
}

// Info describes the disk that the engine stands on.
func (e *Engine) Info() disk.Info { return e.shard.info }
