package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
)

// createRequest asks for topics with one partition each.
func createRequest(version int16, names ...string) *kmsg.CreateTopicsRequest {
	r := at(version, kmsg.NewPtrCreateTopicsRequest())
	for _, name := range names {
		asked := kmsg.NewCreateTopicsRequestTopic()
		asked.Topic, asked.NumPartitions, asked.ReplicationFactor = name, 1, 1
		r.Topics = append(r.Topics, asked)
	}
	return r
}

func TestCreateTopicsRefusesWithKafkasCodes(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	value := "abc"
	for _, c := range []struct {
		name   string
		topic  string
		change func(*kmsg.CreateTopicsRequestTopic)
		want   int16
	}{
		{"exists", "orders", nil, 36},
		{"exists, whatever else is wrong", "orders", func(r *kmsg.CreateTopicsRequestTopic) { r.NumPartitions = 0 }, 36},
		{"bad name", "bad name!", nil, 17},
		{"no partitions", "x", func(r *kmsg.CreateTopicsRequestTopic) { r.NumPartitions = 0 }, 37},
		{"too many partitions", "x", func(r *kmsg.CreateTopicsRequestTopic) { r.NumPartitions = 1 << 28 }, 44},
		{"no replicas", "x", func(r *kmsg.CreateTopicsRequestTopic) { r.ReplicationFactor = 0 }, 38},
		{"more replicas than brokers (black-box 39)", "x", func(r *kmsg.CreateTopicsRequestTopic) { r.ReplicationFactor = 3 }, 38},
		{"unknown configuration", "x", func(r *kmsg.CreateTopicsRequestTopic) {
			r.Configs = append(r.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "no.such", Value: &value})
		}, 40},
		{"wrong value", "x", func(r *kmsg.CreateTopicsRequestTopic) {
			r.Configs = append(r.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "retention.ms", Value: &value})
		}, 40},
		{"null value", "x", func(r *kmsg.CreateTopicsRequestTopic) {
			r.Configs = append(r.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "retention.ms"})
		}, 40},
		{"count beside an assignment", "x", func(r *kmsg.CreateTopicsRequestTopic) {
			r.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{1}}}
		}, 42},
		{"gap in an assignment", "x", func(r *kmsg.CreateTopicsRequestTopic) {
			r.NumPartitions, r.ReplicationFactor = -1, -1
			r.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 1, Replicas: []int32{1}}}
		}, 39},
		{"assignment to a broker that is not there", "x", func(r *kmsg.CreateTopicsRequestTopic) {
			r.NumPartitions, r.ReplicationFactor = -1, -1
			r.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{9}}}
		}, 39},
	} {
		t.Run(c.name, func(t *testing.T) {
			request := createRequest(7, c.topic)
			if c.change != nil {
				c.change(&request.Topics[0])
			}
			got := ask[*kmsg.CreateTopicsResponse](s.client, request).Topics[0]
			if got.ErrorCode != c.want || got.ErrorMessage == nil || *got.ErrorMessage == "" {
				t.Errorf("code %d with message %v, want %d and a message", got.ErrorCode, got.ErrorMessage, c.want)
			}
		})
	}
}

