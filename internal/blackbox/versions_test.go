package blackbox

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"ringlog/record"
)

// Row 44.
func apiVersionsFromTheFuture(s *stage) {
	for _, version := range []uint16{6, 99, 1<<15 - 1} {
		c := s.dial()
		frame := c.frame(4, kmsg.NewPtrApiVersionsRequest())
		binary.BigEndian.PutUint16(frame[6:], version)
		c.write(frame)
		zero := kmsg.NewPtrApiVersionsRequest()
		zero.SetVersion(0)
		answer := receive[*kmsg.ApiVersionsResponse](c, zero)
		served := make(map[int16]int16)
		for _, key := range answer.ApiKeys {
			served[key.ApiKey] = key.MaxVersion
		}
		if answer.ErrorCode != unsupportedVersion || served[int16(kmsg.ApiVersions)] != 5 || len(served) < 20 {
			s.Errorf("v%d: code %d, %d keys, ApiVersions up to %d", version, answer.ErrorCode, len(served), served[int16(kmsg.ApiVersions)])
		}
		// The same connection goes on with what it has learned.
		again := kmsg.NewPtrApiVersionsRequest()
		again.ClientSoftwareName, again.ClientSoftwareVersion = "black-box", "1"
		if got := ask[*kmsg.ApiVersionsResponse](c, 5, again); got.ErrorCode != 0 {
			s.Errorf("v5 after v%d: code %d", version, got.ErrorCode)
		}
	}
}

// ages are the brokers that clients of all ages take this one for: sarama's Config.Version, or what a library
// was written against. Each pins the versions of all requests.
var ages = []struct {
	name     string
	versions func() *kversion.Versions
}{
	{"0.11", kversion.V0_11_0}, {"1.0", kversion.V1_0_0}, {"1.1", kversion.V1_1_0}, {"2.0", kversion.V2_0_0}, {"2.1", kversion.V2_1_0},
	{"2.2", kversion.V2_2_0}, {"2.3", kversion.V2_3_0}, {"2.4", kversion.V2_4_0}, {"2.5", kversion.V2_5_0}, {"2.6", kversion.V2_6_0},
	{"2.7", kversion.V2_7_0}, {"2.8", kversion.V2_8_0}, {"3.0", kversion.V3_0_0}, {"3.1", kversion.V3_1_0}, {"3.2", kversion.V3_2_0},
	{"3.3", kversion.V3_3_0}, {"3.4", kversion.V3_4_0}, {"3.5", kversion.V3_5_0}, {"3.6", kversion.V3_6_0}, {"3.7", kversion.V3_7_0},
	{"3.8", kversion.V3_8_0}, {"3.9", kversion.V3_9_0}, {"4.0", kversion.V4_0_0}, {"4.1", kversion.V4_1_0}, {"4.2", kversion.V4_2_0},
	{"4.3", kversion.V4_3_0}, {"4.4", kversion.V4_4_0},
}

// Row 45. sarama before 1.46 asks nobody what is served: its first request is of the version that it was
// configured for, and a version that is missing shows as "run out of brokers: EOF". So each age is tried with and
// without the question.
func clientsOfEveryAge(s *stage) {
	s.create(1)
	var offset int64
	for _, age := range ages {
		for _, asks := range []bool{true, false} {
			versions := age.versions()
			if !asks {
				versions.SetMaxKeyVersion(int16(kmsg.ApiVersions), -1)
			}
			what := fmt.Sprintf("%s, asks for versions: %v", age.name, asks)
			options := []kgo.Opt{kgo.MaxVersions(versions), kgo.RetryTimeout(patience)}
			client := s.consumer(kgo.NewOffset().At(offset), options...)
			sent := &kgo.Record{Topic: s.topic, Key: []byte(age.name), Value: []byte(what)}
			if err := client.ProduceSync(s.context(), sent).FirstErr(); err != nil {
				s.Fatalf("%s: produce: %v", what, err)
			}
			if got := s.consume(client, 1)[0]; string(got.Value) != what || got.Offset != offset {
				s.Errorf("%s: got %q at %d", what, got.Value, got.Offset)
			}
			client.Close()
			offset++
		}
	}
	// Before 0.11 batches had another form: such a client hears why, instead of "EOF".
	c := s.dial()
	for version := int16(0); version < 3; version++ {
		if p := c.produce(version, batchOf(record.BuilderOptions{}, 1)); p.ErrorCode != unsupportedVersion {
			s.Errorf("Produce v%d: code %d, want UNSUPPORTED_VERSION", version, p.ErrorCode)
		}
	}
}

