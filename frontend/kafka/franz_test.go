package kafka

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceAll produces records synchronously and fails the test on any error.
func (h *house) produceAll(c *kgo.Client, records ...*kgo.Record) {
	h.t.Helper()
	if err := c.ProduceSync(h.context(), records...).FirstErr(); err != nil {
		h.t.Fatal(err)
	}
}

// consume polls until it has count records.
func (h *house) consume(c *kgo.Client, count int) (records []*kgo.Record) {
	h.t.Helper()
	ctx := h.context()
	for len(records) < count {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			h.t.Fatalf("after %d of %d records: %v", len(records), count, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// 1C of kafka-map: offsets from 0 on, dense; records come back with key, value,
// headers and timestamp, in every codec.
func TestRecordsComeBackAsTheyWere(t *testing.T) {
	h := startHouse(t)
	h.topic("orders", 1, nil)
	base := time.UnixMilli(1_700_000_000_000)
	var want []string
	for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		producer := h.client(kgo.ProducerBatchCompression(codec))
		var records []*kgo.Record
		for n := range 100 {
			at := 100*i + n
			records = append(records, &kgo.Record{Topic: "orders", Key: fmt.Appendf(nil, "key-%d", at), Value: fmt.Appendf(nil, "value-%d", at),
				Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}, Timestamp: base.Add(time.Duration(at) * time.Second)})
			want = append(want, fmt.Sprintf("%d key-%d value-%d h=v %d", at, at, at, base.UnixMilli()+int64(at)*1000))
		}
		h.produceAll(producer, records...)
	}
	consumer := h.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().AtStart()}}))
	for i, r := range h.consume(consumer, len(want)) {
		got := fmt.Sprintf("%d %s %s %s=%s %d", r.Offset, r.Key, r.Value, r.Headers[0].Key, r.Headers[0].Value, r.Timestamp.UnixMilli())
		if got != want[i] {
			t.Fatalf("record %d is %q, want %q", i, got, want[i])
		}
	}
}

