package meta

import (
	"slices"
)

// Sentences for what is not there. They go to the user as they are.
const (
	withoutLevel       = "levels of compression are not there yet, so only the default is accepted"
	withoutTier        = "tiered storage is not there yet, so only the default is accepted"
	withoutThrottle    = "replication throttling is not there yet, so only the default is accepted"
	withoutUnclean     = "unclean leader election is not there, so only false is accepted"
	withoutJitter      = "rolling at random moments is not there, so only 0 is accepted"
	withoutIndexLimit  = "the index of a segment has no limit of its own, so only the default is accepted"
	withoutDeadLetter  = "share groups are not there yet, so only false is accepted"
	withoutRecordLimit = "a limit for a single decompressed record is not there yet, so only the default is accepted"
)

const maxLong = "9223372036854775807"

// same, inLog and inCleaner name synonyms the way Kafka does.
func same(name string) []ConfigSynonym      { return []ConfigSynonym{{Name: name, Millis: 1}} }
func inLog(name string) []ConfigSynonym     { return same("log." + name) }
func inCleaner(name string) []ConfigSynonym { return same("log.cleaner." + name) }

// topicConfigs has every topic configuration of Kafka 4.4
// (org.apache.kafka.common.config.TopicConfig, LogConfig, QuotaConfig), with
// Kafka's types, ranges and defaults. One default differs on purpose:
// flush.messages is 1 here, so that what is acknowledged is on the disk.
var topicConfigs = newConfigTable(dynamic(slices.Concat(retentionConfigs, segmentConfigs, messageConfigs, compactionConfigs, replicationConfigs, tierConfigs)))

// dynamic marks keys that can be changed at any time.
func dynamic(keys []*ConfigKey) []*ConfigKey {
	for _, key := range keys {
		key.Dynamic = true
	}
	return keys
}

var retentionConfigs = []*ConfigKey{
	{Name: "cleanup.policy", Type: ConfigList, Default: "delete", check: listOf("compact", "delete"),
		Synonyms:      inLog("cleanup.policy"),
		Documentation: "What happens to old records: delete removes whole segments by age and size, compact keeps the newest record of each key; both together do both, an empty list keeps everything."},
	{Name: "retention.ms", Type: ConfigLong, Default: "604800000", check: atLeast(-1),
		Synonyms:      []ConfigSynonym{{"log.retention.ms", 1}, {"log.retention.minutes", 60_000}, {"log.retention.hours", 3_600_000}},
		Documentation: "How long a segment is kept after its last append by the clock of the broker, in milliseconds; -1 is for ever."},
	{Name: "retention.bytes", Type: ConfigLong, Default: "-1", Synonyms: inLog("retention.bytes"),
		Documentation: "How many bytes of each partition are kept before its oldest segments are removed; a negative number is no limit."},
	{Name: "file.delete.delay.ms", Type: ConfigLong, Default: "60000", check: atLeast(0), Synonyms: inLog("segment.delete.delay.ms"),
		Documentation: "How long the files of a removed segment stay on disk, in milliseconds."},
}

