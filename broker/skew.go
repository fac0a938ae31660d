package broker

import "ringlog/meta"

// skewAheadMillis is how far ahead of the broker's clock a timestamp may lie without notice: Kafka's default
// for message.timestamp.after.max.ms, so that only topics that allow more ever have more.
const skewAheadMillis = 3_600_000

// clockSkew returns how far the largest timestamp of a batch lies from now, ahead if positive, when it
// lies further back than the topic keeps records, or further ahead than any clock that is kept right. Either the
// producer's clock is wrong, or it repeats history; Kafka would expire such records
// at once, or never. Here retention counts from the append (engine/plan), and somebody should know. 0 otherwise.
func clockSkew(config *meta.TopicConfig, maxTimestamp, now int64) int64 {
	switch {
	case maxTimestamp < 0: // it has none
		return 0
	case maxTimestamp > now && maxTimestamp-now > skewAheadMillis:
		return maxTimestamp - now
	case config.Delete && config.RetentionMillis >= 0 && now-maxTimestamp > max(config.RetentionMillis, skewBackMillisMin):
		return maxTimestamp - now
	}
	return 0
}

// skewBackMillisMin is how far back a timestamp may lie without notice where records are kept for moments only.
const skewBackMillisMin = 60_000
