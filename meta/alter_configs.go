package meta

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ConfigScope says whose configurations an alteration is about. The numbers are stored.
type ConfigScope uint8

// The scopes.
const (
	ConfigOfTopic  ConfigScope = 1
	ConfigOfBroker ConfigScope = 2
	ConfigOfGroup  ConfigScope = 3 // from format version 3 on
)

// EveryBroker stands in for a broker's id: configurations that hold for all brokers
// that have none of their own.
const EveryBroker int32 = -1

// ConfigOp is what a ConfigChange does, numbered as in Kafka's protocol (KIP-339). The
// numbers are stored.
type ConfigOp uint8

// The operations of IncrementalAlterConfigs.
const (
	ConfigSet      ConfigOp = 0
	ConfigDelete   ConfigOp = 1 // back to the default
	ConfigAppend   ConfigOp = 2 // of lists: add the items that are not there
	ConfigSubtract ConfigOp = 3 // of lists: take the items out
)

// String returns the operation's name as Kafka's messages have it.
func (op ConfigOp) String() string {
	switch op {
	case ConfigSet:
		return "SET"
	case ConfigDelete:
		return "DELETE"
	case ConfigAppend:
		return "APPEND"
	case ConfigSubtract:
		return "SUBTRACT"
	}
	return fmt.Sprintf("OP(%d)", uint8(op))
}

// AlterConfigs changes the configurations of topics, brokers and groups; each resource succeeds or
// fails for itself, as a whole.
type AlterConfigs struct {
	Resources []ConfigAlteration
}

// ConfigAlteration is what is to be changed of one topic, broker or group.
type ConfigAlteration struct {
	Scope  ConfigScope
	Topic  TopicID // with ConfigOfTopic
	Broker int32   // with ConfigOfBroker; may be EveryBroker
	Group  string  // with ConfigOfGroup
	// Replace unsets every configuration that Changes does not name (the older AlterConfigs).
	Replace bool
	Changes []ConfigChange
}

// ConfigChange changes one configuration.
type ConfigChange struct {
	Name  string
	Op    ConfigOp
	Value string // "" with ConfigDelete
	// Base is what a list starts from when it is not set: the registry's default. It
	// travels in the command because Apply must not ask the registry, which another
	// version of this program may have changed.
	Base string
}

// BrokerConfigs are the dynamic configurations of one broker, or of EveryBroker. Immutable.
type BrokerConfigs struct {
	ID      int32
	Configs map[string]string // never empty
}

// BrokerConfigs returns what was set dynamically on a broker, or on EveryBroker; nil
// when nothing was. The map must not be changed.
func (i *Image) BrokerConfigs(id int32) map[string]string {
	at, found := slices.BinarySearchFunc(i.brokerConfigs, id, compareBrokerConfigsID)
	if !found {
		return nil
	}
	return i.brokerConfigs[at].Configs
}

func compareBrokerConfigsID(b *BrokerConfigs, id int32) int { return int(b.ID) - int(id) }

// changed returns configs after the alteration; configs itself stays as it is.
func (a *ConfigAlteration) changed(configs map[string]string) map[string]string {
	next := make(map[string]string, len(configs)+len(a.Changes))
	if !a.Replace {
		maps.Copy(next, configs)
	}
	for i := range a.Changes {
		change := &a.Changes[i]
		switch change.Op {
		case ConfigSet:
			next[change.Name] = change.Value
		case ConfigDelete:
			delete(next, change.Name)
		case ConfigAppend, ConfigSubtract:
			before, set := next[change.Name]
			if !set {
				before = change.Base
			}
			next[change.Name] = change.onList(before)
		}
	}
	return next
}

// onList returns a list after ConfigAppend or ConfigSubtract.
func (c *ConfigChange) onList(list string) string {
	items := slices.DeleteFunc(ParseConfigList(list), func(item string) bool { return item == "" })
	for _, item := range ParseConfigList(c.Value) {
		at := slices.Index(items, item)
		switch {
		case c.Op == ConfigAppend && at < 0 && item != "":
			items = append(items, item)
		case c.Op == ConfigSubtract && at >= 0:
			items = slices.Delete(items, at, at+1)
		}
	}
	return strings.Join(items, ",")
}

// CheckAlteration says, before it is proposed, why an alteration cannot be made on the
// image now, or nil. It is the one place where its names and values are checked: Apply must
// not ask the registry. A value that was stored before and is not touched is not asked
// about, so that one which a newer version wrote is no obstacle.
func (i *Image) CheckAlteration(a *ConfigAlteration) error {
	configs, err := i.configsOf(a)
	if err != nil {
		return err
	}
	table, of := topicConfigs, "topic"
	switch a.Scope {
	case ConfigOfBroker:
		table, of = brokerConfigs, "broker"
	case ConfigOfGroup:
		table, of = groupConfigs, "group"
	}
	next := a.changed(configs)
	for n := range a.Changes {
		change := &a.Changes[n]
		if change.Op == ConfigDelete {
			continue
		}
		if err := table.checkChange(of, change, next[change.Name]); err != nil {
			return err
		}
	}
	return nil
}

