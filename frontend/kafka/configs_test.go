package kafka

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
	"ringlog/engine"
	"ringlog/record"
)

// change is one configuration of an IncrementalAlterConfigs; "" is no value.
type change struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value string
}

const (
	opSet, opDelete      = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete
	opAppend, opSubtract = kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract
	ofTopic, ofBroker    = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
)

func alterRequest(kind kmsg.ConfigResourceType, name string, changes ...change) *kmsg.IncrementalAlterConfigsRequest {
	r := at(1, kmsg.NewPtrIncrementalAlterConfigsRequest())
	asked := kmsg.NewIncrementalAlterConfigsRequestResource()
	asked.ResourceType, asked.ResourceName = kind, name
	for _, c := range changes {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Op = c.name, c.op
		if c.value != "" {
			config.Value = &c.value
		}
		asked.Configs = append(asked.Configs, config)
	}
	r.Resources = append(r.Resources, asked)
	return r
}

// alter alters one resource and returns code and message.
func (s *scene) alter(kind kmsg.ConfigResourceType, name string, changes ...change) (int16, string) {
	s.t.Helper()
	got := ask[*kmsg.IncrementalAlterConfigsResponse](s.client, alterRequest(kind, name, changes...)).Resources[0]
	if got.ErrorMessage == nil {
		return got.ErrorCode, ""
	}
	return got.ErrorCode, *got.ErrorMessage
}

// config describes one configuration of a resource.
func (s *scene) config(kind kmsg.ConfigResourceType, name, key string) kmsg.DescribeConfigsResponseResourceConfig {
	s.t.Helper()
	r := at(4, kmsg.NewPtrDescribeConfigsRequest())
	r.IncludeSynonyms = true
	asked := kmsg.NewDescribeConfigsRequestResource()
	asked.ResourceType, asked.ResourceName, asked.ConfigNames = kind, name, []string{key}
	r.Resources = append(r.Resources, asked)
	got := ask[*kmsg.DescribeConfigsResponse](s.client, r).Resources[0]
	if len(got.Configs) != 1 {
		s.t.Fatalf("%s of %q is described %d times, code %d", key, name, len(got.Configs), got.ErrorCode)
	}
	return got.Configs[0]
}

func (s *scene) expectConfig(kind kmsg.ConfigResourceType, name, key, value string, source kmsg.ConfigSource) {
	s.t.Helper()
	if got := s.config(kind, name, key); got.Value == nil || *got.Value != value || got.Source != source {
		s.t.Errorf("%s of %q: %v from %v, want %s from %v", key, name, got.Value, got.Source, value, source)
	}
}

// KIP-339: what is altered is described at once, the log works by it, and a delete goes back
// to the default.
func TestIncrementalAlterConfigsReachesTheLog(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 2, nil)
	if code, text := s.alter(ofTopic, "orders", change{"segment.bytes", opSet, "2097152"}, change{"retention.ms", opSet, "777"}, change{"max.message.bytes", opSet, "100"}); code != 0 {
		t.Fatalf("code %d, %s", code, text)
	}
	s.expectConfig(ofTopic, "orders", "segment.bytes", "2097152", kmsg.ConfigSourceDynamicTopicConfig)
	for n := range topic.Partitions {
		got, err := s.engine.Config(engine.LogID(topic.Partitions[n].LogID))
		if err != nil || got.SegmentBytes != 2097152 || got.RetentionMillis != 777 {
			t.Errorf("log %d works by %+v, %v", n, got, err)
		}
	}
	large := batch(record.CodecNone, strings.Repeat("x", 200))
	if got := s.produced(topic.ID, large); got != 10 {
		t.Errorf("a batch above max.message.bytes: code %d, want MESSAGE_TOO_LARGE", got)
	}
	if code, _ := s.alter(ofTopic, "orders", change{"max.message.bytes", opDelete, ""}, change{"segment.bytes", opDelete, ""}); code != 0 {
		t.Fatalf("delete: code %d", code)
	}
	s.expectConfig(ofTopic, "orders", "segment.bytes", "1073741824", kmsg.ConfigSourceDefaultConfig)
	s.expectConfig(ofTopic, "orders", "retention.ms", "777", kmsg.ConfigSourceDynamicTopicConfig)
	if got := s.produced(topic.ID, large); got != 0 {
		t.Errorf("the same batch afterwards: code %d", got)
	}
}