func TestCreateTopicsAnswersWhatItMade(t *testing.T) {
	s := newScene(t, Options{})
	request := createRequest(7, "orders")
	request.Topics[0].NumPartitions, request.Topics[0].ReplicationFactor = -1, -1
	retention := "12345"
	request.Topics[0].Configs = append(request.Topics[0].Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "retention.ms", Value: &retention})
	got := ask[*kmsg.CreateTopicsResponse](s.client, request).Topics[0]
	if got.ErrorCode != 0 || got.NumPartitions != 1 || got.ReplicationFactor != 1 || got.TopicID == [16]byte{} {
		t.Fatalf("%+v", got)
	}
	sources := make(map[string]int8)
	for _, config := range got.Configs {
		sources[config.Name] = config.Source
	}
	if sources["retention.ms"] != int8(kmsg.ConfigSourceDynamicTopicConfig) || sources["segment.bytes"] != int8(kmsg.ConfigSourceDefaultConfig) {
		t.Errorf("sources: retention.ms %d, segment.bytes %d", sources["retention.ms"], sources["segment.bytes"])
	}

	assigned := createRequest(7, "assigned")
	assigned.Topics[0].NumPartitions, assigned.Topics[0].ReplicationFactor = -1, -1
	assigned.Topics[0].ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 1, Replicas: []int32{1}}, {Partition: 0, Replicas: []int32{1}}}
	if got := ask[*kmsg.CreateTopicsResponse](s.client, assigned).Topics[0]; got.ErrorCode != 0 || got.NumPartitions != 2 {
		t.Errorf("a manual assignment to broker 1: code %d, %d partitions", got.ErrorCode, got.NumPartitions)
	}
}

// A name that comes twice is refused once and makes nothing; the others are made.
func TestDuplicateNamesInOneRequestAreRefused(t *testing.T) {
	s := newScene(t, Options{})
	answer := ask[*kmsg.CreateTopicsResponse](s.client, createRequest(7, "twice", "once", "twice"))
	codes := make(map[string]int16)
	for _, topic := range answer.Topics {
		codes[topic.Topic] = topic.ErrorCode
	}
	if len(answer.Topics) != 2 || codes["twice"] != 42 || codes["once"] != 0 {
		t.Errorf("%d answers with codes %v", len(answer.Topics), codes)
	}
}

func TestValidateOnlyMakesNothing(t *testing.T) {
	s := newScene(t, Options{})
	request := createRequest(7, "orders")
	request.ValidateOnly = true
	if got := ask[*kmsg.CreateTopicsResponse](s.client, request).Topics[0]; got.ErrorCode != 0 {
		t.Fatalf("code %d", got.ErrorCode)
	}
	if _, made := s.broker.Image().Topic("orders"); made {
		t.Error("the topic was made")
	}
}

// 1C of kafka-map, black-box 47: a deleted topic is unknown, and its successor
// of the same name has another id and an empty log.
func TestDeletedTopicsAreUnknownByNameAndID(t *testing.T) {
	s := newScene(t, Options{})
	old := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	remove := func(name string) int16 {
		r := at(5, kmsg.NewPtrDeleteTopicsRequest())
		r.TopicNames = []string{name}
		return ask[*kmsg.DeleteTopicsResponse](s.client, r).Topics[0].ErrorCode
	}
	if got := remove("orders"); got != 0 {
		t.Fatalf("delete: code %d", got)
	}
	if got := remove("orders"); got != 3 {
		t.Errorf("deleted twice: code %d, want UNKNOWN_TOPIC_OR_PARTITION", got)
	}
	fresh := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	if fresh.ID == old.ID {
		t.Error("the successor has the same id")
	}
	if got := fetched(s, fetchRequest(13, "", old.ID, 0)); got.ErrorCode != 100 {
		t.Errorf("fetch by the old id: code %d, want UNKNOWN_TOPIC_ID", got.ErrorCode)
	}
	byID := at(6, kmsg.NewPtrDeleteTopicsRequest())
	for _, id := range [][16]byte{old.ID, fresh.ID} {
		asked := kmsg.NewDeleteTopicsRequestTopic()
		asked.TopicID = id
		byID.Topics = append(byID.Topics, asked)
	}
	codes := make(map[[16]byte]int16)
	for _, topic := range ask[*kmsg.DeleteTopicsResponse](s.client, byID).Topics {
		codes[topic.TopicID] = topic.ErrorCode
	}
	if codes[old.ID] != 100 || codes[fresh.ID] != 0 {
		t.Errorf("delete by id: codes %v, want 100 for the old and 0 for the new one", codes)
	}
	if left := len(s.broker.Image().Tombstones()); left != 0 {
		waitTombstones(t, s)
	}
}

