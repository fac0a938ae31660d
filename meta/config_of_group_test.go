package meta

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func ofGroup(group string, changes ...ConfigChange) ConfigAlteration {
	return ConfigAlteration{Scope: ConfigOfGroup, Group: group, Changes: changes}
}

// KIP-848: a group has configurations whether it exists or not, and none once the last is unset.
func TestGroupsHaveConfigurations(t *testing.T) {
	c := newCluster(t, 1)
	const session = "consumer.session.timeout.ms"
	before := c.image
	for _, group := range []string{"b", "a"} {
		if err := c.alter(ofGroup(group, set(session, "50000"))); err != nil {
			t.Fatal(err)
		}
	}
	if value, is := c.image.GroupSetting("a", GroupSessionTimeout); !is || value != 50_000 {
		t.Errorf("the session timeout is %d, %v", value, is)
	}
	if groups := c.image.GroupsWithConfigs(); len(groups) != 2 || groups[0].Group != "a" {
		t.Errorf("groups with configurations: %v", groups)
	}
	if changed := Diff(before, c.image).GroupConfigsChanged; strings.Join(changed, " ") != "a b" {
		t.Errorf("the delta has %q", changed)
	}
	decoded, err := DecodeImage(AppendImage(nil, c.image))
	if err != nil || !maps.Equal(decoded.GroupConfigs("b"), c.image.GroupConfigs("b")) {
		t.Errorf("decoded: %v, %v", decoded, err)
	}
	if err := c.alter(ofGroup("a", ConfigChange{Name: session, Op: ConfigDelete})); err != nil {
		t.Fatal(err)
	}
	if _, is := c.image.GroupSetting("a", GroupSessionTimeout); is || len(c.image.GroupsWithConfigs()) != 1 {
		t.Error("what is unset is still there")
	}
}

// An image without configurations of groups is stored as older programs read it.
func TestTheFormatIsNewOnlyWhereGroupsHaveConfigurations(t *testing.T) {
	c := newCluster(t, 1)
	if frame := AppendImage(nil, c.image); frame[2] != 2 {
		t.Errorf("the image has format %d", frame[2])
	}
	if frame := AppendCommand(nil, AlterConfigs{Resources: []ConfigAlteration{{Scope: ConfigOfBroker, Broker: 1}}}); frame[2] != 2 {
		t.Errorf("the command has format %d", frame[2])
	}
	if frame := AppendCommand(nil, AlterConfigs{Resources: []ConfigAlteration{ofGroup("g")}}); frame[2] != 3 {
		t.Errorf("the command of a group has format %d", frame[2])
	}
}

// As in Kafka a broker does not start with values outside its own limits.
func TestABrokersGroupSettingsAreHeldAgainstItsLimits(t *testing.T) {
	for _, row := range []struct {
		configs map[string]string
		sound   bool
	}{
		{map[string]string{"group.consumer.session.timeout.ms": "50000"}, true},
		{map[string]string{"group.consumer.session.timeout.ms": "10000"}, false},
		{map[string]string{"group.consumer.session.timeout.ms": "10000", "group.consumer.min.session.timeout.ms": "10000"}, true},
		{map[string]string{"group.consumer.session.timeout.ms": "5000", "group.consumer.min.session.timeout.ms": "5000"}, false},
		{map[string]string{"group.consumer.max.heartbeat.interval.ms": "4000"}, false},
	} {
		if _, err := NewDefaults(row.configs); (err == nil) != row.sound {
			t.Errorf("%v: %v", row.configs, err)
		}
	}
}

func TestConfigurationsOfGroupsAreChecked(t *testing.T) {
	c := newCluster(t, 1)
	defaults, err := NewDefaults(map[string]string{"group.consumer.max.session.timeout.ms": "50000"})
	if err != nil {
		t.Fatal(err)
	}
	check := func(a ConfigAlteration) error {
		if err := c.image.CheckAlteration(&a); err != nil {
			return err
		}
		return defaults.CheckGroupLimits(c.image, &a)
	}
	for _, row := range []struct {
		alteration ConfigAlteration
		want       error
	}{
		{ofGroup("g", set("consumer.session.timeout.ms", "50000")), nil},
		{ofGroup("g", set("consumer.session.timeout.ms", "50001")), ErrInvalidConfig},
		{ofGroup("g", set("consumer.session.timeout.ms", "44999")), ErrInvalidConfig},
		{ofGroup("g", set("consumer.session.timeout.ms", "long")), ErrInvalidConfig},
		{ofGroup("g", set("consumer.heartbeat.interval.ms", "15000")), nil},
		{ofGroup("g", set("session.timeout.ms", "50000")), ErrInvalidConfig},
		{ofGroup("", set("consumer.session.timeout.ms", "50000")), ErrInvalidRequest},
		{ofGroup(strings.Repeat("g", GroupIDBytesMax+1), set("consumer.session.timeout.ms", "50000")), ErrInvalidRequest},
	} {
		if err := check(row.alteration); !errors.Is(err, row.want) {
			t.Errorf("%q %+v: %v, want %v", row.alteration.Group, row.alteration.Changes, err, row.want)
		}
	}
}
