package meta

// Result is what a command answers its proposer: FormatClusterResult,
// StartBrokerResult, CreateTopicsResult, DeleteTopicsResult,
// RemoveTombstonesResult, AllocateProducerIDsResult, AlterConfigsResult or
// CreatePartitionsResult.
type Result interface{ result() }

// FormatClusterResult answers FormatCluster.
type FormatClusterResult struct{}

// StartBrokerResult answers StartBroker.
type StartBrokerResult struct {
	// BrokerEpoch tells this start from all others.
	BrokerEpoch int64
	// LeaderEpoch is the epoch of every partition that the broker leads.
	LeaderEpoch int32
}

// CreateTopicsResult answers CreateTopics: one entry per topic, in its order.
type CreateTopicsResult struct {
	Topics []TopicResult
}

// DeleteTopicsResult answers DeleteTopics: one entry per topic, in its order.
type DeleteTopicsResult struct {
	Topics []TopicResult
}

// TopicResult is what became of one topic.
type TopicResult struct {
	Name  string // "" when an unknown id was to be deleted
	ID    TopicID
	Topic *Topic // the topic created or deleted; nil when Err is not
	Err   error
}

// RemoveTombstonesResult answers RemoveTombstones.
type RemoveTombstonesResult struct {
	// Removed counts the tombstones that no broker needs any more.
	Removed int
}

// AllocateProducerIDsResult answers AllocateProducerIDs.
type AllocateProducerIDsResult struct {
	First int64 // the first id of the block
	Count int32
}

// AlterConfigsResult answers AlterConfigs: one entry per resource, in its order.
type AlterConfigsResult struct {
	// Index is that of the image that has the changes.
	Index     uint64
	Resources []ConfigResult
}

// ConfigResult is what became of one ConfigAlteration.
type ConfigResult struct {
	Err error
}

// CreatePartitionsResult answers CreatePartitions: one entry per topic, in its order.
type CreatePartitionsResult struct {
	// Index is that of the image that has the partitions.
	Index  uint64
	Topics []TopicResult
}

func (FormatClusterResult) result()       {}
func (StartBrokerResult) result()         {}
func (CreateTopicsResult) result()        {}
func (DeleteTopicsResult) result()        {}
func (RemoveTombstonesResult) result()    {}
func (AllocateProducerIDsResult) result() {}
func (AlterConfigsResult) result()        {}
func (CreatePartitionsResult) result()    {}
