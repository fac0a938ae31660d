package meta

import (
	"math"
	"strconv"
	"strings"
)

// consumerGroupConfigs are the broker's settings for consumer groups (KIP-848). Where a group may have its own value,
// they say what holds for the others, and within which limits.
var consumerGroupConfigs = []*ConfigKey{
	{Name: "group.consumer.session.timeout.ms", Type: ConfigInt, Default: "45000", check: atLeast(1),
		Documentation: "How long, in milliseconds, a member of a consumer group may be silent before its partitions go to others."},
	{Name: "group.consumer.min.session.timeout.ms", Type: ConfigInt, Default: "45000", check: atLeast(1),
		Documentation: "The shortest consumer.session.timeout.ms that a group may have."},
	{Name: "group.consumer.max.session.timeout.ms", Type: ConfigInt, Default: "60000", check: atLeast(1),
		Documentation: "The longest consumer.session.timeout.ms that a group may have."},
	{Name: "group.consumer.heartbeat.interval.ms", Type: ConfigInt, Default: "5000", check: atLeast(1),
		Documentation: "How often, in milliseconds, members of consumer groups are asked to send a heartbeat; by it they learn of changes."},
	{Name: "group.consumer.min.heartbeat.interval.ms", Type: ConfigInt, Default: "5000", check: atLeast(1),
		Documentation: "The shortest consumer.heartbeat.interval.ms that a group may have."},
	{Name: "group.consumer.max.heartbeat.interval.ms", Type: ConfigInt, Default: "15000", check: atLeast(1),
		Documentation: "The longest consumer.heartbeat.interval.ms that a group may have."},
	{Name: "group.consumer.assignment.interval.ms", Type: ConfigInt, Default: "1000", check: atLeast(0),
		Documentation: "How long, in milliseconds, the assignment of a consumer group of more than 100 members stands before another is computed (KIP-1263). Smaller groups are assigned at once."},
	{Name: "group.consumer.min.assignment.interval.ms", Type: ConfigInt, Default: "0", check: atLeast(0),
		Documentation: "The shortest consumer.assignment.interval.ms that a group may have."},
	{Name: "group.consumer.max.assignment.interval.ms", Type: ConfigInt, Default: "15000", check: atLeast(0),
		Documentation: "The longest consumer.assignment.interval.ms that a group may have."},
	{Name: "group.consumer.max.size", Type: ConfigInt, Default: strconv.Itoa(math.MaxInt32), check: atLeast(1),
		Documentation: "How many members a consumer group may have."},
	{Name: "group.consumer.assignors", Type: ConfigList, Default: "uniform,range", check: someOf("uniform", "range"),
		Documentation: "The assignors that members of consumer groups may ask for; the first is used where nobody asks."},
	{Name: "group.consumer.migration.policy", Type: ConfigString, Default: "bidirectional", check: anyCase("bidirectional", "upgrade", "downgrade", "disabled"),
		Documentation: "Whether a classic group with members becomes a consumer group when one of the new protocol joins (upgrade), and a classic group again when the last of these has left (downgrade)."},
}

// someOf accepts lists of the values named that are not empty.
func someOf(values ...string) func(string) string {
	check := listOf(values...)
	return func(value string) string {
		if len(ParseConfigList(value)) == 0 {
			return "it must name one at least"
		}
		return check(value)
	}
}

// anyCase is oneOf without regard to upper and lower case.
func anyCase(values ...string) func(string) string {
	check := oneOf(values...)
	return func(value string) string { return check(strings.ToLower(value)) }
}
