package group

import "strings"

// Leave takes members out of a group: one that goes, or several that an operator removes by their instance
// ids (KIP-345).
type Leave struct {
	GroupID string
	Members []Leaving
}

// Leaving is a member that goes, and is answered in place.
type Leaving struct {
	// MemberID is "" when InstanceID alone says who.
	MemberID   string
	InstanceID *string
	// Reason is what the client says of its reasons (KIP-800).
	Reason string

	Err error
}

// LeaveAnswer answers Leave. Err is of the request as a whole; that there is no such group is said of each member.
type LeaveAnswer struct {
	Members []Leaving
	Err     error
}

func (r *Leave) step(m *Machine, c call) {
	g, consumer, err := m.classicOf(r.GroupID)
	switch {
	case err == ErrUnknownMember:
		for i := range r.Members {
			r.Members[i].Err = err
		}
		err = nil
	case err != nil:
	case consumer != nil:
		consumer.leaveClassic(c, r.Members)
	default:
		g.leave(c, r.Members)
	}
	c.answer(&LeaveAnswer{Members: r.Members, Err: err})
}

// leave takes members out, and rebalances once for all of them.
func (g *classicGroup) leave(c call, members []Leaving) {
	var why cause
	for i := range members {
		one := &members[i]
		instanceID := instanceOf(one.InstanceID)
		if one.MemberID != "" && g.pending.remove(g.machine, one.MemberID) {
			if why.Cause == 0 {
				why.Cause = CauseMemberLeft
			}
			continue
		}
		member, byInstance := g.static[instanceID], one.MemberID == "" && instanceID != ""
		if !byInstance {
			member, one.Err = g.checkMember(one.MemberID, instanceID)
		}
		if member == nil {
			one.Err = orUnknown(one.Err)
			continue
		}
		g.remove(c, member)
		if why.member == nil {
			why = cause{Cause: leaveCause(byInstance, one.Reason), member: member, reason: one.Reason}
		}
	}
	switch {
	case why.member != nil:
		g.rebalance(c, why)
	case why.Cause != 0:
		g.maybeComplete(c) // it may have waited for an id that was given out
	}
}

func orUnknown(err error) error {
	if err == nil {
		return ErrUnknownMember
	}
	return err
}

// leaveCause tells who was too busy from who goes: the Java client leaves for both, and says which.
func leaveCause(byInstance bool, reason string) Cause {
	switch {
	case strings.Contains(reason, "poll timeout"):
		return CausePollOverrun
	case byInstance:
		return CauseMemberRemoved
	}
	return CauseMemberLeft
}
