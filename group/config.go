package group

import "ringlog/meta"

// Config is what operators set for groups. It never changes once a machine has it; a change comes
// as a new one, in a [ConfigChanged].
type Config struct {
	// OffsetMetadataBytesMax is offset.metadata.max.bytes.
	OffsetMetadataBytesMax int
	// OffsetsRetentionMillis is offsets.retention.minutes, in milliseconds.
	OffsetsRetentionMillis int64
	// OffsetsCheckIntervalMillis is offsets.retention.check.interval.ms.
	OffsetsCheckIntervalMillis int64

	// SessionTimeoutMinMillis is group.min.session.timeout.ms.
	SessionTimeoutMinMillis int64
	// SessionTimeoutMaxMillis is group.max.session.timeout.ms.
	SessionTimeoutMaxMillis int64
	// InitialRebalanceDelayMillis is group.initial.rebalance.delay.ms: how long the first member of an
	// empty group waits for others.
	InitialRebalanceDelayMillis int64
	// MembersMax is group.max.size.
	MembersMax int

	// Consumer is what concerns consumer groups alone.
	Consumer ConsumerConfig
}

// ConfigChanged is the notice that machines go on with another configuration.
type ConfigChanged struct{ Config *Config }

func (r *ConfigChanged) step(m *Machine, c call) {
	m.config = r.Config
	m.maybeScheduleExpiry(c.nowMillis)
}

// ImageChanged is the notice that the cluster's image is another.
type ImageChanged struct {
	Image *meta.Image
	// Deleted are the topics that the change deleted, by name and id.
	Deleted []DeletedTopic
}

// DeletedTopic names a topic that is gone. Another one may have its name by now.
type DeletedTopic struct {
	Name string
	ID   meta.TopicID
}

func (r *ImageChanged) step(m *Machine, c call) {
	m.seeTopics(r)
	m.image = r.Image
	for _, topic := range r.Deleted {
		m.deleteOffsetsOfTopic(c, topic)
	}
}
