package meta

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// Every topic configuration of Kafka 4.4, from its LogConfig and TopicConfig.
func TestTheTopicTableIsKafkas(t *testing.T) {
	want := strings.Fields(`cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
		delete.retention.ms errors.deadletterqueue.group.enable file.delete.delay.ms flush.messages flush.ms
		follower.replication.throttled.replicas index.interval.bytes leader.replication.throttled.replicas
		local.retention.bytes local.retention.ms max.compaction.lag.ms max.decompressed.message.bytes max.message.bytes
		message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type min.cleanable.dirty.ratio
		min.compaction.lag.ms min.insync.replicas preallocate remote.copy.lag.bytes remote.copy.lag.ms
		remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable retention.bytes retention.ms
		segment.bytes segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable`)
	var got []string
	for _, key := range TopicConfigKeys() {
		got = append(got, key.Name)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the table has\n%v, want\n%v", got, want)
	}
}

// "A config that works is accepted, others are INVALID_CONFIG", with a sentence.
func TestAConfigurationIsAcceptedOnlyIfItWorks(t *testing.T) {
	const accepted = ""
	cases := []struct{ name, value, reason string }{
		{"retention.ms", "86400000", accepted},
		{"retention.ms", " 86400000 ", accepted},
		{"retention.ms", "-1", accepted},
		{"retention.ms", "-2", "at least -1"},
		{"retention.ms", "abc", "whole number"},
		{"retention.ms", "9223372036854775808", "whole number"},
		{"retention.ms", "", "whole number"},
		{"retention.bytes", "-2", accepted}, // Kafka takes any negative number for "no limit"
		{"segment.bytes", "1048576", accepted},
		{"segment.bytes", "1048575", "at least 1048576"},
		{"segment.bytes", "2147483648", "32 bits"},
		{"flush.messages", "10000", accepted},
		{"flush.messages", "0", "at least 1"},
		{"max.message.bytes", "0", accepted},
		{"min.insync.replicas", "0", "at least 1"},
		{"message.timestamp.type", "LogAppendTime", accepted},
		{"message.timestamp.type", "logappendtime", "CreateTime, LogAppendTime"},
		{"cleanup.policy", "delete", accepted},
		{"cleanup.policy", "", accepted}, // Kafka 4.2: keep everything
		{"cleanup.policy", "compact", accepted},
		{"cleanup.policy", "delete, compact", accepted},
		{"cleanup.policy", "delete,delete", "named twice"},
		{"cleanup.policy", "shred", "one of compact, delete"},
		{"compression.type", "producer", accepted},
		{"compression.type", "zstd", accepted},
		{"compression.type", "brotli", "one of"},
		{"compression.gzip.level", "-1", accepted},
		{"compression.gzip.level", "5", "only the default"},
		{"compression.gzip.level", "10", "at most 9"},
		{"remote.storage.enable", "false", accepted},
		{"remote.storage.enable", "FALSE", accepted},
		{"remote.storage.enable", "true", "not there yet"},
		{"remote.storage.enable", "yes", "true or false"},
		{"local.retention.ms", "-2", accepted},
		{"local.retention.ms", "5", "not there yet"},
		{"min.cleanable.dirty.ratio", "0.50", accepted},
		{"min.cleanable.dirty.ratio", "0.7", accepted},
		{"min.compaction.lag.ms", "5", accepted},
		{"max.compaction.lag.ms", "0", "at least 1"},
		{"delete.retention.ms", "0", accepted},
		{"min.cleanable.dirty.ratio", "1.5", "from 0 to 1"},
		{"min.cleanable.dirty.ratio", "NaN", "number"},
		{"unclean.leader.election.enable", "true", "only false"},
		{"preallocate", "true", accepted},
		{"leader.replication.throttled.replicas", "", accepted},
		{"leader.replication.throttled.replicas", "*", "not there yet"},
		{"leader.replication.throttled.replicas", "0:1,1:x", "partition:broker"},
		{"retention.hours", "1", "no topic configuration"},
		{"retention.m", "1", "did you mean retention.ms?"},
		{"zzzzzzzzzzzz", "1", "no topic configuration of that name"},
		{"flush.ms", strings.Repeat("1", configValueBytesMax+1), "longer than"},
	}
	for _, test := range cases {
		err := CheckTopicConfigs(map[string]string{test.name: test.value})
		if test.reason == accepted {
			if err != nil {
				t.Errorf("%s=%q: %v", test.name, test.value, err)
			}
			continue
		}
		var refusal *ConfigError
		if !errors.As(err, &refusal) || !errors.Is(err, ErrInvalidConfig) || refusal.Name != test.name || !strings.Contains(refusal.Reason, test.reason) {
			t.Errorf("%s=%.40q: got %v, want a reason with %q", test.name, test.value, err, test.reason)
		}
	}
}