// black-box 1 to 3 and 7: a query by time lands on the record, also inside a
// compressed batch; past the end there is none; -3 is the latest of all.
func TestOffsetsByTimeAreExact(t *testing.T) {
	h := startHouse(t)
	h.topic("orders", 1, nil)
	producer := h.client(kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	var records []*kgo.Record
	for n := 1; n <= 100; n++ { // timestamps 2, 4, ..., 200: out of order in one place
		records = append(records, &kgo.Record{Topic: "orders", Value: []byte("x"), Timestamp: time.UnixMilli(int64(2 * n))})
	}
	records[49].Timestamp, records[50].Timestamp = records[50].Timestamp, records[49].Timestamp
	h.produceAll(producer, records[:60]...)
	h.produceAll(producer, records[60:]...)

	raw := func(timestamp int64) (offset, at int64) {
		request := kmsg.NewPtrListOffsetsRequest()
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = "orders"
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Timestamp = timestamp
		topic.Partitions = append(topic.Partitions, partition)
		request.Topics = append(request.Topics, topic)
		response, err := request.RequestWith(h.context(), producer)
		if err == nil {
			err = kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
		}
		if err != nil {
			t.Fatal(err)
		}
		p := response.Topics[0].Partitions[0]
		return p.Offset, p.Timestamp
	}
	for _, c := range []struct{ ask, offset, at int64 }{
		{0, 0, 2}, {1, 0, 2}, {2, 0, 2}, {3, 1, 4}, {99, 49, 102}, {100, 49, 102}, {101, 49, 102}, {102, 49, 102}, {103, 51, 104}, {121, 60, 122}, {200, 99, 200},
		{201, -1, -1}, {-3, 99, 200}, {-1, 100, -1}, {-2, 0, -1}, {-4, 0, -1}, {-5, -1, -1},
	} {
		if offset, at := raw(c.ask); offset != c.offset || at != c.at {
			t.Errorf("timestamp %d finds offset %d at %d, want %d at %d", c.ask, offset, at, c.offset, c.at)
		}
	}
}

// An empty log has no latest timestamp, and starts where it ends.
func TestOffsetsOfAnEmptyLog(t *testing.T) {
	h := startHouse(t)
	h.topic("orders", 1, nil)
	for name, list := range map[string]func(context.Context, ...string) (kadm.ListedOffsets, error){
		"start": h.admin().ListStartOffsets, "end": h.admin().ListEndOffsets, "max": h.admin().ListMaxTimestampOffsets,
	} {
		listed, err := list(h.context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		got, _ := listed.Lookup("orders", 0)
		want := int64(0)
		if name == "max" {
			want = -1
		}
		if got.Err != nil || got.Offset != want {
			t.Errorf("%s: offset %d, error %v, want %d", name, got.Offset, got.Err, want)
		}
	}
}

// 1E: a duplicate of a batch is acknowledged with the original's offset and not appended; a
// gap in the sequence is OUT_OF_ORDER_SEQUENCE_NUMBER.
func TestIdempotentProduceOnTheWire(t *testing.T) {
	h := startHouse(t)
	topic := h.topic("orders", 1, nil)
	client := h.client()
	id, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(h.context(), client)
	if err != nil || id.ErrorCode != 0 {
		t.Fatal(err, id)
	}
	produce := func(sequence int32) (int64, int16) {
		request := produceRequest(13, "", topic, idempotentBatch(id.ProducerID, sequence, "v"))
		response, err := request.RequestWith(h.context(), client)
		if err != nil {
			t.Fatal(err)
		}
		p := response.Topics[0].Partitions[0]
		return p.BaseOffset, p.ErrorCode
	}
	for _, c := range []struct {
		sequence int32
		offset   int64
		code     int16
	}{{0, 0, 0}, {1, 1, 0}, {2, 2, 0}, {1, 1, 0}, {2, 2, 0}, {9, -1, 45}, {3, 3, 0}} {
		if offset, code := produce(c.sequence); offset != c.offset || code != c.code {
			t.Errorf("sequence %d: offset %d, code %d; want %d, %d", c.sequence, offset, code, c.offset, c.code)
		}
	}
}

// KIP-320: epochs that the broker does not lead under are told apart; the end of
// the present one is the end of the log.
func TestEpochsAreCompared(t *testing.T) {
	h := startHouse(t)
	id := h.topic("orders", 1, nil)
	client := h.client()
	h.produceAll(client, &kgo.Record{Topic: "orders", Value: []byte("a")}, &kgo.Record{Topic: "orders", Value: []byte("b")})
	topic, _ := h.broker.Image().TopicByID(id)
	led := topic.Partitions[0].LeaderEpoch

	ask := func(current, epoch int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
		request := kmsg.NewPtrOffsetForLeaderEpochRequest()
		request.ReplicaID = -1
		asked := kmsg.NewOffsetForLeaderEpochRequestTopic()
		asked.Topic = "orders"
		asked.Partitions = append(asked.Partitions, kmsg.OffsetForLeaderEpochRequestTopicPartition{CurrentLeaderEpoch: current, LeaderEpoch: epoch})
		request.Topics = append(request.Topics, asked)
		response, err := request.RequestWith(h.context(), client)
		if err != nil {
			t.Fatal(err)
		}
		return response.Topics[0].Partitions[0]
	}
	if got := ask(led, led); got.ErrorCode != 0 || got.LeaderEpoch != led || got.EndOffset != 2 {
		t.Errorf("the present epoch: %+v, want its end at 2", got)
	}
	if got := ask(led+1, led); got.ErrorCode != kerr.UnknownLeaderEpoch.Code {
		t.Errorf("a client ahead of us: %+v", got)
	}
	if got := ask(-1, led+5); got.ErrorCode != 0 || got.LeaderEpoch != -1 || got.EndOffset != -1 {
		t.Errorf("an epoch that never was: %+v, want -1, -1", got)
	}

	fetch := fetchRequest(13, "", id, 2)
	fetch.Topics[0].Partitions[0].LastFetchedEpoch = led
	response, err := fetch.RequestWith(h.context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if got := response.Topics[0].Partitions[0]; got.ErrorCode != 0 || got.DivergingEpoch.EndOffset != -1 {
		t.Errorf("KIP-595: an equal log is told to run apart: %+v", got)
	}
}

// black-box 28 (KIP-74): one batch over the limits is returned whole; a second one is not.
func TestOneBatchOverTheLimitIsReturnedWhole(t *testing.T) {
	h := startHouse(t)
	large := "10000000"
	h.topic("orders", 1, map[string]*string{"max.message.bytes": &large})
	producer := h.client(kgo.ProducerBatchMaxBytes(8<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for range 2 {
		h.produceAll(producer, &kgo.Record{Topic: "orders", Value: make([]byte, 5<<20)})
	}
	consumer := h.client(kgo.FetchMaxPartitionBytes(1), kgo.FetchMaxBytes(1), kgo.BrokerMaxReadBytes(100<<20),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().AtStart()}}))
	for i, r := range h.consume(consumer, 2) {
		if r.Offset != int64(i) || len(r.Value) != 5<<20 {
			t.Errorf("record %d has offset %d and %d bytes", i, r.Offset, len(r.Value))
		}
	}
}

// 1A N6: a consumer at the end gets a record that is produced while it waits.
func TestConsumerAtTheEndIsWoken(t *testing.T) {
	h := startHouse(t)
	h.topic("orders", 1, nil)
	consumer := h.client(kgo.FetchMaxWait(patience), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(0)}}))
	result := make(chan []*kgo.Record, 1)
	go func() { result <- consumer.PollFetches(context.Background()).Records() }()
	h.awaitFetch(0)
	h.produceAll(h.client(), &kgo.Record{Topic: "orders", Value: []byte("x")})
	select {
	case records := <-result:
		if len(records) != 1 || string(records[0].Value) != "x" {
			t.Errorf("%d records", len(records))
		}
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
}

