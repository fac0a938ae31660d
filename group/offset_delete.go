package group

// OffsetDelete removes committed offsets of a group (KIP-496).
type OffsetDelete struct {
	GroupID string
	Topics  []OffsetDeleteTopic
}

// OffsetDeleteTopic are partitions of one topic.
type OffsetDeleteTopic struct {
	Topic      string
	Partitions []OffsetDeletePartition
}

// OffsetDeletePartition is one partition, and is answered in place. An Err that is there
// already is answered as it is.
type OffsetDeletePartition struct {
	Partition int32
	Err       error
}

// OffsetsDeleted answers OffsetDelete. That nothing was committed for a partition is no error.
type OffsetsDeleted struct {
	Topics []OffsetDeleteTopic
	Err    error // of the request as a whole
}

func (r *OffsetDelete) step(m *Machine, c call) {
	g := m.group(r.GroupID)
	if g == nil {
		c.answer(&OffsetsDeleted{Topics: r.Topics, Err: ErrGroupNotFound})
		return
	}
	if members := g.membership(); members != nil {
		if err := members.checkOffsetDelete(); err != nil {
			c.answer(&OffsetsDeleted{Topics: r.Topics, Err: err})
			return
		}
	}
	for i := range r.Topics {
		topic := &r.Topics[i]
		subscribed := g.subscribes(topic.Topic)
		for j := range topic.Partitions {
			p := &topic.Partitions[j]
			switch {
			case p.Err != nil:
			case subscribed:
				p.Err = ErrGroupSubscribed
			case m.unsetOffset(g, topic.Topic, p.Partition):
				c.effects.Append(offsetTombstone(g.id, topic.Topic, p.Partition, c.nowMillis))
			}
		}
	}
	m.maybeRemove(g)
	c.answer(&OffsetsDeleted{Topics: r.Topics})
}
