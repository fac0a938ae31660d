package coord

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// requestsDefaultMax bounds the requests that were not stepped yet. At the rate of a slow disk it is seconds of work; who
	// comes later is better off with an error and another attempt.
	requestsDefaultMax = 50_000
	// loadsParallel is how many partitions are replayed at once: reading a log and decoding it take a processor each.
	loadsParallel = 4
)

// Options configures a Runtime. Fields without a default are required.
type Options struct {
	Log Log
	// NewMachine makes the empty machine of a partition, before its log is replayed. It is called on
	// the runtime's goroutine; what Notify was given after that reaches the machine when it is loaded.
	NewMachine func(partition int32) Machine
	// RequestsMax bounds the requests that wait to be stepped; the default is 50,000.
	RequestsMax int
	// NowMillis is the time in Unix milliseconds. It should not jump, since sessions are measured by it. The
	// default starts with the wall clock and goes on by the monotonic one.
	NowMillis func() int64
	// Logger gets events of machines and troubles with the log; the default discards them.
	Logger *slog.Logger
}

// Runtime runs the machines of the partitions that this broker leads. See the package comment.
type Runtime struct {
	options Options
	log     *slog.Logger
	metrics Metrics

	inbox   inbox
	loads   chan struct{} // a place for each load at once
	closing context.Context
	close   context.CancelFunc
	running sync.WaitGroup // the loop and the loads

	// What follows belongs to the loop.

	partitions  map[int32]*partition
	order       []*partition // by number
	dirty       []*partition // have stepped since they were last flushed
	tokens      uint64       // the last one drawn
	effects     Effects      // of the step at hand
	eventLimits eventLimits
	now         int64 // of the turn at hand
	closed      bool
}

// New returns a runtime that leads nothing yet; Close ends it.
func New(o Options) *Runtime {
	if o.Log == nil || o.NewMachine == nil {
		panic("coord: Options lack Log or NewMachine")
	}
	if o.RequestsMax == 0 {
		o.RequestsMax = requestsDefaultMax
	}
	if o.NowMillis == nil {
		start := time.Now()
		o.NowMillis = func() int64 { return start.UnixMilli() + time.Since(start).Milliseconds() }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{options: o, log: o.Logger, partitions: map[int32]*partition{}, eventLimits: eventLimits{}, loads: make(chan struct{}, loadsParallel)}
	r.inbox.init(o.RequestsMax)
	r.closing, r.close = context.WithCancel(context.Background())
	r.running.Go(r.loop)
	return r
}

// Ask hands a request to the machine of a partition and calls done once with its answer, or with
// ErrNotCoordinator, ErrLoading or ErrUnavailable. body belongs to the machine from here on. done may be called
// before Ask returns.
func (r *Runtime) Ask(partition int32, body any, done func(answer any, err error)) {
	if err := r.inbox.ask(question{partition: partition, body: body, done: done}); err != nil {
		r.metrics.Refused.Add(1)
		done(nil, err)
	}
}

// Notify hands a notice to all machines, in order with requests: those asked later find it
// heeded. Every machine gets the same body, which must not change.
func (r *Runtime) Notify(body any) { r.inbox.post(func() { r.notify(body) }) }

// Lead says that this broker leads a partition under an epoch: its machine is loaded, unless it is
// there under the same epoch.
func (r *Runtime) Lead(id, epoch int32) { r.inbox.post(func() { r.lead(id, epoch) }) }

// Resign says that this broker does not lead a partition any more.
func (r *Runtime) Resign(id int32) { r.inbox.post(func() { r.resign(id, ErrNotCoordinator) }) }

// Close answers everybody who waits with ErrNotCoordinator and ends the runtime. Requests that come
// later get the same answer. The Log may call back afterwards.
func (r *Runtime) Close() {
	r.inbox.close(func() {
		for _, p := range slices.Clone(r.order) {
			r.resign(p.id, ErrNotCoordinator)
		}
		r.closed = true
	})
	r.close()
	r.running.Wait()
}

// loop is the runtime's goroutine: a turn takes all that came since the last one, so that under load
// many requests share an append.
func (r *Runtime) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		r.now = r.options.NowMillis()
		events := r.inbox.take()
		for i := range events {
			r.handle(&events[i])
		}
		r.inbox.giveBack(events)
		r.tick()
		r.flush()
		if r.closed {
			return
		}
		timer.Reset(r.untilNext())
		select {
		case <-r.inbox.wake:
		case <-timer.C:
		}
	}
}

func (r *Runtime) handle(e *event) {
	if e.do != nil {
		e.do()
		return
	}
	p := r.partitions[e.question.partition]
	if p == nil {
		r.refuse(&e.question, ErrNotCoordinator)
		return
	}
	p.ask(e.question)
}

// refuse answers a question that no machine has seen.
func (r *Runtime) refuse(q *question, err error) {
	r.inbox.stepped(1)
	r.metrics.Refused.Add(1)
	q.done(nil, err)
}

// tick lets time pass for the machines that wait for it.
func (r *Runtime) tick() {
	for _, p := range r.order {
		p.tick()
	}
}

// flush appends what the machines have made in this turn.
func (r *Runtime) flush() {
	for len(r.dirty) > 0 { // an append may fail at once and make others dirty
		p := r.dirty[len(r.dirty)-1]
		r.dirty = r.dirty[:len(r.dirty)-1]
		p.isDirty = false
		p.flush()
	}
}

// untilNext is how long nothing happens by itself.
func (r *Runtime) untilNext() time.Duration {
	next := int64(math.MaxInt64)
	for _, p := range r.order {
		next = min(next, p.wakesMillis())
	}
	if next == math.MaxInt64 {
		return time.Hour
	}
	wait := min(max(next-r.options.NowMillis(), 0), time.Hour.Milliseconds())
	return time.Duration(wait) * time.Millisecond
}

func (r *Runtime) notify(body any) {
	for _, p := range r.order {
		p.notify(body)
	}
}

func (r *Runtime) lead(id, epoch int32) {
	if p := r.partitions[id]; p != nil {
		if p.epoch != epoch {
			p.leadAgain(epoch)
		}
		return
	}
	p := &partition{runtime: r, id: id, epoch: epoch}
	r.partitions[id] = p
	at, _ := slices.BinarySearchFunc(r.order, id, comparePartition)
	r.order = slices.Insert(r.order, at, p)
	r.metrics.Partitions.Add(1)
	p.load()
}

func (r *Runtime) resign(id int32, err error) {
	p := r.partitions[id]
	if p == nil {
		return
	}
	p.drop(err)
	delete(r.partitions, id)
	at, _ := slices.BinarySearchFunc(r.order, id, comparePartition)
	r.order = slices.Delete(r.order, at, at+1)
	r.metrics.Partitions.Add(-1)
}

func comparePartition(p *partition, id int32) int { return int(p.id) - int(id) }
