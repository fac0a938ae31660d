package kafka

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
	"ringlog/record"
)

// sessionRequest asks for partitions of a topic in a session.
func sessionRequest(version int16, session, epoch int32, name string, id [16]byte, offsets map[int32]int64) *kmsg.FetchRequest {
	request := at(version, kmsg.NewPtrFetchRequest())
	request.MaxBytes, request.SessionID, request.SessionEpoch = 1<<20, session, epoch
	asked := kmsg.NewFetchRequestTopic()
	asked.Topic, asked.TopicID = name, id
	for number := range int32(8) {
		offset, wanted := offsets[number]
		if !wanted {
			continue
		}
		partition := kmsg.NewFetchRequestTopicPartition()
		partition.Partition, partition.FetchOffset, partition.PartitionMaxBytes = number, offset, 1<<20
		asked.Partitions = append(asked.Partitions, partition)
	}
	if len(asked.Partitions) > 0 {
		request.Topics = append(request.Topics, asked)
	}
	return request
}

// told lists an answer's partitions as "number:code/high watermark" with "+" for records.
func told(answer *kmsg.FetchResponse) string {
	var parts []string
	for _, topic := range answer.Topics {
		for _, p := range topic.Partitions {
			part := fmt.Sprintf("%d:%d/%d", p.Partition, p.ErrorCode, p.HighWatermark)
			if len(p.RecordBatches) > 0 {
				part += "+"
			}
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}

// produceTo appends one record to a partition.
func (s *scene) produceTo(id [16]byte, partition int32) {
	s.t.Helper()
	request := produceRequest(13, "", id, batch(record.CodecNone, "x"))
	request.Topics[0].Partitions[0].Partition = partition
	if got := ask[*kmsg.ProduceResponse](s.client, request).Topics[0].Partitions[0].ErrorCode; got != 0 {
		s.t.Fatalf("produce: code %d", got)
	}
}

// KIP-227: the first answer tells all, the next ones what has changed; a request names what it
// reads otherwise than before. By name up to version 12, by id from 13 on.
func TestAFetchSessionTellsWhatHasChanged(t *testing.T) {
	for _, version := range []int16{7, 11, 12, 13, 18} {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			s := newScene(t, Options{})
			topic := brokertest.CreateTopic(t, s.broker, "orders", 3, nil)
			session := int32(0)
			step := func(epoch int32, offsets map[int32]int64, want string) {
				t.Helper()
				got := ask[*kmsg.FetchResponse](s.client, sessionRequest(version, session, epoch, "orders", topic.ID, offsets))
				if session == 0 {
					session = got.SessionID
				}
				if got.ErrorCode != 0 || got.SessionID != session || session <= 0 || told(got) != want {
					t.Fatalf("epoch %d: code %d, session %d, told %q, want %q", epoch, got.ErrorCode, got.SessionID, told(got), want)
				}
			}
			step(0, map[int32]int64{0: 0, 1: 0}, "0:0/0 1:0/0")
			step(1, nil, "")
			s.produceTo(topic.ID, 1)
			step(2, nil, "1:0/1+")
			step(3, map[int32]int64{1: 1}, "")
			step(4, map[int32]int64{2: 0}, "2:0/0") // one more
			s.produceTo(topic.ID, 0)
			s.produceTo(topic.ID, 2)
			step(5, nil, "0:0/1+ 2:0/1+")
			forget := sessionRequest(version, session, 6, "orders", topic.ID, map[int32]int64{2: 1})
			gone := kmsg.NewFetchRequestForgottenTopic()
			gone.Topic, gone.TopicID, gone.Partitions = "orders", topic.ID, []int32{0, 1}
			forget.ForgottenTopics = append(forget.ForgottenTopics, gone)
			if got := ask[*kmsg.FetchResponse](s.client, forget); got.ErrorCode != 0 || told(got) != "" {
				t.Errorf("forgetting: code %d, told %q", got.ErrorCode, told(got))
			}
			s.produceTo(topic.ID, 0)
			step(7, nil, "")
			if got := s.protocol.FetchSessions(); got.Sessions != 1 || got.Partitions != 1 {
				t.Errorf("status %+v", got)
			}
			if got := ask[*kmsg.FetchResponse](s.client, sessionRequest(version, session, -1, "orders", topic.ID, map[int32]int64{0: 0})); got.SessionID != 0 || told(got) != "0:0/2+" {
				t.Errorf("the last request: session %d, told %q", got.SessionID, told(got))
			}
			if got := s.protocol.FetchSessions(); got.Sessions != 0 {
				t.Errorf("afterwards: %+v", got)
			}
		})
	}
}

