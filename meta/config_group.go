package meta

import "math"

// offsetsTopicConfigs are those of the internal topic that holds committed offsets. They count when it is
// created, at the first need of a coordinator.
var offsetsTopicConfigs = []*ConfigKey{
	{Name: "offsets.topic.num.partitions", Type: ConfigInt, Default: "50", check: between(1, PartitionsPerRequestMax),
		Documentation: "How many partitions the topic of committed offsets has. A group belongs to one of them by its id, so it must not change once the topic is there."},
	{Name: "offsets.topic.replication.factor", Type: ConfigShort, Default: "3", check: between(1, ReplicationFactorMax),
		Documentation: "How many replicas the topic of committed offsets has; fewer while there are fewer brokers."},
	{Name: "offsets.topic.segment.bytes", Type: ConfigInt, Default: "104857600", check: atLeast(1),
		Documentation: "The segment size of the topic of committed offsets: smaller ones are compacted and loaded sooner."},
}

// offsetConfigs are those of committed offsets.
var offsetConfigs = []*ConfigKey{
	{Name: "offset.metadata.max.bytes", Type: ConfigInt, Default: "4096", check: between(0, math.MaxInt16),
		Documentation: "The longest text that a consumer may commit with an offset."},
	{Name: "offsets.retention.minutes", Type: ConfigInt, Default: "10080", check: atLeast(1),
		Documentation: "For how many minutes the offsets of a group without members are kept."},
	{Name: "offsets.retention.check.interval.ms", Type: ConfigLong, Default: "600000", check: atLeast(1),
		Documentation: "How often, in milliseconds, the coordinator looks for offsets that have expired."},
}

// classicGroupConfigs are those of groups whose members assign partitions among themselves.
var classicGroupConfigs = []*ConfigKey{
	{Name: "group.initial.rebalance.delay.ms", Type: ConfigInt, Default: "3000", check: atLeast(0),
		Documentation: "For how many milliseconds the first member of an empty group waits for others; each that comes prolongs it, up to the rebalance timeout. 0 is for tests: in an application that starts, it means a rebalance for each of its processes."},
	{Name: "group.min.session.timeout.ms", Type: ConfigInt, Default: "6000", check: atLeast(1),
		Documentation: "The shortest session timeout that a member may ask for."},
	{Name: "group.max.session.timeout.ms", Type: ConfigInt, Default: "1800000", check: atLeast(1),
		Documentation: "The longest session timeout that a member may ask for."},
	{Name: "group.max.size", Type: ConfigInt, Default: "2147483647", check: atLeast(1),
		Documentation: "How many members a group may have; who comes then is refused."},
}
