package meta

import (
	"fmt"
	"slices"
)

// CheckTopics sorts out, before command is proposed, which of its topics could
// be created on image now: those are in accepted, in their order; the others are in
// refused with their errors, in the order in which Kafka looks for faults. It is
// the one place where configurations are checked. A validate-only request ends here;
// that a topic of the same name is created in between is found again by Apply.
func (i *Image) CheckTopics(command CreateTopics) (accepted CreateTopics, refused []TopicResult) {
	total := 0
	for n := range command.Topics {
		total += len(command.Topics[n].LogIDs)
	}
	tooMany := CheckPartitionTotal(total)
	names := make(map[string]int, len(command.Topics))
	for n := range command.Topics {
		names[command.Topics[n].Name]++
	}
	c := &change{next: &Image{}}
	*c.next = *i
	placing := c.newPlacement()
	for n := range command.Topics {
		topic := &command.Topics[n]
		var err error
		switch {
		case names[topic.Name] > 1:
			err = fmt.Errorf("%w: topic %q is named twice", ErrInvalidRequest, topic.Name)
		case tooMany != nil:
			err = tooMany
		default:
			err = i.checkTopic(placing, topic)
		}
		if err != nil {
			refused = append(refused, TopicResult{Name: topic.Name, Err: err})
			continue
		}
		accepted.Topics = append(accepted.Topics, *topic)
	}
	return accepted, refused
}

func (i *Image) checkTopic(placing *placement, topic *NewTopic) error {
	if err := i.checkNewName(topic.Name); err != nil {
		return err
	}
	if err := CheckTopicConfigs(topic.Configs); err != nil {
		return err
	}
	_, err := placing.place(topic)
	return err
}

// checkNewName says why a topic of that name cannot be created on i, or nil.
func (i *Image) checkNewName(name string) error {
	if err := CheckTopicName(name); err != nil {
		return err
	}
	if other, there := i.collisions.get(collisionName(name)); there {
		if other == name {
			return fmt.Errorf("%w: %s", ErrTopicExists, name)
		}
		return fmt.Errorf("%w: %q collides with topic %q, as '.' and '_' are the same in metric names", ErrInvalidTopicName, name, other)
	}
	return nil
}

func (c *change) createTopics(command CreateTopics) (Result, error) {
	total := 0
	for n := range command.Topics {
		total += len(command.Topics[n].LogIDs)
	}
	if err := CheckPartitionTotal(total); err != nil {
		return nil, err
	}
	byName, byID, collisions := c.next.topicsByName.edit(), c.next.topicsByID.edit(), c.next.collisions.edit()
	// The edited indexes are read by the checks too, so that a name taken by an
	// earlier topic of this command is found.
	c.next.topicsByName, c.next.topicsByID, c.next.collisions = byName.next, byID.next, collisions.next
	placing := c.newPlacement()
	results := make([]TopicResult, len(command.Topics))
	for n := range command.Topics {
		results[n].Name, results[n].ID = command.Topics[n].Name, command.Topics[n].ID
		topic, err := c.newTopic(placing, &command.Topics[n])
		if err != nil {
			results[n].Err = err
			continue
		}
		results[n].Topic = topic
		byName.put(topic.Name, topic)
		byID.put(string(topic.ID[:]), topic)
		collisions.put(collisionName(topic.Name), topic.Name)
		c.next.partitions += len(topic.Partitions)
		c.delta.TopicsCreated = append(c.delta.TopicsCreated, topic)
	}
	c.next.placements, c.next.replicas = placing.next, placing.held
	slices.SortFunc(c.delta.TopicsCreated, compareTopics)
	c.next.topics = mergeTopics(c.next.topics, c.delta.TopicsCreated)
	return CreateTopicsResult{Topics: results}, nil
}

// newTopic checks one topic and builds it.
func (c *change) newTopic(placing *placement, command *NewTopic) (*Topic, error) {
	if err := c.next.checkNewName(command.Name); err != nil {
		return nil, err
	}
	if other, there := c.next.TopicByID(command.ID); there || command.ID.IsZero() {
		if !there {
			return nil, fmt.Errorf("%w: topic %q has no id", ErrInvalidRequest, command.Name)
		}
		return nil, fmt.Errorf("%w: id %s of topic %q belongs to %q", ErrInvalidRequest, command.ID, command.Name, other.Name)
	}
	replicas, err := placing.place(command)
	if err != nil {
		return nil, err
	}
	topic := &Topic{Name: command.Name, ID: command.ID, Configs: command.Configs, Internal: command.Internal,
		Partitions: make([]Partition, len(command.LogIDs))}
	for n := range topic.Partitions {
		topic.Partitions[n] = Partition{ID: int32(n), LogID: command.LogIDs[n], Leader: replicas[n][0],
			Replicas: replicas[n], ISR: replicas[n]}
	}
	return topic, nil
}

// mergeTopics merges two slices in name order into a new one.
func mergeTopics(a, b []*Topic) []*Topic {
	merged := make([]*Topic, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].Name < b[0].Name {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}
