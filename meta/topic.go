package meta

// Topic is one topic of an Image. It never changes; a change makes another.
type Topic struct {
	Name string
	ID   TopicID
	// Partitions are numbered by their place: Partitions[i].ID == i.
	Partitions []Partition
	// Configs are the configurations that were set on this topic, by name. What
	// holds for the others is in Defaults: see Defaults.Topic.
	Configs map[string]string
	// Internal topics are written by the broker itself (offsets, transactions).
	Internal bool
}

// Partition returns the partition numbered id.
func (t *Topic) Partition(id int32) (*Partition, bool) {
	if id < 0 || int(id) >= len(t.Partitions) {
		return nil, false
	}
	return &t.Partitions[id], true
}

// ReplicationFactor is the number of replicas of the first partition, as Kafka
// reports it for the topic.
func (t *Topic) ReplicationFactor() int { return len(t.Partitions[0].Replicas) }

// NoLeader is a partition's Leader while no broker may lead it.
const NoLeader int32 = -1

// Partition is one partition of a topic.
type Partition struct {
	ID int32
	// LogID names the partition's log on every replica.
	LogID LogID
	// Leader is a broker's id, or NoLeader.
	Leader int32
	// LeaderEpoch rises whenever a broker becomes leader, be it again after its
	// restart (architecture rule 11); it never falls.
	LeaderEpoch int32
	// PartitionEpoch rises with every change of the partition.
	PartitionEpoch int32
	// Replicas are brokers' ids; the first is the preferred leader.
	Replicas []int32
	// ISR are the replicas that hold all that is committed.
	ISR []int32
}

// Broker is one broker as it last started.
type Broker struct {
	ID   int32
	Host string // where clients reach it
	Port int32
	Rack *string // nil when it has none
	// Epoch is the index of the command that started it; it tells one start of
	// a broker from the next.
	Epoch int64
	// LeaderEpoch is what that start granted for the partitions it leads.
	LeaderEpoch int32
	// DirectoryID names the data directory it runs on; another one under the same
	// broker id is a broker that lost its data.
	DirectoryID [16]byte
}
