package meta

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Apply returns the image after command, which stands at index of the metadata
// log. It depends on nothing but its arguments, so that every broker, and every
// replay, comes to the same image.
//
// When the command as a whole is refused the error says why, the result is nil
// and the image has changed in its Index alone. Commands that name several topics or
// resources do not fail as a whole over one of them: see TopicResult.Err.
//
// What Apply refuses depends on the image only. Whether a configuration is known and
// its value sound depends on the version of this program, and must not be asked
// here, where brokers of two versions have to agree: the proposer asks CheckTopics
// and CheckAlteration.
func Apply(image *Image, index uint64, command Command) (*Image, Delta, Result, error) {
	next := *image
	next.Index = index
	c := &change{next: &next, delta: Delta{Index: index}}
	result, err := c.apply(command)
	if err != nil {
		refused := *image
		refused.Index = index
		return &refused, Delta{Index: index}, nil, err
	}
	return &next, c.delta, result, nil
}

// change is one command being applied: next starts as a shallow copy of the
// image, and whatever it shares with the image is copied before it is written.
type change struct {
	next  *Image
	delta Delta
}

func (c *change) apply(command Command) (Result, error) {
	if format, ok := command.(FormatCluster); ok {
		return c.formatCluster(format)
	}
	if c.next.ClusterID == "" {
		return nil, ErrNotFormatted
	}
	switch command := command.(type) {
	case StartBroker:
		return c.startBroker(command)
	case CreateTopics:
		return c.createTopics(command)
	case DeleteTopics:
		return c.deleteTopics(command)
	case RemoveTombstones:
		return c.removeTombstones(command)
	case AllocateProducerIDs:
		return c.allocateProducerIDs(command)
	case AlterConfigs:
		return c.alterConfigs(command)
	case CreatePartitions:
		return c.createPartitions(command)
	}
	panic(fmt.Sprintf("meta: Apply of %T", command))
}

func (c *change) formatCluster(command FormatCluster) (Result, error) {
	if c.next.ClusterID != "" {
		return nil, fmt.Errorf("%w as %s", ErrAlreadyFormatted, c.next.ClusterID)
	}
	if command.ClusterID == "" {
		return nil, fmt.Errorf("%w: the cluster id is empty", ErrInvalidRequest)
	}
	c.next.ClusterID = command.ClusterID
	return FormatClusterResult{}, nil
}

// startBroker grants the broker one leader epoch for everything it leads.
func (c *change) startBroker(command StartBroker) (Result, error) {
	if command.ID < 0 {
		return nil, fmt.Errorf("%w: broker id %d is negative", ErrInvalidRequest, command.ID)
	}
	epochMax := max(command.LogsEpochMax, -1)
	leads := func(t *Topic) bool {
		return slices.ContainsFunc(t.Partitions, func(p Partition) bool { return p.Leader == command.ID })
	}
	var led []int
	for at, topic := range c.next.topics {
		if !leads(topic) {
			continue
		}
		led = append(led, at)
		for _, partition := range topic.Partitions {
			if partition.Leader == command.ID {
				epochMax = max(epochMax, partition.LeaderEpoch)
			}
		}
	}
	if epochMax == math.MaxInt32 {
		return nil, fmt.Errorf("%w: broker %d has a log or a partition at epoch %d", ErrEpochsExhausted, command.ID, epochMax)
	}
	granted := epochMax + 1

	topics := slices.Clone(c.next.topics)
	byName, byID := c.next.topicsByName.edit(), c.next.topicsByID.edit()
	for _, at := range led {
		topic := *topics[at]
		topic.Partitions = slices.Clone(topic.Partitions)
		for i := range topic.Partitions {
			if p := &topic.Partitions[i]; p.Leader == command.ID {
				p.LeaderEpoch = granted
				p.PartitionEpoch++
			}
		}
		topics[at] = &topic
		byName.put(topic.Name, &topic)
		byID.put(string(topic.ID[:]), &topic)
		c.delta.TopicsChanged = append(c.delta.TopicsChanged, &topic)
	}
	c.next.topics, c.next.topicsByName, c.next.topicsByID = topics, byName.done(), byID.done()

	broker := &Broker{ID: command.ID, Host: command.Host, Port: command.Port, Rack: command.Rack,
		Epoch: int64(c.next.Index), LeaderEpoch: granted, DirectoryID: command.DirectoryID}
	at, there := slices.BinarySearchFunc(c.next.brokers, command.ID, compareBrokerID)
	c.next.brokers = slices.Clone(c.next.brokers)
	if there {
		c.next.brokers[at] = broker
	} else {
		c.next.brokers = slices.Insert(c.next.brokers, at, broker)
	}
	c.delta.BrokersChanged = []*Broker{broker}
	return StartBrokerResult{BrokerEpoch: broker.Epoch, LeaderEpoch: granted}, nil
}

