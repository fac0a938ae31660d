package meta

import (
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

// alter applies one alteration and returns what became of it.
func (c *cluster) alter(a ConfigAlteration) error {
	c.t.Helper()
	return c.must(AlterConfigs{Resources: []ConfigAlteration{a}}).(AlterConfigsResult).Resources[0].Err
}

func set(name, value string) ConfigChange {
	return ConfigChange{Name: name, Op: ConfigSet, Value: value}
}

// KIP-339: set, append, subtract, delete, each on what is there.
func TestIncrementalChangesStandOnWhatIsSet(t *testing.T) {
	c := newCluster(t, 1)
	orders := c.create(topic(t, "orders", 1, 1))[0].ID
	const list = "follower.replication.throttled.replicas"
	steps := []struct {
		change ConfigChange
		want   map[string]string
	}{
		{set("retention.ms", "5"), map[string]string{"retention.ms": "5"}},
		{ConfigChange{Name: list, Op: ConfigAppend, Value: "0:1,1:1", Base: "9:9"}, map[string]string{"retention.ms": "5", list: "9:9,0:1,1:1"}},
		{ConfigChange{Name: list, Op: ConfigAppend, Value: "1:1, 2:1", Base: "9:9"}, map[string]string{"retention.ms": "5", list: "9:9,0:1,1:1,2:1"}},
		{ConfigChange{Name: list, Op: ConfigSubtract, Value: "9:9,0:1,7:7"}, map[string]string{"retention.ms": "5", list: "1:1,2:1"}},
		{ConfigChange{Name: list, Op: ConfigSubtract, Value: "1:1,2:1"}, map[string]string{"retention.ms": "5", list: ""}},
		{ConfigChange{Name: "retention.ms", Op: ConfigDelete}, map[string]string{list: ""}},
		{ConfigChange{Name: "never.was", Op: ConfigDelete}, map[string]string{list: ""}},
	}
	for _, step := range steps {
		before := c.image
		if err := c.alter(ConfigAlteration{Scope: ConfigOfTopic, Topic: orders, Changes: []ConfigChange{step.change}}); err != nil {
			t.Fatal(err)
		}
		if got := c.topic("orders").Configs; !maps.Equal(got, step.want) {
			t.Errorf("after %+v: %v, want %v", step.change, got, step.want)
		}
		old, _ := before.Topic("orders")
		if changed := Diff(before, c.image).TopicsChanged; (len(changed) == 1) == maps.Equal(old.Configs, step.want) {
			t.Errorf("after %+v the delta has %d topics", step.change, len(changed))
		}
	}
	if err := c.alter(ConfigAlteration{Scope: ConfigOfTopic, Topic: orders, Replace: true, Changes: []ConfigChange{set("segment.ms", "7")}}); err != nil {
		t.Fatal(err)
	}
	if got := c.topic("orders").Configs; !maps.Equal(got, map[string]string{"segment.ms": "7"}) {
		t.Errorf("the older AlterConfigs leaves %v", got)
	}
}

// KIP-226: the broker itself wins over all brokers, both over its file, in that order.
func TestDynamicBrokerConfigsLieOverTheFile(t *testing.T) {
	c := newCluster(t, 1, 2)
	static := defaults(t, map[string]string{"log.retention.hours": "2"})
	key, _ := TopicConfigKey("retention.ms")
	look := func() ConfigValue { return static.WithDynamic(c.image, 1).DescribeTopic(&Topic{}, key) }
	expect := func(value string, source ConfigSource, synonyms string) {
		t.Helper()
		got := look()
		var names []string
		for _, synonym := range got.Synonyms {
			names = append(names, synonym.Name+"="+synonym.Value)
		}
		if got.Value != value || got.Source != source || strings.Join(names, " ") != synonyms {
			t.Errorf("%s from %d, synonyms %v; want %s from %d, %s", got.Value, got.Source, names, value, source, synonyms)
		}
		if typed := static.WithDynamic(c.image, 1).Topic(&Topic{}).RetentionMillis; typed != mustInteger(t, value) {
			t.Errorf("typed %d, shown %s", typed, value)
		}
	}
	expect("7200000", ConfigSourceBroker, "log.retention.hours=2 log.retention.ms=604800000")
	for broker, value := range map[int32]string{EveryBroker: "9", 1: "4", 2: "8"} {
		if err := c.alter(ConfigAlteration{Scope: ConfigOfBroker, Broker: broker, Changes: []ConfigChange{set("log.retention.ms", value)}}); err != nil {
			t.Fatal(err)
		}
	}
	expect("4", ConfigSourceBrokerDynamic, "log.retention.ms=4 log.retention.ms=9 log.retention.hours=2 log.retention.ms=604800000")
	brokerKey, _ := BrokerConfigKey("log.retention.ms")
	if got := static.WithDynamic(c.image, 1).DescribeBroker(brokerKey); got.Value != "4" || got.Source != ConfigSourceBrokerDynamic || len(got.Synonyms) != 3 {
		t.Errorf("the broker's own is described as %+v", got)
	}
	if got := DescribeEveryBroker(c.image); len(got) != 1 || got[0].Value != "9" || got[0].Source != ConfigSourceEveryBroker {
		t.Errorf("that of all brokers is described as %+v", got)
	}
	before := c.image
	for _, broker := range []int32{1, EveryBroker} {
		if err := c.alter(ConfigAlteration{Scope: ConfigOfBroker, Broker: broker, Changes: []ConfigChange{{Name: "log.retention.ms", Op: ConfigDelete}}}); err != nil {
			t.Fatal(err)
		}
	}
	expect("7200000", ConfigSourceBroker, "log.retention.hours=2 log.retention.ms=604800000")
	if changed := Diff(before, c.image).BrokerConfigsChanged; !slices.Equal(changed, []int32{EveryBroker, 1}) {
		t.Errorf("the delta names brokers %v", changed)
	}
}

func TestAnAlterationIsCheckedAsAWhole(t *testing.T) {
	c := newCluster(t, 1)
	orders := c.create(topic(t, "orders", 1, 1))[0].ID
	onTopic := func(changes ...ConfigChange) ConfigAlteration {
		return ConfigAlteration{Scope: ConfigOfTopic, Topic: orders, Changes: changes}
	}
	onBroker := func(id int32, changes ...ConfigChange) ConfigAlteration {
		return ConfigAlteration{Scope: ConfigOfBroker, Broker: id, Changes: changes}
	}
	for name, test := range map[string]struct {
		alteration ConfigAlteration
		want       error
		reason     string
	}{
		"sound":                {onTopic(set("retention.ms", "5")), nil, ""},
		"unknown name":         {onTopic(set("retention.m", "5")), ErrInvalidConfig, "did you mean retention.ms?"},
		"wrong value":          {onTopic(set("segment.ms", "5"), set("retention.ms", "x")), ErrInvalidConfig, "whole number"},
		"append to a number":   {onTopic(ConfigChange{Name: "retention.ms", Op: ConfigAppend, Value: "5"}), ErrInvalidConfig, "can't APPEND to it because its type is not LIST"},
		"append of nonsense":   {onTopic(ConfigChange{Name: "cleanup.policy", Op: ConfigAppend, Value: "shred", Base: "delete"}), ErrInvalidConfig, "one of compact, delete"},
		"append what is there": {onTopic(ConfigChange{Name: "cleanup.policy", Op: ConfigAppend, Value: "delete", Base: "delete"}), nil, ""},
		"unknown topic":        {ConfigAlteration{Scope: ConfigOfTopic, Topic: TopicID{9}}, ErrUnknownTopic, ""},
		"broker":               {onBroker(1, set("log.segment.bytes", "2097152")), nil, ""},
		"all brokers":          {onBroker(EveryBroker, set("message.max.bytes", "5")), nil, ""},
		"unknown broker":       {onBroker(7, set("log.segment.bytes", "2097152")), ErrUnknownBroker, "7"},
		"not dynamic":          {onBroker(1, set("num.partitions", "3")), ErrInvalidConfig, "cannot be updated dynamically"},
		"broker, wrong value":  {onBroker(1, set("log.segment.bytes", "1")), ErrInvalidConfig, "at least 1048576"},
		"no scope":             {ConfigAlteration{}, ErrInvalidRequest, ""},
	} {
		err := c.image.CheckAlteration(&test.alteration)
		if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), test.reason) {
			t.Errorf("%s: %v, want %v with %q", name, err, test.want, test.reason)
		}
	}
	twice := AlterConfigs{Resources: []ConfigAlteration{onBroker(1, set("a", "1")), onTopic(set("a", "1")), onBroker(1, set("a", "2")), {Scope: ConfigOfTopic, Topic: TopicID{9}}}}
	results := c.must(twice).(AlterConfigsResult).Resources
	if results[0].Err != nil || results[1].Err != nil || !errors.Is(results[2].Err, ErrInvalidRequest) || !errors.Is(results[3].Err, ErrUnknownTopic) {
		t.Errorf("each for itself: %+v", results)
	}
	if c.image.BrokerConfigs(1)["a"] != "1" {
		t.Error("the refused change was made")
	}
}

