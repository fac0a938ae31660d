package meta

import (
	"fmt"
	"io"
)

// Limits of what one command may ask for.
const (
	// PartitionsPerRequestMax bounds the partitions of one CreateTopics, as Kafka does.
	PartitionsPerRequestMax = 10_000
	// PartitionsPerBrokerMax bounds the replicas that one broker holds.
	PartitionsPerBrokerMax = 100_000
	// ReplicationFactorMax bounds the replicas of a partition.
	ReplicationFactorMax = 32
	// ProducerIDBlockSize is how many producer ids AllocateProducerIDs gives, as Kafka does.
	ProducerIDBlockSize = 1_000
)

// Command is one change of the cluster: FormatCluster, StartBroker,
// CreateTopics, DeleteTopics, RemoveTombstones, AllocateProducerIDs,
// AlterConfigs or CreatePartitions.
type Command interface {
	kind() commandKind
	encode(e *encoder)
}

// FormatCluster gives a new cluster its id; the first command of every log.
type FormatCluster struct {
	ClusterID string
}

// StartBroker registers a broker as its process starts, or starts again, and
// grants it one new leader epoch for all partitions that it leads
// (architecture rule 11: one record for the whole broker).
type StartBroker struct {
	ID          int32
	DirectoryID [16]byte
	Host        string
	Port        int32
	Rack        *string
	// LogsEpochMax is the highest leader epoch found in the broker's own logs,
	// -1 when there is none: the epoch granted lies above it even if the
	// metadata log is older than they are.
	LogsEpochMax int32
}

// CreateTopics creates topics; each succeeds or fails for itself.
type CreateTopics struct {
	Topics []NewTopic
}

// NewTopic is one topic of a CreateTopics. Defaults (-1 in Kafka's request) are
// resolved by the proposer, before.
type NewTopic struct {
	Name string
	// ID and LogIDs are drawn by the proposer: see Draw. There is one LogID per partition.
	ID     TopicID
	LogIDs []LogID
	// ReplicationFactor is how many replicas to place; 0 when Replicas names them.
	ReplicationFactor int16
	// Replicas names the replicas of each partition by hand, or is nil.
	Replicas [][]int32
	Configs  map[string]string
	Internal bool
}

// Draw fills ID and LogIDs for a number of partitions, which has to be in 1 to
// PartitionsPerRequestMax, from random (crypto/rand.Reader).
func (t *NewTopic) Draw(random io.Reader, partitions int) error {
	if partitions < 1 {
		return fmt.Errorf("%w: %d; a topic has at least one", ErrInvalidPartitions, partitions)
	}
	if err := CheckPartitionTotal(partitions); err != nil {
		return err
	}
	var err error
	if t.ID, err = DrawTopicID(random); err != nil {
		return err
	}
	t.LogIDs = make([]LogID, partitions)
	for i := range t.LogIDs {
		if t.LogIDs[i], err = DrawLogID(random); err != nil {
			return err
		}
	}
	return nil
}

// CheckPartitionTotal returns an ErrTooManyPartitions when one request would create so many partitions, of
// all its topics together. It comes before anything is drawn for any of them.
func CheckPartitionTotal(total int) error {
	if total > PartitionsPerRequestMax {
		return fmt.Errorf("%w: %d in one request, which creates at most %d", ErrTooManyPartitions, total, PartitionsPerRequestMax)
	}
	return nil
}

// DeleteTopics deletes topics by id; each succeeds or fails for itself. An id,
// unlike a name, cannot hit a topic that was created anew in between.
type DeleteTopics struct {
	IDs []TopicID
}

// RemoveTombstones says that a broker's disk no longer holds the files of these logs.
type RemoveTombstones struct {
	Broker int32
	LogIDs []LogID
}

// AllocateProducerIDs gives a broker the next ProducerIDBlockSize producer ids.
// Nobody gets one of them again, ever, not even when the answer is lost.
type AllocateProducerIDs struct {
	Broker int32
	// BrokerEpoch is the asking broker's Epoch: an older start of it gets nothing.
	BrokerEpoch int64
}