// produced appends a batch to partition 0 and returns the code.
func (s *scene) produced(id [16]byte, records []byte) int16 {
	s.t.Helper()
	return ask[*kmsg.ProduceResponse](s.client, produceRequest(13, "", id, records)).Topics[0].Partitions[0].ErrorCode
}

func TestListsAreAppendedToAndSubtractedFrom(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	for _, step := range []struct {
		op          kmsg.IncrementalAlterConfigOp
		value, want string
		source      kmsg.ConfigSource
	}{
		{opAppend, "delete", "delete", kmsg.ConfigSourceDynamicTopicConfig}, // the default has it already
		{opSubtract, "delete", "", kmsg.ConfigSourceDynamicTopicConfig},
		{opAppend, "delete", "delete", kmsg.ConfigSourceDynamicTopicConfig},
		{opDelete, "", "delete", kmsg.ConfigSourceDefaultConfig},
	} {
		if code, text := s.alter(ofTopic, "orders", change{"cleanup.policy", step.op, step.value}); code != 0 {
			t.Fatalf("%v %s: code %d, %s", step.op, step.value, code, text)
		}
		s.expectConfig(ofTopic, "orders", "cleanup.policy", step.want, step.source)
	}
}

// The codes and messages of Kafka's broker and controller; nothing of a refused resource is done.
func TestAlterConfigsRefusesWithKafkasCodes(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	for _, c := range []struct {
		what    string
		kind    kmsg.ConfigResourceType
		name    string
		changes []change
		code    int16
		message string
	}{
		{"unknown name", ofTopic, "orders", []change{{"flush.ms", opSet, "5"}, {"no.such", opSet, "5"}}, 40, "no topic configuration of that name"},
		{"wrong value", ofTopic, "orders", []change{{"flush.ms", opSet, "5"}, {"retention.ms", opSet, "abc"}}, 40, "whole number"},
		{"append to a number", ofTopic, "orders", []change{{"retention.ms", opAppend, "5"}}, 40, "not LIST"},
		{"null", ofTopic, "orders", []change{{"flush.ms", opSet, ""}}, 42, "null value not supported for: flush.ms"},
		{"twice", ofTopic, "orders", []change{{"flush.ms", opSet, "5"}, {"flush.ms", opSet, "6"}}, 42, "duplicate config keys"},
		{"unknown operation", ofTopic, "orders", []change{{"flush.ms", 7, "5"}}, 42, "unknown operation type 7"},
		{"unknown topic", ofTopic, "missing", []change{{"flush.ms", opSet, "5"}}, 3, "does not exist"},
		{"bad topic name", ofTopic, "bad name!", nil, 17, "bad name!"},
		{"no topic name", ofTopic, "", nil, 42, "default topic resources"},
		{"another broker", ofBroker, "2", nil, 42, "unexpected broker id, expected 1"},
		{"no number", ofBroker, "one", nil, 42, "node id must be an integer"},
		{"read-only", ofBroker, "1", []change{{"num.partitions", opSet, "5"}}, 42, "cannot be updated dynamically"},
		{"broker, wrong value", ofBroker, "", []change{{"log.segment.bytes", opSet, "5"}}, 42, "at least 1048576"},
		{"loggers", kmsg.ConfigResourceTypeBrokerLogger, "1", nil, 42, "not served"},
	} {
		if code, text := s.alter(c.kind, c.name, c.changes...); code != c.code || !strings.Contains(text, c.message) {
			t.Errorf("%s: code %d, %q; want %d, %q", c.what, code, text, c.code, c.message)
		}
	}
	s.expectConfig(ofTopic, "orders", "flush.ms", "9223372036854775807", kmsg.ConfigSourceDefaultConfig)

	twice := alterRequest(ofTopic, "orders", change{"flush.ms", opSet, "5"})
	twice.Resources = append(twice.Resources, twice.Resources[0])
	for _, got := range ask[*kmsg.IncrementalAlterConfigsResponse](s.client, twice).Resources {
		if got.ErrorCode != 42 || !strings.Contains(*got.ErrorMessage, "at most once") {
			t.Errorf("a resource that comes twice: code %d, %s", got.ErrorCode, *got.ErrorMessage)
		}
	}
	validate := alterRequest(ofTopic, "orders", change{"flush.ms", opSet, "5"})
	validate.ValidateOnly = true
	if got := ask[*kmsg.IncrementalAlterConfigsResponse](s.client, validate).Resources[0].ErrorCode; got != 0 {
		t.Errorf("validate only: code %d", got)
	}
	s.expectConfig(ofTopic, "orders", "flush.ms", "9223372036854775807", kmsg.ConfigSourceDefaultConfig)
}

