package blackbox

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// createRequest asks for topics of so many partitions.
func createRequest(partitions int32, factor int16, names ...string) *kmsg.CreateTopicsRequest {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = int32(patience.Milliseconds())
	for _, name := range names {
		asked := kmsg.NewCreateTopicsRequestTopic()
		asked.Topic, asked.NumPartitions, asked.ReplicationFactor = name, partitions, factor
		request.Topics = append(request.Topics, asked)
	}
	return request
}

// Row 39.
func moreReplicasThanBrokers(s *stage) {
	created, err := s.admin().CreateTopic(s.context(), 1, 3, nil, s.topic)
	if err := errors.Join(err, created.Err); !errors.Is(err, kerr.InvalidReplicationFactor) {
		s.Errorf("kadm: %v", err)
	}
	c := s.dial()
	for version := int16(2); version <= 7; version++ {
		got := ask[*kmsg.CreateTopicsResponse](c, version, createRequest(1, 3, s.topic)).Topics[0]
		if got.ErrorCode != kerr.InvalidReplicationFactor.Code || got.ErrorMessage == nil || !strings.Contains(*got.ErrorMessage, "3") {
			s.Errorf("v%d: code %d, %v", version, got.ErrorCode, got.ErrorMessage)
		}
	}
	s.expectMissing(s.topic)
}

// expectMissing wants topics not to exist.
func (s *stage) expectMissing(names ...string) {
	s.Helper()
	topics, err := s.admin().ListTopics(s.context())
	if err != nil {
		s.Fatal(err)
	}
	for _, name := range names {
		if topics.Has(name) {
			s.Errorf("there is a topic %s", name)
		}
	}
}

// Row 40.
func tooManyPartitions(s *stage) {
	c := s.dial()
	refused := func(what string, topics []kmsg.CreateTopicsResponseTopic) {
		s.Helper()
		for _, got := range topics {
			if got.ErrorCode != kerr.PolicyViolation.Code || got.ErrorMessage == nil || !strings.Contains(*got.ErrorMessage, "at most 10000") {
				s.Errorf("%s, topic %s: code %d, %v", what, got.Topic, got.ErrorCode, got.ErrorMessage)
			}
		}
	}
	for _, count := range []int32{10_001, 100_000, 1<<31 - 1} {
		refused(fmt.Sprint(count), ask[*kmsg.CreateTopicsResponse](c, 7, createRequest(count, 1, s.topic)).Topics)
	}
	both := []string{s.topic + "-a", s.topic + "-b"}
	refused("two of 6000", ask[*kmsg.CreateTopicsResponse](c, 7, createRequest(6000, 1, both...)).Topics)
	s.expectMissing(append(both, s.topic)...)

	s.create(3)
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.TimeoutMillis = int32(patience.Milliseconds())
	asked := kmsg.NewCreatePartitionsRequestTopic()
	asked.Topic, asked.Count = s.topic, 100_000
	grow.Topics = append(grow.Topics, asked)
	if got := ask[*kmsg.CreatePartitionsResponse](c, 3, grow).Topics[0]; got.ErrorCode != kerr.PolicyViolation.Code || got.ErrorMessage == nil {
		s.Errorf("growing: code %d, %v", got.ErrorCode, got.ErrorMessage)
	}
}

// kafkasTopicConfigs are the configurations of a topic that tools of all kinds look for.
var kafkasTopicConfigs = []string{"cleanup.policy", "compression.type", "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms",
	"follower.replication.throttled.replicas", "index.interval.bytes", "leader.replication.throttled.replicas", "local.retention.bytes", "local.retention.ms",
	"max.compaction.lag.ms", "max.message.bytes", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "message.timestamp.type",
	"min.cleanable.dirty.ratio", "min.compaction.lag.ms", "min.insync.replicas", "preallocate", "remote.storage.enable", "retention.bytes", "retention.ms",
	"segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms", "unclean.leader.election.enable"}

