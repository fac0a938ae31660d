package meta

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// GroupIDBytesMax bounds the id of a group that has configurations, and GroupsWithConfigsMax how many have some.
const (
	GroupIDBytesMax      = 1024
	GroupsWithConfigsMax = 10_000
)

// GroupConfigs are the configurations that were set on one group. A group need not exist to have some. Immutable.
type GroupConfigs struct {
	Group   string
	Configs map[string]string // never empty
}

// The settings of a group that its coordinator works by.
var (
	GroupSessionTimeout = &ConfigKey{Name: "consumer.session.timeout.ms", Type: ConfigInt, Default: "45000", check: atLeast(1),
		Synonyms:      same("group.consumer.session.timeout.ms"),
		Documentation: "How long, in milliseconds, a member of this consumer group may be silent before its partitions go to others."}
	GroupHeartbeatInterval = &ConfigKey{Name: "consumer.heartbeat.interval.ms", Type: ConfigInt, Default: "5000", check: atLeast(1),
		Synonyms:      same("group.consumer.heartbeat.interval.ms"),
		Documentation: "How often, in milliseconds, members of this consumer group are asked to send a heartbeat."}
	GroupAssignmentInterval = &ConfigKey{Name: "consumer.assignment.interval.ms", Type: ConfigInt, Default: "1000", check: atLeast(0),
		Synonyms:      same("group.consumer.assignment.interval.ms"),
		Documentation: "How long, in milliseconds, the assignment of this consumer group stands, if it has more than 100 members, before another is computed."}
)

// groupConfigs has every configuration of groups.
var groupConfigs = newConfigTable(dynamic([]*ConfigKey{GroupSessionTimeout, GroupHeartbeatInterval, GroupAssignmentInterval}))

