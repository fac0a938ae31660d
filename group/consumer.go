package group

import (
	"fmt"
	"slices"
	"strings"

	"ringlog/group/assign"
)

// The epochs of a ConsumerHeartbeat that are no member epochs (KIP-848).
const (
	// JoinEpoch is of a member that joins, or joins again after it was fenced.
	JoinEpoch int32 = 0
	// LeaveEpoch is of a member that leaves for good.
	LeaveEpoch int32 = -1
	// StaticLeaveEpoch is of a static member that leaves and will be back: its partitions wait for it.
	StaticLeaveEpoch int32 = -2
)

// ConsumerHeartbeat is a ConsumerGroupHeartbeat of KIP-848: how a member joins, stays, tells what it
// owns, and leaves. What it does not give has not changed since it gave it last.
type ConsumerHeartbeat struct {
	GroupID string
	// MemberID is drawn by the client, or by the frontend for clients that cannot; never empty.
	MemberID string
	// Epoch is the member's own as it knows it, or one of JoinEpoch, LeaveEpoch, StaticLeaveEpoch.
	Epoch int32
	// InstanceID is a static member's name.
	InstanceID *string
	RackID     *string
	// RebalanceTimeoutMillis is how long the member may take to give partitions up; negative: not given.
	RebalanceTimeoutMillis int32
	// Names are the topics that it subscribes to; nil: not given.
	Names []string
	// Regex subscribes to every topic whose whole name it matches (RE2); "" is none.
	Regex *string
	// Assignor is what the member would have the group use.
	Assignor *string
	// Owned is what the member has, when OwnedGiven: it comes with every change of that, and only then.
	Owned      []assign.TopicPartitions
	OwnedGiven bool

	ClientID, ClientHost string
}

// ConsumerHeartbeatAnswer answers a ConsumerHeartbeat. Without an error it carries the epoch that
// the member has now; the member owns exactly Assignment as soon as it has given up all else.
type ConsumerHeartbeatAnswer struct {
	Err                     error
	MemberID                string
	Epoch                   int32
	HeartbeatIntervalMillis int32
	// Assignment counts when HasAssignment: it comes when it changed and whenever the member told all about itself.
	Assignment    assign.Partitions
	HasAssignment bool
}

func (r *ConsumerHeartbeat) step(m *Machine, c call) {
	answer, err := m.consumerHeartbeat(c, r)
	if err != nil {
		answer = &ConsumerHeartbeatAnswer{Err: err, MemberID: r.MemberID}
	}
	c.answer(answer)
}

// check finds what is wrong with a request whatever the group.
func (r *ConsumerHeartbeat) check(config *Config) error {
	invalid := func(reason string) error { return fmt.Errorf("%w: %s", ErrInvalidRequest, reason) }
	isEmpty := func(text *string) bool { return text != nil && strings.TrimSpace(*text) == "" }
	switch {
	case r.GroupID == "":
		return invalid("GroupId can't be empty")
	case isEmpty(r.InstanceID):
		return invalid("InstanceId can't be empty")
	case isEmpty(r.RackID):
		return invalid("RackId can't be empty")
	case r.MemberID == "":
		return invalid("MemberId can't be empty")
	case r.Epoch < StaticLeaveEpoch:
		return invalid("MemberEpoch is invalid")
	case r.Epoch == JoinEpoch && r.RebalanceTimeoutMillis < 0:
		return invalid("RebalanceTimeoutMs must be provided in first request")
	case r.Epoch == JoinEpoch && (!r.OwnedGiven || len(r.Owned) > 0):
		return invalid("TopicPartitions must be empty when (re-)joining")
	case r.Epoch == JoinEpoch && r.Names == nil && r.Regex == nil:
		return invalid("either SubscribedTopicNames or SubscribedTopicRegex must be given when (re-)joining")
	case r.subscriptionBytes() > subscriptionBytesMax:
		return invalid(fmt.Sprintf("the subscription is larger than %d bytes", subscriptionBytesMax))
	case r.Assignor != nil && !slices.Contains(config.Consumer.Assignors, *r.Assignor):
		return fmt.Errorf("%w: %q; there are %s", ErrUnsupportedAssignor, *r.Assignor, strings.Join(config.Consumer.Assignors, ", "))
	}
	return nil
}

// subscriptionBytesMax bounds what a member may say about itself: it is one record of the log.
const subscriptionBytesMax = 256 << 10

// subscriptionBytes is about how much a request says about its member.
func (r *ConsumerHeartbeat) subscriptionBytes() int {
	bytes := len(r.GroupID) + len(r.MemberID) + len(r.ClientID) + len(r.ClientHost)
	for _, text := range [...]*string{r.InstanceID, r.RackID, r.Regex} {
		if text != nil {
			bytes += len(*text)
		}
	}
	for _, name := range r.Names {
		bytes += len(name) + 2
	}
	return bytes
}