// Auto-creation as clients meet it: produce to a topic that nobody made.
func TestProduceToATopicThatNobodyMade(t *testing.T) {
	h := startHouse(t)
	producer := h.client(kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(-1))
	h.produceAll(producer, &kgo.Record{Topic: "made-on-demand", Value: []byte("x")})
	consumer := h.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"made-on-demand": {0: kgo.NewOffset().AtStart()}}))
	if got := h.consume(consumer, 1); string(got[0].Value) != "x" {
		t.Errorf("consumed %q", got[0].Value)
	}
}

// 1E: above max.message.bytes the client is told the limit by its name.
func TestMessageTooLargeIsRefused(t *testing.T) {
	h := startHouse(t)
	h.topic("orders", 1, nil)
	producer := h.client(kgo.ProducerBatchMaxBytes(4<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	err := producer.ProduceSync(h.context(), &kgo.Record{Topic: "orders", Value: make([]byte, 2<<20)}).FirstErr()
	if !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("got %v, want MESSAGE_TOO_LARGE", err)
	}
}

// Many partitions in one produce and one fetch, by the default idempotent client.
func TestManyPartitionsInOneRequest(t *testing.T) {
	h := startHouse(t)
	const partitions, each = 64, 20
	h.topic("wide", partitions, nil)
	producer := h.client()
	var records []*kgo.Record
	for n := range partitions * each {
		records = append(records, &kgo.Record{Topic: "wide", Partition: int32(n % partitions), Value: fmt.Appendf(nil, "%d", n)})
	}
	h.produceAll(producer, records...)
	all := make(map[int32]kgo.Offset)
	for p := range int32(partitions) {
		all[p] = kgo.NewOffset().AtStart()
	}
	next := make(map[int32]int64)
	for _, r := range h.consume(h.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"wide": all})), partitions*each) {
		if r.Offset != next[r.Partition] || string(r.Value) != fmt.Sprint(int64(r.Partition)+r.Offset*partitions) {
			t.Fatalf("partition %d offset %d holds %q, want offset %d", r.Partition, r.Offset, r.Value, next[r.Partition])
		}
		next[r.Partition]++
	}
}

