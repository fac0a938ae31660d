package group

import "slices"

const (
	// expiryWarnTenths is after how many tenths of their retention operators are told that offsets will expire.
	expiryWarnTenths = 8
	// tombstonesPerStepMax is about how many offsets one step removes when nobody waits for it; the rest follows in the next, so that
	// commits of other groups are not held up by a batch of megabytes.
	tombstonesPerStepMax = 1000
)

// maybeScheduleExpiry sets the timer that looks for expired offsets.
func (m *Machine) maybeScheduleExpiry(nowMillis int64) {
	m.timers.arm(&m.expiry, nowMillis+m.config.OffsetsCheckIntervalMillis)
}

// expireOffsets removes the offsets that nobody has used for offsets.retention.minutes. A group with
// members keeps those of all topics that they are subscribed to, however old (KIP-211); the
// clock of an empty group starts when its last member left.
func (m *Machine) expireOffsets(c call) {
	before := len(c.effects.Records)
	for _, g := range slices.Clone(m.order) { // a copy: a group may be removed
		m.expireOffsetsOf(c, g)
		if len(c.effects.Records)-before >= tombstonesPerStepMax {
			m.timers.arm(&m.expiry, c.nowMillis+1)
			return
		}
	}
	m.maybeScheduleExpiry(c.nowMillis)
}

func (m *Machine) expireOffsetsOf(c call, g *group) {
	sinceMillis := int64(0) // what the commit time is raised to
	if members := g.membership(); members != nil {
		sinceMillis = members.emptySinceMillis()
	}
	empty := g.isEmpty()
	retentionMillis := m.config.OffsetsRetentionMillis
	last := int64(0) // when the last offset expires
	for _, t := range slices.Clone(g.offsets.topics) {
		if !empty && !g.mayDeleteOffsets(t.topic) {
			continue
		}
		for i := len(t.partitions) - 1; i >= 0; i-- {
			at := t.partitions[i]
			usedMillis := at.commitMillis
			if empty && sinceMillis > 0 {
				usedMillis = sinceMillis
			}
			expireMillis := usedMillis + retentionMillis
			if at.expireMillis != 0 {
				expireMillis = at.expireMillis
			}
			last = max(last, expireMillis)
			if c.nowMillis < expireMillis {
				continue
			}
			m.unsetOffset(g, t.topic, at.partition)
			c.effects.Append(offsetTombstone(g.id, t.topic, at.partition, c.nowMillis))
		}
	}
	m.warnOfExpiry(c, g, last)
	if empty && len(g.offsets.topics) == 0 {
		m.deleteGroup(c, g)
	}
}

// mayDeleteOffsets says whether nobody in the group needs its offsets for a topic.
func (g *group) mayDeleteOffsets(topic string) bool {
	members := g.membership()
	return members == nil || members.checkOffsetDelete() == nil && !members.subscribes(topic)
}

// warnOfExpiry tells operators once that a group without members is about to lose its offsets.
func (m *Machine) warnOfExpiry(c call, g *group, lastMillis int64) {
	retentionMillis := m.config.OffsetsRetentionMillis
	if !g.isEmpty() || len(g.offsets.topics) == 0 {
		g.offsets.warned = false
		return
	}
	remainingMillis := lastMillis - c.nowMillis
	if g.offsets.warned || remainingMillis > retentionMillis/10*(10-expiryWarnTenths) {
		return
	}
	g.offsets.warned = true
	c.effects.Event("committed offsets of a group without members will expire", "group", g.id,
		"topics", len(g.offsets.topics), "remaining_ms", remainingMillis, "setting", "offsets.retention.minutes")
}
