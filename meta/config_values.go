package meta

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// ConfigSource says who set a configuration's value.
type ConfigSource uint8

// The sources of configuration values, weakest first.
const (
	ConfigSourceDefault ConfigSource = iota + 1 // nobody
	ConfigSourceBroker                          // the broker's flags or file
	ConfigSourceTopic                           // the topic
)

// ConfigValue is what holds for one configuration, as DescribeConfigs shows it.
type ConfigValue struct {
	Key    *ConfigKey
	Value  string
	Null   bool // there is no value
	Source ConfigSource
	// Synonyms are all the values that there are for it, the one that holds
	// first: the topic's own, the broker's under their names, the default.
	Synonyms []ConfigSynonymValue
}

// ConfigSynonymValue is one of the values behind a ConfigValue.
type ConfigSynonymValue struct {
	Name   string
	Value  string
	Source ConfigSource
}

// Defaults are what holds for topics that set nothing: the broker's
// configuration, over the defaults of the registry. Immutable.
type Defaults struct {
	broker map[string]string
}

// NewDefaults makes the Defaults of a broker whose configurations, by Kafka's
// names, are given. It returns a *ConfigError for one that is unknown or wrong.
func NewDefaults(broker map[string]string) (*Defaults, error) {
	if err := CheckBrokerConfigs(broker); err != nil {
		return nil, err
	}
	d := &Defaults{broker: make(map[string]string, len(broker))}
	for _, name := range sortedKeys(broker) {
		d.broker[name] = broker[name]
	}
	return d, nil
}

// DescribeTopic returns what holds for key on topic, of which only Configs is asked.
func (d *Defaults) DescribeTopic(topic *Topic, key *ConfigKey) ConfigValue {
	value := ConfigValue{Key: key}
	if explicit, set := topic.Configs[key.Name]; set {
		value.add(key.Name, explicit, ConfigSourceTopic)
	}
	for _, synonym := range key.Synonyms {
		if raw, set := d.broker[synonym.Name]; set {
			converted, _ := synonym.convert(raw) // NewDefaults has checked it
			value.add(synonym.Name, converted, ConfigSourceBroker)
		}
	}
	value.addDefault()
	return value
}

// DescribeBroker returns what holds for a broker configuration.
func (d *Defaults) DescribeBroker(key *ConfigKey) ConfigValue {
	value := ConfigValue{Key: key}
	if raw, set := d.broker[key.Name]; set {
		value.add(key.Name, raw, ConfigSourceBroker)
	}
	value.addDefault()
	return value
}

func (v *ConfigValue) add(name, value string, source ConfigSource) {
	if len(v.Synonyms) == 0 {
		v.Value, v.Source = value, source
	}
	v.Synonyms = append(v.Synonyms, ConfigSynonymValue{Name: name, Value: value, Source: source})
}

func (v *ConfigValue) addDefault() {
	if !v.Key.NoDefault {
		v.add(v.Key.Name, v.Key.Default, ConfigSourceDefault)
		return
	}
	if len(v.Synonyms) == 0 {
		v.Null, v.Source = true, ConfigSourceDefault
	}
}

// convert turns a broker configuration's value into the topic's unit; ok is
// false when it does not fit.
func (s ConfigSynonym) convert(value string) (converted string, ok bool) {
	if s.Millis == 1 {
		return value, true
	}
	number, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil || number > math.MaxInt64/s.Millis {
		return value, false
	}
	if number < 0 {
		return "-1", true // "for ever" has no unit
	}
	return strconv.FormatInt(number*s.Millis, 10), true
}

// TopicConfig is what holds on a topic, typed, as the data path needs it.
type TopicConfig struct {
	Delete                   bool  // cleanup.policy contains delete
	RetentionMillis          int64 // retention.ms; -1 is for ever
	RetentionBytes           int64 // retention.bytes; -1 is no limit
	FileDeleteMillis         int64 // file.delete.delay.ms
	SegmentBytes             int64 // segment.bytes
	SegmentMillis            int64 // segment.ms
	IndexIntervalBytes       int32 // index.interval.bytes
	FlushMessages            int64 // flush.messages; 1 acknowledges only what is flushed
	FlushMillis              int64 // flush.ms; math.MaxInt64 is never by time
	MessageBytesMax          int32 // max.message.bytes
	LogAppendTime            bool  // message.timestamp.type
	TimestampBeforeMaxMillis int64 // message.timestamp.before.max.ms
	TimestampAfterMaxMillis  int64 // message.timestamp.after.max.ms
	MinInsyncReplicas        int32 // min.insync.replicas
}

// Topic returns what holds on topic, of which only Configs is asked. It parses
// text: callers on a hot path keep the answer for as long as they keep the *Topic.
func (d *Defaults) Topic(topic *Topic) TopicConfig {
	v := configReader{d, topic.Configs}
	return TopicConfig{
		Delete:                   slices.Contains(ParseConfigList(v.text("cleanup.policy")), "delete"),
		RetentionMillis:          v.integer("retention.ms"),
		RetentionBytes:           max(v.integer("retention.bytes"), -1),
		FileDeleteMillis:         v.integer("file.delete.delay.ms"),
		SegmentBytes:             v.integer("segment.bytes"),
		SegmentMillis:            v.integer("segment.ms"),
		IndexIntervalBytes:       int32(v.integer("index.interval.bytes")),
		FlushMessages:            v.integer("flush.messages"),
		FlushMillis:              v.integer("flush.ms"),
		MessageBytesMax:          int32(v.integer("max.message.bytes")),
		LogAppendTime:            v.text("message.timestamp.type") == "LogAppendTime",
		TimestampBeforeMaxMillis: v.integer("message.timestamp.before.max.ms"),
		TimestampAfterMaxMillis:  v.integer("message.timestamp.after.max.ms"),
		MinInsyncReplicas:        int32(v.integer("min.insync.replicas")),
	}
}

// configReader reads values that were checked when they were set.
type configReader struct {
	defaults *Defaults
	configs  map[string]string
}

func (v configReader) text(name string) string {
	if value, set := v.configs[name]; set {
		return value
	}
	key, known := TopicConfigKey(name)
	if !known {
		panic("meta: no topic configuration " + name)
	}
	for _, synonym := range key.Synonyms {
		if raw, set := v.defaults.broker[synonym.Name]; set {
			converted, _ := synonym.convert(raw)
			return converted
		}
	}
	return key.Default
}

// integer reads a whole number. A value that a newer version accepted and this one cannot
// read counts as not set.
func (v configReader) integer(name string) int64 {
	number, err := strconv.ParseInt(strings.TrimSpace(v.text(name)), 10, 64)
	if err != nil {
		number, err = strconv.ParseInt(strings.TrimSpace(configReader{v.defaults, nil}.text(name)), 10, 64)
	}
	if err != nil {
		key, _ := TopicConfigKey(name)
		number, _ = strconv.ParseInt(key.Default, 10, 64)
	}
	return number
}
