package killtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// inFlightMax bounds what a producer has sent and not heard of: enough to keep
	// the broker writing, little enough to be answered soon after a restart.
	inFlightMax = 400
	// patience is how long anything may take that must happen by itself after a
	// restart, on a busy machine.
	patience = 60 * time.Second
)

// subject is a topic under test with its own promise.
type subject struct {
	topic      string
	partitions int32
	configs    map[string]string
	producers  []*producer
	options    []kgo.Opt // of its producers
	retries    bool      // its producers send again what was not answered: no failure is expected
	history    *History
	table      *Table             // of a compacted topic, whose records have keys; nil for another
	log        map[int32][]Record // what was read of it so far
}

// subjects returns the topics of a test: each with another promise to keep.
func subjects() []*subject {
	idempotent := []kgo.Opt{kgo.StopProducerOnDataLossDetected()}
	return []*subject{
		{
			// The default: durable before it is acknowledged, rolled often.
			topic: "durable", partitions: 3, retries: true,
			configs: map[string]string{"segment.bytes": "1048576"},
			options: idempotent,
		},
		{
			// Acknowledged when written: a killed process loses nothing of it either.
			topic: "relaxed", partitions: 2, retries: true,
			configs: map[string]string{"flush.messages": "5000", "flush.ms": "200"},
			options: idempotent,
		},
		{
			// No idempotence: one request in flight and nothing sent twice.
			topic: "plain", partitions: 2,
			options: []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()),
				kgo.MaxProduceRequestsInflightPerBroker(1), kgo.RecordRetries(0)},
		},
	}
}

// wide returns the default promise, for a topic of many partitions.
func wide(partitions int32) *subject {
	return &subject{
		topic: "wide", partitions: partitions, retries: true,
		options: []kgo.Opt{kgo.StopProducerOnDataLossDetected()},
	}
}

// newClient returns a client that is back soon after the broker is.
func newClient(t *testing.T, address string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(address),
		kgo.DialTimeout(time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.RequestRetries(1 << 20), // until RetryTimeout
		kgo.RetryTimeout(patience),
		kgo.UnknownTopicRetries(-1),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// create creates a subject's topic and its producers, the first of which has
// the number first.
func (s *subject) create(t *testing.T, address string, first int32) {
	t.Helper()
	configs := map[string]*string{}
	for name, value := range s.configs {
		configs[name] = &value
	}
	admin := kadm.NewClient(newClient(t, address))
	if _, err := admin.CreateTopic(t.Context(), s.partitions, 1, configs, s.topic); err != nil {
		t.Fatalf("creating topic %s: %v", s.topic, err)
	}
	s.history, s.log = NewHistory(), map[int32][]Record{}
	for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.Lz4Compression()} {
		options := append([]kgo.Opt{
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(codec),
			kgo.ProducerBatchMaxBytes(64 << 10),
		}, s.options...)
		s.producers = append(s.producers, &producer{
			number:  first + int32(i),
			subject: s,
			client:  newClient(t, address, options...),
			slots:   make(chan struct{}, inFlightMax),
		})
		if !s.retries {
			continue
		}
		// A client asks for its producer id once, and gives up if the broker is
		// killed right then. That is no promise of the broker's.
		if _, _, err := s.producers[i].client.ProducerID(t.Context()); err != nil {
			t.Fatalf("producer id for %s: %v", s.topic, err)
		}
	}
}

// producer sends the records of one number.
type producer struct {
	number  int32
	subject *subject
	client  *kgo.Client
	slots   chan struct{} // one for each record in flight
	failed  sync.Once     // the first failure tells it all
	refused atomic.Bool   // a record failed: look for the broker before the next
}

// newOnceClient returns a client that sends each record once.
func newOnceClient(t *testing.T, address string) *kgo.Client {
	t.Helper()
	return newClient(t, address, kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.RecordRetries(0),
		kgo.ProduceRequestTimeout(time.Second))
}

// sendOnce sends a record to the first partition and waits for its answer.
func (s *subject) sendOnce(ctx context.Context, client *kgo.Client) error {
	name := s.history.Send(s.producers[0].number + int32(len(s.producers)))
	record := &kgo.Record{Topic: s.topic, Value: name.Value()}
	err := client.ProduceSync(ctx, record).FirstErr()
	if err == nil {
		s.history.Acknowledge(name, Position{record.Partition, record.Offset})
	}
	return err
}

// burst sends until ctx ends, then waits until everything sent was answered.
func (p *producer) burst(ctx context.Context, t *testing.T, random *rand.Rand) {
	s := p.subject
	for {
		if p.refused.Swap(false) {
			p.awaitBroker(ctx)
		}
		select {
		case <-ctx.Done():
			settle, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := p.client.Flush(settle); err != nil {
				t.Errorf("producer %d of %s still waits for answers after %s: %v", p.number, s.topic, patience, err)
			}
			return
		case p.slots <- struct{}{}:
		}
		name, record := s.next(p.number, random)
		p.client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
			<-p.slots
			switch {
			case err == nil:
				s.acknowledge(name, record)
			case s.retries:
				p.failed.Do(func() { t.Errorf("record %v of %s: %v", name, s.topic, err) })
			default:
				p.refused.Store(true)
			}
		})
	}
}

