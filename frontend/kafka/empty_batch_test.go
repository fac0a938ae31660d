package kafka

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/record"
)

// emptyBatch is what compaction leaves of a batch of so many records, none of which is left.
func emptyBatch(offsets int32, maxTimestamp int64) []byte {
	var b record.Builder
	b.Reset(record.BuilderOptions{})
	b.SetLastOffsetDelta(offsets - 1)
	built, err := b.Build()
	if err != nil {
		panic(err)
	}
	empty := record.Batch(bytes.Clone(built))
	empty.SetMaxTimestamp(maxTimestamp) // compaction keeps it
	return empty
}

// store appends a batch past the checks for what clients send.
func (h *house) store(topic string, batch []byte) {
	h.t.Helper()
	found, err := h.broker.Topic([]byte(topic))
	if err != nil {
		h.t.Fatal(err)
	}
	p := h.broker.NewProduce()
	part := p.Add()
	part.Topic, part.Records = found, batch
	done := make(chan error, 1)
	p.Acks, p.Checked = broker.AcksAll, true
	p.Done = func(p *broker.Produce) { done <- p.Parts[0].Err }
	p.Start()
	select {
	case err := <-done:
		if err != nil {
			h.t.Fatal(err)
		}
	case <-time.After(patience):
		h.t.Fatal("no answer")
	}
	p.Release()
}

// black-box 26 (KIP-98, KAFKA-7467): batches without records are no end: they are served where they lie, consumers
// go on behind them from wherever they begin, and queries by time look past them. Only a client must not send one.
func TestBatchesWithoutRecordsAreServed(t *testing.T) {
	h := startHouse(t)
	id := h.topic("orders", 1, nil)
	produce := func(from, count int) {
		var records []*kgo.Record
		for n := range count {
			records = append(records, &kgo.Record{Topic: "orders", Value: fmt.Append(nil, from+n), Timestamp: time.UnixMilli(int64(1000 + from + n))})
		}
		h.produceAll(h.client(), records...)
	}
	produce(0, 3)
	h.store("orders", emptyBatch(10, 2000)) // 3 to 12
	produce(13, 2)
	h.store("orders", emptyBatch(5, 3000)) // 15 to 19
	h.store("orders", emptyBatch(5, 3001)) // 20 to 24

	at := func(from int64) *kgo.Client {
		before := h.fetches()
		consumer := h.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(from)}}),
			kgo.FetchMaxPartitionBytes(1)) // a batch at a time
		h.awaitFetch(before)
		return consumer
	}
	waiting := at(22) // inside the last one
	produce(25, 1)
	if got := h.consume(waiting, 1)[0]; got.Offset != 25 {
		t.Errorf("who waited inside an empty batch gets offset %d, want 25", got.Offset)
	}
	for _, c := range []struct {
		from int64
		want []int64
	}{{0, []int64{0, 1, 2, 13, 14, 25}}, {3, []int64{13, 14, 25}}, {7, []int64{13, 14, 25}}, {14, []int64{14, 25}}, {15, []int64{25}}, {22, []int64{25}}} {
		for i, r := range h.consume(at(c.from), len(c.want)) {
			if r.Offset != c.want[i] || string(r.Value) != fmt.Sprint(c.want[i]) {
				t.Fatalf("from %d: %q at offset %d, want %d", c.from, r.Value, r.Offset, c.want[i])
			}
		}
	}

	client := h.client()
	response, err := fetchRequest(13, "", id, 16).RequestWith(h.context(), client)
	if err != nil {
		t.Fatal(err)
	}
	first, _, err := record.Next(response.Topics[0].Partitions[0].RecordBatches)
	if err != nil || first.BaseOffset() != 15 || first.RecordCount() != 0 {
		t.Errorf("from inside an empty batch: offset %d with %d records (%v), want the batch itself", first.BaseOffset(), first.RecordCount(), err)
	}
	for _, c := range []struct{ ask, offset, at int64 }{{1002, 2, 1002}, {1003, 13, 1013}, {1500, -1, -1}, {-3, 25, 1025}, {-1, 26, -1}} {
		request := kmsg.NewPtrListOffsetsRequest()
		request.ReplicaID = -1
		asked := kmsg.NewListOffsetsRequestTopic()
		asked.Topic = "orders"
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Timestamp = c.ask
		asked.Partitions = append(asked.Partitions, partition)
		request.Topics = append(request.Topics, asked)
		response, err := request.RequestWith(h.context(), client)
		if err != nil {
			t.Fatal(err)
		}
		if p := response.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.Offset != c.offset || p.Timestamp != c.at {
			t.Errorf("timestamp %d: code %d, offset %d at %d; want %d at %d", c.ask, p.ErrorCode, p.Offset, p.Timestamp, c.offset, c.at)
		}
	}
	refused, err := produceRequest(13, "", id, emptyBatch(3, 1)).RequestWith(h.context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if got := refused.Topics[0].Partitions[0].ErrorCode; got != kerr.InvalidRecord.Code {
		t.Errorf("from a client: code %d, want INVALID_RECORD", got)
	}
}