// 1E: what was acknowledged is there after a restart, the leader has a higher
// epoch, and the producer's state survives: a retry is still a duplicate.
func TestARestartKeepsRecordsAndProducers(t *testing.T) {
	h := startHouse(t)
	id := h.topic("orders", 1, nil)
	epoch := func() int32 {
		topic, _ := h.broker.Image().TopicByID(id)
		return topic.Partitions[0].LeaderEpoch
	}
	client := h.client()
	producer, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(h.context(), client)
	if err != nil {
		t.Fatal(err)
	}
	produce := func(sequence int32) int64 {
		t.Helper()
		request := produceRequest(13, "", id, idempotentBatch(producer.ProducerID, sequence, fmt.Sprint(sequence)))
		response, err := request.RequestWith(h.context(), h.client())
		if err == nil {
			err = kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
		}
		if err != nil {
			t.Fatal(err)
		}
		return response.Topics[0].Partitions[0].BaseOffset
	}
	for sequence := range int32(3) {
		produce(sequence)
	}
	before := epoch()
	h.restart()
	if after := epoch(); after <= before {
		t.Errorf("leader epoch %d after a restart, was %d (architecture rule 11)", after, before)
	}
	if got := produce(2); got != 2 {
		t.Errorf("a retry after the restart is at offset %d, want the original's 2", got)
	}
	if got := produce(3); got != 3 {
		t.Errorf("the next batch is at offset %d, want 3", got)
	}
	consumer := h.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().AtStart()}}))
	for i, r := range h.consume(consumer, 4) {
		if r.Offset != int64(i) || string(r.Value) != fmt.Sprint(i) {
			t.Errorf("offset %d holds %q", r.Offset, r.Value)
		}
	}
	next, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(h.context(), client)
	if err != nil || next.ProducerID <= producer.ProducerID {
		t.Errorf("producer id %d after %d (%v)", next.ProducerID, producer.ProducerID, err)
	}
}

// black-box 36 and 37: records are deleted up to an offset, also inside a batch, which
// is then returned whole; a query by time finds nothing below the new start.
func TestDeleteRecordsMovesTheStart(t *testing.T) {
	h := startHouse(t)
	h.topic("orders", 1, nil)
	keep := ""
	h.topic("kept", 1, map[string]*string{"cleanup.policy": &keep})
	var records []*kgo.Record
	for n := range 10 {
		records = append(records, &kgo.Record{Topic: "orders", Value: fmt.Append(nil, n), Timestamp: time.UnixMilli(int64(100 + n))})
	}
	h.produceAll(h.client(), records...)
	remove := func(topic string, offset int64) (int64, error) {
		var offsets kadm.Offsets
		offsets.Add(kadm.Offset{Topic: topic, At: offset})
		deleted, err := h.admin().DeleteRecords(h.context(), offsets)
		got, _ := deleted.Lookup(topic, 0)
		return got.LowWatermark, errors.Join(err, got.Err)
	}
	for _, c := range []struct {
		offset, start int64
		err           error
	}{{4, 4, nil}, {2, 4, nil}, {99, -1, kerr.OffsetOutOfRange}, {-7, -1, kerr.OffsetOutOfRange}} {
		if start, err := remove("orders", c.offset); start != c.start || !errors.Is(err, c.err) {
			t.Errorf("delete below %d: start %d, %v; want %d, %v", c.offset, start, err, c.start, c.err)
		}
	}
	if _, err := remove("kept", 0); !errors.Is(err, kerr.PolicyViolation) {
		t.Errorf("a topic that does not delete: %v", err)
	}
	consumer := h.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().AtStart()}}))
	if got := h.consume(consumer, 6); got[0].Offset != 4 {
		t.Errorf("the first record has offset %d", got[0].Offset)
	}
	listed, err := h.admin().ListOffsetsAfterMilli(h.context(), 101, "orders")
	if got, _ := listed.Lookup("orders", 0); err != nil || got.Offset != 4 {
		t.Errorf("the first record from millisecond 101 on is at %d (%v), want 4", got.Offset, err)
	}
	if start, err := remove("orders", -1); start != 10 || err != nil {
		t.Errorf("delete everything: start %d, %v", start, err)
	}
}

