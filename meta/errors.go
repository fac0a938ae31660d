package meta

import (
	"errors"
	"fmt"
)

// Errors of commands. A command or the part of it that fails with one of these
// leaves the image as it was. frontend/kafka gives each its code.
var (
	// ErrTopicExists is returned when a topic of that name is already there.
	ErrTopicExists = errors.New("meta: topic already exists")
	// ErrUnknownTopic is returned when no topic has that name or id.
	ErrUnknownTopic = errors.New("meta: unknown topic")
	// ErrInvalidTopicName is returned when a name breaks Kafka's rules or
	// collides with a present one ('.' and '_' are the same in metric names).
	ErrInvalidTopicName = errors.New("meta: invalid topic name")
	// ErrInvalidPartitions is returned when a topic would have less than one partition.
	ErrInvalidPartitions = errors.New("meta: invalid number of partitions")
	// ErrTooManyPartitions is returned when a request or a broker would hold
	// more partitions than its limit (Kafka: POLICY_VIOLATION).
	ErrTooManyPartitions = errors.New("meta: too many partitions")
	// ErrInvalidReplicationFactor is returned when a replication factor is
	// below one or above the number of brokers.
	ErrInvalidReplicationFactor = errors.New("meta: invalid replication factor")
	// ErrInvalidReplicaAssignment is returned when the replicas that a request
	// names by hand are unknown, named twice, or do not number the
	// partitions from zero without a gap.
	ErrInvalidReplicaAssignment = errors.New("meta: invalid replica assignment")
	// ErrInvalidConfig is what every *ConfigError unwraps to.
	ErrInvalidConfig = errors.New("meta: invalid configuration")
	// ErrInvalidRequest is returned when a request contradicts itself: one topic
	// named twice, a count beside an assignment.
	ErrInvalidRequest = errors.New("meta: invalid request")
	// ErrUnknownBroker is returned when no broker with that id ever started.
	ErrUnknownBroker = errors.New("meta: unknown broker")
	// ErrStaleBroker is returned when a broker speaks for an older start of itself.
	ErrStaleBroker = errors.New("meta: stale broker epoch")
	// ErrNotFormatted is returned for any command before FormatCluster.
	ErrNotFormatted = errors.New("meta: the cluster is not formatted")
	// ErrAlreadyFormatted is returned for a second FormatCluster.
	ErrAlreadyFormatted = errors.New("meta: the cluster is already formatted")
	// ErrEpochsExhausted is returned when no leader epoch is left above the
	// highest one known, which only corrupt input can bring about.
	ErrEpochsExhausted = errors.New("meta: leader epochs are exhausted")
	// ErrProducerIDsExhausted is returned when every producer id was given away.
	ErrProducerIDsExhausted = errors.New("meta: producer ids are exhausted")
)

// Errors of stored data.
var (
	// ErrCorrupt is what every *CorruptionError unwraps to.
	ErrCorrupt = errors.New("meta: stored metadata is corrupt")
	// ErrNewerFormat is returned for data that a newer version of this program wrote.
	ErrNewerFormat = errors.New("meta: metadata was written by a newer version of Ringlog")
)

// CorruptionError says where stored bytes are not what was written.
type CorruptionError struct {
	What   string // "command", "snapshot"
	Offset int    // byte in it
	Cause  string
}

// Error says what, where and why.
func (e *CorruptionError) Error() string {
	return fmt.Sprintf("meta: %s is corrupt at byte %d: %s", e.What, e.Offset, e.Cause)
}

// Unwrap returns ErrCorrupt.
func (e *CorruptionError) Unwrap() error { return ErrCorrupt }

// ConfigError says which configuration is refused and why.
type ConfigError struct {
	Name   string // the configuration's name
	Value  string // what was asked for
	Reason string // a whole sentence for people
}

// Error says name, value and reason.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("invalid value %q for configuration %s: %s", e.Value, e.Name, e.Reason)
}

// Unwrap returns ErrInvalidConfig.
func (e *ConfigError) Unwrap() error { return ErrInvalidConfig }
