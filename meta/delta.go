package meta

// Delta is what one command, or an installed snapshot, changed. Slices are in
// the order of names or ids and must not be changed.
type Delta struct {
	// Index is the index of the image after the change.
	Index uint64
	// TopicsCreated are new; TopicsDeleted are gone; TopicsChanged are there
	// before and after, as they are now, with other partitions or configurations.
	TopicsCreated []*Topic
	TopicsDeleted []*Topic
	TopicsChanged []*Topic
	// BrokersChanged are new or started again.
	BrokersChanged []*Broker
	// TombstonesRemoved are logs that no broker has any more.
	TombstonesRemoved []LogID
}

// Empty reports whether nothing but the index changed.
func (d *Delta) Empty() bool {
	return len(d.TopicsCreated) == 0 && len(d.TopicsDeleted) == 0 && len(d.TopicsChanged) == 0 &&
		len(d.BrokersChanged) == 0 && len(d.TombstonesRemoved) == 0
}
