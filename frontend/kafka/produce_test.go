package kafka

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
	"ringlog/engine"
	"ringlog/record"
)

// partition0 is the answer of the one partition that a test asked.
func produced(t *testing.T, s *scene, request *kmsg.ProduceRequest) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	return ask[*kmsg.ProduceResponse](s.client, request).Topics[0].Partitions[0]
}

// The codes of a refused produce, partition by partition, and nothing appended.
func TestProduceRefusesWithKafkasCodes(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, map[string]string{"max.message.bytes": "1000"})
	brokertest.CreateTopic(t, s.broker, "pairs", 1, map[string]string{"min.insync.replicas": "2"})
	good := batch(record.CodecNone, "a")
	transaction := "tx"
	flipped := batch(record.CodecNone, "a")
	flipped[len(flipped)-1] ^= 1

	for _, c := range []struct {
		name    string
		request *kmsg.ProduceRequest
		change  func(*kmsg.ProduceRequest)
		want    int16
		text    string
	}{
		{"unknown topic", produceRequest(9, "missing", [16]byte{}, good), nil, 3, ""},
		{"unknown topic id (KIP-516)", produceRequest(13, "", [16]byte{9}, good), nil, 100, ""},
		{"unknown partition", produceRequest(9, "orders", [16]byte{}, good), func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Partition = 7 }, 3, ""},
		{"acks of 2", produceRequest(9, "orders", [16]byte{}, good), func(r *kmsg.ProduceRequest) { r.Acks = 2 }, 21, "-1, 0 or 1"},
		{"too large", produceRequest(9, "orders", [16]byte{}, batch(record.CodecNone, strings.Repeat("x", 1000))), nil, 10, "max.message.bytes of the topic is 1000"},
		{"not enough replicas for acks=all", produceRequest(9, "pairs", [16]byte{}, good), nil, 19, "min.insync.replicas"},
		{"damaged", produceRequest(9, "orders", [16]byte{}, flipped), nil, 2, ""},
		{"no batch", produceRequest(9, "orders", [16]byte{}, nil), nil, 87, ""},
		{"two batches", produceRequest(9, "orders", [16]byte{}, append(batch(record.CodecNone, "a"), good...)), nil, 87, ""},
		{"zstd before v7 (KIP-110)", produceRequest(6, "orders", [16]byte{}, batch(record.CodecZstd, "a")), nil, 76, ""},
		{"transactional id", produceRequest(9, "orders", [16]byte{}, good), func(r *kmsg.ProduceRequest) { r.TransactionID = &transaction }, 48, "transactions"},
		{"v0 (KAFKA-18659)", produceRequest(0, "orders", [16]byte{}, good), nil, 35, ""},
		{"v2 (KAFKA-18659)", produceRequest(2, "orders", [16]byte{}, good), nil, 35, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.request)
			}
			got := produced(t, s, c.request)
			if got.ErrorCode != c.want || got.BaseOffset != -1 {
				t.Errorf("code %d at offset %d, want code %d at -1", got.ErrorCode, got.BaseOffset, c.want)
			}
			if c.text != "" && (got.ErrorMessage == nil || !strings.Contains(*got.ErrorMessage, c.text)) {
				t.Errorf("the message %v does not say %q", got.ErrorMessage, c.text)
			}
		})
	}
	if got := produced(t, s, produceRequest(13, "", topic.ID, good)); got.ErrorCode != 0 || got.BaseOffset != 0 {
		t.Errorf("after all refusals: code %d at offset %d, want the log empty", got.ErrorCode, got.BaseOffset)
	}
}

// KIP-467: from version 8 on the answer names the records at fault.
func TestProduceNamesTheRecordsAtFault(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	var b record.Builder
	b.Reset(record.BuilderOptions{})
	now := time.Now()
	b.Append(now.UnixMilli(), nil, []byte("fine"))
	b.Append(now.Add(2*time.Hour).UnixMilli(), nil, []byte("from the future"))
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	got := produced(t, s, produceRequest(8, "orders", [16]byte{}, built))
	if got.ErrorCode != 32 {
		t.Errorf("code %d, want INVALID_TIMESTAMP (32)", got.ErrorCode)
	}
	if len(got.ErrorRecords) != 1 || got.ErrorRecords[0].RelativeOffset != 1 || got.ErrorRecords[0].ErrorMessage == nil {
		t.Errorf("records at fault %+v, want record 1 with a message", got.ErrorRecords)
	}
}

