package killtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"ringlog/internal/ringlogtest"
)

const (
	keysEach = 300 // keys of a producer, over all partitions
	// tombstonesStay is for how long a reader finds tombstones at least. A read that takes longer may miss one
	// whose value it has seen, and is no proof.
	tombstonesStay = time.Second
	// nameHeader has the name of a tombstone, which has no value that could have it.
	nameHeader = "name"
)

// compacted returns a topic whose segments live so short that there is always something to compact.
func compacted() *subject {
	return &subject{
		topic: "compacted", partitions: 4, retries: true, table: NewTable(),
		configs: map[string]string{
			"cleanup.policy": "compact", "segment.bytes": "1048576", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01",
			"delete.retention.ms": fmt.Sprint(tombstonesStay.Milliseconds()),
		},
		options: []kgo.Opt{kgo.StopProducerOnDataLossDetected()},
	}
}

// TestKillWhileCompacting kills the broker while it compacts all the time: a reader from offset 0 ends with the
// newest value of every key, what was deleted stays deleted, and retries of what was compacted meanwhile are stored
// once. Scenarios 16 and 35 of docs/reliability.md.
func TestKillWhileCompacting(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("again: go test ./internal/killtest -v -run '%s' -args -kills=%d -seed=%d", t.Name(), *killsFlag, seed)
	random := rand.New(rand.NewPCG(seed, 4))
	broker := ringlogtest.Start(t, ringlogtest.Options{Flags: []string{"--set", "log.cleaner.backoff.ms=5"}})
	s := compacted()
	s.create(t, broker.Address, 0)
	end := newClient(t, broker.Address, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	subjects := []*subject{s}

	var passes, dropped float64
	look := func() { // before a life ends
		if failures := broker.Metric("ringlog_engine_compaction_failures_total"); failures > 0 {
			t.Errorf("%.0f compactions failed", failures)
		}
		passes += broker.Metric("ringlog_engine_compactions_total")
		dropped += broker.Metric("ringlog_engine_compaction_dropped_records_total")
	}
	times := max(1, *killsFlag/2)
	for kills := 0; kills < times && !t.Failed(); {
		load := startLoad(t, subjects, random)
		pause(t, 50*time.Millisecond, 700*time.Millisecond, random)
		look()
		broker.Kill()
		kills++
		verifyWhole(t, broker)
		for kills < times && random.IntN(4) == 0 {
			broker.Launch()
			pause(t, 0, 80*time.Millisecond, random)
			broker.Kill()
			kills++
		}
		broker.Restart()
		pause(t, 0, 200*time.Millisecond, random)
		load.finish()
		s.checkTable(t, broker.Address, end)
	}
	// After the last kill compaction still goes on.
	load := startLoad(t, subjects, random)
	await(t, "a compaction after the last kill", func() bool { return broker.Metric("ringlog_engine_compactions_total") > 0 })
	load.finish()
	s.checkTable(t, broker.Address, end)
	look()
	if dropped == 0 {
		t.Error("compaction dropped nothing: this has shown nothing")
	}
	broker.Stop()
	t.Logf("%d kills: %s; at least %.0f passes of compaction, %.0f records dropped", times, totals(subjects), passes, dropped)
}

// enter gives a record a key of its producer, and makes it a tombstone now and then.
func (s *subject) enter(name Name, record *kgo.Record, random *rand.Rand) {
	key := random.Int32N(keysEach)
	s.enterAs(name, record, fmt.Sprintf("%d/%d", name.Producer, key), key%s.partitions, random.IntN(5) == 0)
}

func (s *subject) enterAs(name Name, record *kgo.Record, key string, partition int32, tombstone bool) {
	record.Key, record.Partition = []byte(key), partition
	if tombstone {
		record.Headers = []kgo.RecordHeader{{Key: nameHeader, Value: record.Value[:nameBytes]}}
		record.Value = nil
	}
	s.table.Send(name, Entry{Key: key, Partition: partition, Tombstone: tombstone})
}

// foundKeyed makes a KeyedRecord of what was read.
func foundKeyed(record *kgo.Record) KeyedRecord {
	found := KeyedRecord{Offset: record.Offset, Key: string(record.Key), Tombstone: record.Value == nil}
	if !found.Tombstone {
		found.Name, found.Intact = ParseValue(record.Value)
	} else if len(record.Headers) == 1 && record.Headers[0].Key == nameHeader && len(record.Headers[0].Value) == nameBytes {
		found.Name, found.Intact = parseName(record.Headers[0].Value), true
	}
	return found
}

// checkTable reads everything and judges it. All producers are quiet.
func (s *subject) checkTable(t *testing.T, address string, client *kgo.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		ends := s.markEnds(ctx, t, client)
		began := time.Now()
		found := s.readTable(ctx, t, address, ends)
		if time.Since(began) > tombstonesStay {
			if ctx.Err() != nil {
				t.Fatalf("no read of %s was done in %s", s.topic, tombstonesStay)
			}
			continue
		}
		anomalies := s.table.Check(found)
		for _, anomaly := range anomalies[:min(len(anomalies), 20)] {
			t.Errorf("%s: %v", s.topic, anomaly)
		}
		return
	}
}

// markEnds puts a last record into each partition, so that a reader knows when it has come to the end: compaction
// may have taken the one that was there.
func (s *subject) markEnds(ctx context.Context, t *testing.T, client *kgo.Client) map[int32]int64 {
	t.Helper()
	ends := map[int32]int64{}
	for partition := range s.partitions {
		name := s.history.Send(int32(len(s.producers)))
		record := &kgo.Record{Topic: s.topic, Value: name.Value()}
		s.enterAs(name, record, fmt.Sprint("end of ", partition), partition, false)
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			t.Fatalf("marking the end of partition %d of %s: %v", partition, s.topic, err)
		}
		s.acknowledge(name, record)
		ends[partition] = record.Offset
	}
	return ends
}

// readTable reads from offset 0 to the ends.
func (s *subject) readTable(ctx context.Context, t *testing.T, address string, ends map[int32]int64) map[int32][]KeyedRecord {
	t.Helper()
	from := map[int32]kgo.Offset{}
	for partition := range ends {
		from[partition] = kgo.NewOffset().At(0)
	}
	client := newClient(t, address, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: from}), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	defer client.Close()
	found := map[int32][]KeyedRecord{}
	for left := len(ends); left > 0; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("reading %s: %v", s.topic, err)
		}
		for record := range fetches.RecordsAll() {
			found[record.Partition] = append(found[record.Partition], foundKeyed(record))
			if record.Offset == ends[record.Partition] {
				left--
			}
		}
	}
	return found
}

// await asks again and again until something is so.
func await(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	late := time.After(patience)
	for !isSo() {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("after %s still not: %s", patience, what)
		}
	}
}
