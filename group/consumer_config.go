package group

// ConsumerConfig is what operators set for consumer groups (group.consumer.*). What a group has of its
// own, from its configurations, comes first.
type ConsumerConfig struct {
	// SessionTimeoutMillis is how long a member may be silent.
	SessionTimeoutMillis SettingMillis
	// HeartbeatIntervalMillis is how often members are asked to be heard of.
	HeartbeatIntervalMillis SettingMillis
	// AssignmentIntervalMillis is how long a large group's target stands before the next is computed.
	AssignmentIntervalMillis SettingMillis
	// MembersMax is group.consumer.max.size.
	MembersMax int
	// Assignors are the assignors that members may wish for, the default first. Never empty.
	Assignors []string
	// Migration is group.consumer.migration.policy.
	Migration MigrationPolicy
}

// SettingMillis is a setting and the limits of what a group may have instead.
type SettingMillis struct{ Value, Min, Max int64 }

// seeTopics notes whether an image has other topics than the one before: more, or others in the place of deleted ones.
func (m *Machine) seeTopics(r *ImageChanged) {
	if len(r.Deleted) > 0 || r.Image.TopicCount() != m.image.TopicCount() {
		m.topicsIndex = r.Image.Index
	}
}