// next makes the next record of a producer; it counts as sent.
func (s *subject) next(producer int32, random *rand.Rand) (Name, *kgo.Record) {
	name := s.history.Send(producer)
	record := &kgo.Record{Topic: s.topic, Partition: random.Int32N(s.partitions), Value: name.Value()}
	if s.table != nil {
		s.enter(name, record, random)
	}
	return name, record
}

// acknowledge notes that a record's produce was answered with success.
func (s *subject) acknowledge(name Name, record *kgo.Record) {
	at := Position{record.Partition, record.Offset}
	s.history.Acknowledge(name, at)
	if s.table != nil {
		s.table.Acknowledge(name, at)
	}
}

// awaitBroker waits until the broker answers or ctx ends: a producer that does
// not try again would otherwise fail a record every microsecond.
func (p *producer) awaitBroker(ctx context.Context) {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for p.client.Ping(ctx) != nil {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// watcher consumes all subjects while the load runs and tells their histories
// what it was shown.
type watcher struct {
	client *kgo.Client
	done   chan struct{}
}

func watch(t *testing.T, address string, subjects []*subject, options ...kgo.Opt) {
	t.Helper()
	from := map[string]map[int32]kgo.Offset{}
	for _, s := range subjects {
		from[s.topic] = map[int32]kgo.Offset{}
		for partition := range s.partitions {
			from[s.topic][partition] = kgo.NewOffset().At(0)
		}
	}
	w := &watcher{
		client: newClient(t, address, append(options,
			kgo.ConsumePartitions(from), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(100*time.Millisecond))...),
		done: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	go w.run(ctx, t, subjects)
	t.Cleanup(func() {
		cancel()
		<-w.done
	})
}

func (w *watcher) run(ctx context.Context, t *testing.T, subjects []*subject) {
	defer close(w.done)
	for {
		fetches := w.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		for _, failed := range fetches.Errors() {
			if !errors.Is(failed.Err, context.Canceled) {
				t.Errorf("watching %s, partition %d: %v", failed.Topic, failed.Partition, failed.Err)
				return
			}
		}
		for record := range fetches.RecordsAll() {
			at := slices.IndexFunc(subjects, func(s *subject) bool { return s.topic == record.Topic })
			subjects[at].history.See(Position{record.Partition, record.Offset}, record.Value)
		}
	}
}

// read reads on, from what was read before, to the high watermark.
func (s *subject) read(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ends, err := kadm.NewClient(newClient(t, address)).ListEndOffsets(ctx, s.topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		t.Fatalf("asking for the ends of %s: %v", s.topic, err)
	}
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		if next := int64(len(s.log[end.Partition])); next < end.Offset {
			from[end.Partition], left[end.Partition] = kgo.NewOffset().At(next), end.Offset
		}
	})
	if len(left) == 0 {
		return
	}
	client := newClient(t, address, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: from}), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	defer client.Close()
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("reading %s up to %v: %v", s.topic, left, err)
		}
		for record := range fetches.RecordsAll() {
			end, wanted := left[record.Partition]
			if !wanted {
				continue
			}
			s.log[record.Partition] = append(s.log[record.Partition], Found(record.Offset, record.Value))
			if record.Offset+1 >= end {
				delete(left, record.Partition)
			}
		}
	}
}

// check judges a subject and shows the first contradictions.
func (s *subject) check(t *testing.T) {
	t.Helper()
	anomalies := s.history.Check(s.log, true)
	for _, anomaly := range anomalies[:min(len(anomalies), 20)] {
		t.Errorf("%s: %v", s.topic, anomaly)
	}
	if len(anomalies) > 20 {
		t.Errorf("%s: and %d more", s.topic, len(anomalies)-20)
	}
}

// load runs bursts of all producers.
type load struct {
	stop context.CancelFunc
	wait sync.WaitGroup
}

func startLoad(t *testing.T, subjects []*subject, random *rand.Rand) *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{stop: stop}
	for _, s := range subjects {
		for _, p := range s.producers {
			own := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
			l.wait.Go(func() { p.burst(ctx, t, own) })
		}
	}
	return l
}

// finish lets the producers hear the last answers.
func (l *load) finish() {
	l.stop()
	l.wait.Wait()
}

// totals returns what all subjects counted, as text.
func totals(subjects []*subject) string {
	var sent, acknowledged, seen int64
	for _, s := range subjects {
		a, b, c := s.history.Counts()
		sent, acknowledged, seen = sent+a, acknowledged+b, seen+c
	}
	return fmt.Sprintf("%d records sent, %d acknowledged, %d shown to a consumer meanwhile", sent, acknowledged, seen)
}

// reread forgets what was read, so that everything is read and judged again.
func (s *subject) reread() { s.log = map[int32][]Record{} }