// groupLimits names the broker configurations that bound those of groups, by these.
var groupLimits = map[string]struct{ min, max string }{
	GroupSessionTimeout.Name:     {"group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	GroupHeartbeatInterval.Name:  {"group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	GroupAssignmentInterval.Name: {"group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
}

// GroupConfigKeys returns every configuration of groups, in name order. The slice must not be changed.
func GroupConfigKeys() []*ConfigKey { return groupConfigs }

// GroupConfigKey returns the configuration of groups of that name.
func GroupConfigKey(name string) (*ConfigKey, bool) { return groupConfigs.lookup(name) }

// GroupConfigs returns what was set on a group; nil when nothing was. The map must not be changed.
func (i *Image) GroupConfigs(group string) map[string]string {
	at, found := slices.BinarySearchFunc(i.groupConfigs, group, compareGroupConfigsID)
	if !found {
		return nil
	}
	return i.groupConfigs[at].Configs
}

// GroupsWithConfigs returns all groups on which something is set, in the order of their ids. The slice must not be changed.
func (i *Image) GroupsWithConfigs() []*GroupConfigs { return i.groupConfigs }

// GroupSetting returns a number that was set on a group. What is stored was checked, so that what is none
// is of another version, and not set.
func (i *Image) GroupSetting(group string, key *ConfigKey) (value int64, set bool) {
	text, set := i.GroupConfigs(group)[key.Name]
	if !set {
		return 0, false
	}
	value, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return value, err == nil
}

func compareGroupConfigsID(g *GroupConfigs, group string) int { return strings.Compare(g.Group, group) }

func compareGroupConfigs(a, b *GroupConfigs) int { return strings.Compare(a.Group, b.Group) }

// checkGroup says why there can be no configurations of a group of that id.
func (i *Image) checkGroup(group string) error {
	switch {
	case group == "":
		return fmt.Errorf("%w: default group resources are not allowed", ErrInvalidRequest)
	case len(group) > GroupIDBytesMax:
		return fmt.Errorf("%w: the group id is longer than %d bytes", ErrInvalidRequest, GroupIDBytesMax)
	case len(i.groupConfigs) >= GroupsWithConfigsMax && i.GroupConfigs(group) == nil:
		return fmt.Errorf("%w: %d groups have configurations of their own, which is as many as there may be", ErrInvalidRequest, GroupsWithConfigsMax)
	}
	return nil
}

// putGroupConfigs stores what is set on a group; nothing is no entry.
func (c *change) putGroupConfigs(group string, configs map[string]string) {
	all := slices.Clone(c.next.groupConfigs)
	at, there := slices.BinarySearchFunc(all, group, compareGroupConfigsID)
	entry := &GroupConfigs{Group: group, Configs: configs}
	switch {
	case there && len(configs) == 0:
		all = slices.Delete(all, at, at+1)
	case there:
		all[at] = entry
	default:
		all = slices.Insert(all, at, entry)
	}
	c.next.groupConfigs = all
	c.delta.GroupConfigsChanged = append(c.delta.GroupConfigsChanged, group)
}

// DescribeGroup returns what holds for key on a group on which configs are set.
func (d *Defaults) DescribeGroup(configs map[string]string, key *ConfigKey) ConfigValue {
	value := ConfigValue{Key: key}
	if explicit, set := configs[key.Name]; set {
		value.add(key.Name, explicit, ConfigSourceGroup)
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

// CheckGroupLimits says why what an alteration sets on a group is outside what this broker allows, or nil: a *ConfigError.
// Only the broker that is asked knows its limits, so this is no part of CheckAlteration; what was stored
// before they changed is brought inside them by whoever works by it.
func (d *Defaults) CheckGroupLimits(image *Image, a *ConfigAlteration) error {
	for n := range a.Changes {
		change := &a.Changes[n]
		limits, bounded := groupLimits[change.Name]
		if !bounded || change.Op == ConfigDelete {
			continue
		}
		if reason := between(d.brokerNumber(limits.min), d.brokerNumber(limits.max))(change.Value); reason != "" {
			return &ConfigError{Name: change.Name, Value: change.Value, Reason: reason + " (" + limits.min + ", " + limits.max + ")"}
		}
	}
	return d.checkSession(a.changed(image.GroupConfigs(a.Group)))
}

// checkSession says whether members that keep to the heartbeat interval keep their sessions.
func (d *Defaults) checkSession(configs map[string]string) error {
	session, heartbeat := d.groupNumber(configs, GroupSessionTimeout), d.groupNumber(configs, GroupHeartbeatInterval)
	if session <= heartbeat {
		return &ConfigError{Name: GroupSessionTimeout.Name, Value: strconv.FormatInt(session, 10),
			Reason: fmt.Sprintf("it must be more than %s, which is %d", GroupHeartbeatInterval.Name, heartbeat)}
	}
	return nil
}

// checkGroupDefaults holds what the broker has for groups without configurations against its own limits.
func (d *Defaults) checkGroupDefaults() error {
	for _, key := range groupConfigs {
		limits, name := groupLimits[key.Name], key.Synonyms[0].Name
		value := d.brokerNumber(name)
		if least, most := d.brokerNumber(limits.min), d.brokerNumber(limits.max); value < least || value > most {
			return &ConfigError{Name: name, Value: strconv.FormatInt(value, 10), Reason: fmt.Sprintf("it must be from %d (%s) to %d (%s)", least, limits.min, most, limits.max)}
		}
	}
	return d.checkSession(nil)
}

func (d *Defaults) brokerNumber(name string) int64 {
	key, known := BrokerConfigKey(name)
	if !known {
		panic("meta: there is no broker configuration " + name)
	}
	return mustNumber(d.DescribeBroker(key).Value)
}

func (d *Defaults) groupNumber(configs map[string]string, key *ConfigKey) int64 {
	return mustNumber(d.DescribeGroup(configs, key).Value)
}

// mustNumber reads a number that was checked.
func mustNumber(text string) int64 {
	number, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		panic("meta: " + err.Error())
	}
	return number
}
