package meta

import (
	"bytes"
	"iter"
	"slices"
	"strings"
)

// Image is the cluster at one index of the metadata log. It is immutable.
type Image struct {
	// ClusterID is "" until the cluster is formatted.
	ClusterID string
	// Index is where in the metadata log this image stands: it has all commands up to it.
	Index uint64
	// ControllerID is the broker that answers for the controller, or -1. It is
	// no part of the log: raftctl sets it from what its quorum says.
	ControllerID int32

	topics         []*Topic // in name order
	topicsByName   *index[*Topic]
	topicsByID     *index[*Topic]
	collisions     *index[string]   // topic name by its name with '.' replaced by '_'
	brokers        []*Broker        // in id order
	tombstones     []*Tombstone     // in log id order
	brokerConfigs  []*BrokerConfigs // in id order, EveryBroker first
	groupConfigs   []*GroupConfigs  // in the order of the groups' ids
	partitions     int              // of all topics
	replicas       map[int32]int    // how many each broker holds; copied when changed
	placements     uint64           // partitions ever placed; where the next one starts
	nextProducerID int64            // the first one that no block holds
}

// Tombstone remembers the log of a deleted partition until every broker that
// had it reports its files gone. A broker that finds a log on its disk removes it
// only if there is a tombstone: a log that is merely unknown is kept.
type Tombstone struct {
	LogID LogID
	Label string // "orders-3", for people
	// Brokers still have to remove their files; in id order, never empty.
	Brokers []int32
}

// NewImage returns the image before the first command.
func NewImage() *Image { return &Image{ControllerID: -1} }

// WithController returns the image with another ControllerID.
func (i *Image) WithController(id int32) *Image {
	next := *i
	next.ControllerID = id
	return &next
}

// WithIndex returns the image after an entry of the metadata log at index that
// carries no command.
func (i *Image) WithIndex(index uint64) *Image {
	next := *i
	next.Index = index
	return &next
}

// Topic returns the topic of that name.
func (i *Image) Topic(name string) (*Topic, bool) { return i.topicsByName.get(name) }

// TopicOfBytes is Topic for a name still inside a request; it does not allocate.
func (i *Image) TopicOfBytes(name []byte) (*Topic, bool) { return i.topicsByName.getBytes(name) }

// TopicByID returns the topic with that id.
func (i *Image) TopicByID(id TopicID) (*Topic, bool) { return i.topicsByID.getBytes(id[:]) }

// Topics goes over all topics in name order.
func (i *Image) Topics() iter.Seq[*Topic] { return slices.Values(i.topics) }

// TopicsFrom goes over the topics whose names are name or come after it, in order:
// where a paged listing goes on.
func (i *Image) TopicsFrom(name string) iter.Seq[*Topic] {
	at, _ := slices.BinarySearchFunc(i.topics, name, compareTopicName)
	return slices.Values(i.topics[at:])
}

// TopicCount is the number of topics.
func (i *Image) TopicCount() int { return len(i.topics) }

// PartitionCount is the number of partitions of all topics.
func (i *Image) PartitionCount() int { return i.partitions }

// Brokers returns all brokers in id order. The slice must not be changed.
func (i *Image) Brokers() []*Broker { return i.brokers }

// Broker returns the broker with that id.
func (i *Image) Broker(id int32) (*Broker, bool) {
	at, found := slices.BinarySearchFunc(i.brokers, id, compareBrokerID)
	if !found {
		return nil, false
	}
	return i.brokers[at], true
}

// Tombstoned reports whether the log belonged to a deleted partition and some
// broker has not yet reported its files gone.
func (i *Image) Tombstoned(id LogID) bool {
	_, found := i.tombstone(id)
	return found
}

// Tombstones returns all tombstones in log id order. The slice must not be changed.
func (i *Image) Tombstones() []*Tombstone { return i.tombstones }

// NextProducerID is the first producer id that was never given away.
func (i *Image) NextProducerID() int64 { return i.nextProducerID }

func (i *Image) tombstone(id LogID) (int, bool) {
	return slices.BinarySearchFunc(i.tombstones, id, compareTombstone)
}

func compareTopicName(t *Topic, name string) int { return strings.Compare(t.Name, name) }

func compareBrokerID(b *Broker, id int32) int { return int(b.ID) - int(id) }

func compareTombstone(t *Tombstone, id LogID) int { return bytes.Compare(t.LogID[:], id[:]) }

func compareTombstones(a, b *Tombstone) int { return bytes.Compare(a.LogID[:], b.LogID[:]) }

func compareLogIDs(a, b LogID) int { return bytes.Compare(a[:], b[:]) }
