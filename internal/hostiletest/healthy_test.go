package hostiletest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// healthyTopic is named so that no spoiled request names it.
	healthyTopic      = "orders-of-people-who-mean-well"
	healthyPartitions = 2
	// healthyEvery is the time between two records of the producer.
	healthyEvery = 4 * time.Millisecond
)

// healthy is a producer that sends one record after another and waits for each, and a
// consumer that reads them. Both are ordinary clients.
type healthy struct {
	t                  *testing.T
	producer, consumer *kgo.Client
	stopProducing      context.CancelFunc
	running            sync.WaitGroup

	mu        sync.Mutex
	phase     string
	latencies map[string][]time.Duration
	sent      uint64 // records that were acknowledged: numbers 0 to sent-1
	seen      map[uint64]int
	disorder  error // the first record that was not behind its predecessor
	failure   error
}

// startHealthy makes the topic and starts both, in a phase.
func startHealthy(t *testing.T, address, phase string) *healthy {
	t.Helper()
	h := &healthy{t: t, phase: phase, latencies: make(map[string][]time.Duration), seen: make(map[uint64]int)}
	client := func(options ...kgo.Opt) *kgo.Client {
		client, err := kgo.NewClient(append(options, kgo.SeedBrokers(address), kgo.RetryTimeout(patience))...)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	h.producer = client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.DefaultProduceTopic(healthyTopic))
	if _, err := kadm.NewClient(h.producer).CreateTopic(t.Context(), healthyPartitions, 1, nil, healthyTopic); err != nil {
		t.Fatal(err)
	}
	h.consumer = client(kgo.ConsumeTopics(healthyTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	producing, stop := context.WithCancel(context.Background())
	h.stopProducing = stop
	h.running.Go(func() { h.produce(producing) })
	consuming := make(chan struct{})
	go func() { h.consume(); close(consuming) }()
	t.Cleanup(func() {
		stop()
		h.running.Wait()
		h.producer.Close()
		h.consumer.Close() // ends the polling
		<-consuming
	})
	return h
}

// enter begins another phase.
func (h *healthy) enter(phase string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = phase
}

// awaitRecords waits until the phase has so many records.
func (h *healthy) awaitRecords(phase string, count int) {
	h.t.Helper()
	await(h.t, fmt.Sprintf("%d records %s", count, phase), func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.latencies[phase]) >= count || h.failure != nil
	})
}

// produce sends records by the clock, each when the one before was acknowledged, until ctx ends.
func (h *healthy) produce(ctx context.Context) {
	tick := time.NewTicker(healthyEvery)
	defer tick.Stop()
	for number := uint64(0); ; number++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		h.mu.Lock()
		phase := h.phase
		h.mu.Unlock()
		record := &kgo.Record{Partition: int32(number % healthyPartitions), Value: binary.BigEndian.AppendUint64(nil, number)}
		began := time.Now()
		err := h.producer.ProduceSync(context.Background(), record).FirstErr()
		took := time.Since(began)
		h.mu.Lock()
		if err != nil {
			h.failure = errors.Join(h.failure, fmt.Errorf("record %d: %w", number, err))
			h.mu.Unlock()
			return
		}
		h.latencies[phase] = append(h.latencies[phase], took)
		h.sent = number + 1
		h.mu.Unlock()
	}
}

// consume notes what it reads until the consumer is closed.
func (h *healthy) consume() {
	last := make(map[int32]uint64)
	for {
		fetches := h.consumer.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		h.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			number := binary.BigEndian.Uint64(r.Value)
			if before, any := last[r.Partition]; any && number <= before && h.disorder == nil {
				h.disorder = fmt.Errorf("record %d comes behind %d in partition %d", number, before, r.Partition)
			}
			last[r.Partition] = number
			h.seen[number]++
		})
		h.mu.Unlock()
	}
}

// finish stops the producer, waits until the consumer has everything, and fails the test unless
// each record came once, in order.
func (h *healthy) finish() {
	h.t.Helper()
	h.stopProducing()
	h.running.Wait()
	await(h.t, "the consumer has every record", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return uint64(len(h.seen)) >= h.sent || h.failure != nil
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure != nil {
		h.t.Errorf("the healthy producer failed: %v", h.failure)
	}
	if h.disorder != nil {
		h.t.Error(h.disorder)
	}
	for number := range h.sent {
		if count := h.seen[number]; count != 1 {
			h.t.Errorf("record %d of %d was read %d times", number, h.sent, count)
		}
	}
	if extra := len(h.seen) - int(h.sent); extra > 0 {
		h.t.Errorf("%d records were read that nobody sent", extra)
	}
	h.t.Logf("the healthy clients passed %d records, each once and in order", h.sent)
}

// report prints how long the records of each phase waited for their acknowledgement.
func (h *healthy) report(phases ...string) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, phase := range phases {
		all := slices.Sorted(slices.Values(h.latencies[phase]))
		if len(all) == 0 {
			continue
		}
		quantile := func(q float64) time.Duration {
			return all[min(int(q*float64(len(all))), len(all)-1)].Round(10 * time.Microsecond)
		}
		h.t.Logf("healthy produce, %-12s n=%d p50=%v p99=%v max=%v", phase+":", len(all), quantile(0.5), quantile(0.99), all[len(all)-1].Round(10*time.Microsecond))
	}
}