// A snapshot that the first format wrote is read, and goes on in the second.
func TestASnapshotOfFormat1IsRead(t *testing.T) {
	const stored = "524d0140ec9c8ee807636c75737465720301000102093132372e302e302e31888e01000400000000000000000000000000000000000106" +
		"6f726465727302000000000000000000000000000000010c726574656e74696f6e2e6d7301350001030000000000000000000000000000000200000102010200"
	frame, err := hex.DecodeString(stored)
	if err != nil {
		t.Fatal(err)
	}
	image, err := DecodeImage(frame)
	if err != nil {
		t.Fatal(err)
	}
	orders, ok := image.Topic("orders")
	if !ok || orders.Configs["retention.ms"] != "5" || len(image.brokerConfigs) != 0 {
		t.Errorf("it holds %+v", image)
	}
	again := AppendImage(nil, image)
	back, err := DecodeImage(again)
	if err != nil || again[2] != 2 {
		t.Fatalf("format %d, %v", again[2], err)
	}
	if delta := Diff(image, back); !delta.Empty() {
		t.Errorf("it goes on as something else: %+v", delta)
	}
}

// What an older program can read is written in its format; what it cannot is told by
// the version, not taken for damage.
func TestOnlyNewCommandsHaveTheNewFormat(t *testing.T) {
	for _, command := range samples() {
		frame := AppendCommand(nil, command)
		want := byte(1)
		switch command := command.(type) {
		case CreatePartitions:
			want = 2
		case AlterConfigs:
			if want = 2; command.concernsGroups() {
				want = 3
			}
		}
		if frame[2] != want {
			t.Errorf("%T has format %d, want %d", command, frame[2], want)
		}
		frame[2] = 1
		if _, err := DecodeCommand(reseal(frame)); (err == nil) != (want == 1) {
			t.Errorf("%T in format 1: %v", command, err)
		}
	}
}
