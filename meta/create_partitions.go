package meta

import (
	"fmt"
	"io"
	"slices"
)

// CreatePartitions adds partitions to topics; each topic succeeds or fails for itself.
type CreatePartitions struct {
	Topics []MorePartitions
}

// MorePartitions is one topic of a CreatePartitions. The number of its LogIDs says how many
// partitions come to those that it has.
type MorePartitions struct {
	Topic TopicID
	// Count is how many partitions the topic is to have.
	Count int32
	// LogIDs are those of the new partitions, drawn by the proposer: see Draw.
	LogIDs []LogID
	// Replicas names the replicas of each new partition by hand, or is nil.
	Replicas [][]int32
}

// Draw fills LogIDs for a topic that has so many partitions now.
func (m *MorePartitions) Draw(random io.Reader, present int) error {
	added := int(m.Count) - present
	if added <= 0 {
		return nil // nothing is added: CheckMorePartitions says so
	}
	if err := CheckPartitionTotal(added); err != nil {
		return err
	}
	m.LogIDs = make([]LogID, added)
	for i := range m.LogIDs {
		var err error
		if m.LogIDs[i], err = DrawLogID(random); err != nil {
			return err
		}
	}
	return nil
}

// CheckMorePartitions sorts out, before command is proposed, which of its topics could get
// their partitions on image now: those are in accepted, in their order; refused has the others
// by their place in the command. A validate-only request ends here.
func (i *Image) CheckMorePartitions(command CreatePartitions) (accepted CreatePartitions, refused map[int]error) {
	c := &change{next: &Image{}}
	*c.next = *i
	placing := c.newPlacement()
	refused = make(map[int]error)
	total := 0
	for n := range command.Topics {
		total += len(command.Topics[n].LogIDs)
	}
	for n := range command.Topics {
		more := &command.Topics[n]
		err := CheckPartitionTotal(total)
		if err == nil {
			_, err = c.grown(placing, more)
		}
		if err != nil {
			refused[n] = err
			continue
		}
		accepted.Topics = append(accepted.Topics, *more)
	}
	return accepted, refused
}

func (c *change) createPartitions(command CreatePartitions) (Result, error) {
	total := 0
	for n := range command.Topics {
		total += len(command.Topics[n].LogIDs)
	}
	if err := CheckPartitionTotal(total); err != nil {
		return nil, err
	}
	placing, topics := c.newPlacement(), c.editTopics()
	results := make([]TopicResult, len(command.Topics))
	seen := make(map[TopicID]bool, len(command.Topics))
	for n := range command.Topics {
		more := &command.Topics[n]
		results[n].ID = more.Topic
		if seen[more.Topic] {
			results[n].Err = fmt.Errorf("%w: duplicate topic", ErrInvalidRequest)
			continue
		}
		topic, err := c.grown(placing, more)
		if err != nil {
			results[n].Err = err
			continue
		}
		seen[more.Topic] = true
		results[n].Name, results[n].Topic = topic.Name, topic
		c.next.partitions += len(more.LogIDs)
		topics.put(topic)
	}
	topics.done()
	c.next.placements, c.next.replicas = placing.next, placing.held
	return CreatePartitionsResult{Index: c.next.Index, Topics: results}, nil
}

// grown returns the topic with its new partitions, or why it cannot have them.
func (c *change) grown(placing *placement, more *MorePartitions) (*Topic, error) {
	topic, ok := c.next.TopicByID(more.Topic)
	if !ok {
		return nil, fmt.Errorf("%w: no topic has id %s", ErrUnknownTopic, more.Topic)
	}
	present, added := len(topic.Partitions), len(more.LogIDs)
	switch {
	case int(more.Count) == present:
		return nil, fmt.Errorf("%w: topic already has %d partition(s)", ErrInvalidPartitions, present)
	case int(more.Count) < present:
		return nil, fmt.Errorf("%w: the topic %s currently has %d partition(s); %d would not be an increase", ErrInvalidPartitions, topic.Name, present, more.Count)
	case int(more.Count) != present+added:
		return nil, fmt.Errorf("%w: the topic %s has %d partition(s) by now", ErrInvalidPartitions, topic.Name, present)
	case more.Replicas != nil && len(more.Replicas) != added:
		return nil, fmt.Errorf("%w: attempted to add %d additional partition(s), but only %d assignment(s) were specified", ErrInvalidReplicaAssignment, added, len(more.Replicas))
	}
	factor := topic.ReplicationFactor()
	for n, replicas := range more.Replicas {
		if len(replicas) != factor {
			return nil, fmt.Errorf("%w: the assignment of partition %d specifies %d replica(s), but expected %d", ErrInvalidReplicaAssignment, present+n, len(replicas), factor)
		}
	}
	asked := NewTopic{Name: topic.Name, LogIDs: more.LogIDs, Replicas: more.Replicas}
	if more.Replicas == nil {
		asked.ReplicationFactor = int16(factor)
	}
	replicas, err := placing.place(&asked)
	if err != nil {
		return nil, err
	}
	grown := *topic
	grown.Partitions = slices.Grow(slices.Clone(topic.Partitions), added)
	for n, id := range more.LogIDs {
		grown.Partitions = append(grown.Partitions, Partition{ID: int32(present + n), LogID: id, Leader: replicas[n][0], Replicas: replicas[n], ISR: replicas[n]})
	}
	return &grown, nil
}
