package group

import "ringlog/coord"

// consumerGroup is the membership of a consumer group (KIP-848).
type consumerGroup struct{ membership }

// isConsumerKey says whether a key of that version belongs to a consumer group's records.
func isConsumerKey(int16) bool { return false }

// replayConsumer takes a record of a consumer group.
func (m *Machine) replayConsumer(int16, coord.Record) error { return nil }
