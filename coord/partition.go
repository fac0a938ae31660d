package coord

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"
)

const (
	// flightsMax is how many appends of one partition are under way: while the disk flushes one, the next is being
	// filled. More would only make the batches smaller.
	flightsMax = 2
	// batchBytesMax is the size at which a partition stops stepping until its batch can be appended. A single step
	// may exceed it.
	batchBytesMax = 256 << 10
	// reloadMinMillis and reloadMaxMillis bound the pause before a log is tried again, which doubles each time.
	reloadMinMillis, reloadMaxMillis = 100, 10_000
)

// partitionState is where a partition is in its life; see the package comment.
type partitionState uint8

const (
	stateLoading partitionState = iota
	stateActive
	stateFailed
)

// partition is one partition of the topic that this broker leads. It belongs to the runtime's loop.
type partition struct {
	runtime *Runtime
	id      int32
	epoch   int32
	state   partitionState

	// machine is nil unless the partition is active.
	machine    Machine
	nextMillis int64 // machine's
	// open has who waits for each token that the machine has seen.
	open map[uint64]func(answer any, err error)
	// waiting are questions that the machine will see when its batch was appended.
	waiting []question
	// batch is what the machine has made since the last append; flights are the appends under
	// way, the oldest first.
	batch   batch
	flights []*flight
	isDirty bool

	// notices came while the machine was loading.
	notices    []any
	cancelLoad context.CancelFunc

	// unsettled counts appends of earlier machines whose end is not known; loading waits for
	// them, so that it sees all there will be.
	unsettled    int
	failures     int   // in a row
	reloadMillis int64 // when to load again, if failed
}

// batch is what is appended next.
type batch struct {
	records []Record
	bytes   int
	answers []Answer
}

// flight is an append under way, and who waits for it.
type flight struct {
	answers []Answer
	// ended says that the append has come through or failed; what came through may still wait for one before it.
	ended     bool
	abandoned bool
}

// ask takes a question.
func (p *partition) ask(q question) {
	switch {
	case p.state == stateLoading:
		p.runtime.refuse(&q, ErrLoading)
	case p.state == stateFailed:
		p.runtime.refuse(&q, ErrUnavailable)
	case p.isFull() || len(p.waiting) > 0:
		p.waiting = append(p.waiting, q) // bounded by the inbox, which counts it as waiting
	default:
		p.step(q)
	}
}

// isFull says that the machine has made as much as can be appended at once.
func (p *partition) isFull() bool { return p.batch.bytes >= batchBytesMax }

func (p *partition) step(q question) {
	r := p.runtime
	r.inbox.stepped(1)
	r.metrics.Requests.Add(1)
	r.tokens++
	p.open[r.tokens] = q.done
	request := Request{Token: r.tokens, Body: q.body}
	p.call(func() { p.machine.Step(r.now, request, &r.effects) })
}

func (p *partition) tick() {
	if p.state == stateFailed && p.unsettled == 0 && p.reloadMillis <= p.runtime.now {
		p.load()
	}
	if p.state == stateActive && p.nextMillis <= p.runtime.now && !p.isFull() {
		p.call(func() { p.machine.Tick(p.runtime.now, &p.runtime.effects) })
	}
}

func (p *partition) notify(body any) {
	switch p.state {
	case stateLoading:
		p.notices = append(p.notices, body)
	case stateActive:
		p.call(func() { p.machine.Step(p.runtime.now, Request{Body: body}, &p.runtime.effects) })
	case stateFailed: // the next machine is made with what holds then
	}
}

// wakesMillis is when tick has something to do.
func (p *partition) wakesMillis() int64 {
	switch {
	case p.state == stateFailed && p.unsettled == 0:
		return p.reloadMillis
	case p.state == stateActive && !p.isFull():
		return p.nextMillis
	}
	return math.MaxInt64
}

