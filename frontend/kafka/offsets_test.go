package kafka

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
	"ringlog/engine"
	"ringlog/meta"
	"ringlog/record"
)

// findGroup finds the coordinator of a group, which creates the offsets topic.
func (s *scene) findGroup(name string) *kmsg.FindCoordinatorResponse {
	r := at(3, kmsg.NewPtrFindCoordinatorRequest())
	r.CoordinatorKey = name
	return ask[*kmsg.FindCoordinatorResponse](s.client, r)
}

// commitOffset commits for partition 0 of a topic as a simple consumer and returns the code. It asks again while the
// coordinator loads, as clients do.
func (s *scene) commitOffset(group, topic string, offset int64) int16 {
	for {
		r := at(8, kmsg.NewPtrOffsetCommitRequest())
		r.Group, r.Generation = group, -1
		asked := kmsg.NewOffsetCommitRequestTopic()
		asked.Topic = topic
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Offset = offset
		asked.Partitions = append(asked.Partitions, partition)
		r.Topics = append(r.Topics, asked)
		if number := ask[*kmsg.OffsetCommitResponse](s.client, r).Topics[0].Partitions[0].ErrorCode; number != 14 {
			return number
		}
	}
}

// fetchOffset is the committed offset for partition 0 of a topic.
func (s *scene) fetchOffset(group, topic string) (offset int64, number int16) {
	for {
		r := at(7, kmsg.NewPtrOffsetFetchRequest())
		r.Group, r.Topics = group, []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{0}}}
		answer := ask[*kmsg.OffsetFetchResponse](s.client, r)
		if answer.ErrorCode == 14 {
			continue
		}
		if answer.ErrorCode != 0 {
			return -1, answer.ErrorCode
		}
		return answer.Topics[0].Partitions[0].Offset, answer.Topics[0].Partitions[0].ErrorCode
	}
}

func TestTheFirstGroupCreatesTheOffsetsTopic(t *testing.T) {
	s := newScene(t, Options{AutoCreateTopics: true})
	if offset, number := s.fetchOffset("readers", "orders"); number != 16 {
		t.Fatalf("without the topic nobody is a coordinator: offset %d, code %d, want NOT_COORDINATOR", offset, number)
	}
	if found := s.findGroup("readers"); found.ErrorCode != 0 || found.NodeID != brokertest.NodeID || found.Host != "127.0.0.1" || found.Port != 9092 {
		t.Fatalf("%+v", found)
	}
	request := at(12, kmsg.NewPtrMetadataRequest())
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = kmsg.StringPtr(meta.OffsetsTopic)
	request.Topics = append(request.Topics, asked)
	topic := ask[*kmsg.MetadataResponse](s.client, request).Topics[0]
	if topic.ErrorCode != 0 || !topic.IsInternal || len(topic.Partitions) != 50 {
		t.Fatalf("code %d, internal %t, %d partitions; want an internal topic of 50", topic.ErrorCode, topic.IsInternal, len(topic.Partitions))
	}
	s.expectConfig(kmsg.ConfigResourceTypeTopic, meta.OffsetsTopic, "cleanup.policy", "compact", kmsg.ConfigSourceDynamicTopicConfig)
	s.expectConfig(kmsg.ConfigResourceTypeTopic, meta.OffsetsTopic, "segment.bytes", "104857600", kmsg.ConfigSourceDynamicTopicConfig)
}

// KIP-699: many keys at once; a key is answered for itself.
func TestCoordinatorsOfWhatIsNotServedAreRefusedForGood(t *testing.T) {
	s := newScene(t, Options{})
	for _, c := range []struct {
		version int16
		kind    int8
		want    int16
	}{{4, 0, 0}, {4, 1, 42}, {4, 2, 42}, {6, 2, 42}, {6, 3, 42}, {6, -1, 42}, {1, 1, 42}} {
		r := at(c.version, kmsg.NewPtrFindCoordinatorRequest())
		r.CoordinatorType, r.CoordinatorKey, r.CoordinatorKeys = c.kind, "a", []string{"a", "b"}
		answer := ask[*kmsg.FindCoordinatorResponse](s.client, r)
		if c.version < 4 {
			if answer.ErrorCode != c.want || answer.NodeID != -1 || answer.ErrorMessage == nil {
				t.Errorf("version %d, type %d: %+v", c.version, c.kind, answer)
			}
			continue
		}
		if len(answer.Coordinators) != 2 {
			t.Fatalf("%d answers for 2 keys", len(answer.Coordinators))
		}
		for n, found := range answer.Coordinators {
			if found.Key != []string{"a", "b"}[n] || found.ErrorCode != c.want || (found.NodeID == -1) != (c.want != 0) {
				t.Errorf("version %d, type %d: %+v", c.version, c.kind, found)
			}
		}
	}
}