func TestFetchSessionsRefuseWithKafkasCodes(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	begin := func(version int16) int32 {
		return ask[*kmsg.FetchResponse](s.client, sessionRequest(version, 0, 0, "orders", topic.ID, map[int32]int64{0: 0})).SessionID
	}
	byID, byName := begin(13), begin(12)
	for _, c := range []struct {
		what           string
		version        int16
		session, epoch int32
		want           int16
	}{
		{"no such session", 13, byID ^ byName, 1, 70},
		{"no session at all", 13, 0, 5, 70},
		{"an epoch left out", 13, byID, 2, 71},
		{"by name in one by id", 12, byID, 1, 106},
		{"by id in one by name", 13, byName, 1, 106},
		{"the right one", 13, byID, 1, 0},
		{"and again", 13, byID, 1, 71},
	} {
		got := ask[*kmsg.FetchResponse](s.client, sessionRequest(c.version, c.session, c.epoch, "orders", topic.ID, nil))
		if got.ErrorCode != c.want || c.want != 0 && (got.SessionID != 0 || len(got.Topics) != 0) {
			t.Errorf("%s: code %d, session %d; want %d", c.what, got.ErrorCode, got.SessionID, c.want)
		}
	}
	// A full fetch that names a session ends it.
	if got := ask[*kmsg.FetchResponse](s.client, sessionRequest(13, byID, 0, "orders", topic.ID, map[int32]int64{0: 0})); got.ErrorCode != 0 || got.SessionID == byID || got.SessionID == 0 {
		t.Errorf("starting over: code %d, session %d after %d", got.ErrorCode, got.SessionID, byID)
	}
	if got := s.protocol.FetchSessions(); got.Sessions != 2 {
		t.Errorf("status %+v", got)
	}
	off := newScene(t, Options{FetchSessionsMax: FetchSessionsOff})
	other := brokertest.CreateTopic(t, off.broker, "orders", 1, nil)
	if got := ask[*kmsg.FetchResponse](off.client, sessionRequest(13, 0, 0, "orders", other.ID, map[int32]int64{0: 0})); got.ErrorCode != 0 || got.SessionID != 0 || told(got) != "0:0/0" {
		t.Errorf("without slots: code %d, session %d, told %q", got.ErrorCode, got.SessionID, told(got))
	}
}