func TestTheFirstFaultInNameOrderIsReported(t *testing.T) {
	for range 20 {
		err := CheckTopicConfigs(map[string]string{"segment.ms": "x", "flush.ms": "x", "retention.ms": "x"})
		var refusal *ConfigError
		if !errors.As(err, &refusal) || refusal.Name != "flush.ms" {
			t.Fatalf("got %v", err)
		}
	}
}

func defaults(t *testing.T, broker map[string]string) *Defaults {
	t.Helper()
	d, err := NewDefaults(broker)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheDefaultsAreKafkasButForFlushing(t *testing.T) {
	got := defaults(t, nil).Topic(&Topic{})
	want := TopicConfig{Delete: true, DirtyRatioMin: 0.5, CompactionLagMaxMillis: math.MaxInt64, TombstoneMillis: 86400000, RetentionMillis: 604800000, RetentionBytes: -1, FileDeleteMillis: 60000, SegmentBytes: 1 << 30,
		SegmentMillis: 604800000, IndexIntervalBytes: 4096, FlushMessages: 1, FlushMillis: math.MaxInt64, MessageBytesMax: 1048588, Compression: "producer",
		TimestampBeforeMaxMillis: math.MaxInt64, TimestampAfterMaxMillis: 3600000, MinInsyncReplicas: 1}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Kafka's order: the topic, then the broker's synonyms in their order and
// units, then the default.
func TestTheTopicWinsOverTheBrokerAndTheFirstSynonymOverTheNext(t *testing.T) {
	key, _ := TopicConfigKey("retention.ms")
	cases := []struct {
		topic, broker map[string]string
		value         string
		source        ConfigSource
		synonyms      string
	}{
		{nil, nil, "604800000", ConfigSourceDefault, "log.retention.ms"},
		{nil, map[string]string{"log.retention.hours": "2"}, "7200000", ConfigSourceBroker, "log.retention.hours log.retention.ms"},
		{nil, map[string]string{"log.retention.hours": "2", "log.retention.minutes": "3"}, "180000", ConfigSourceBroker, "log.retention.minutes log.retention.hours log.retention.ms"},
		{nil, map[string]string{"log.retention.hours": "-1"}, "-1", ConfigSourceBroker, "log.retention.hours log.retention.ms"},
		{map[string]string{"retention.ms": "9"}, map[string]string{"log.retention.ms": "4"}, "9", ConfigSourceTopic, "retention.ms log.retention.ms log.retention.ms"},
	}
	for _, test := range cases {
		d := defaults(t, test.broker)
		topic := &Topic{Configs: test.topic}
		got := d.DescribeTopic(topic, key)
		var synonyms []string
		for _, synonym := range got.Synonyms {
			synonyms = append(synonyms, synonym.Name)
		}
		if got.Value != test.value || got.Source != test.source || strings.Join(synonyms, " ") != test.synonyms {
			t.Errorf("%v over %v: %q from %d, synonyms %v", test.topic, test.broker, got.Value, got.Source, synonyms)
		}
		if typed := d.Topic(topic).RetentionMillis; checkInteger(test.value, 64) != "" || typed != mustInteger(t, test.value) {
			t.Errorf("%v over %v: typed %d, shown %s", test.topic, test.broker, typed, test.value)
		}
	}
}

func mustInteger(t *testing.T, text string) int64 {
	t.Helper()
	reader := configReader{defaults(t, nil), map[string]string{"retention.ms": text}}
	return reader.integer("retention.ms")
}

func TestBrokerConfigurationsAreCheckedLikeTheTopicsTheyStandFor(t *testing.T) {
	for name, test := range map[string]struct {
		configs map[string]string
		reason  string
	}{
		"unknown":        {map[string]string{"log.retention.hour": "1"}, "did you mean log.retention.hours?"},
		"out of range":   {map[string]string{"log.segment.bytes": "5"}, "at least 1048576"},
		"too large":      {map[string]string{"log.roll.hours": "9223372036854775807"}, "32 bits"},
		"unsupported":    {map[string]string{"log.local.retention.ms": "5"}, "not there yet"},
		"no rate at all": {map[string]string{"log.cleaner.io.max.bytes.per.second": "0"}, "above 0"},
		"not a boolean":  {map[string]string{"auto.create.topics.enable": "1"}, "true or false"},
	} {
		_, err := NewDefaults(test.configs)
		var refusal *ConfigError
		if !errors.As(err, &refusal) || !strings.Contains(refusal.Reason, test.reason) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	key, _ := BrokerConfigKey("num.partitions")
	if got := defaults(t, map[string]string{"num.partitions": "7"}).DescribeBroker(key); got.Value != "7" || got.Source != ConfigSourceBroker || len(got.Synonyms) != 2 {
		t.Errorf("num.partitions is described as %+v", got)
	}
	rack, _ := BrokerConfigKey("broker.rack")
	if got := defaults(t, nil).DescribeBroker(rack); !got.Null || got.Source != ConfigSourceDefault {
		t.Errorf("broker.rack is described as %+v", got)
	}
}

// A value that a newer version accepted falls back to what this one understands.
func TestAStoredValueThatCannotBeReadCountsAsNotSet(t *testing.T) {
	d := defaults(t, map[string]string{"log.segment.bytes": "2097152"})
	if got := d.Topic(&Topic{Configs: map[string]string{"segment.bytes": "2 GiB"}}).SegmentBytes; got != 2097152 {
		t.Errorf("got %d", got)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"listeners", "log.dirs", "num.partitions"}
	for given, want := range map[string]string{"listener": "listeners", "Log.Dirs": "log.dirs", "num-partitions": "num.partitions", "zookeeper.connect": "", strings.Repeat("x", 200): ""} {
		if got, ok := Nearest(given, names); got != want || ok != (want != "") {
			t.Errorf("%.20s: %q", given, got)
		}
	}
}

// A record cannot be safe from compaction for longer than it may wait for it.
func TestTheLeastCompactionLagIsNotMoreThanTheMost(t *testing.T) {
	both := map[string]string{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}
	var refusal *ConfigError
	if err := CheckTopicConfigs(both); !errors.As(err, &refusal) || refusal.Name != "min.compaction.lag.ms" {
		t.Errorf("got %v", err)
	}
	both["max.compaction.lag.ms"] = "10"
	if err := CheckTopicConfigs(both); err != nil {
		t.Error(err)
	}
}

func TestATopicsCompactionIsTyped(t *testing.T) {
	got := defaults(t, map[string]string{"log.cleaner.min.cleanable.ratio": "0.25"}).Topic(&Topic{Configs: map[string]string{
		"cleanup.policy": "delete, compact", "delete.retention.ms": "7", "min.compaction.lag.ms": "8", "max.compaction.lag.ms": "9",
	}})
	if !got.Compact || !got.Delete || got.DirtyRatioMin != 0.25 || got.TombstoneMillis != 7 || got.CompactionLagMinMillis != 8 || got.CompactionLagMaxMillis != 9 {
		t.Errorf("%+v", got)
	}
}