func TestTheOffsetsTopicBelongsToTheBroker(t *testing.T) {
	s := newScene(t, Options{})
	created := ask[*kmsg.CreateTopicsResponse](s.client, createRequest(5, meta.OffsetsTopic))
	if number := created.Topics[0].ErrorCode; number != 17 {
		t.Errorf("a client creates it: code %d, want INVALID_TOPIC_EXCEPTION", number)
	}
	s.findGroup("readers")
	topic, _ := s.broker.Image().Topic(meta.OffsetsTopic)
	produced := ask[*kmsg.ProduceResponse](s.client, produceRequest(9, meta.OffsetsTopic, topic.ID, batch(record.CodecNone, "x")))
	if number := produced.Topics[0].Partitions[0].ErrorCode; number != 17 {
		t.Errorf("a client produces to it: code %d, want INVALID_TOPIC_EXCEPTION", number)
	}
	more := ask[*kmsg.CreatePartitionsResponse](s.client, partitionsRequest(1, meta.OffsetsTopic, 60))
	if number := more.Topics[0].ErrorCode; number != 17 {
		t.Errorf("a client adds partitions: code %d, want INVALID_TOPIC_EXCEPTION", number)
	}
	// Reading is for everybody: tools do.
	if read := fetched(s, fetchRequest(13, meta.OffsetsTopic, topic.ID, 0)); read.ErrorCode != 0 {
		t.Errorf("a client reads it: code %d", read.ErrorCode)
	}
}

func TestAConsumerThatAsksForTheOffsetsTopicFindsIt(t *testing.T) {
	s := newScene(t, Options{AutoCreateTopics: true})
	request := at(8, kmsg.NewPtrMetadataRequest())
	request.AllowAutoTopicCreation = true
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = kmsg.StringPtr(meta.OffsetsTopic)
	request.Topics = append(request.Topics, asked)
	for {
		topic := ask[*kmsg.MetadataResponse](s.client, request).Topics[0]
		if topic.ErrorCode == 3 {
			continue
		}
		if topic.ErrorCode != 0 || !topic.IsInternal || len(topic.Partitions) != 50 {
			t.Fatalf("%+v", topic)
		}
		return
	}
}

// UNKNOWN_TOPIC_OR_PARTITION by name, UNKNOWN_TOPIC_ID by id (OffsetCommit 10), each partition for itself.
func TestCommitsNameWhatIsNotThere(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 2, nil)
	s.findGroup("readers")
	if number := s.commitOffset("readers", "missing", 1); number != 3 {
		t.Errorf("unknown name: code %d", number)
	}
	r := at(10, kmsg.NewPtrOffsetCommitRequest())
	r.Group, r.Generation = "readers", -1
	for _, id := range []meta.TopicID{topic.ID, {9, 9}} {
		asked := kmsg.NewOffsetCommitRequestTopic()
		asked.TopicID = id
		for _, partition := range []int32{1, 2} {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset = partition, 10
			asked.Partitions = append(asked.Partitions, p)
		}
		r.Topics = append(r.Topics, asked)
	}
	var got []int16
	for _, topic := range ask[*kmsg.OffsetCommitResponse](s.client, r).Topics {
		for _, p := range topic.Partitions {
			got = append(got, p.ErrorCode)
		}
	}
	if want := []int16{0, 3, 100, 100}; !slices.Equal(got, want) {
		t.Errorf("codes %v, want %v", got, want)
	}
	if got := s.protocol.metrics.OffsetsCommitted.Load(); got != 1 {
		t.Errorf("%d offsets are counted as committed, want 1", got)
	}
	fetch := at(10, kmsg.NewPtrOffsetFetchRequest())
	of := kmsg.NewOffsetFetchRequestGroup()
	of.Group = "readers"
	of.Topics = []kmsg.OffsetFetchRequestGroupTopic{{TopicID: topic.ID, Partitions: []int32{0, 1}}, {TopicID: [16]byte{9, 9}, Partitions: []int32{0}}}
	fetch.Groups = append(fetch.Groups, of)
	answer := ask[*kmsg.OffsetFetchResponse](s.client, fetch).Groups[0]
	if p := answer.Topics[0].Partitions; p[0].Offset != -1 || p[1].Offset != 10 || answer.Topics[0].TopicID != topic.ID {
		t.Errorf("by id: %+v", answer.Topics[0])
	}
	if p := answer.Topics[1].Partitions[0]; p.Offset != -1 || p.ErrorCode != 100 {
		t.Errorf("by an id that is not there: %+v", p)
	}
}