// black-box 47 and 48: a topic that is created anew is another one: its session hears that the old one is
// gone, each time, until it forgets it by its id; by name it hears of the new one.
func TestATopicIsCreatedAnewUnderASession(t *testing.T) {
	s := newScene(t, Options{})
	old := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	byID := ask[*kmsg.FetchResponse](s.client, sessionRequest(13, 0, 0, "", old.ID, map[int32]int64{0: 0})).SessionID
	byName := ask[*kmsg.FetchResponse](s.client, sessionRequest(12, 0, 0, "orders", old.ID, map[int32]int64{0: 0})).SessionID
	s.produceTo(old.ID, 0)
	if got := told(ask[*kmsg.FetchResponse](s.client, sessionRequest(12, byName, 1, "orders", old.ID, nil))); got != "0:0/1+" {
		t.Errorf("before: %q", got)
	}
	remove := at(6, kmsg.NewPtrDeleteTopicsRequest())
	doomed := kmsg.NewDeleteTopicsRequestTopic()
	doomed.TopicID = old.ID
	remove.Topics = append(remove.Topics, doomed)
	ask[*kmsg.DeleteTopicsResponse](s.client, remove)
	if got := told(ask[*kmsg.FetchResponse](s.client, sessionRequest(12, byName, 2, "orders", old.ID, nil))); got != "0:3/-1" {
		t.Errorf("by name, while there is none: %q", got)
	}
	fresh := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	for epoch := int32(1); epoch <= 2; epoch++ {
		if got := told(ask[*kmsg.FetchResponse](s.client, sessionRequest(13, byID, epoch, "", old.ID, nil))); got != "0:100/-1" {
			t.Errorf("by id, epoch %d: %q, want UNKNOWN_TOPIC_ID", epoch, got)
		}
	}
	if got := told(ask[*kmsg.FetchResponse](s.client, sessionRequest(12, byName, 3, "orders", old.ID, map[int32]int64{0: 0}))); got != "0:0/0" {
		t.Errorf("by name, the new one: %q", got)
	}
	exchange := sessionRequest(13, byID, 3, "", fresh.ID, map[int32]int64{0: 0})
	gone := kmsg.NewFetchRequestForgottenTopic()
	gone.TopicID, gone.Partitions = old.ID, []int32{0}
	exchange.ForgottenTopics = append(exchange.ForgottenTopics, gone)
	got := ask[*kmsg.FetchResponse](s.client, exchange)
	if told(got) != "0:0/0" || got.Topics[0].TopicID != fresh.ID {
		t.Errorf("by id, exchanged: %q", told(got))
	}
	if got := s.protocol.FetchSessions(); got.Partitions != 2 {
		t.Errorf("status %+v", got)
	}
}

// 1D of kafka-map: a consumer of many idle partitions asks and is answered in few bytes.
func TestManyIdlePartitionsCostAFewBytes(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1000, nil)
	full := at(13, kmsg.NewPtrFetchRequest())
	full.MaxBytes, full.SessionEpoch = 1<<20, 0
	asked := kmsg.NewFetchRequestTopic()
	asked.TopicID = topic.ID
	for number := range int32(1000) {
		partition := kmsg.NewFetchRequestTopicPartition()
		partition.Partition, partition.PartitionMaxBytes = number, 1<<20
		asked.Partitions = append(asked.Partitions, partition)
	}
	full.Topics = append(full.Topics, asked)
	s.send(full)
	body := s.next(full)
	first := decode(t, full, body).(*kmsg.FetchResponse)
	if len(first.Topics[0].Partitions) != 1000 {
		t.Fatalf("%d partitions", len(first.Topics[0].Partitions))
	}
	next := sessionRequest(13, first.SessionID, 1, "", topic.ID, nil)
	request := s.frame(next)
	if err := s.receive(request); err != nil {
		t.Fatal(err)
	}
	if answer := s.next(next); len(answer) > 40 || len(request) > 80 || len(body) < 20_000 {
		t.Errorf("a request of %d bytes is answered by %d; the first answer has %d", len(request), len(answer), len(body))
	}
}

// A real client in sessions gets each record once, whatever comes in whatever order, and a topic
// that grows meanwhile.
func TestAConsumerWithSessionsGetsEverything(t *testing.T) {
	h := startHouse(t)
	h.topic("orders", 4, nil)
	producer := h.client()
	consumer := h.client(kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond), kgo.MetadataMaxAge(200*time.Millisecond))
	random := rand.New(rand.NewPCG(1, 2))
	want, got := 0, make(map[string]bool)
	for round := range 10 {
		partitions := int32(4)
		if round >= 5 {
			partitions = 6
		}
		if round == 5 {
			if _, err := h.admin().UpdatePartitions(h.context(), 6, "orders"); err != nil {
				t.Fatal(err)
			}
			producer = h.client()
		}
		for range 1 + random.IntN(5) {
			h.produceAll(producer, &kgo.Record{Topic: "orders", Partition: random.Int32N(partitions), Value: fmt.Append(nil, want)})
			want++
		}
		for _, r := range h.consume(consumer, want-len(got)) {
			if got[string(r.Value)] {
				t.Fatalf("record %s came twice", r.Value)
			}
			got[string(r.Value)] = true
		}
	}
	if status := h.protocol.FetchSessions(); status.Sessions == 0 || status.Partitions != 6 {
		t.Errorf("%d records came without a session of all partitions: %+v", want, status)
	}
}
