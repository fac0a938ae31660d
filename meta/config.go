package meta

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ConfigType is the type of a configuration's value, in the order that Kafka's
// protocol numbers them from 1.
type ConfigType uint8

// The types of configuration values.
const (
	ConfigBoolean ConfigType = iota + 1
	ConfigString
	ConfigInt
	ConfigShort
	ConfigLong
	ConfigDouble
	ConfigList
	ConfigClass
	ConfigPassword
)

var configTypeNames = [...]string{ConfigBoolean: "boolean", ConfigString: "string", ConfigInt: "int", ConfigShort: "short",
	ConfigLong: "long", ConfigDouble: "double", ConfigList: "list", ConfigClass: "class", ConfigPassword: "password"}

// String returns the type's name in lower case.
func (t ConfigType) String() string {
	if int(t) < len(configTypeNames) && configTypeNames[t] != "" {
		return configTypeNames[t]
	}
	return fmt.Sprintf("type(%d)", uint8(t))
}

// ConfigKey is one configuration that exists: what its values may be and what
// holds where nobody sets it.
type ConfigKey struct {
	Name          string
	Type          ConfigType
	Default       string
	NoDefault     bool // Kafka's null; Default is ""
	Documentation string
	// Synonyms are the broker configurations that set this topic
	// configuration's default; the first one that is set wins.
	Synonyms []ConfigSynonym
	// Sensitive values are secrets and are never shown.
	Sensitive bool
	// Dynamic configurations can be changed while the broker runs: all of topics, and of
	// brokers those that are defaults of topics and the limits of connections.
	Dynamic bool

	// check returns why value is wrong, as a sentence, or "".
	check func(value string) string
	// unsupported, unless it is "", is why Ringlog cannot do what another value
	// than the default asks for.
	unsupported string
}

// ConfigSynonym is a broker configuration that stands behind a topic configuration.
type ConfigSynonym struct {
	Name string
	// Millis converts its unit: a value counts so many milliseconds; 1 when nothing is converted.
	Millis int64
}

// Check returns a *ConfigError when value does not suit the configuration, or
// asks for something that Ringlog does not do.
func (k *ConfigKey) Check(value string) error {
	if len(value) > configValueBytesMax {
		return &ConfigError{Name: k.Name, Value: value[:64] + "...", Reason: fmt.Sprintf("the value is longer than %d bytes", configValueBytesMax)}
	}
	if reason := k.Type.check(value); reason != "" {
		return &ConfigError{Name: k.Name, Value: value, Reason: reason}
	}
	if k.check != nil {
		if reason := k.check(value); reason != "" {
			return &ConfigError{Name: k.Name, Value: value, Reason: reason}
		}
	}
	if k.unsupported != "" && !k.sameAsDefault(value) {
		return &ConfigError{Name: k.Name, Value: value, Reason: k.unsupported}
	}
	return nil
}

func (k *ConfigKey) sameAsDefault(value string) bool {
	return !k.NoDefault && k.Type.canonical(value) == k.Type.canonical(k.Default)
}

// configValueBytesMax bounds a value; the longest sound one is a list of replicas.
const configValueBytesMax = 32 << 10

// configTable is a set of configurations in name order.
type configTable []*ConfigKey

// newConfigTable sorts keys and proves them sound: each name once, each default
// accepted by its own check. A table that is not is bad code.
func newConfigTable(keys []*ConfigKey) configTable {
	slices.SortFunc(keys, func(a, b *ConfigKey) int { return strings.Compare(a.Name, b.Name) })
	for n, key := range keys {
		if n > 0 && keys[n-1].Name == key.Name {
			panic("meta: configuration " + key.Name + " is there twice")
		}
		if key.Documentation == "" {
			panic("meta: configuration " + key.Name + " has no documentation")
		}
		if !key.NoDefault {
			if err := key.Check(key.Default); err != nil {
				panic("meta: " + err.Error())
			}
		}
	}
	return keys
}

func (t configTable) lookup(name string) (*ConfigKey, bool) {
	at, found := slices.BinarySearchFunc(t, name, func(k *ConfigKey, name string) int { return strings.Compare(k.Name, name) })
	if !found {
		return nil, false
	}
	return t[at], true
}

// TopicConfigKeys returns every topic configuration, in name order. The slice
// must not be changed.
func TopicConfigKeys() []*ConfigKey { return topicConfigs }

// TopicConfigKey returns the topic configuration of that name.
func TopicConfigKey(name string) (*ConfigKey, bool) { return topicConfigs.lookup(name) }

// BrokerConfigKeys returns every broker configuration, in name order. The slice
// must not be changed.
func BrokerConfigKeys() []*ConfigKey { return brokerConfigs }

// BrokerConfigKey returns the broker configuration of that name.
func BrokerConfigKey(name string) (*ConfigKey, bool) { return brokerConfigs.lookup(name) }

// CheckTopicConfigs checks the configurations set on a topic. It returns a
// *ConfigError for the first fault in name order.
func CheckTopicConfigs(configs map[string]string) error {
	if err := topicConfigs.checkAll("topic", configs); err != nil {
		return err
	}
	return checkCompactionLag(configs)
}

// checkCompactionLag refuses a promise that cannot be kept: records that stay as they are for longer than
// they may.
func checkCompactionLag(configs map[string]string) error {
	least, some := configs["min.compaction.lag.ms"]
	most, both := configs["max.compaction.lag.ms"]
	if !some || !both {
		return nil
	}
	from, _ := strconv.ParseInt(strings.TrimSpace(least), 10, 64) // they were checked
	to, _ := strconv.ParseInt(strings.TrimSpace(most), 10, 64)
	if from > to {
		return &ConfigError{Name: "min.compaction.lag.ms", Value: least, Reason: "it is more than max.compaction.lag.ms, " + most}
	}
	return nil
}

// CheckBrokerConfigs checks configurations of a broker in the same way.
func CheckBrokerConfigs(configs map[string]string) error {
	return brokerConfigs.checkAll("broker", configs)
}

func (t configTable) checkAll(of string, configs map[string]string) error {
	for _, name := range sortedKeys(configs) {
		key, known := t.lookup(name)
		if !known {
			return &ConfigError{Name: name, Value: configs[name], Reason: unknownConfig(of, name, t)}
		}
		if err := key.Check(configs[name]); err != nil {
			return err
		}
	}
	return nil
}

func unknownConfig(of, name string, t configTable) string {
	names := make([]string, len(t))
	for n, key := range t {
		names[n] = key.Name
	}
	reason := fmt.Sprintf("there is no %s configuration of that name", of)
	if near, ok := Nearest(name, names); ok {
		reason += "; did you mean " + near + "?"
	}
	return reason
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