var segmentConfigs = []*ConfigKey{
	{Name: "segment.bytes", Type: ConfigInt, Default: "1073741824", check: atLeast(1 << 20), Synonyms: inLog("segment.bytes"),
		Documentation: "How large a segment file grows before the next one is started. Retention works on whole segments."},
	{Name: "segment.ms", Type: ConfigLong, Default: "604800000", check: atLeast(1),
		Synonyms:      []ConfigSynonym{{"log.roll.ms", 1}, {"log.roll.hours", 3_600_000}},
		Documentation: "After how many milliseconds the next segment is started even if the present one is not full."},
	{Name: "segment.jitter.ms", Type: ConfigLong, Default: "0", check: atLeast(0), unsupported: withoutJitter,
		Synonyms:      []ConfigSynonym{{"log.roll.jitter.ms", 1}, {"log.roll.jitter.hours", 3_600_000}},
		Documentation: "The most by which segment.ms is shortened at random, in milliseconds."},
	{Name: "segment.index.bytes", Type: ConfigInt, Default: "10485760", check: atLeast(4), Synonyms: inLog("index.size.max.bytes"),
		unsupported:   withoutIndexLimit,
		Documentation: "How large the index of a segment may become."},
	{Name: "index.interval.bytes", Type: ConfigInt, Default: "4096", check: atLeast(0), Synonyms: inLog("index.interval.bytes"),
		Documentation: "About how many bytes of a segment lie between two entries of its index."},
	{Name: "flush.messages", Type: ConfigLong, Default: "1", check: atLeast(1), Synonyms: inLog("flush.interval.messages"),
		Documentation: "1: a produce is acknowledged when its records are flushed to the device. More: when they are written; a power cut may then lose what flush.ms has not covered. (Kafka's default is never to flush.)"},
	{Name: "flush.ms", Type: ConfigLong, Default: maxLong, check: atLeast(0),
		Synonyms:      []ConfigSynonym{{"log.flush.interval.ms", 1}, {"log.flush.scheduler.interval.ms", 1}},
		Documentation: "With flush.messages above 1: after how many milliseconds at the latest records are flushed to the device."},
	{Name: "preallocate", Type: ConfigBoolean, Default: "false", Synonyms: inLog("preallocate"),
		Documentation: "Whether to reserve the space of a segment before it is written. The storage engine always does, step by step, whatever is set."},
}

var messageConfigs = []*ConfigKey{
	{Name: "max.message.bytes", Type: ConfigInt, Default: "1048588", check: atLeast(0), Synonyms: same("message.max.bytes"),
		Documentation: "The largest record batch that is accepted, in bytes after compression."},
	{Name: "max.decompressed.message.bytes", Type: ConfigInt, Default: "2147483639", check: atLeast(0), unsupported: withoutRecordLimit,
		Synonyms:      same("max.decompressed.message.bytes"),
		Documentation: "The largest record that may come out of a compressed batch, in bytes."},
	{Name: "message.timestamp.type", Type: ConfigString, Default: "CreateTime", check: oneOf("CreateTime", "LogAppendTime"), Synonyms: inLog("message.timestamp.type"),
		Documentation: "Whether a record's timestamp is the one its producer gave it or the time at which it was appended."},
	{Name: "message.timestamp.before.max.ms", Type: ConfigLong, Default: maxLong, check: atLeast(0), Synonyms: inLog("message.timestamp.before.max.ms"),
		Documentation: "How many milliseconds a producer's timestamp may lie behind the broker's clock; with LogAppendTime it is not asked."},
	{Name: "message.timestamp.after.max.ms", Type: ConfigLong, Default: "3600000", check: atLeast(0), Synonyms: inLog("message.timestamp.after.max.ms"),
		Documentation: "How many milliseconds a producer's timestamp may lie ahead of the broker's clock; with LogAppendTime it is not asked."},
	{Name: "compression.type", Type: ConfigString, Default: "producer", Synonyms: same("compression.type"),
		check:         oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
		Documentation: "How batches are stored: producer keeps the compression they came with; the broker compresses those anew that came in another than the one named."},
	{Name: "compression.gzip.level", Type: ConfigInt, Default: "-1", check: defaultOr(-1, 1, 9), Synonyms: same("compression.gzip.level"),
		unsupported: withoutLevel, Documentation: "The level of compression.type=gzip."},
	{Name: "compression.lz4.level", Type: ConfigInt, Default: "9", check: between(1, 17), Synonyms: same("compression.lz4.level"),
		unsupported: withoutLevel, Documentation: "The level of compression.type=lz4."},
	{Name: "compression.zstd.level", Type: ConfigInt, Default: "3", check: between(-131072, 22), Synonyms: same("compression.zstd.level"),
		unsupported: withoutLevel, Documentation: "The level of compression.type=zstd."},
	{Name: "errors.deadletterqueue.group.enable", Type: ConfigBoolean, Default: "false", unsupported: withoutDeadLetter,
		Documentation: "Whether share groups may write records that could not be processed to this topic (KIP-1191)."},
}