// Row 42. A tool that keeps configurations in files (terraform's provider) reads them before and after it writes, and
// must find no difference where nothing was changed.
func configurationsAndWhereTheyComeFrom(s *stage) {
	s.create(1, "retention.ms=1000000")
	c := s.dial()
	describe := func(version int16) map[string]kmsg.DescribeConfigsResponseResourceConfig {
		request := kmsg.NewPtrDescribeConfigsRequest()
		request.IncludeSynonyms = true
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, s.topic
		request.Resources = append(request.Resources, resource)
		answer := ask[*kmsg.DescribeConfigsResponse](c, version, request).Resources[0]
		if answer.ErrorCode != 0 {
			s.Fatalf("v%d: code %d", version, answer.ErrorCode)
		}
		configs := make(map[string]kmsg.DescribeConfigsResponseResourceConfig)
		for _, config := range answer.Configs {
			configs[config.Name] = config
		}
		return configs
	}
	for version := int16(1); version <= 4; version++ {
		configs := describe(version)
		for _, name := range kafkasTopicConfigs {
			if config, there := configs[name]; !there || config.Value == nil || len(config.ConfigSynonyms) == 0 && name != "remote.storage.enable" && !strings.Contains(name, "throttled") {
				s.Errorf("v%d: %s is %+v", version, name, config)
			}
		}
	}
	source := func(name string) string {
		config := describe(4)[name]
		var synonyms []string
		for _, synonym := range config.ConfigSynonyms {
			synonyms = append(synonyms, fmt.Sprintf("%s=%s by %v", synonym.Name, *synonym.Value, synonym.Source))
		}
		return fmt.Sprintf("%s by %v: %s", *config.Value, config.Source, strings.Join(synonyms, ", "))
	}
	before := describe(4)
	alter := func(change kadm.AlterConfig) {
		s.Helper()
		altered, err := s.admin().AlterTopicConfigs(s.context(), []kadm.AlterConfig{change}, s.topic)
		if err == nil {
			err = altered[0].Err
		}
		if err != nil {
			s.Fatal(err)
		}
	}
	value := "777777"
	alter(kadm.AlterConfig{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &value})
	if got, want := source("max.message.bytes"), "777777 by DYNAMIC_TOPIC_CONFIG: max.message.bytes=777777 by DYNAMIC_TOPIC_CONFIG, message.max.bytes=1048588 by DEFAULT_CONFIG"; got != want {
		s.Errorf("set:\n got %s\nwant %s", got, want)
	}
	alter(kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "max.message.bytes"})
	if got, want := source("max.message.bytes"), "1048588 by DEFAULT_CONFIG: message.max.bytes=1048588 by DEFAULT_CONFIG"; got != want {
		s.Errorf("deleted:\n got %s\nwant %s", got, want)
	}
	if got, want := source("retention.ms"), "1000000 by DYNAMIC_TOPIC_CONFIG: retention.ms=1000000 by DYNAMIC_TOPIC_CONFIG, log.retention.ms=604800000 by DEFAULT_CONFIG"; got != want {
		s.Errorf("untouched:\n got %s\nwant %s", got, want)
	}
	after := describe(4)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if b, a := before[name], after[name]; fmt.Sprint(*b.Value, b.Source, b.ConfigType) != fmt.Sprint(*a.Value, a.Source, a.ConfigType) {
			s.Errorf("a second plan differs: %s was %s by %v and is %s by %v", name, *b.Value, b.Source, *a.Value, a.Source)
		}
	}
	// The older API replaces all: what it does not name goes back to its default.
	whole := kmsg.NewPtrAlterConfigsRequest()
	resource := kmsg.NewAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, s.topic
	config := kmsg.NewAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "segment.ms", &value
	resource.Configs = append(resource.Configs, config)
	whole.Resources = append(whole.Resources, resource)
	if got := ask[*kmsg.AlterConfigsResponse](c, 1, whole).Resources[0]; got.ErrorCode != 0 {
		s.Fatalf("AlterConfigs: code %d", got.ErrorCode)
	}
	if got := describe(4)["retention.ms"]; *got.Value != "604800000" || got.Source != kmsg.ConfigSourceDefaultConfig {
		s.Errorf("retention.ms after AlterConfigs without it: %s by %v", *got.Value, got.Source)
	}
}

// Row 43.
func allTopicsNoTopicsNewTopics(s *stage) {
	s.create(1)
	c := s.dial()
	named := func(version int16, change func(*kmsg.MetadataRequest)) *kmsg.MetadataResponse {
		request := kmsg.NewPtrMetadataRequest()
		change(request)
		return ask[*kmsg.MetadataResponse](c, version, request)
	}
	has := func(answer *kmsg.MetadataResponse, name string) (there bool, code int16) {
		for _, topic := range answer.Topics {
			if topic.Topic != nil && *topic.Topic == name {
				return true, topic.ErrorCode
			}
		}
		return false, 0
	}
	empty := func(r *kmsg.MetadataRequest) { r.Topics = []kmsg.MetadataRequestTopic{} }
	null := func(r *kmsg.MetadataRequest) { r.Topics = nil }
	if there, _ := has(named(0, empty), s.topic); !there {
		s.Error("v0: an empty list is all topics")
	}
	for version := int16(1); version <= 13; version++ {
		if there, code := has(named(version, null), s.topic); !there || code != 0 {
			s.Errorf("v%d: null is all topics", version)
		}
		if got := named(version, empty); len(got.Topics) != 0 || len(got.Brokers) != 1 {
			s.Errorf("v%d: an empty list has %d topics and %d brokers", version, len(got.Topics), len(got.Brokers))
		}
	}
	asking := func(name string, allowed bool) func(*kmsg.MetadataRequest) {
		return func(r *kmsg.MetadataRequest) {
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = &name
			r.Topics, r.AllowAutoTopicCreation = append(r.Topics, topic), allowed
		}
	}
	// kafka-go's Conn speaks v1 and v6: before v4 there is no flag, and every topic asked for is made.
	for _, version := range []int16{4, 6, 8, 12, 13} {
		unwanted := fmt.Sprintf("%s-unwanted-%d", s.topic, version)
		if there, code := has(named(version, asking(unwanted, false)), unwanted); !there || code != unknownTopicOrPartition {
			s.Errorf("v%d, not allowed: %v, code %d", version, there, code)
		}
	}
	for _, version := range []int16{1, 3, 4, 6, 12} {
		wanted := fmt.Sprintf("%s-wanted-%d", s.topic, version)
		s.await(fmt.Sprintf("v%d makes a topic", version), func() bool {
			there, code := has(named(version, asking(wanted, true)), wanted)
			return there && code == 0
		})
	}
	for _, version := range []int16{4, 6, 8, 12, 13} {
		s.expectMissing(fmt.Sprintf("%s-unwanted-%d", s.topic, version))
	}
}