// KIP-709: many groups at once. What is asked for twice is answered once, so that an answer stays in proportion.
func TestManyGroupsAreFetchedAtOnce(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 2, nil)
	s.findGroup("readers")
	for n := range int64(5) {
		if number := s.commitOffset(fmt.Sprint("group-", n), "orders", n); number != 0 {
			t.Fatal(number)
		}
	}
	fetch := at(8, kmsg.NewPtrOffsetFetchRequest())
	for _, name := range []string{"group-0", "group-1", "group-2", "group-3", "group-4", "nobody", "group-0"} {
		of := kmsg.NewOffsetFetchRequestGroup()
		of.Group = name
		if name != "group-1" { // this one asks for all topics
			of.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "orders", Partitions: []int32{0, 0, 0}}, {Topic: "orders", Partitions: []int32{0}}}
		}
		fetch.Groups = append(fetch.Groups, of)
	}
	var answer *kmsg.OffsetFetchResponse
	for loading := true; loading; {
		answer = ask[*kmsg.OffsetFetchResponse](s.client, fetch)
		loading = slices.ContainsFunc(answer.Groups, func(g kmsg.OffsetFetchResponseGroup) bool { return g.ErrorCode == 14 })
	}
	var got []string
	for _, of := range answer.Groups {
		for _, topic := range of.Topics {
			for _, p := range topic.Partitions {
				got = append(got, fmt.Sprintf("%s:%s-%d=%d", of.Group, topic.Topic, p.Partition, p.Offset))
			}
		}
	}
	want := "group-0:orders-0=0 group-1:orders-0=1 group-2:orders-0=2 group-3:orders-0=3 group-4:orders-0=4 nobody:orders-0=-1"
	if strings.Join(got, " ") != want {
		t.Errorf("got %v", got)
	}
}

// A coordinator that stops says so, and does not keep anybody waiting.
func TestAfterTheCoordinatorsStoppedClientsLookElsewhere(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	s.findGroup("readers")
	if number := s.commitOffset("readers", "orders", 1); number != 0 {
		t.Fatal(number)
	}
	s.broker.StopGroups()
	if number := s.commitOffset("readers", "orders", 2); number != 16 {
		t.Errorf("code %d, want NOT_COORDINATOR", number)
	}
}

func TestADeletedOffsetsTopicIsMadeAnew(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	s.findGroup("readers")
	if number := s.commitOffset("readers", "orders", 1); number != 0 {
		t.Fatal(number)
	}
	request := at(1, kmsg.NewPtrDeleteTopicsRequest())
	request.TopicNames = []string{meta.OffsetsTopic}
	if number := ask[*kmsg.DeleteTopicsResponse](s.client, request).Topics[0].ErrorCode; number != 0 {
		t.Fatal(number)
	}
	if number := s.commitOffset("readers", "orders", 2); number != 16 {
		t.Errorf("code %d, want NOT_COORDINATOR", number)
	}
	s.findGroup("readers")
	if offset, number := s.fetchOffset("readers", "orders"); offset != -1 || number != 0 {
		t.Errorf("the new topic has offset %d, code %d", offset, number)
	}
}