// KIP-320: a consumer that runs on through restarts compares epochs each time, and must
// not take a leader under which nothing was appended for a log that was cut.
func TestAConsumerRunsThroughRestarts(t *testing.T) {
	h := startHouse(t)
	h.topic("orders", 1, nil)
	from := map[string]func() kgo.Offset{
		"the start": func() kgo.Offset { return kgo.NewOffset().AtStart() },
		"the end":   func() kgo.Offset { return kgo.NewOffset().AtEnd() },
	}
	consumers := make(map[string]*kgo.Client)
	for name, offset := range from {
		before := h.fetches()
		consumers[name] = h.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: offset()}}),
			kgo.FetchMaxWait(patience), kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }))
		h.awaitFetch(before) // it has found its place
	}
	for round := range 4 {
		if round%2 == 1 { // every other leader appends nothing
			h.produceAll(h.client(), &kgo.Record{Topic: "orders", Value: fmt.Append(nil, round)})
			for name, consumer := range consumers {
				if got := h.consume(consumer, 1); string(got[0].Value) != fmt.Sprint(round) {
					t.Errorf("the consumer from %s gets %q in round %d", name, got[0].Value, round)
				}
			}
		}
		h.restart()
	}
}

// KIP-595: a client whose log ends behind the end of an old epoch is told where that
// epoch ended here, gets no records, and is not kept waiting.
func TestALogThatRunsApartIsToldWhere(t *testing.T) {
	h := startHouse(t)
	id := h.topic("orders", 1, nil)
	h.produceAll(h.client(), &kgo.Record{Topic: "orders", Value: []byte("x")}, &kgo.Record{Topic: "orders", Value: []byte("y")})
	old, _ := h.broker.Image().TopicByID(id)
	h.restart()
	h.produceAll(h.client(), &kgo.Record{Topic: "orders", Value: []byte("z")})

	request := fetchRequest(13, "", id, 3)
	request.MinBytes, request.MaxWaitMillis = 1, 3_600_000
	request.Topics[0].Partitions[0].LastFetchedEpoch = old.Partitions[0].LeaderEpoch
	response, err := request.RequestWith(h.context(), h.client())
	if err != nil {
		t.Fatal(err)
	}
	got := response.Topics[0].Partitions[0]
	if got.ErrorCode != 0 || got.DivergingEpoch.Epoch != old.Partitions[0].LeaderEpoch || got.DivergingEpoch.EndOffset != 2 || len(got.RecordBatches) != 0 {
		t.Errorf("code %d, %d bytes, diverging at %+v; want epoch %d to end at 2", got.ErrorCode, len(got.RecordBatches), got.DivergingEpoch, old.Partitions[0].LeaderEpoch)
	}
}

// fetches is the number of fetches that came in the present life.
func (h *house) fetches() int64 { return h.protocol.metrics.Requests[kmsg.Fetch].Load() }

// awaitFetch waits until more than before fetches came.
func (h *house) awaitFetch(before int64) {
	h.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for h.fetches() <= before {
		select {
		case <-tick.C:
		case <-timeout:
			h.t.Fatal("no fetch came")
		}
	}
}