// black-box 33, reliability 5: LogAppendTime goes out in the answer and is a
// bit of the stored batch.
func TestLogAppendTimeIsAnsweredAndStored(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "stamped", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	before := time.Now().UnixMilli()
	got := produced(t, s, produceRequest(13, "", topic.ID, batch(record.CodecGzip, "a")))
	if got.LogAppendTime < before {
		t.Fatalf("log append time %d, want at least %d", got.LogAppendTime, before)
	}
	fetched := ask[*kmsg.FetchResponse](s.client, fetchRequest(13, "", topic.ID, 0)).Topics[0].Partitions[0]
	stored := record.Batch(fetched.RecordBatches)
	if err := record.Check(stored); err != nil {
		t.Fatal(err)
	}
	if !stored.LogAppendTime() || stored.MaxTimestamp() != got.LogAppendTime {
		t.Errorf("stored with LogAppendTime %t at %d, want %d", stored.LogAppendTime(), stored.MaxTimestamp(), got.LogAppendTime)
	}
}

// Without LogAppendTime the answer says -1, as in Kafka.
func TestCreateTimeIsAnsweredAsMinusOne(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	if got := produced(t, s, produceRequest(9, "orders", [16]byte{}, batch(record.CodecNone, "a"))); got.LogAppendTime != -1 {
		t.Errorf("log append time %d, want -1", got.LogAppendTime)
	}
}

// acks=0 has no answer: the next answer on the connection is that of the next request.
func TestAcksNoneGetsNoAnswer(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	silent := produceRequest(9, "orders", [16]byte{}, batch(record.CodecNone, "a"))
	silent.Acks = 0
	s.send(silent)
	got := produced(t, s, produceRequest(13, "", topic.ID, batch(record.CodecNone, "b")))
	if got.BaseOffset != 1 {
		t.Errorf("base offset %d, want 1 behind the batch with acks=0", got.BaseOffset)
	}
}

// holdingEngine keeps appends.
type holdingEngine struct {
	*brokertest.Engine
	held []*engine.AppendGroup
}

func (e *holdingEngine) Append(group *engine.AppendGroup) { e.held = append(e.held, group) }

// A client that wants no answer has no more in flight than one that does: its frames count
// until the engine has their bytes.
func TestAcksNoneCountsInWhatIsInFlight(t *testing.T) {
	store := &holdingEngine{Engine: brokertest.NewEngine()}
	b, _ := brokertest.Start(t, store, brokertest.Options{})
	topic := brokertest.CreateTopic(t, b, "orders", 1, nil)
	c := newClient(t, New(Options{Broker: b}))
	silent := produceRequest(13, "", topic.ID, batch(record.CodecNone, "a"))
	silent.Acks = 0
	c.send(silent)
	c.send(silent)
	if got := c.Pending(); got != 2 {
		t.Errorf("%d requests are in flight, want 2", got)
	}
	for _, group := range store.held {
		group.Owner.Consumed(group)
	}
	if got := c.Pending(); got != 0 {
		t.Errorf("%d requests are in flight when the engine has copied them, want none", got)
	}
	for _, group := range store.held {
		group.Owner.Answered(group)
	}
	if len(c.replies) != 0 {
		t.Errorf("%d answers to requests that want none", len(c.replies))
	}
}

// acks=0 that fails closes the connection, so that the client looks for the reason.
func TestAcksNoneThatFailsClosesTheConnection(t *testing.T) {
	s := newScene(t, Options{})
	silent := produceRequest(9, "missing", [16]byte{}, batch(record.CodecNone, "a"))
	silent.Acks = 0
	s.send(silent)
	select {
	case reason := <-s.closed:
		if !errors.Is(reason, ErrUnacknowledged) {
			t.Errorf("closed by %v", reason)
		}
	case <-time.After(patience):
		t.Fatal("the connection stays open")
	}
}

// Idempotence is the log's business; what comes back has to be its codes.
func TestProducerIDsAreNeverGivenTwice(t *testing.T) {
	s := newScene(t, Options{})
	seen := make(map[int64]bool)
	for range 1500 { // more than one block of the controller
		answer := ask[*kmsg.InitProducerIDResponse](s.client, at(4, kmsg.NewPtrInitProducerIDRequest()))
		if answer.ErrorCode != 0 || answer.ProducerEpoch != 0 || seen[answer.ProducerID] {
			t.Fatalf("code %d, id %d, epoch %d after %d ids", answer.ErrorCode, answer.ProducerID, answer.ProducerEpoch, len(seen))
		}
		seen[answer.ProducerID] = true
	}
	transaction := "tx"
	request := at(4, kmsg.NewPtrInitProducerIDRequest())
	request.TransactionalID = &transaction
	if got := ask[*kmsg.InitProducerIDResponse](s.client, request); got.ErrorCode != 42 || got.ProducerID != -1 {
		t.Errorf("a transactional id is answered code %d, id %d; want INVALID_REQUEST (42) and -1", got.ErrorCode, got.ProducerID)
	}
}
