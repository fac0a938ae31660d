package meta

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ConfigSource says who set a configuration's value.
type ConfigSource uint8

// The sources of configuration values, weakest first.
const (
	ConfigSourceDefault       ConfigSource = iota + 1 // nobody
	ConfigSourceBroker                                // the broker's flags or file
	ConfigSourceEveryBroker                           // set dynamically on all brokers
	ConfigSourceBrokerDynamic                         // set dynamically on this broker
	ConfigSourceTopic                                 // the topic
	ConfigSourceGroup                                 // the group
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

// Defaults are what holds for topics that set nothing: what is set dynamically on this
// broker, then on all, then the broker's own configuration, then the defaults of the
// registry. Immutable.
type Defaults struct {
	layers []configLayer // strongest first; the last is the broker's own
}

// configLayer are broker configurations of one source.
type configLayer struct {
	source  ConfigSource
	configs map[string]string
}

// NewDefaults makes the Defaults of a broker whose configurations, by Kafka's
// names, are given. It returns a *ConfigError for one that is unknown or wrong.
func NewDefaults(broker map[string]string) (*Defaults, error) {
	if err := CheckBrokerConfigs(broker); err != nil {
		return nil, err
	}
	d := &Defaults{layers: []configLayer{{ConfigSourceBroker, maps.Clone(broker)}}}
	if err := d.checkGroupDefaults(); err != nil {
		return nil, err
	}
	return d, nil
}

// WithDynamic returns d with what image has set on a broker and on all of them in place
// of what d had of that before.
func (d *Defaults) WithDynamic(image *Image, broker int32) *Defaults {
	next := &Defaults{}
	for _, layer := range []configLayer{
		{ConfigSourceBrokerDynamic, image.BrokerConfigs(broker)},
		{ConfigSourceEveryBroker, image.BrokerConfigs(EveryBroker)},
	} {
		if len(layer.configs) > 0 {
			next.layers = append(next.layers, layer)
		}
	}
	next.layers = append(next.layers, d.layers[len(d.layers)-1])
	return next
}

// DescribeTopic returns what holds for key on topic, of which only Configs is asked.
func (d *Defaults) DescribeTopic(topic *Topic, key *ConfigKey) ConfigValue {
	value := ConfigValue{Key: key}
	if explicit, set := topic.Configs[key.Name]; set {
		value.add(key.Name, explicit, ConfigSourceTopic)
	}
	for _, layer := range d.layers {
		for _, synonym := range key.Synonyms {
			if raw, set := layer.configs[synonym.Name]; set {
				value.addSynonym(synonym, raw, layer.source)
			}
		}
	}
	value.addDefault()
	return value
}

// DescribeBroker returns what holds for a broker configuration.
func (d *Defaults) DescribeBroker(key *ConfigKey) ConfigValue {
	value := ConfigValue{Key: key}
	for _, layer := range d.layers {
		if raw, set := layer.configs[key.Name]; set {
			value.add(key.Name, raw, layer.source)
		}
	}
	value.addDefault()
	return value
}

// DescribeEveryBroker returns what is set dynamically on all brokers, in name order.
func DescribeEveryBroker(image *Image) []ConfigValue {
	configs := image.BrokerConfigs(EveryBroker)
	var values []ConfigValue
	for _, name := range sortedKeys(configs) {
		key, known := BrokerConfigKey(name)
		if !known {
			continue // of a newer version: it does nothing here
		}
		value := ConfigValue{Key: key}
		value.add(name, configs[name], ConfigSourceEveryBroker)
		values = append(values, value)
	}
	return values
}

func (v *ConfigValue) add(name, value string, source ConfigSource) {
	if len(v.Synonyms) == 0 {
		v.Value, v.Source = value, source
	}
	v.Synonyms = append(v.Synonyms, ConfigSynonymValue{Name: name, Value: value, Source: source})
}

// addSynonym adds a broker configuration that stands behind a topic's: it is shown as it
// was set, and counts in the topic's unit.
func (v *ConfigValue) addSynonym(synonym ConfigSynonym, raw string, source ConfigSource) {
	v.add(synonym.Name, raw, source)
	if len(v.Synonyms) == 1 {
		v.Value, _ = synonym.convert(raw) // it was checked when it was set
	}
}

// addDefault adds the default, which Kafka shows under the broker's name if there is one.
func (v *ConfigValue) addDefault() {
	if !v.Key.NoDefault {
		name := v.Key.Name
		if len(v.Key.Synonyms) > 0 {
			name = v.Key.Synonyms[0].Name
		}
		v.add(name, v.Key.Default, ConfigSourceDefault)
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
	Delete                   bool    // cleanup.policy contains delete
	Compact                  bool    // cleanup.policy contains compact
	DirtyRatioMin            float64 // min.cleanable.dirty.ratio
	CompactionLagMinMillis   int64   // min.compaction.lag.ms
	CompactionLagMaxMillis   int64   // max.compaction.lag.ms
	TombstoneMillis          int64   // delete.retention.ms
	RetentionMillis          int64   // retention.ms; -1 is for ever
	RetentionBytes           int64   // retention.bytes; -1 is no limit
	FileDeleteMillis         int64   // file.delete.delay.ms
	SegmentBytes             int64   // segment.bytes
	SegmentMillis            int64   // segment.ms
	IndexIntervalBytes       int32   // index.interval.bytes
	FlushMessages            int64   // flush.messages; 1 acknowledges only what is flushed
	FlushMillis              int64   // flush.ms; math.MaxInt64 is never by time
	MessageBytesMax          int32   // max.message.bytes
	Compression              string  // compression.type
	LogAppendTime            bool    // message.timestamp.type
	TimestampBeforeMaxMillis int64   // message.timestamp.before.max.ms
	TimestampAfterMaxMillis  int64   // message.timestamp.after.max.ms
	MinInsyncReplicas        int32   // min.insync.replicas
}

// Topic returns what holds on topic, of which only Configs is asked. It parses
// text: callers on a hot path keep the answer for as long as they keep the *Topic.
func (d *Defaults) Topic(topic *Topic) TopicConfig {
	v := configReader{d, topic.Configs}
	policies := ParseConfigList(v.text("cleanup.policy"))
	return TopicConfig{
		Delete:                   slices.Contains(policies, "delete"),
		Compact:                  slices.Contains(policies, "compact"),
		DirtyRatioMin:            v.number("min.cleanable.dirty.ratio"),
		CompactionLagMinMillis:   v.integer("min.compaction.lag.ms"),
		CompactionLagMaxMillis:   v.integer("max.compaction.lag.ms"),
		TombstoneMillis:          v.integer("delete.retention.ms"),
		RetentionMillis:          v.integer("retention.ms"),
		RetentionBytes:           max(v.integer("retention.bytes"), -1),
		FileDeleteMillis:         v.integer("file.delete.delay.ms"),
		SegmentBytes:             v.integer("segment.bytes"),
		SegmentMillis:            v.integer("segment.ms"),
		IndexIntervalBytes:       int32(v.integer("index.interval.bytes")),
		FlushMessages:            v.integer("flush.messages"),
		FlushMillis:              v.integer("flush.ms"),
		MessageBytesMax:          int32(v.integer("max.message.bytes")),
		Compression:              v.text("compression.type"),
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
	for _, layer := range v.defaults.layers {
		for _, synonym := range key.Synonyms {
			if raw, set := layer.configs[synonym.Name]; set {
				converted, _ := synonym.convert(raw)
				return converted
			}
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

// number reads a number with a fraction, like integer.
func (v configReader) number(name string) float64 {
	number, err := strconv.ParseFloat(strings.TrimSpace(v.text(name)), 64)
	if err != nil {
		number, err = strconv.ParseFloat(strings.TrimSpace(configReader{v.defaults, nil}.text(name)), 64)
	}
	if err != nil {
		key, _ := TopicConfigKey(name)
		number, _ = strconv.ParseFloat(key.Default, 64)
	}
	return number
}
