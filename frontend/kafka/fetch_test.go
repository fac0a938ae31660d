package kafka

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
	"ringlog/engine"
	"ringlog/record"
)

func fetched(s *scene, request *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	s.t.Helper()
	return ask[*kmsg.FetchResponse](s.client, request).Topics[0].Partitions[0]
}

// black-box 29 (KAFKA-18646): records are empty and never null, at the end of the
// log and beside an error, in every version.
func TestFetchedRecordsAreNeverNull(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	everyVersion(t, kmsg.Fetch, func(t *testing.T, version int16) {
		for name, request := range map[string]*kmsg.FetchRequest{
			"at the end":    fetchRequest(version, "orders", topic.ID, 0),
			"out of range":  fetchRequest(version, "orders", topic.ID, 99),
			"unknown topic": fetchRequest(version, "missing", [16]byte{7}, 0),
		} {
			if got := fetched(s, request); got.RecordBatches == nil {
				t.Errorf("%s: records are null", name)
			}
		}
	})
}

// What was produced comes back byte for byte but for base offset and leader epoch.
func TestFetchReturnsWhatWasProduced(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	for i, codec := range []record.Codec{record.CodecNone, record.CodecGzip, record.CodecSnappy, record.CodecLZ4, record.CodecZstd} {
		sent := batch(codec, "a", "b", "c")
		ask[*kmsg.ProduceResponse](s.client, produceRequest(13, "", topic.ID, sent))
		got := fetched(s, fetchRequest(13, "", topic.ID, int64(3*i)))
		if got.ErrorCode != 0 || got.HighWatermark != int64(3*i+3) || got.LastStableOffset != got.HighWatermark || got.LogStartOffset != 0 {
			t.Fatalf("%v: %+v", codec, got)
		}
		want := record.Batch(bytes.Clone(sent))
		want.SetBaseOffset(int64(3 * i))
		want.SetLeaderEpoch(record.Batch(got.RecordBatches).LeaderEpoch())
		if !bytes.Equal(got.RecordBatches, want) {
			t.Errorf("%v: fetched %x, want %x", codec, got.RecordBatches, want)
		}
	}
}

// The bytes of records go from the engine to the connection's writev as the slices
// that the engine gave: the reply refers to them and copies none.
func TestFetchRepliesReferToTheEnginesMemory(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	ask[*kmsg.ProduceResponse](s.client, produceRequest(13, "", topic.ID, batch(record.CodecNone, "a", "b")))
	stored, err := s.engine.Stored(engine.LogID(topic.Partitions[0].LogID))
	if err != nil || len(stored) != 1 {
		t.Fatalf("%d batches stored, %v", len(stored), err)
	}
	referred := false
	s.written = func(parts [][]byte) {
		for _, part := range parts {
			referred = referred || len(part) == len(stored[0]) && &part[0] == &stored[0][0]
		}
	}
	if got := fetched(s, fetchRequest(13, "", topic.ID, 0)); len(got.RecordBatches) != len(stored[0]) {
		t.Fatalf("%d bytes of records", len(got.RecordBatches))
	}
	if !referred {
		t.Error("the reply has a copy of the records")
	}
}

func TestFetchRefusesWithKafkasCodes(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	for _, c := range []struct {
		name    string
		request *kmsg.FetchRequest
		change  func(*kmsg.FetchRequest)
		want    int16
	}{
		{"unknown topic", fetchRequest(12, "missing", [16]byte{}, 0), nil, 3},
		{"unknown topic id (KIP-516)", fetchRequest(13, "", [16]byte{7}, 0), nil, 100},
		{"unknown partition", fetchRequest(12, "orders", [16]byte{}, 0), func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].Partition = 3 }, 3},
		{"out of range", fetchRequest(12, "orders", [16]byte{}, 99), nil, 1},
		{"older leader epoch (KIP-320)", fetchRequest(12, "orders", [16]byte{}, 0), func(r *kmsg.FetchRequest) {
			r.Topics[0].Partitions[0].CurrentLeaderEpoch = topic.Partitions[0].LeaderEpoch - 1
		}, 0}, // epoch -1 is "not known"
		{"newer leader epoch (KIP-320)", fetchRequest(12, "orders", [16]byte{}, 0), func(r *kmsg.FetchRequest) {
			r.Topics[0].Partitions[0].CurrentLeaderEpoch = topic.Partitions[0].LeaderEpoch + 1
		}, 75},
		{"replica (CVE-2018-1288)", fetchRequest(12, "orders", [16]byte{}, 0), func(r *kmsg.FetchRequest) { r.ReplicaID = 2 }, 29},
		{"replica of KIP-903", fetchRequest(15, "", topic.ID, 0), func(r *kmsg.FetchRequest) { r.ReplicaState.ID = 2 }, 29},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.request)
			}
			got := fetched(s, c.request)
			if got.ErrorCode != c.want {
				t.Errorf("code %d, want %d", got.ErrorCode, c.want)
			}
			if c.want != 0 && got.HighWatermark != -1 {
				t.Errorf("high watermark %d beside an error, want -1", got.HighWatermark)
			}
		})
	}
}