func waitTombstones(t *testing.T, s *scene) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for len(s.broker.Image().Tombstones()) > 0 {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal("removed logs are not reported")
		}
	}
}

// black-box 43: null topics are all, an empty list none, in v0 an empty list all.
func TestMetadataOfAllAndOfNone(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "b", 1, nil)
	brokertest.CreateTopic(t, s.broker, "a", 1, nil)
	for _, c := range []struct {
		version int16
		topics  []kmsg.MetadataRequestTopic
		want    int
	}{
		{0, []kmsg.MetadataRequestTopic{}, 2},
		{1, []kmsg.MetadataRequestTopic{}, 0},
		{1, nil, 2},
		{12, []kmsg.MetadataRequestTopic{}, 0},
		{12, nil, 2},
	} {
		request := at(c.version, kmsg.NewPtrMetadataRequest())
		request.Topics = c.topics
		if got := ask[*kmsg.MetadataResponse](s.client, request).Topics; len(got) != c.want {
			t.Errorf("version %d, null %t: %d topics, want %d", c.version, c.topics == nil, len(got), c.want)
		}
	}
}

// black-box 3 of the README: a topic made on demand is unknown the first time.
func TestMetadataCreatesTopicsOnDemand(t *testing.T) {
	s := newScene(t, Options{AutoCreateTopics: true})
	name := "orders"
	request := at(12, kmsg.NewPtrMetadataRequest())
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = &name
	request.Topics = append(request.Topics, asked)

	if got := ask[*kmsg.MetadataResponse](s.client, request).Topics[0]; got.ErrorCode != 3 {
		t.Errorf("not allowed by the request: code %d, want 3", got.ErrorCode)
	}
	request.AllowAutoTopicCreation = true
	if got := ask[*kmsg.MetadataResponse](s.client, request).Topics[0]; got.ErrorCode != 3 || len(got.Partitions) != 0 {
		t.Errorf("the first time: code %d with %d partitions, want 3 with none", got.ErrorCode, len(got.Partitions))
	}
	timeout := time.After(patience)
	for {
		got := ask[*kmsg.MetadataResponse](s.client, request).Topics[0]
		if got.ErrorCode == 0 && len(got.Partitions) == 1 {
			break
		}
		select {
		case <-timeout:
			t.Fatalf("the topic is never there: code %d", got.ErrorCode)
		default:
		}
	}
	bad := "no good!"
	request.Topics[0].Topic = &bad
	if got := ask[*kmsg.MetadataResponse](s.client, request).Topics[0]; got.ErrorCode != 17 {
		t.Errorf("a bad name: code %d, want INVALID_TOPIC_EXCEPTION", got.ErrorCode)
	}
}

func TestMetadataDescribesTheCluster(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 2, nil)
	request := at(12, kmsg.NewPtrMetadataRequest())
	asked := kmsg.NewMetadataRequestTopic()
	asked.TopicID = topic.ID
	stranger := kmsg.NewMetadataRequestTopic()
	stranger.TopicID = [16]byte{7}
	request.Topics = append(request.Topics, asked, stranger)
	got := ask[*kmsg.MetadataResponse](s.client, request)
	if got.ControllerID != 1 || got.ClusterID == nil || len(got.Brokers) != 1 || got.Brokers[0].Host != "127.0.0.1" || got.Brokers[0].Port != 9092 {
		t.Errorf("cluster %+v", got)
	}
	described := got.Topics[0]
	if described.ErrorCode != 0 || *described.Topic != "orders" || len(described.Partitions) != 2 || described.AuthorizedOperations != operationsNotAsked {
		t.Errorf("topic %+v", described)
	}
	if p := described.Partitions[1]; p.Partition != 1 || p.Leader != 1 || len(p.Replicas) != 1 || len(p.ISR) != 1 || len(p.OfflineReplicas) != 0 {
		t.Errorf("partition %+v", p)
	}
	if got.Topics[1].ErrorCode != 100 {
		t.Errorf("an unknown id: code %d, want UNKNOWN_TOPIC_ID", got.Topics[1].ErrorCode)
	}
}

