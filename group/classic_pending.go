package group

import "ringlog/coord"

// classicGroup is the membership of a classic group.
type classicGroup struct{ membership }

// replayClassic takes a record of a classic group's metadata.
func (m *Machine) replayClassic(coord.Record) error { return nil }
