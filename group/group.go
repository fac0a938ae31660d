package group

// group is one consumer group: its committed offsets and its membership.
type group struct {
	id      string
	offsets offsets
	// At most one of these is set. A group without either has only offsets: consumers that assign partitions
	// to themselves and commit ("simple" consumers).
	classic  *classicGroup
	consumer *consumerGroup
}

// membership is what offsets and the common part ask of a group's members, whatever their protocol.
type membership interface {
	// checkCommit says whether this commit may be made: generation or epoch, member and instance must
	// be those of a member. A commit without a member (no member id, generation -1) is allowed
	// only while there are none.
	checkCommit(m *Machine, c call, commit *OffsetCommit) error
	// checkFetch says whether this member may read committed offsets (KIP-848: member id and epoch of OffsetFetch 9).
	checkFetch(fetch *OffsetFetchGroup) error
	// checkOffsetDelete says whether offsets may be deleted at all now; which topics
	// may not is said by subscribes.
	checkOffsetDelete() error
	// isEmpty says that there are no members, whatever else is remembered of the group.
	isEmpty() bool
	// subscribes says whether a member is subscribed to the topic, as far as the coordinator can know.
	subscribes(topic string) bool
	// emptySinceMillis is when the last member left; 0 when that is not known: then the time
	// of the commit counts (KIP-211).
	emptySinceMillis() int64
	// loaded starts the members' sessions after the log was replayed.
	loaded(m *Machine, c call)
	// appendTombstones appends the records that make the log forget the membership.
	appendTombstones(m *Machine, c call)
}

// membership returns the group's members, or nil when it never had any.
func (g *group) membership() membership {
	switch {
	case g.classic != nil:
		return g.classic
	case g.consumer != nil:
		return g.consumer
	}
	return nil
}

// isEmpty says whether the group has no members.
func (g *group) isEmpty() bool {
	members := g.membership()
	return members == nil || members.isEmpty()
}

// subscribes says whether a member of the group is subscribed to the topic.
func (g *group) subscribes(topic string) bool {
	members := g.membership()
	return members != nil && members.subscribes(topic)
}

func (g *group) loaded(m *Machine, c call) {
	if members := g.membership(); members != nil {
		members.loaded(m, c)
	}
}

// deleteGroup removes an empty group with its offsets and leaves tombstones of all its records.
func (m *Machine) deleteGroup(c call, g *group) {
	m.deleteAllOffsets(c, g)
	if members := g.membership(); members != nil {
		members.appendTombstones(m, c)
		g.classic, g.consumer = nil, nil
	}
	m.maybeRemove(g)
}