// Row 46. A client that knows no ids asks by name, in versions that do; both may be mixed on one connection.
func topicsByNameAndByID(s *stage) {
	id := s.create(1)
	c := s.dial()
	named := func(version int16) kmsg.MetadataResponseTopic {
		request := kmsg.NewPtrMetadataRequest()
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &s.topic
		request.Topics = append(request.Topics, topic)
		return ask[*kmsg.MetadataResponse](c, version, request).Topics[0]
	}
	for version := int16(0); version <= 13; version++ {
		want := id
		if version < 10 {
			want = [16]byte{}
		}
		if got := named(version); got.ErrorCode != 0 || got.TopicID != want {
			s.Errorf("Metadata v%d: code %d, id %x, want %x", version, got.ErrorCode, got.TopicID, want)
		}
	}
	for version := int16(3); version <= 13; version++ {
		p := ask[*kmsg.ProduceResponse](c, version, produceRequest(s.topic, id, 0, batchOf(record.BuilderOptions{}, 1))).Topics[0].Partitions[0]
		if p.ErrorCode != 0 {
			s.Errorf("Produce v%d: code %d", version, p.ErrorCode)
		}
	}
	for version := int16(4); version <= 18; version++ {
		answer := ask[*kmsg.FetchResponse](c, version, fetchRequest(s.topic, id, 0)).Topics[0]
		if p := answer.Partitions[0]; p.ErrorCode != 0 || len(batches(p.RecordBatches)) != 11 || (answer.Topic == s.topic) == (answer.TopicID == id) {
			s.Errorf("Fetch v%d: code %d, %d batches, topic %q, id %x", version, p.ErrorCode, len(batches(p.RecordBatches)), answer.Topic, answer.TopicID)
		}
	}
	// An id that is nobody's, or that the client never learned.
	for _, stranger := range [][16]byte{{}, {46}} {
		if p := ask[*kmsg.FetchResponse](c, 13, fetchRequest(s.topic, stranger, 0)).Topics[0].Partitions[0]; p.ErrorCode != unknownTopicID {
			s.Errorf("Fetch of id %x: code %d", stranger, p.ErrorCode)
		}
		if p := ask[*kmsg.ProduceResponse](c, 13, produceRequest(s.topic, stranger, 0, batchOf(record.BuilderOptions{}, 1))).Topics[0].Partitions[0]; p.ErrorCode != unknownTopicID {
			s.Errorf("Produce to id %x: code %d", stranger, p.ErrorCode)
		}
	}
	// A real client whose Metadata has no ids and whose Fetch could use them.
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.Metadata), 9)
	if got := s.consume(s.consumer(kgo.NewOffset().AtStart(), kgo.MaxVersions(versions)), 11); len(got) < 11 {
		s.Errorf("%d records", len(got))
	}
}

// Row 47. franz-go holds on to the first topic of a name and says UNKNOWN_TOPIC_ID until it is told to let go.
func aTopicIsCreatedAnew(s *stage) {
	old := s.create(1)
	s.produceRecords(s.client(), &kgo.Record{Value: []byte("old")})
	consumer := s.client(kgo.ConsumeTopics(s.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepRetryableFetchErrors())
	if got := s.consume(consumer, 1)[0]; string(got.Value) != "old" {
		s.Fatalf("%q", got.Value)
	}
	c := s.dial()
	begin := fetchRequest("", old, 1)
	begin.SessionEpoch = 0
	session := ask[*kmsg.FetchResponse](c, 13, begin).SessionID

	deleted, err := s.admin().DeleteTopic(s.context(), s.topic)
	if err := errors.Join(err, deleted.Err); err != nil {
		s.Fatal(err)
	}
	fresh := s.create(1)
	if fresh == old {
		s.Fatal("the new topic has the id of the old one")
	}
	s.produceRecords(s.client(), &kgo.Record{Value: []byte("new")})
	for epoch := int32(1); epoch <= 2; epoch++ { // told each time, until it is forgotten
		request := kmsg.NewPtrFetchRequest()
		request.ReplicaID, request.MaxBytes, request.SessionID, request.SessionEpoch = -1, 1<<20, session, epoch
		answer := ask[*kmsg.FetchResponse](c, 13, request)
		if answer.ErrorCode != 0 || len(answer.Topics) != 1 || answer.Topics[0].TopicID != old || answer.Topics[0].Partitions[0].ErrorCode != unknownTopicID {
			s.Errorf("the session of the old topic: code %d, %+v", answer.ErrorCode, answer.Topics)
		}
	}
	if p := ask[*kmsg.ProduceResponse](c, 13, produceRequest("", old, 0, batchOf(record.BuilderOptions{}, 1))).Topics[0].Partitions[0]; p.ErrorCode != unknownTopicID {
		s.Errorf("produce to the old id: code %d", p.ErrorCode)
	}
	byID := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.TopicID = old
	byID.Topics = append(byID.Topics, asked)
	if got := ask[*kmsg.MetadataResponse](c, 12, byID).Topics[0]; got.ErrorCode != unknownTopicID {
		s.Errorf("metadata of the old id: code %d", got.ErrorCode)
	}
	if p := c.fetch(12, 0); p.ErrorCode != 0 || p.HighWatermark != 1 {
		s.Errorf("by its name the new topic is read: code %d, high watermark %d", p.ErrorCode, p.HighWatermark)
	}
	if err := s.errorOf(consumer); !errors.Is(err, kerr.UnknownTopicID) && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		s.Errorf("the consumer of the old topic: %v", err)
	}
	consumer.PurgeTopicsFromClient(s.topic)
	consumer.AddConsumeTopics(s.topic)
	if got := s.consume(consumer, 1)[0]; string(got.Value) != "new" || got.Offset != 0 {
		s.Errorf("the consumer of the new topic: %q at %d", got.Value, got.Offset)
	}
}