// checkChange checks one change and the value to which it leads.
func (t configTable) checkChange(of string, change *ConfigChange, value string) error {
	key, known := t.lookup(change.Name)
	if !known {
		return &ConfigError{Name: change.Name, Value: change.Value, Reason: unknownConfig(of, change.Name, t)}
	}
	if !key.Dynamic {
		return &ConfigError{Name: change.Name, Value: change.Value,
			Reason: "it cannot be updated dynamically: set it in the broker's file or flags, and restart the broker"}
	}
	if change.Op != ConfigSet && key.Type != ConfigList {
		return &ConfigError{Name: change.Name, Value: change.Value,
			Reason: fmt.Sprintf("can't %s to it because its type is not LIST", change.Op)}
	}
	return key.Check(value)
}

// configsOf returns what is set now on the resource of an alteration.
func (i *Image) configsOf(a *ConfigAlteration) (map[string]string, error) {
	switch a.Scope {
	case ConfigOfTopic:
		topic, ok := i.TopicByID(a.Topic)
		if !ok {
			return nil, fmt.Errorf("%w: no topic has id %s", ErrUnknownTopic, a.Topic)
		}
		return topic.Configs, nil
	case ConfigOfBroker:
		if _, ok := i.Broker(a.Broker); !ok && a.Broker != EveryBroker {
			return nil, fmt.Errorf("%w: no node with id %d found", ErrUnknownBroker, a.Broker)
		}
		return i.BrokerConfigs(a.Broker), nil
	case ConfigOfGroup:
		if err := i.checkGroup(a.Group); err != nil {
			return nil, err
		}
		return i.GroupConfigs(a.Group), nil
	}
	return nil, fmt.Errorf("%w: configurations of scope %d", ErrInvalidRequest, a.Scope)
}

func (c *change) alterConfigs(command AlterConfigs) (Result, error) {
	type resource struct {
		topic  TopicID
		broker int32
		group  string
	}
	topics := c.editTopics()
	seen := make(map[resource]bool, len(command.Resources))
	results := make([]ConfigResult, len(command.Resources))
	for n := range command.Resources {
		a := &command.Resources[n]
		key := resource{a.Topic, a.Broker, a.Group}
		if a.Scope != ConfigOfBroker {
			key.broker = EveryBroker
		}
		configs, err := c.next.configsOf(a)
		if err == nil && seen[key] {
			err = fmt.Errorf("%w: each resource must appear at most once", ErrInvalidRequest)
		}
		if err != nil {
			results[n].Err = err
			continue
		}
		seen[key] = true
		next := a.changed(configs)
		if maps.Equal(next, configs) {
			continue
		}
		switch a.Scope {
		case ConfigOfTopic:
			topic := *topics.get(a.Topic)
			topic.Configs = next
			topics.put(&topic)
		case ConfigOfBroker:
			c.putBrokerConfigs(a.Broker, next)
		case ConfigOfGroup:
			c.putGroupConfigs(a.Group, next)
		}
	}
	topics.done()
	slices.Sort(c.delta.BrokerConfigsChanged)
	slices.Sort(c.delta.GroupConfigsChanged)
	return AlterConfigsResult{Index: c.next.Index, Resources: results}, nil
}

// putBrokerConfigs stores what is set on a broker; nothing is no entry.
func (c *change) putBrokerConfigs(id int32, configs map[string]string) {
	all := slices.Clone(c.next.brokerConfigs)
	at, there := slices.BinarySearchFunc(all, id, compareBrokerConfigsID)
	entry := &BrokerConfigs{ID: id, Configs: configs}
	switch {
	case there && len(configs) == 0:
		all = slices.Delete(all, at, at+1)
	case there:
		all[at] = entry
	default:
		all = slices.Insert(all, at, entry)
	}
	c.next.brokerConfigs = all
	c.delta.BrokerConfigsChanged = append(c.delta.BrokerConfigsChanged, id)
}

// topicsEdit changes topics of an image that stay what they are in name and id.
type topicsEdit struct {
	change       *change
	topics       []*Topic // of the next image; nil before the first change
	byName, byID *indexEdit[*Topic]
}

func (c *change) editTopics() *topicsEdit { return &topicsEdit{change: c} }

// get returns the topic as it is now. REQUIRES: there is one.
func (e *topicsEdit) get(id TopicID) *Topic {
	topic, ok := e.change.next.TopicByID(id)
	if !ok {
		panic("meta: no topic has id " + id.String())
	}
	return topic
}

// put replaces the topic of the same id, once per edit.
func (e *topicsEdit) put(topic *Topic) {
	next := e.change.next
	if e.topics == nil {
		e.topics = slices.Clone(next.topics)
		e.byName, e.byID = next.topicsByName.edit(), next.topicsByID.edit()
	}
	at, _ := slices.BinarySearchFunc(e.topics, topic.Name, compareTopicName)
	e.topics[at] = topic
	e.byName.put(topic.Name, topic)
	e.byID.put(string(topic.ID[:]), topic)
	e.change.delta.TopicsChanged = append(e.change.delta.TopicsChanged, topic)
}

// done makes the changes part of the next image.
func (e *topicsEdit) done() {
	if e.topics == nil {
		return
	}
	next := e.change.next
	next.topics, next.topicsByName, next.topicsByID = e.topics, e.byName.done(), e.byID.done()
	slices.SortFunc(e.change.delta.TopicsChanged, compareTopics)
}
