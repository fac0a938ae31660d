package broker

// QuorumStatus is how the metadata quorum looks from this broker.
type QuorumStatus struct {
	LeaderID  int32  // -1 when there is none
	Term      uint64 // raises with every election
	Committed uint64 // index of the last entry that is committed
	Applied   uint64 // index of the last entry that this broker has applied
	Voters    []int32
}

// Quorum describes the metadata quorum; ok is false when there is none to describe.
func (b *Broker) Quorum() (status QuorumStatus, ok bool) {
	if b.options.Quorum == nil {
		return QuorumStatus{}, false
	}
	return b.options.Quorum(), true
}
