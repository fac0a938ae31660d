package kafka

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka's rules for names (org.apache.kafka.common.internals.Topic), in CreateTopics and where
// Metadata makes topics on demand. What is refused leaves nothing, and is not repeated to its sender at length.
func TestNamesOfTopicsAreBounded(t *testing.T) {
	s := newScene(t, Options{AutoCreateTopics: true})
	longest := strings.Repeat("a", 249)
	for _, c := range []struct {
		name string
		want int16
	}{
		{longest, 0}, {"A-Z_0.9", 0}, {"...", 0}, {"or_ders", 0},
		{longest + "a", 17}, {strings.Repeat("b", 100_000), 17}, {"", 17}, {".", 17}, {"..", 17}, {"a b", 17}, {"a/b", 17}, {"../a", 17}, {"a\x00", 17}, {"ä", 17}, {"a\n", 17},
		{"or.ders", 17}, // the name of a metric would be the same
		{"or_ders", 36},
	} {
		got := ask[*kmsg.CreateTopicsResponse](s.client, createRequest(5, c.name)).Topics[0]
		if got.ErrorCode != c.want || c.want != 0 && (got.ErrorMessage == nil || len(*got.ErrorMessage) > messageBytesMax) {
			t.Errorf("create %.40q: code %d, %.80v", c.name, got.ErrorCode, got.ErrorMessage)
		}
		if c.want != 17 || c.name == "or.ders" {
			continue
		}
		request := at(12, kmsg.NewPtrMetadataRequest())
		request.AllowAutoTopicCreation = true
		asked := kmsg.NewMetadataRequestTopic()
		asked.Topic = &c.name
		request.Topics = append(request.Topics, asked)
		if got := ask[*kmsg.MetadataResponse](s.client, request).Topics[0]; got.ErrorCode != 17 {
			t.Errorf("metadata of %.40q: code %d", c.name, got.ErrorCode)
		}
	}
	if got := s.broker.Image().TopicCount(); got != 4 {
		t.Errorf("there are %d topics, want 4", got)
	}
}

// Configurations have names from a list and values of a bounded length; a fault is told in a few words.
func TestConfigurationsOfTopicsAreBounded(t *testing.T) {
	s := newScene(t, Options{})
	for _, c := range []struct {
		what, name, value string
	}{
		{"a long name", strings.Repeat("n", 100_000), "1"},
		{"a long value", "cleanup.policy", strings.Repeat("delete,", 20_000)},
		{"a long number", "retention.ms", strings.Repeat("1", 40_000)},
		{"a long list", "leader.replication.throttled.replicas", strings.Repeat("1:1,", 10_000) + "1:1"},
		{"bytes that are no text", "compression.type", "\xff\xfe\x00"},
		{"an empty name", "", "1"},
	} {
		create := createRequest(7, "orders")
		create.Topics[0].Configs = append(create.Topics[0].Configs, kmsg.CreateTopicsRequestTopicConfig{Name: c.name, Value: &c.value})
		got := ask[*kmsg.CreateTopicsResponse](s.client, create).Topics[0]
		if got.ErrorCode != 40 || got.ErrorMessage == nil || len(*got.ErrorMessage) > messageBytesMax {
			t.Errorf("%s: code %d, %.80v", c.what, got.ErrorCode, got.ErrorMessage)
		}
	}
	if got := s.broker.Image().TopicCount(); got != 0 {
		t.Errorf("there are %d topics", got)
	}
}

// KIP-599 has a quota for this; the bound of one request is Kafka's: 10,000 partitions, of all its topics
// together, and none is made when they are more.
func TestPartitionsOfARequestAreBounded(t *testing.T) {
	s := newScene(t, Options{})
	request := func(counts ...int32) *kmsg.CreateTopicsRequest {
		r := createRequest(7)
		for n, count := range counts {
			r.Topics = append(r.Topics, createRequest(7, fmt.Sprintf("topic-%d", n)).Topics...)
			r.Topics[n].NumPartitions = count
		}
		return r
	}
	for _, counts := range [][]int32{{10_001}, {5000, 5001}, {1, 10_000}, {1<<31 - 1, 1<<31 - 1, 3}} {
		for _, validate := range []bool{true, false} {
			r := request(counts...)
			r.ValidateOnly = validate
			for _, got := range ask[*kmsg.CreateTopicsResponse](s.client, r).Topics {
				if got.ErrorCode != 44 || got.ErrorMessage == nil {
					t.Errorf("%v: %s has code %d", counts, got.Topic, got.ErrorCode)
				}
			}
		}
	}
	// Nothing is drawn for partitions that are too many: a small request must not buy gigabytes of ids.
	many := make([]int32, 3000)
	for n := range many {
		many[n] = 10_000
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, got := range ask[*kmsg.CreateTopicsResponse](s.client, request(many...)).Topics {
		if got.ErrorCode != 44 {
			t.Errorf("3000 times 10,000: %s has code %d", got.Topic, got.ErrorCode)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 100<<20 {
		t.Errorf("a request for 30,000,000 partitions allocates %d MiB", got>>20)
	}
	if got := s.broker.Image().PartitionCount(); got != 0 {
		t.Errorf("there are %d partitions", got)
	}
	r := request(5000, 5000)
	r.ValidateOnly = true
	for _, got := range ask[*kmsg.CreateTopicsResponse](s.client, r).Topics {
		if got.ErrorCode != 0 {
			t.Errorf("10,000 in all: %s has code %d", got.Topic, got.ErrorCode)
		}
	}
}