// Row 48.
func aSessionForgetsByID(s *stage) {
	id := s.create(2)
	other := s.createNamed(s.topic+"-other", 1)
	c, producer := s.dial(), s.dial()
	begin := fetchRequest("", id, 0, 0)
	begin.SessionEpoch = 0
	begin.Topics = append(begin.Topics, fetchRequest("", other, 0).Topics...)
	first := ask[*kmsg.FetchResponse](c, 13, begin)
	if first.ErrorCode != 0 || first.SessionID <= 0 || len(first.Topics) != 2 {
		s.Fatalf("code %d, session %d, %d topics", first.ErrorCode, first.SessionID, len(first.Topics))
	}
	epoch := int32(0)
	next := func(change func(*kmsg.FetchRequest)) string {
		s.Helper()
		epoch++
		request := kmsg.NewPtrFetchRequest()
		request.ReplicaID, request.MaxBytes, request.SessionID, request.SessionEpoch = -1, 1<<20, first.SessionID, epoch
		if change != nil {
			change(request)
		}
		answer := ask[*kmsg.FetchResponse](c, 13, request)
		told := fmt.Sprint("code ", answer.ErrorCode)
		for _, topic := range answer.Topics {
			for _, p := range topic.Partitions {
				told += fmt.Sprintf(", %s-%d has %d batches", map[[16]byte]string{id: "this", other: "other"}[topic.TopicID], p.Partition, len(batches(p.RecordBatches)))
			}
		}
		return told
	}
	forgets := func(id [16]byte, partitions ...int32) func(*kmsg.FetchRequest) {
		return func(r *kmsg.FetchRequest) {
			gone := kmsg.NewFetchRequestForgottenTopic()
			gone.TopicID, gone.Partitions = id, partitions
			r.ForgottenTopics = append(r.ForgottenTopics, gone)
		}
	}
	feed := func() {
		s.Helper()
		for partition := range int32(2) {
			ask[*kmsg.ProduceResponse](producer, 13, produceRequest("", id, partition, batchOf(record.BuilderOptions{}, 1)))
		}
		ask[*kmsg.ProduceResponse](producer, 13, produceRequest("", other, 0, batchOf(record.BuilderOptions{}, 1)))
	}
	for _, step := range []struct {
		what   string
		change func(*kmsg.FetchRequest)
		feed   bool
		want   string
	}{
		{"nothing new", nil, false, "code 0"},
		{"all three", nil, true, "code 0, this-0 has 1 batches, this-1 has 1 batches, other-0 has 1 batches"},
		{"one is forgotten", forgets(id, 1), false, "code 0, this-0 has 1 batches, other-0 has 1 batches"},
		{"and not told any more", nil, true, "code 0, this-0 has 2 batches, other-0 has 2 batches"},
		{"a topic is forgotten", forgets(id, 0), false, "code 0, other-0 has 2 batches"},
		{"what was never there", forgets([16]byte{48}, 0), true, "code 0, other-0 has 3 batches"},
		{"everything is forgotten", forgets(other, 0), true, "code 0"},
	} {
		if step.feed {
			feed()
		}
		if got := next(step.change); got != step.want {
			s.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
	}
}
