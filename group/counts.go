package group

// Count asks how much a machine holds, for metrics. Its answer is *Counts.
type Count struct{}

// Counts is how much a machine holds.
type Counts struct {
	Groups int
	// Offsets is the number of committed offsets of all groups.
	Offsets int
}

func (*Count) step(m *Machine, c call) {
	c.answer(&Counts{Groups: len(m.order), Offsets: m.offsetCount})
}