// KIP-133: the older API sets the whole of a resource.
func TestAlterConfigsUnsetsWhatItDoesNotName(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 1, map[string]string{"retention.ms": "1000000"})
	value := "3333"
	r := at(2, kmsg.NewPtrAlterConfigsRequest())
	asked := kmsg.NewAlterConfigsRequestResource()
	asked.ResourceType, asked.ResourceName = ofTopic, "orders"
	config := kmsg.NewAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "max.message.bytes", &value
	asked.Configs = append(asked.Configs, config)
	r.Resources = append(r.Resources, asked)
	if got := ask[*kmsg.AlterConfigsResponse](s.client, r).Resources[0]; got.ErrorCode != 0 || got.ResourceName != "orders" {
		t.Fatalf("%+v", got)
	}
	s.expectConfig(ofTopic, "orders", "max.message.bytes", "3333", kmsg.ConfigSourceDynamicTopicConfig)
	s.expectConfig(ofTopic, "orders", "retention.ms", "604800000", kmsg.ConfigSourceDefaultConfig)
}

// KIP-226: what is set on a broker, or on all of them, is the default of every topic from then
// on, also of those that are there.
func TestBrokerDefaultsChangeWhileTheBrokerRuns(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	own := brokertest.CreateTopic(t, s.broker, "own", 1, map[string]string{"segment.bytes": "4194304"})
	segmentBytes := func(id [16]byte) int64 {
		config, err := s.engine.Config(engine.LogID(id))
		if err != nil {
			t.Fatal(err)
		}
		return config.SegmentBytes
	}
	for _, step := range []struct {
		broker string
		change change
		want   int64
		source kmsg.ConfigSource
	}{
		{"", change{"log.segment.bytes", opSet, "2097152"}, 2097152, kmsg.ConfigSourceDynamicDefaultBrokerConfig},
		{"1", change{"log.segment.bytes", opSet, "3145728"}, 3145728, kmsg.ConfigSourceDynamicBrokerConfig},
		{"1", change{"log.segment.bytes", opDelete, ""}, 2097152, kmsg.ConfigSourceDynamicDefaultBrokerConfig},
		{"", change{"log.segment.bytes", opDelete, ""}, 1 << 30, kmsg.ConfigSourceDefaultConfig},
	} {
		if code, text := s.alter(ofBroker, step.broker, step.change); code != 0 {
			t.Fatalf("%+v: code %d, %s", step, code, text)
		}
		want := fmt.Sprint(step.want)
		s.expectConfig(ofTopic, "orders", "segment.bytes", want, step.source)
		s.expectConfig(ofBroker, "1", "log.segment.bytes", want, step.source)
		if got := segmentBytes(topic.Partitions[0].LogID); got != step.want {
			t.Errorf("after %+v the log rolls at %d", step, got)
		}
		if got := segmentBytes(own.Partitions[0].LogID); got != 4194304 {
			t.Errorf("after %+v the log with a value of its own rolls at %d", step, got)
		}
	}
	if got := s.config(ofBroker, "1", "num.partitions"); !got.ReadOnly {
		t.Error("num.partitions is shown as changeable")
	}
	if got := s.config(ofBroker, "1", "log.segment.bytes"); got.ReadOnly || got.ConfigType != kmsg.ConfigTypeInt || got.IsSensitive {
		t.Errorf("log.segment.bytes is shown as %+v", got)
	}
}