func (c *change) deleteTopics(command DeleteTopics) (Result, error) {
	byName, byID, collisions := c.next.topicsByName.edit(), c.next.topicsByID.edit(), c.next.collisions.edit()
	results := make([]TopicResult, len(command.IDs))
	deleted := make(map[string]bool, len(command.IDs))
	replicas := maps.Clone(c.next.replicas)
	var tombstones []*Tombstone
	for i, id := range command.IDs {
		results[i].ID = id
		topic, ok := byID.next.getBytes(id[:])
		if !ok {
			results[i].Err = fmt.Errorf("%w: no topic has id %s", ErrUnknownTopic, id)
			continue
		}
		results[i].Name, results[i].Topic = topic.Name, topic
		deleted[topic.Name] = true
		byName.remove(topic.Name)
		byID.remove(string(id[:]))
		collisions.remove(collisionName(topic.Name))
		c.next.partitions -= len(topic.Partitions)
		c.delta.TopicsDeleted = append(c.delta.TopicsDeleted, topic)
		for p := range topic.Partitions {
			tombstones = append(tombstones, newTombstone(topic, &topic.Partitions[p]))
			for _, broker := range topic.Partitions[p].Replicas {
				replicas[broker]--
			}
		}
	}
	if len(deleted) == 0 {
		return DeleteTopicsResult{Topics: results}, nil
	}
	c.next.topics = slices.DeleteFunc(slices.Clone(c.next.topics), func(t *Topic) bool { return deleted[t.Name] })
	c.next.topicsByName, c.next.topicsByID, c.next.collisions = byName.done(), byID.done(), collisions.done()
	c.next.replicas = replicas
	c.next.tombstones = slices.Concat(c.next.tombstones, tombstones)
	slices.SortFunc(c.next.tombstones, compareTombstones)
	slices.SortFunc(c.delta.TopicsDeleted, compareTopics)
	return DeleteTopicsResult{Topics: results}, nil
}

func newTombstone(topic *Topic, partition *Partition) *Tombstone {
	brokers := slices.Clone(partition.Replicas)
	slices.Sort(brokers)
	return &Tombstone{LogID: partition.LogID, Label: fmt.Sprintf("%s-%d", topic.Name, partition.ID), Brokers: brokers}
}

func (c *change) removeTombstones(command RemoveTombstones) (Result, error) {
	tombstones := slices.Clone(c.next.tombstones)
	for _, id := range command.LogIDs {
		at, found := c.next.tombstone(id)
		if !found || tombstones[at] == nil {
			continue // another report of the same files, already counted
		}
		place := slices.Index(tombstones[at].Brokers, command.Broker)
		if place < 0 {
			continue
		}
		if len(tombstones[at].Brokers) == 1 {
			tombstones[at] = nil
			c.delta.TombstonesRemoved = append(c.delta.TombstonesRemoved, id)
			continue
		}
		left := *tombstones[at]
		left.Brokers = slices.Delete(slices.Clone(left.Brokers), place, place+1)
		tombstones[at] = &left
	}
	c.next.tombstones = slices.DeleteFunc(tombstones, func(t *Tombstone) bool { return t == nil })
	slices.SortFunc(c.delta.TombstonesRemoved, compareLogIDs)
	return RemoveTombstonesResult{Removed: len(c.delta.TombstonesRemoved)}, nil
}

func (c *change) allocateProducerIDs(command AllocateProducerIDs) (Result, error) {
	broker, ok := c.next.Broker(command.Broker)
	if !ok {
		return nil, fmt.Errorf("%w: %d", ErrUnknownBroker, command.Broker)
	}
	if broker.Epoch != command.BrokerEpoch {
		return nil, fmt.Errorf("%w: broker %d is at %d, the request came from %d", ErrStaleBroker, command.Broker, broker.Epoch, command.BrokerEpoch)
	}
	first := c.next.nextProducerID
	if first > math.MaxInt64-ProducerIDBlockSize {
		return nil, ErrProducerIDsExhausted
	}
	c.next.nextProducerID = first + ProducerIDBlockSize
	return AllocateProducerIDsResult{First: first, Count: ProducerIDBlockSize}, nil
}