// On a real engine, over a restart, by franz-go's admin client.
func TestCommittedOffsetsSurviveARestart(t *testing.T) {
	h := startHouse(t)
	h.topic("orders", 3, nil)
	var committed kadm.Offsets
	for partition := range int32(3) {
		committed.Add(kadm.Offset{Topic: "orders", Partition: partition, At: int64(100 + partition), LeaderEpoch: 0, Metadata: "here"})
	}
	for n := range 20 {
		if err := h.admin().CommitAllOffsets(h.context(), fmt.Sprint("group-", n), committed); err != nil {
			t.Fatal(err)
		}
	}
	h.restart()
	admin := h.admin()
	for n := range 20 {
		fetched, err := admin.FetchOffsets(h.context(), fmt.Sprint("group-", n))
		if err := errors.Join(err, fetched.Error()); err != nil {
			t.Fatal(err)
		}
		for partition := range int32(3) {
			got, ok := fetched.Lookup("orders", partition)
			if !ok || got.At != int64(100+partition) || got.Metadata != "here" {
				t.Errorf("group %d, partition %d: %+v", n, partition, got)
			}
		}
	}
	deleted, err := admin.DeleteOffsets(h.context(), "group-3", kadm.TopicsSet{"orders": {1: {}}})
	if err := errors.Join(err, deleted.Error()); err != nil {
		t.Fatal(err)
	}
	h.restart()
	fetched, err := h.admin().FetchOffsets(h.context(), "group-3")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := fetched.Lookup("orders", 1); ok {
		t.Errorf("a deleted offset is back: %+v", got)
	}
	if _, ok := fetched.Lookup("orders", 2); !ok {
		t.Error("the one beside it is gone")
	}
}

// What Kafka's tools do: read the topic of committed offsets and decode its records.
func TestTheOffsetsTopicIsReadLikeAnyOther(t *testing.T) {
	h := startHouse(t)
	h.topic("orders", 1, nil)
	var committed kadm.Offsets
	committed.Add(kadm.Offset{Topic: "orders", Partition: 0, At: 42, LeaderEpoch: -1, Metadata: "here"})
	if err := h.admin().CommitAllOffsets(h.context(), "readers", committed); err != nil {
		t.Fatal(err)
	}
	reader := h.client(kgo.ConsumeTopics(meta.OffsetsTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	records := h.consume(reader, 1)
	var key kmsg.OffsetCommitKey
	var value kmsg.OffsetCommitValue
	if err := errors.Join(key.ReadFrom(records[0].Key), value.ReadFrom(records[0].Value)); err != nil {
		t.Fatal(err)
	}
	if key.Group != "readers" || key.Topic != "orders" || value.Offset != 42 || value.Metadata != "here" {
		t.Errorf("%+v %+v", key, value)
	}
}

// slowEngine has every read wait for a gate, as a log that takes long to load does.
type slowEngine struct {
	*brokertest.Engine
	gate chan struct{}
}

func (e *slowEngine) Read(read *engine.Read) {
	go func() {
		<-e.gate
		e.Engine.Read(read)
	}()
}

// Scenario 49: a consumer that is told -1 while its offsets are being loaded starts over, or skips to the end.
func TestACoordinatorThatLoadsDoesNotSayThatNothingIsCommitted(t *testing.T) {
	slow := &slowEngine{Engine: brokertest.NewEngine(), gate: make(chan struct{})}
	on, _ := brokertest.Start(t, slow, brokertest.Options{})
	brokertest.CreateTopic(t, on, "orders", 1, nil)
	c := newClient(t, New(Options{Broker: on}))
	found := at(3, kmsg.NewPtrFindCoordinatorRequest())
	found.CoordinatorKey = "readers"
	if number := ask[*kmsg.FindCoordinatorResponse](c, found).ErrorCode; number != 0 {
		t.Fatalf("FindCoordinator: code %d", number)
	}
	for _, version := range []int16{1, 2, 7, 8, 10} {
		r := at(version, kmsg.NewPtrOffsetFetchRequest())
		r.Group, r.Topics = "readers", []kmsg.OffsetFetchRequestTopic{{Topic: "orders", Partitions: []int32{0}}}
		r.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "readers"}}
		answer := ask[*kmsg.OffsetFetchResponse](c, r)
		number := answer.ErrorCode
		switch {
		case version == 1:
			number = answer.Topics[0].Partitions[0].ErrorCode
		case version >= 8:
			number = answer.Groups[0].ErrorCode
		}
		if number != 14 {
			t.Errorf("OffsetFetch %d: code %d, want COORDINATOR_LOAD_IN_PROGRESS", version, number)
		}
	}
	close(slow.gate)
	s := &scene{client: c, broker: on}
	if number := s.commitOffset("readers", "orders", 7); number != 0 { // asks until it has loaded
		t.Fatalf("OffsetCommit: code %d", number)
	}
	if offset, number := s.fetchOffset("readers", "orders"); offset != 7 || number != 0 {
		t.Errorf("offset %d, code %d", offset, number)
	}
	c.session.Closed(net.ErrClosed)
}