func partitionsRequest(version int16, name string, count int32, assignment ...[]int32) *kmsg.CreatePartitionsRequest {
	r := at(version, kmsg.NewPtrCreatePartitionsRequest())
	asked := kmsg.NewCreatePartitionsRequestTopic()
	asked.Topic, asked.Count = name, count
	for _, replicas := range assignment {
		one := kmsg.NewCreatePartitionsRequestTopicAssignment()
		one.Replicas = replicas
		asked.Assignment = append(asked.Assignment, one)
	}
	r.Topics = append(r.Topics, asked)
	return r
}

// KIP-195: a topic grows while it is written to, and what it has stays.
func TestCreatePartitionsGrowsATopicInUse(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 2, nil)
	if got := s.produced(topic.ID, batch(record.CodecNone, "a")); got != 0 {
		t.Fatalf("produce: code %d", got)
	}
	if got := ask[*kmsg.CreatePartitionsResponse](s.client, partitionsRequest(3, "orders", 4)).Topics[0]; got.ErrorCode != 0 || got.ErrorMessage != nil {
		t.Fatalf("%+v", got)
	}
	request := produceRequest(13, "", topic.ID, batch(record.CodecNone, "b"))
	request.Topics[0].Partitions[0].Partition = 3
	if got := ask[*kmsg.ProduceResponse](s.client, request).Topics[0].Partitions[0]; got.ErrorCode != 0 || got.BaseOffset != 0 {
		t.Errorf("to a new partition: code %d, offset %d", got.ErrorCode, got.BaseOffset)
	}
	if got := fetched(s, fetchRequest(13, "", topic.ID, 0)); got.ErrorCode != 0 || got.HighWatermark != 1 {
		t.Errorf("partition 0 has lost its records: %+v", got)
	}
	metadata := at(12, kmsg.NewPtrMetadataRequest())
	asked := kmsg.NewMetadataRequestTopic()
	asked.TopicID = topic.ID
	metadata.Topics = append(metadata.Topics, asked)
	if got := ask[*kmsg.MetadataResponse](s.client, metadata).Topics[0]; len(got.Partitions) != 4 || got.Partitions[3].Leader != 1 {
		t.Errorf("metadata shows %+v", got.Partitions)
	}
}

