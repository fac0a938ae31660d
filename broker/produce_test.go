package broker_test

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringlog/broker"
	"ringlog/broker/brokertest"
	"ringlog/engine"
	"ringlog/record"
)

// compressed builds a batch of one record whose value has size bytes.
func compressed(t *testing.T, codec record.Codec, size int) []byte {
	t.Helper()
	var b record.Builder
	b.Reset(record.BuilderOptions{Codec: codec})
	b.Append(time.Now().UnixMilli(), nil, bytes.Repeat([]byte("0123456789abcdef"), size/16))
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(built)
}

// gated is an engine whose Append waits at a gate, in whatever goroutine it was called.
type gated struct {
	*brokertest.Engine
	gate            chan struct{} // closed: open
	inside, highest atomic.Int64
	reached         chan struct{} // one for each Append that came
}

func newGated() *gated {
	return &gated{Engine: brokertest.NewEngine(), gate: make(chan struct{}), reached: make(chan struct{}, 1000)}
}

func (g *gated) Append(group *engine.AppendGroup) {
	now := g.inside.Add(1)
	for most := g.highest.Load(); now > most && !g.highest.CompareAndSwap(most, now); most = g.highest.Load() {
	}
	g.reached <- struct{}{}
	<-g.gate
	g.inside.Add(-1)
	g.Engine.Append(group)
}

// line is a connection that produces to partition 0 of a topic, and what came of it.
type line struct {
	t        *testing.T
	b        *broker.Broker
	sequence broker.Sequence
	group    sync.WaitGroup
	answers  []*broker.Produce
}

// send starts a produce of one batch.
func (l *line) send(records []byte) *broker.Produce {
	l.t.Helper()
	p := l.b.NewProduce()
	part := p.Add()
	part.Topic, part.Err = l.b.Topic([]byte("orders"))
	part.Records = records
	p.Acks, p.Sequence = broker.AcksAll, &l.sequence
	return l.start(p)
}

func (l *line) start(p *broker.Produce) *broker.Produce {
	l.answers = append(l.answers, p)
	l.group.Add(1)
	p.Done = func(*broker.Produce) { l.group.Done() }
	p.Start()
	return p
}

// offsets waits for all answers and returns their base offsets.
func (l *line) offsets() (offsets []int64) {
	l.group.Wait()
	for _, p := range l.answers {
		if err := p.Parts[0].Err; err != nil {
			l.t.Errorf("produce %d: %v", len(offsets), err)
		}
		offsets = append(offsets, p.Parts[0].BaseOffset)
	}
	return offsets
}

// Whatever takes longer to check, and wherever it is checked, a connection's batches are
// appended in the order in which they came.
func TestProducesOfAConnectionStayInOrder(t *testing.T) {
	b, _ := brokertest.Start(t, brokertest.NewEngine(), brokertest.Options{})
	brokertest.CreateTopic(t, b, "orders", 1, nil)
	lines := make([]*line, 3)
	var group sync.WaitGroup
	for n := range lines {
		l := &line{t: t, b: b}
		lines[n] = l
		group.Go(func() {
			for round := range 4 {
				l.send(batch(t, time.Now().UnixMilli()))
				codec := record.Codec(1 + (round+n)%4)
				l.send(compressed(t, codec, 256<<10)) // moved
				l.send(compressed(t, codec, 1<<10))   // behind it
				if round%2 == 0 {
					l.group.Wait() // the next one finds nothing before it
				}
			}
		})
	}
	group.Wait()
	for _, l := range lines {
		if offsets := l.offsets(); !slices.IsSorted(offsets) {
			t.Errorf("batches of one connection got the offsets %v", offsets)
		}
	}
}

// A batch from which much comes out leaves the goroutine that started it, and what is
// behind it on its connection waits; other connections do not.
func TestLargeBatchesAreCheckedElsewhere(t *testing.T) {
	store := newGated()
	b, _ := brokertest.Start(t, store, brokertest.Options{})
	brokertest.CreateTopic(t, b, "orders", 1, nil)
	first, second := &line{t: t, b: b}, &line{t: t, b: b}
	first.send(compressed(t, record.CodecZstd, 1<<20)) // returns, although its append cannot
	<-store.reached
	first.send(batch(t, time.Now().UnixMilli()))
	first.send(compressed(t, record.CodecGzip, 1<<10))
	if n := len(store.reached); n != 0 {
		t.Errorf("%d batches overtook the one before them", n)
	}
	close(store.gate)
	second.send(compressed(t, record.CodecLZ4, 1<<10)) // in place: answered when send returns
	if err := second.answers[0].Parts[0].Err; err != nil || second.answers[0].Parts[0].BaseOffset < 0 {
		t.Errorf("a small batch: offset %d, %v", second.answers[0].Parts[0].BaseOffset, err)
	}
	if offsets := first.offsets(); !slices.IsSorted(offsets) {
		t.Errorf("offsets %v", offsets)
	}
}