// call runs one step of the machine and takes its effects. A fault of ours in it costs
// the machine and not the process: what it was asked may be what hits the fault.
func (p *partition) call(step func()) {
	r := p.runtime
	r.effects.Reset()
	if cause := recovered(step); cause != nil {
		r.metrics.Panics.Add(1)
		p.fail(fmt.Errorf("a step panicked: %v", cause.value), "stack", cause.stack)
		return
	}
	p.nextMillis = p.machine.NextMillis()
	for i := range r.effects.Events {
		e := &r.effects.Events[i]
		if skipped, ok := r.eventLimits.allow(e.Message, r.now); ok {
			r.log.Warn(e.Message, append(e.Attributes, "partition", p.id, "skipped", skipped)...)
		}
	}
	for i := range r.effects.Records {
		record := &r.effects.Records[i]
		p.batch.bytes += len(record.Key) + len(record.Value)
	}
	p.batch.records = append(p.batch.records, r.effects.Records...)
	p.batch.answers = append(p.batch.answers, r.effects.Answers...)
	if !p.isDirty {
		p.isDirty = true
		r.dirty = append(r.dirty, p)
	}
}

// panicCause is what a step died of.
type panicCause struct {
	value any
	stack string
}

func recovered(step func()) (cause *panicCause) {
	defer func() {
		if value := recover(); value != nil {
			cause = &panicCause{value: value, stack: string(debug.Stack())}
		}
	}()
	step()
	return nil
}

// flush appends the batch, unless enough appends are under way, and lets answers go that wait for none.
func (p *partition) flush() {
	if p.state != stateActive {
		return
	}
	if len(p.batch.records) == 0 {
		answers := p.batch.answers
		if len(p.flights) == 0 {
			p.deliver(answers)
		} else {
			last := p.flights[len(p.flights)-1]
			last.answers = append(last.answers, answers...)
		}
		clear(answers)
		p.batch.answers = answers[:0]
		return
	}
	if len(p.flights) == flightsMax {
		return // goes when one lands
	}
	r := p.runtime
	f := &flight{answers: p.batch.answers}
	p.flights = append(p.flights, f)
	records := p.batch.records
	p.batch = batch{}
	r.metrics.Appends.Add(1)
	r.metrics.AppendedRecords.Add(int64(len(records)))
	r.options.Log.Append(p.id, p.epoch, records, func(err error) { r.inbox.post(func() { p.land(f, err) }) })
	clear(records)
	p.batch.records = records[:0]
	p.pump()
}

// land ends an append.
func (p *partition) land(f *flight, err error) {
	if err != nil {
		p.runtime.metrics.AppendFailures.Add(1)
	}
	if f.abandoned {
		p.unsettled--
		return
	}
	f.ended = true
	if err != nil {
		p.fail(err)
		return
	}
	p.failures = 0
	for len(p.flights) > 0 && p.flights[0].ended {
		p.deliver(p.flights[0].answers)
		p.flights = slices.Delete(p.flights, 0, 1)
	}
	p.flush()
}

// pump lets the machine see what waits, as far as there is room for what it makes.
func (p *partition) pump() {
	for len(p.waiting) > 0 && p.state == stateActive && !p.isFull() {
		q := p.waiting[0]
		p.waiting[0] = question{}
		p.waiting = p.waiting[1:]
		p.step(q)
	}
	if len(p.waiting) == 0 {
		p.waiting = nil
	}
}

// deliver hands answers to who waits for them.
func (p *partition) deliver(answers []Answer) {
	for i := range answers {
		done, ok := p.open[answers[i].Token]
		if !ok { // a fault of ours that must not cost the others
			p.runtime.metrics.Panics.Add(1)
			p.runtime.log.Error("a request was answered twice", "partition", p.id, "answer", fmt.Sprintf("%T", answers[i].Body))
			continue
		}
		delete(p.open, answers[i].Token)
		done(answers[i].Body, nil)
	}
}