// black-box 31 (KIP-110): who fetches below version 10 cannot read zstd.
func TestZstdIsRefusedBeforeVersionTen(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	ask[*kmsg.ProduceResponse](s.client, produceRequest(13, "", topic.ID, batch(record.CodecZstd, "a")))
	for version, want := range map[int16]int16{4: 76, 9: 76, 10: 0, 18: 0} {
		got := fetched(s, fetchRequest(version, "orders", topic.ID, 0))
		if got.ErrorCode != want || (want == 0) != (len(got.RecordBatches) > 0) {
			t.Errorf("version %d: code %d and %d bytes, want code %d", version, got.ErrorCode, len(got.RecordBatches), want)
		}
	}
}

// 1A N6: a fetch that finds nothing waits, and is answered by the produce.
func TestFetchWaitsForAProduce(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	request := fetchRequest(13, "", topic.ID, 0)
	request.MinBytes, request.MaxWaitMillis = 1, 3_600_000
	s.send(request)
	waitParked(t, s, 1)
	producer := newClient(t, s.protocol)
	ask[*kmsg.ProduceResponse](producer, produceRequest(13, "", topic.ID, batch(record.CodecNone, "a")))
	got := decode(t, request, s.next(request)).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if len(got.RecordBatches) == 0 || got.HighWatermark != 1 {
		t.Errorf("%d bytes at high watermark %d", len(got.RecordBatches), got.HighWatermark)
	}
}

// An error of one partition is told at once, however long the others would wait.
func TestFetchWithAnErrorDoesNotWait(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	request := fetchRequest(13, "", topic.ID, 0)
	request.Topics = append(request.Topics, fetchRequest(13, "", [16]byte{7}, 0).Topics...)
	request.MinBytes, request.MaxWaitMillis = 1, 3_600_000
	got := ask[*kmsg.FetchResponse](s.client, request)
	if got.Topics[0].Partitions[0].ErrorCode != 0 || got.Topics[1].Partitions[0].ErrorCode != 100 {
		t.Errorf("codes %d and %d", got.Topics[0].Partitions[0].ErrorCode, got.Topics[1].Partitions[0].ErrorCode)
	}
}

// A fetch does not outlive its connection.
func TestFetchIsCancelledWithItsConnection(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	gone := newClient(t, s.protocol)
	request := fetchRequest(13, "", topic.ID, 0)
	request.MinBytes, request.MaxWaitMillis = 1, 3_600_000
	gone.send(request)
	waitParked(t, s, 1)
	gone.session.Closed(net.ErrClosed)
	waitParked(t, s, 0)
}

// waitParked waits until that many reads are parked in the engine.
func waitParked(t *testing.T, s *scene, want int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for s.engine.Parked() != want {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("%d reads are parked, want %d", s.engine.Parked(), want)
		}
	}
}

// Kafka answers one request of a connection at a time. Pipelined here: each
// request sees what those before it did, and answers come in order.
func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	s := newScene(t, Options{})
	create := at(7, kmsg.NewPtrCreateTopicsRequest())
	asked := kmsg.NewCreateTopicsRequestTopic()
	asked.Topic, asked.NumPartitions, asked.ReplicationFactor = "orders", 1, 1
	create.Topics = append(create.Topics, asked)
	describe := at(12, kmsg.NewPtrMetadataRequest())
	topic := brokertest.CreateTopic(t, s.broker, "first", 1, nil)

	requests := []kmsg.Request{
		create,
		describe, // must list what create made
		produceRequest(13, "", topic.ID, batch(record.CodecNone, "a")),
		fetchRequest(13, "", topic.ID, 0), // must return what was produced
		produceRequest(13, "", topic.ID, batch(record.CodecNone, "b")),
	}
	for _, request := range requests {
		s.send(request)
	}
	decode(t, create, s.next(create))
	names := []string{}
	for _, topic := range decode(t, describe, s.next(describe)).(*kmsg.MetadataResponse).Topics {
		names = append(names, *topic.Topic)
	}
	if fmt.Sprint(names) != "[first orders]" {
		t.Errorf("metadata lists %v", names)
	}
	decode(t, requests[2], s.next(requests[2]))
	got := decode(t, requests[3], s.next(requests[3])).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if !strings.Contains(string(got.RecordBatches), "a") {
		t.Errorf("the fetch does not see the produce before it")
	}
	decode(t, requests[4], s.next(requests[4]))
}
