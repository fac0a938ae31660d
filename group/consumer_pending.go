package group

import "ringlog/coord"

// consumerGroup is the membership of a consumer group (KIP-848).
type consumerGroup struct{ membership }

// isConsumerKey says whether a key of that version belongs to a consumer group's records.
func isConsumerKey(int16) bool { return false }

// replayConsumer takes a record of a consumer group.
func (m *Machine) replayConsumer(int16, coord.Record) error { return nil }

// state is the group's state by name.
func (g *consumerGroup) state() string { return StateEmpty }

// joinClassic takes a member that speaks the classic protocol into a group that has members. Without an error the
// request is answered, or will be.
func (g *consumerGroup) joinClassic(call, *Join) error { return ErrInconsistentProtocol }

// syncClassic is the same for its SyncGroup.
func (g *consumerGroup) syncClassic(call, *Sync) error { return ErrUnknownMember }

// heartbeatClassic returns what its heartbeat is answered.
func (g *consumerGroup) heartbeatClassic(call, *Heartbeat) error { return ErrUnknownMember }

// leaveClassic takes such members out and sets each one's Err.
func (g *consumerGroup) leaveClassic(_ call, members []Leaving) {
	for i := range members {
		members[i].Err = ErrUnknownMember
	}
}