// black-box 42: values with their source and synonyms; brokers by node id only.
func TestDescribeConfigsShowsSourcesAndSynonyms(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 1, map[string]string{"retention.ms": "777"})
	describe := func(kind kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
		request := at(4, kmsg.NewPtrDescribeConfigsRequest())
		request.IncludeSynonyms = true
		asked := kmsg.NewDescribeConfigsRequestResource()
		asked.ResourceType, asked.ResourceName, asked.ConfigNames = kind, name, keys
		request.Resources = append(request.Resources, asked)
		return ask[*kmsg.DescribeConfigsResponse](s.client, request).Resources[0]
	}
	got := describe(kmsg.ConfigResourceTypeTopic, "orders", "retention.ms")
	if len(got.Configs) != 1 || *got.Configs[0].Value != "777" || got.Configs[0].Source != kmsg.ConfigSourceDynamicTopicConfig || len(got.Configs[0].ConfigSynonyms) < 2 {
		t.Errorf("retention.ms: %+v", got.Configs)
	}
	if got := describe(kmsg.ConfigResourceTypeTopic, "orders"); len(got.Configs) < 20 {
		t.Errorf("all of a topic are %d", len(got.Configs))
	}
	if got := describe(kmsg.ConfigResourceTypeTopic, "missing"); got.ErrorCode != 3 {
		t.Errorf("unknown topic: code %d", got.ErrorCode)
	}
	if got := describe(kmsg.ConfigResourceTypeBroker, "1"); got.ErrorCode != 0 || len(got.Configs) < 20 {
		t.Errorf("broker 1: code %d with %d", got.ErrorCode, len(got.Configs))
	}
	if got := describe(kmsg.ConfigResourceTypeBroker, "2"); got.ErrorCode != 42 || !strings.Contains(*got.ErrorMessage, "expected 1") {
		t.Errorf("broker 2: code %d, message %v", got.ErrorCode, got.ErrorMessage)
	}
	if got := describe(kmsg.ConfigResourceTypeClientMetrics, "x"); got.ErrorCode != 42 {
		t.Errorf("client metrics: code %d", got.ErrorCode)
	}
}

// While the control plane does not answer, clients get codes upon which they try again.
func TestAnAbsentControlPlaneIsAskedAgain(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	for cause, want := range map[error]struct{ create, init int16 }{
		errors.New("no leader"):                             {41, 14},
		fmt.Errorf("waiting: %w", context.DeadlineExceeded): {7, 14},
	} {
		s.controller.Fail(cause)
		if got := ask[*kmsg.CreateTopicsResponse](s.client, createRequest(7, "more")).Topics[0].ErrorCode; got != want.create {
			t.Errorf("%v: create is answered %d, want %d", cause, got, want.create)
		}
		remove := at(5, kmsg.NewPtrDeleteTopicsRequest())
		remove.TopicNames = []string{"orders"}
		if got := ask[*kmsg.DeleteTopicsResponse](s.client, remove).Topics[0].ErrorCode; got != want.create {
			t.Errorf("%v: delete is answered %d, want %d", cause, got, want.create)
		}
		if got := ask[*kmsg.InitProducerIDResponse](s.client, at(4, kmsg.NewPtrInitProducerIDRequest())); got.ErrorCode != want.init || got.ProducerID != -1 {
			t.Errorf("%v: a producer id is answered %d, want %d", cause, got.ErrorCode, want.init)
		}
	}
	s.controller.Fail(nil)
	if got := ask[*kmsg.CreateTopicsResponse](s.client, createRequest(7, "more")).Topics[0].ErrorCode; got != 0 {
		t.Errorf("afterwards: create is answered %d", got)
	}
}