// isFull reports whether the member told everything about itself, as it does after it lost its
// bearings: it then needs to hear everything, too.
func (r *ConsumerHeartbeat) isFull() bool {
	return r.Epoch == JoinEpoch || r.RebalanceTimeoutMillis >= 0 && (r.Names != nil || r.Regex != nil) && r.OwnedGiven
}

// consumerHeartbeat is the life of a member. When it returns an error, nothing has changed.
func (m *Machine) consumerHeartbeat(c call, r *ConsumerHeartbeat) (*ConsumerHeartbeatAnswer, error) {
	if err := r.check(m.config); err != nil {
		return nil, err
	}
	if r.Epoch < JoinEpoch {
		return m.consumerLeave(c, r)
	}
	if r.Regex != nil {
		if err := checkRegex(*r.Regex); err != nil {
			return nil, err
		}
	}
	g, err := m.consumerGroupOf(c, r.GroupID, r.Epoch == JoinEpoch)
	if err != nil {
		return nil, err
	}
	member, err := g.enter(c, r)
	if err != nil {
		m.maybeRemoveConsumer(g)
		return nil, err
	}
	before := member.position.assigned

	subscriptionChanged := g.subscribe(c, member, r.subscribed(&member.subscription))
	g.refresh(c, subscriptionChanged)
	g.maybeAssign(c)
	g.reconcile(c, member, r.owned(), subscriptionChanged)
	if member.position.state != memberUnrevoked {
		m.timers.disarm(&member.patience) // it may have spoken the classic protocol before
	}
	m.timers.arm(&member.session, c.nowMillis+g.sessionTimeoutMillis(member))

	answer := &ConsumerHeartbeatAnswer{MemberID: member.id, Epoch: member.position.epoch, HeartbeatIntervalMillis: int32(g.heartbeatIntervalMillis())}
	if r.isFull() || !before.Equal(member.position.assigned) {
		answer.Assignment, answer.HasAssignment = member.position.assigned, true
	}
	return answer, nil
}

// subscribed returns a member's subscription after what the request gives.
func (r *ConsumerHeartbeat) subscribed(before *subscription) subscription {
	after := *before
	if r.InstanceID != nil {
		after.instance = *r.InstanceID
	}
	if r.RackID != nil {
		after.rack = *r.RackID
	}
	if r.RebalanceTimeoutMillis >= 0 {
		after.rebalanceTimeoutMillis = r.RebalanceTimeoutMillis
	}
	if r.Names != nil {
		after.names = sortedNames(r.Names)
	}
	if r.Regex != nil {
		after.regex = *r.Regex
	}
	if r.Assignor != nil {
		after.assignor = *r.Assignor
	}
	after.clientID, after.clientHost = r.ClientID, r.ClientHost
	after.classic = nil
	return after
}

// owned returns what the member says it owns.
func (r *ConsumerHeartbeat) owned() ownedPartitions {
	if !r.OwnedGiven {
		return ownedPartitions{}
	}
	return ownedPartitions{given: true, partitions: assign.NewPartitions(r.Owned)}
}

func sortedNames(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// ownedPartitions is what a member says it owns, if it says so.
type ownedPartitions struct {
	given      bool
	partitions assign.Partitions
}

// include reports whether the member may still own one of these: it does when it says so, and when it says nothing.
func (o ownedPartitions) include(partitions assign.Partitions) bool {
	return !o.given || o.partitions.Overlaps(partitions)
}

// consumerLeave is how a member goes: for good, or, a static one, for a while.
func (m *Machine) consumerLeave(c call, r *ConsumerHeartbeat) (*ConsumerHeartbeatAnswer, error) {
	g, err := m.consumerGroupOf(c, r.GroupID, false)
	if err != nil {
		return nil, err
	}
	member := g.members[r.MemberID]
	if r.InstanceID != nil {
		if member = g.instances[*r.InstanceID]; member != nil && member.id != r.MemberID {
			return nil, fmt.Errorf("%w: %q is now of member %s", ErrFencedInstance, *r.InstanceID, member.id)
		}
	}
	switch {
	case member == nil:
		return nil, fmt.Errorf("%w: %s", ErrUnknownMember, r.MemberID)
	case r.Epoch == StaticLeaveEpoch && member.instance == "":
		return nil, fmt.Errorf("%w: a member without an instance id leaves for good", ErrInvalidRequest)
	}
	// Kafka wants the instance id again in a leave with epoch -2. franz-go does not send it, and without it
	// every restart of a static member would be one of a stranger; the member id says as much.
	if r.Epoch == StaticLeaveEpoch {
		g.leaveForAWhile(c, member)
	} else {
		g.removeMembers(c, []*consumerMember{member})
	}
	return &ConsumerHeartbeatAnswer{MemberID: r.MemberID, Epoch: r.Epoch}, nil
}
