package meta

import "slices"

// brokerConfigs has the broker configurations of Kafka that exist here. Those that
// are defaults of topic configurations are made from these, so
// that one check serves both.
var brokerConfigs = newConfigTable(slices.Concat(identityConfigs, networkConfigs, topicDefaultConfigs, offsetsTopicConfigs, offsetConfigs, classicGroupConfigs,
	consumerGroupConfigs, synonymConfigs()))

var identityConfigs = []*ConfigKey{
	{Name: "node.id", Type: ConfigInt, Default: "1", check: between(0, 1<<31-1),
		Documentation: "The number by which this broker is known; it belongs to the data directory and cannot change."},
	{Name: "broker.id", Type: ConfigInt, Default: "1", check: between(0, 1<<31-1),
		Documentation: "The older name of node.id."},
	{Name: "broker.rack", Type: ConfigString, NoDefault: true,
		Documentation: "Where this broker stands: a rack or a zone."},
	{Name: "process.roles", Type: ConfigList, Default: "broker,controller", check: listOf("broker", "controller"), unsupported: "every process is broker and controller",
		Documentation: "What this process does."},
	{Name: "log.dirs", Type: ConfigList, Default: "./data",
		Documentation: "The data directory; there is one."},
	{Name: "listeners", Type: ConfigList, Default: "PLAINTEXT://127.0.0.1:9092",
		Documentation: "Where the broker listens for clients."},
	{Name: "advertised.listeners", Type: ConfigList, NoDefault: true,
		Documentation: "The address that clients are told to connect to; where the broker listens, unless set."},
}

var networkConfigs = []*ConfigKey{
	{Name: "socket.request.max.bytes", Type: ConfigInt, Default: "104857600", check: atLeast(1024),
		Documentation: "The largest request that is read from a connection; a larger one closes it before memory is taken."},
	{Name: "max.connections", Type: ConfigInt, Default: "10000", check: atLeast(1), Dynamic: true,
		Documentation: "How many connections the broker keeps open. The last sixteenth is for addresses with fewer than 16; when all are in use, one on which nothing was ever asked makes place for a new one."},
	{Name: "max.connections.per.ip", Type: ConfigInt, Default: "2000", check: atLeast(1), Dynamic: true,
		Documentation: "How many connections the broker keeps open from one address."},
	{Name: "connections.max.idle.ms", Type: ConfigLong, Default: "600000", check: atLeast(1),
		Documentation: "After how many milliseconds without a request a connection is closed."},
	{Name: "fetch.max.bytes", Type: ConfigInt, Default: "57671680", check: atLeast(1024),
		Documentation: "The most that one fetch returns, whatever the consumer asks for."},
	{Name: "max.incremental.fetch.session.cache.slots", Type: ConfigInt, Default: "1000", check: atLeast(0),
		Documentation: "How many consumers may have a fetch session, which spares them from naming all their partitions in each fetch."},
}

var topicDefaultConfigs = []*ConfigKey{
	{Name: "auto.create.topics.enable", Type: ConfigBoolean, Default: "true",
		Documentation: "Whether a topic is created when a client asks for it by name."},
	{Name: "num.partitions", Type: ConfigInt, Default: "1", check: between(1, PartitionsPerRequestMax),
		Documentation: "How many partitions a topic has when its creator names no number."},
	{Name: "default.replication.factor", Type: ConfigInt, Default: "1", check: between(1, ReplicationFactorMax),
		Documentation: "How many replicas a partition has when its topic's creator names no number."},
	{Name: "delete.topic.enable", Type: ConfigBoolean, Default: "true",
		Documentation: "Whether topics can be deleted."},
	{Name: "producer.id.expiration.ms", Type: ConfigInt, Default: "86400000", check: atLeast(1),
		Documentation: "For how many milliseconds after its last batch an idempotent producer is remembered by a partition."},
	{Name: "log.retention.check.interval.ms", Type: ConfigLong, Default: "300000", check: atLeast(1),
		Documentation: "How often, in milliseconds, the broker looks for segments that retention no longer keeps."},
	{Name: "log.cleaner.backoff.ms", Type: ConfigLong, Default: "15000", check: atLeast(1),
		Documentation: "How often, in milliseconds, the broker looks for logs that compaction has something to do in."},
	{Name: "log.cleaner.dedupe.buffer.size", Type: ConfigLong, Default: "134217728", check: atLeast(1 << 20),
		Documentation: "The memory for keys while a log is compacted, all shards together, at about 22 bytes a key. Where it does not suffice, a log is compacted in several passes."},
	{Name: "log.cleaner.io.max.bytes.per.second", Type: ConfigDouble, Default: "1.7976931348623157E308", check: positive,
		Documentation: "How many bytes a second compaction reads and writes at most, all shards together."},
}

// synonymConfigs makes a broker configuration of each synonym in the topic
// table: same type and check, its value converted to the topic's unit first.
// Only the synonym that counts in the topic's own unit carries its default: log.retention.hours
// and its like are null until they are set.
func synonymConfigs() []*ConfigKey {
	var keys []*ConfigKey
	for _, topic := range topicConfigs {
		for n, synonym := range topic.Synonyms {
			key := &ConfigKey{Name: synonym.Name, Type: topic.Type, Default: topic.Default, NoDefault: n > 0, Dynamic: true,
				Documentation: "The default of the topic configuration " + topic.Name + "."}
			if synonym.Millis != 1 {
				key.Type = ConfigInt // as Kafka has it for minutes and hours
				key.Documentation += " It counts in another unit."
			}
			if key.NoDefault {
				key.Default = ""
			}
			key.check = func(value string) string {
				converted, ok := synonym.convert(value)
				if !ok {
					return "it is too large"
				}
				if err, is := topic.Check(converted).(*ConfigError); is {
					return err.Reason
				}
				return ""
			}
			keys = append(keys, key)
		}
	}
	return keys
}
