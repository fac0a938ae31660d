package group

import (
	"fmt"
	"slices"

	"ringlog/group/assign"
)

// memberState is where a member stands between what it has and what it is to have. The numbers are stored.
type memberState int8

const (
	// memberStable has what it is to have.
	memberStable memberState = 0
	// memberUnrevoked was told to give partitions up and has not said that it did.
	memberUnrevoked memberState = 1
	// memberUnreleased waits for partitions that others have not given up yet.
	memberUnreleased memberState = 2
)

// isKnown says that the state is none that a later version has stored.
func (s memberState) isKnown() bool { return s >= memberStable && s <= memberUnreleased }

// subscription is what a member says about itself. It is stored whenever it changes
// (ConsumerGroupMemberMetadata). Values, and slices that never change, so that two can be compared.
type subscription struct {
	instance string // a static member's name, or ""
	rack     string // "" when it has none
	clientID string
	// clientHost is where the member's connection comes from, as Kafka writes it: with a slash before.
	clientHost             string
	names                  []string // sorted, each once
	regex                  string
	rebalanceTimeoutMillis int32
	assignor               string // "" when it has no wish
	// classic is set while the member speaks the classic protocol.
	classic *classicMembership
}

func (s *subscription) equal(other *subscription) bool {
	return s.instance == other.instance && s.rack == other.rack && s.clientID == other.clientID && s.clientHost == other.clientHost &&
		s.sameTopics(other) && s.rebalanceTimeoutMillis == other.rebalanceTimeoutMillis && s.assignor == other.assignor &&
		s.classic.equal(other.classic)
}

// sameTopics says whether two subscriptions ask for the same topics.
func (s *subscription) sameTopics(other *subscription) bool {
	return s.regex == other.regex && slices.Equal(s.names, other.names)
}

// position is how far a member has followed its group. It is stored whenever it changes
// (ConsumerGroupCurrentMemberAssignment).
//
// Invariant: a partition is in assigned or revoking of one member of the group at most.
type position struct {
	// epoch is the member's, StaticLeaveEpoch while a static member is away.
	epoch int32
	// previous is the epoch before: a member whose last answer was lost still comes with it.
	previous int32
	state    memberState
	// assigned is what the member owns or may own from now on; revoking is what it was told to give up.
	assigned, revoking assign.Partitions
}

func (p *position) equal(other *position) bool {
	return p.epoch == other.epoch && p.previous == other.previous && p.state == other.state &&
		p.assigned.Equal(other.assigned) && p.revoking.Equal(other.revoking)
}

// consumerMember is a member of a consumerGroup. Only the group's methods change it.
type consumerMember struct {
	id string
	// stored says that the log has the member's subscription; false only while it is being loaded or joins.
	stored bool
	subscription
	position position
	// target is what the assignor gave it.
	target assign.Partitions
	// topics is what its subscription comes to; shared with the members that have the same.
	topics *topicSet

	// session runs out when the member is not heard of.
	session timer
	// patience runs out when the member does not give up what it was told to, in time; for one that speaks
	// the classic protocol, when it does not join or synchronize in time.
	patience timer
}

// isReconciledTo says whether the member has all that the target of that epoch gives it.
func (m *consumerMember) isReconciledTo(assignmentEpoch int32) bool {
	return m.position.state == memberStable && m.position.epoch == assignmentEpoch
}

// checkEpoch says whether a member may go on with the epoch that it came with.
func (m *consumerMember) checkEpoch(epoch int32, owned ownedPartitions) error {
	switch {
	case !m.position.state.isKnown() && owned.include(m.position.assigned):
		return fmt.Errorf("%w: its state is one that this version does not know; it must give up all partitions and join again", ErrFencedMemberEpoch)
	case epoch == JoinEpoch || epoch == m.position.epoch:
		return nil
	case epoch == m.position.previous && epoch < m.position.epoch && owned.given && owned.partitions.Within(m.position.assigned):
		return nil // the answer with its new epoch was lost, and it has nothing that it should not
	}
	return fmt.Errorf("%w: it has epoch %d and came with %d; it must give up all partitions and join again", ErrFencedMemberEpoch, m.position.epoch, epoch)
}