// leadAgain begins anew under another epoch.
func (p *partition) leadAgain(epoch int32) {
	p.drop(ErrNotCoordinator)
	p.epoch, p.failures = epoch, 0
	p.state, p.reloadMillis = stateFailed, p.runtime.now // tick loads it, once all appends have ended
}

// load begins to replay the log into a new machine.
func (p *partition) load() {
	r := p.runtime
	p.state, p.notices = stateLoading, nil
	machine := r.options.NewMachine(p.id)
	ctx, cancel := context.WithCancel(r.closing)
	p.cancelLoad = cancel
	r.metrics.Loading.Add(1)
	r.running.Go(func() {
		defer r.metrics.Loading.Add(-1)
		began := time.Now()
		records, err := p.replay(ctx, machine)
		took := time.Since(began)
		r.inbox.post(func() {
			if ctx.Err() == nil { // else it was for nothing
				p.loaded(machine, records, took, err)
			}
			cancel()
		})
	})
}

// replay runs on a goroutine of its own, which has the machine for itself.
func (p *partition) replay(ctx context.Context, machine Machine) (records int64, err error) {
	r := p.runtime
	select {
	case r.loads <- struct{}{}:
		defer func() { <-r.loads }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	cause := recovered(func() {
		err = r.options.Log.Load(ctx, p.id, p.epoch, func(record Record) error {
			records++
			return machine.Replay(record)
		})
	})
	if cause != nil {
		r.metrics.Panics.Add(1)
		err = fmt.Errorf("replaying panicked: %v\n%s", cause.value, cause.stack)
	}
	return records, err
}

// loaded makes a replayed machine the partition's.
func (p *partition) loaded(machine Machine, records int64, took time.Duration, err error) {
	r := p.runtime
	r.metrics.LoadedRecords.Add(records)
	if err != nil {
		r.metrics.LoadFailures.Add(1)
		p.fail(fmt.Errorf("loading: %w", err))
		return
	}
	r.metrics.Loads.Add(1)
	r.log.Debug("coordinator is loaded", "partition", p.id, "epoch", p.epoch, "records", records, "took", took)
	p.state, p.machine = stateActive, machine
	p.open = map[uint64]func(any, error){}
	p.call(func() { p.machine.Loaded(r.now, &r.effects) })
	notices := p.notices
	p.notices = nil
	for _, body := range notices {
		p.notify(body)
	}
}

// fail throws the machine away and has the log loaded again after a pause.
func (p *partition) fail(err error, attributes ...any) {
	r := p.runtime
	p.failures++
	pauseMillis := min(int64(reloadMinMillis)<<min(p.failures-1, 16), reloadMaxMillis)
	r.log.Error("coordinator is not available and will be loaded again",
		append([]any{"partition", p.id, "epoch", p.epoch, "waiting", len(p.open) + len(p.waiting), "pause_ms", pauseMillis, "error", err}, attributes...)...)
	answer := fmt.Errorf("%w: %w", ErrUnavailable, err)
	if errors.Is(err, ErrNotCoordinator) {
		answer = err
	}
	p.drop(answer)
	p.state = stateFailed
	p.reloadMillis = r.now + pauseMillis
}

// drop gives up the machine and answers everybody who waits with err.
func (p *partition) drop(err error) {
	if p.cancelLoad != nil {
		p.cancelLoad()
		p.cancelLoad = nil
	}
	for _, f := range p.flights {
		f.abandoned = true
		if !f.ended {
			p.unsettled++
		}
	}
	tokens := make([]uint64, 0, len(p.open))
	for token := range p.open {
		tokens = append(tokens, token)
	}
	slices.Sort(tokens) // who asked first hears first
	for _, token := range tokens {
		p.open[token](nil, err)
	}
	for i := range p.waiting {
		p.runtime.refuse(&p.waiting[i], err)
	}
	p.machine, p.open, p.waiting, p.flights, p.notices = nil, nil, nil, nil, nil
	p.batch = batch{}
}
