package coord

const (
	// eventIntervalMillis is how often, in the long run, machines may log the same message: what they tell of
	// is brought about by clients, and those may be many.
	eventIntervalMillis = 1000
	// eventBurst is how many lines of it may come at once: a hundred groups that lose a member with the same
	// application are worth some names.
	eventBurst = 20
)

// eventLimits bounds what machines log, message by message; messages are constants, so there are few.
type eventLimits map[string]*eventLimit

type eventLimit struct {
	// paidMillis is the time up to which what was logged uses up the interval of each line.
	paidMillis int64
	skipped    int64
}

// allow says whether a message may be logged now, and how many were left out since the last one.
func (l eventLimits) allow(message string, nowMillis int64) (skipped int64, ok bool) {
	limit := l[message]
	if limit == nil {
		limit = &eventLimit{}
		l[message] = limit
	}
	limit.paidMillis = max(limit.paidMillis, nowMillis)
	if limit.paidMillis-nowMillis >= eventBurst*eventIntervalMillis {
		limit.skipped++
		return 0, false
	}
	limit.paidMillis += eventIntervalMillis
	skipped, limit.skipped = limit.skipped, 0
	return skipped, true
}
