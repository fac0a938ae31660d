package group

// Delete removes a group with its offsets. It must have no members.
type Delete struct{ GroupID string }

// Deleted answers Delete.
type Deleted struct{ Err error }

func (r *Delete) step(m *Machine, c call) {
	g := m.group(r.GroupID)
	switch {
	case g == nil:
		c.answer(&Deleted{Err: ErrGroupNotFound})
	case !g.isEmpty():
		c.answer(&Deleted{Err: ErrNonEmptyGroup})
	default:
		m.deleteGroup(c, g)
		c.answer(&Deleted{})
	}
}