var compactionConfigs = []*ConfigKey{
	{Name: "min.cleanable.dirty.ratio", Type: ConfigDouble, Default: "0.5", check: ratio, Synonyms: inCleaner("min.cleanable.ratio"),
		Documentation: "How large the part not yet compacted must be before a log is compacted, from 0 to 1."},
	{Name: "min.compaction.lag.ms", Type: ConfigLong, Default: "0", check: atLeast(0), Synonyms: inCleaner("min.compaction.lag.ms"),
		Documentation: "How many milliseconds a record is safe from compaction."},
	{Name: "max.compaction.lag.ms", Type: ConfigLong, Default: maxLong, check: atLeast(1), Synonyms: inCleaner("max.compaction.lag.ms"),
		Documentation: "After how many milliseconds at the latest a record is compacted."},
	{Name: "delete.retention.ms", Type: ConfigLong, Default: "86400000", check: atLeast(0), Synonyms: inCleaner("delete.retention.ms"),
		Documentation: "How many milliseconds a tombstone of a compacted topic stays readable."},
}

var replicationConfigs = []*ConfigKey{
	{Name: "min.insync.replicas", Type: ConfigInt, Default: "1", check: atLeast(1), Synonyms: same("min.insync.replicas"),
		Documentation: "How many replicas must be in sync for a produce with acks=all to be accepted."},
	{Name: "unclean.leader.election.enable", Type: ConfigBoolean, Default: "false", Synonyms: same("unclean.leader.election.enable"),
		unsupported: withoutUnclean, Documentation: "Whether a replica that may lack committed records can become leader."},
	{Name: "leader.replication.throttled.replicas", Type: ConfigList, Default: "", check: throttledReplicas, unsupported: withoutThrottle,
		Documentation: "Replicas whose leaders send at a limited rate: * or a list of partition:broker."},
	{Name: "follower.replication.throttled.replicas", Type: ConfigList, Default: "", check: throttledReplicas, unsupported: withoutThrottle,
		Documentation: "Replicas whose followers fetch at a limited rate: * or a list of partition:broker."},
}

var tierConfigs = []*ConfigKey{
	{Name: "remote.storage.enable", Type: ConfigBoolean, Default: "false", unsupported: withoutTier,
		Documentation: "Whether sealed segments are copied to tiered storage."},
	{Name: "local.retention.ms", Type: ConfigLong, Default: "-2", check: atLeast(-2), Synonyms: inLog("local.retention.ms"), unsupported: withoutTier,
		Documentation: "How many milliseconds a copied segment stays on local disk; -2 follows retention.ms."},
	{Name: "local.retention.bytes", Type: ConfigLong, Default: "-2", check: atLeast(-2), Synonyms: inLog("local.retention.bytes"), unsupported: withoutTier,
		Documentation: "How many bytes of a partition stay on local disk once they are copied; -2 follows retention.bytes."},
	{Name: "remote.log.copy.disable", Type: ConfigBoolean, Default: "false", unsupported: withoutTier,
		Documentation: "Whether to stop copying segments to tiered storage and only read what is there."},
	{Name: "remote.log.delete.on.disable", Type: ConfigBoolean, Default: "false", unsupported: withoutTier,
		Documentation: "Whether what is in tiered storage is deleted when remote.storage.enable is turned off."},
	{Name: "remote.copy.lag.ms", Type: ConfigLong, Default: "0", check: atLeast(-1), unsupported: withoutTier,
		Documentation: "How many milliseconds after it was sealed a segment is copied (KIP-1241); -1 follows local.retention.ms."},
	{Name: "remote.copy.lag.bytes", Type: ConfigLong, Default: "-1", check: atLeast(-1), unsupported: withoutTier,
		Documentation: "How many bytes must follow a segment before it is copied (KIP-1241); -1 follows local.retention.bytes."},
}
