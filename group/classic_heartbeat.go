package group

// Heartbeat says that a member is alive, and asks whether it has to join again.
type Heartbeat struct {
	GroupID    string
	MemberID   string
	InstanceID *string
	Generation int32
}

// HeartbeatAnswer answers Heartbeat.
type HeartbeatAnswer struct{ Err error }

// Nearly every heartbeat has one of these answers; nobody changes an answer.
var (
	heartbeatFine      = &HeartbeatAnswer{}
	heartbeatRebalance = &HeartbeatAnswer{Err: ErrRebalanceInProgress}
)

func (r *Heartbeat) step(m *Machine, c call) {
	c.answer(m.heartbeat(c, r))
}

// heartbeat starts the session anew, also of a member that has to join again.
func (m *Machine) heartbeat(c call, r *Heartbeat) *HeartbeatAnswer {
	g, consumer, err := m.classicOf(r.GroupID)
	switch {
	case err != nil:
		return &HeartbeatAnswer{Err: err}
	case consumer != nil:
		return &HeartbeatAnswer{Err: consumer.heartbeatClassic(c, r)}
	}
	member, err := g.checkMember(r.MemberID, instanceOf(r.InstanceID))
	if err == nil && r.Generation != g.generation {
		err = ErrIllegalGeneration
	}
	if err != nil {
		return &HeartbeatAnswer{Err: err}
	}
	g.refresh(c, member)
	if g.state == StatePreparingRebalance {
		return heartbeatRebalance
	}
	return heartbeatFine
}