// However many connections have large batches, few goroutines check them; and a broker
// that closes waits for those.
func TestCheckersAreFew(t *testing.T) {
	store := newGated()
	b, stop := brokertest.Start(t, store, brokertest.Options{})
	brokertest.CreateTopic(t, b, "orders", 1, nil)
	block := compressed(t, record.CodecSnappy, 1<<20+100*16) // of a size that is not kept
	lines := make([]*line, 30)
	for i := range lines {
		lines[i] = &line{t: t, b: b}
		for range 2 {
			lines[i].send(slices.Clone(block))
		}
	}
	most := max(2, runtime.GOMAXPROCS(0))
	for range most {
		<-store.reached
	}
	close(store.gate)
	for _, l := range lines {
		l.offsets()
	}
	if got := int(store.highest.Load()); got > most {
		t.Errorf("%d checkers at a time, want at most %d", got, most)
	}
	stop()
}

// Large batches of many connections fill the checkers and wait for them. A small compressed one of another connection
// does not wait behind them: it is checked in place.
func TestSmallBatchesPassLargeOnes(t *testing.T) {
	store := newGated()
	b, _ := brokertest.Start(t, store, brokertest.Options{})
	brokertest.CreateTopic(t, b, "orders", 1, nil)
	large, small := compressed(t, record.CodecZstd, 1<<20), compressed(t, record.CodecZstd, 1<<10)
	var lines []*line
	sendLarge := func() {
		for range 15 {
			one := &line{t: t, b: b}
			one.send(slices.Clone(large))
			lines = append(lines, one)
		}
	}
	sendLarge()
	for range max(2, runtime.GOMAXPROCS(0)) {
		<-store.reached // every checker is at the gate
	}
	sendLarge() // begun in place, and waiting
	other := &line{t: t, b: b}
	sent := make(chan struct{})
	go func() {
		other.send(small)
		close(sent)
	}()
	select {
	case <-store.reached:
	case <-time.After(10 * time.Second):
		t.Error("a small batch waits behind large ones of others")
	}
	close(store.gate)
	<-sent
	for _, l := range append(lines, other) {
		l.offsets()
	}
}

// What is refused by a checker is answered like anything else, and holds up nobody.
func TestWhatACheckerRefusesIsAnsweredInItsTurn(t *testing.T) {
	b, _ := brokertest.Start(t, brokertest.NewEngine(), brokertest.Options{})
	brokertest.CreateTopic(t, b, "orders", 1, nil)
	l := &line{t: t, b: b}
	l.send(compressed(t, record.CodecZstd, 1<<20))
	broken := compressed(t, record.CodecZstd, 2<<20)
	broken[len(broken)-3] ^= 0x55
	record.Batch(broken).UpdateCRC()
	refused := l.send(broken)
	good := l.send(batch(t, time.Now().UnixMilli()))
	l.group.Wait()
	if err := refused.Parts[0].Err; !errors.Is(err, record.ErrDecompress) {
		t.Errorf("damaged bytes: %v", err)
	}
	if err := good.Parts[0].Err; err != nil {
		t.Errorf("behind them: %v", err)
	}
}

// A fault that a checker hits costs the request and no more.
func TestAPanicOfACheckerIsAnswered(t *testing.T) {
	b, _ := brokertest.Start(t, brokertest.NewEngine(), brokertest.Options{})
	brokertest.CreateTopic(t, b, "orders", 1, nil)
	l := &line{t: t, b: b}
	p := b.NewProduce()
	part := p.Add()
	part.Topic, _ = b.Topic([]byte("orders"))
	part.Records = compressed(t, record.CodecZstd, 1<<20)
	p.Add().Topic = new(broker.Topic) // no such thing comes from Broker.Topic
	p.Acks, p.Sequence = broker.AcksAll, &l.sequence
	l.start(p)
	l.group.Wait()
	if p.Parts[0].Err != nil || !errors.Is(p.Parts[1].Err, broker.ErrCheckFailed) {
		t.Errorf("answered %v and %v, want nil and %v", p.Parts[0].Err, p.Parts[1].Err, broker.ErrCheckFailed)
	}
	if l.send(batch(t, time.Now().UnixMilli())); l.answers[1].Parts[0].Err != nil {
		t.Errorf("the next one: %v", l.answers[1].Parts[0].Err)
	}
}

// A topic that keeps the newest record of each key takes none without one, and says which have none.
func TestCompactedTopicsAskForKeys(t *testing.T) {
	b, _ := brokertest.Start(t, brokertest.NewEngine(), brokertest.Options{})
	brokertest.CreateTopic(t, b, "orders", 1, map[string]string{"cleanup.policy": "compact,delete"})
	var builder record.Builder
	builder.Reset(record.BuilderOptions{})
	for _, key := range [][]byte{[]byte("a"), nil, []byte("b"), nil} {
		builder.Append(time.Now().UnixMilli(), key, nil)
	}
	built, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	l := &line{t: t, b: b}
	p := l.send(slices.Clone(built))
	l.group.Wait()
	var invalid *record.InvalidError
	if !errors.As(p.Parts[0].Err, &invalid) || !errors.Is(p.Parts[0].Err, record.ErrKeyMissing) || len(invalid.Records) != 2 || invalid.Records[0].Index != 1 || invalid.Records[1].Index != 3 {
		t.Errorf("%v", p.Parts[0].Err)
	}
}