func TestCreatePartitionsRefusesWithKafkasCodes(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 3, nil)
	for _, c := range []struct {
		what    string
		request *kmsg.CreatePartitionsRequest
		code    int16
		message string
	}{
		{"as many", partitionsRequest(3, "orders", 3), 37, "already has 3 partition(s)"},
		{"fewer", partitionsRequest(3, "orders", 1), 37, "1 would not be an increase"},
		{"too many", partitionsRequest(3, "orders", 1<<28), 44, "at most 10000"},
		{"unknown", partitionsRequest(3, "missing", 3), 3, "missing"},
		{"too few assignments", partitionsRequest(3, "orders", 5, []int32{1}), 39, "2 additional partition(s), but only 1"},
		{"unknown broker", partitionsRequest(3, "orders", 4, []int32{9}), 39, "not registered"},
		{"empty assignment", partitionsRequest(3, "orders", 4, []int32{}), 39, "empty replica list"},
		{"other factor", partitionsRequest(3, "orders", 4, []int32{1, 1}), 39, "expected 1"},
	} {
		got := ask[*kmsg.CreatePartitionsResponse](s.client, c.request).Topics[0]
		if got.ErrorCode != c.code || got.ErrorMessage == nil || !strings.Contains(*got.ErrorMessage, c.message) {
			t.Errorf("%s: code %d, %v; want %d, %q", c.what, got.ErrorCode, got.ErrorMessage, c.code, c.message)
		}
	}
	twice := partitionsRequest(3, "orders", 4)
	twice.Topics = append(twice.Topics, twice.Topics[0])
	if got := ask[*kmsg.CreatePartitionsResponse](s.client, twice).Topics; len(got) != 1 || got[0].ErrorCode != 42 {
		t.Errorf("a topic that comes twice: %+v", got)
	}
	validate := partitionsRequest(3, "orders", 4)
	validate.ValidateOnly = true
	if got := ask[*kmsg.CreatePartitionsResponse](s.client, validate).Topics[0].ErrorCode; got != 0 {
		t.Errorf("validate only: code %d", got)
	}
	if topic, _ := s.broker.Image().Topic("orders"); len(topic.Partitions) != 3 {
		t.Errorf("afterwards there are %d partitions", len(topic.Partitions))
	}
	if got := ask[*kmsg.CreatePartitionsResponse](s.client, partitionsRequest(3, "orders", 4, []int32{1})).Topics[0].ErrorCode; got != 0 {
		t.Errorf("by hand: code %d", got)
	}
}

// What is altered holds from the next request on, for a client that is connected and for the
// log on the disk.
func TestAlteredConfigsHoldAtOnce(t *testing.T) {
	h := startHouse(t)
	h.topic("orders", 1, nil)
	producer := h.client(kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordRetries(0))
	alter := func(name, value string) {
		t.Helper()
		altered, err := h.admin().AlterTopicConfigs(h.context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, "orders")
		if err == nil {
			err = altered[0].Err
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	produce := func(record *kgo.Record) error {
		record.Topic = "orders"
		return producer.ProduceSync(h.context(), record).FirstErr()
	}
	segments := func() int {
		topic, err := h.broker.Topic([]byte("orders"))
		if err != nil {
			t.Fatal(err)
		}
		status, err := h.broker.Status(h.context(), topic, 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(status.Segments)
	}
	large := func() *kgo.Record { return &kgo.Record{Value: make([]byte, 600<<10)} }
	for range 3 {
		if err := produce(large()); err != nil {
			t.Fatal(err)
		}
	}
	if got := segments(); got != 1 {
		t.Fatalf("%d segments before", got)
	}
	alter("segment.bytes", "1048576")
	for range 3 {
		if err := produce(large()); err != nil {
			t.Fatal(err)
		}
	}
	if got := segments(); got < 3 {
		t.Errorf("segment.bytes: %d segments", got)
	}
	alter("flush.messages", "1000")
	if err := produce(&kgo.Record{Value: []byte("relaxed")}); err != nil {
		t.Error(err)
	}
	alter("flush.messages", "1")
	alter("message.timestamp.type", "LogAppendTime")
	old := &kgo.Record{Value: []byte("x"), Timestamp: time.UnixMilli(1000)}
	if err := produce(old); err != nil {
		t.Fatal(err)
	}
	reader := h.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(old.Offset)}}))
	if got := h.consume(reader, 1)[0]; got.Attrs.TimestampType() != 1 || time.Since(got.Timestamp) > time.Hour {
		t.Errorf("message.timestamp.type: %v", got.Timestamp)
	}
	alter("message.timestamp.type", "CreateTime")
	alter("message.timestamp.before.max.ms", "60000")
	if err := produce(&kgo.Record{Value: []byte("x"), Timestamp: time.UnixMilli(1000)}); !errors.Is(err, kerr.InvalidTimestamp) {
		t.Errorf("message.timestamp.before.max.ms: %v", err)
	}
	alter("min.insync.replicas", "2")
	if err := produce(&kgo.Record{Value: []byte("x")}); !errors.Is(err, kerr.NotEnoughReplicas) {
		t.Errorf("min.insync.replicas: %v", err)
	}
}
