package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"ringlog/meta"
)

// TopicSpec asks for a topic.
type TopicSpec struct {
	Name string
	// Partitions and ReplicationFactor are -1 for the broker's defaults, and when
	// Replicas names the replicas of each partition.
	Partitions        int32
	ReplicationFactor int16
	Replicas          [][]int32
	Configs           map[string]string
}

// CreatedTopic answers one TopicSpec.
type CreatedTopic struct {
	Name string
	// Topic is what was created, or would be with validateOnly (it then has no
	// id). It is nil when Err is not, also when the topic exists with logs that
	// are offline.
	Topic *meta.Topic
	Err   error
}

// CreateTopics creates topics, each succeeding or failing for itself, and
// returns when their logs are ready to be written. More than meta.PartitionsPerRequestMax partitions in
// all are refused for every topic. A topic whose logs cannot be made is
// there, and answered with ErrLogOffline. Answers come in the order of
// specs. The error is that of the request as a whole.
func (b *Broker) CreateTopics(ctx context.Context, specs []TopicSpec, validateOnly bool) ([]CreatedTopic, error) {
	ctx, cancel := b.withClosing(ctx)
	defer cancel()
	answers := make([]CreatedTopic, len(specs))
	if err := meta.CheckPartitionTotal(b.partitionsAsked(specs)); err != nil {
		for i := range specs {
			answers[i] = CreatedTopic{Name: specs[i].Name, Err: err}
		}
		return answers, nil
	}
	var command meta.CreateTopics
	named := make(map[string]int, len(specs)) // how often
	for i := range specs {
		named[specs[i].Name]++
	}
	at := make(map[string]int, len(specs)) // of each topic in command, its place in answers
	for i := range specs {
		answers[i].Name = specs[i].Name
		if named[specs[i].Name] > 1 {
			answers[i].Err = fmt.Errorf("%w: topic %q is named %d times", meta.ErrInvalidRequest, specs[i].Name, named[specs[i].Name])
			continue
		}
		topic, err := b.newTopic(&specs[i])
		if err != nil {
			answers[i].Err = err
			continue
		}
		at[topic.Name] = i
		command.Topics = append(command.Topics, topic)
	}
	image := b.Image()
	command, refused := image.CheckTopics(command)
	for _, r := range refused {
		answers[at[r.Name]].Err = r.Err
	}
	if len(command.Topics) == 0 {
		return answers, nil
	}
	if validateOnly {
		for i := range command.Topics {
			answers[at[command.Topics[i].Name]].Topic = wouldBe(&command.Topics[i])
		}
		return answers, nil
	}
	result, err := b.options.Controller.Propose(ctx, command)
	if err != nil {
		return nil, fmt.Errorf("%w: create topics: %w", ErrControlPlane, err)
	}
	for _, r := range result.(meta.CreateTopicsResult).Topics {
		answers[at[r.Name]].Topic, answers[at[r.Name]].Err = r.Topic, r.Err
	}
	b.awaitCreated(ctx, answers)
	return answers, nil
}

// partitionsAsked is how many partitions specs ask for.
func (b *Broker) partitionsAsked(specs []TopicSpec) (total int) {
	for i := range specs {
		switch count := specs[i].Partitions; {
		case specs[i].Replicas != nil:
			total += len(specs[i].Replicas)
		case count == -1:
			total += int(b.options.NumPartitions)
		case count > 0: // others are refused
			total += int(count)
		}
	}
	return total
}

// newTopic resolves defaults and draws ids. Faults are looked for in Kafka's
// order: the name first, then whether it is taken, then the numbers.
func (b *Broker) newTopic(spec *TopicSpec) (meta.NewTopic, error) {
	if err := meta.CheckTopicName(spec.Name); err != nil {
		return meta.NewTopic{}, err
	}
	if meta.InternalTopicName(spec.Name) {
		return meta.NewTopic{}, fmt.Errorf("%w: %s is created when it is needed", ErrInternalTopic, spec.Name)
	}
	if _, there := b.Image().Topic(spec.Name); there {
		return meta.NewTopic{}, fmt.Errorf("%w: %s", meta.ErrTopicExists, spec.Name)
	}
	topic := meta.NewTopic{Name: spec.Name, ReplicationFactor: spec.ReplicationFactor, Replicas: spec.Replicas, Configs: spec.Configs}
	partitions := spec.Partitions
	if spec.Replicas != nil {
		partitions, topic.ReplicationFactor = int32(len(spec.Replicas)), 0
	} else {
		if partitions == -1 {
			partitions = b.options.NumPartitions
		}
		if topic.ReplicationFactor == -1 {
			topic.ReplicationFactor = b.options.ReplicationFactor
		} else if topic.ReplicationFactor < 1 {
			return topic, fmt.Errorf("%w: %d; it has to be larger than 0, or -1 for the broker's default", meta.ErrInvalidReplicationFactor, topic.ReplicationFactor)
		}
	}
	return topic, topic.Draw(rand.Reader, int(partitions))
}

// wouldBe is the topic that a validated request would create.
func wouldBe(t *meta.NewTopic) *meta.Topic {
	topic := &meta.Topic{Name: t.Name, Configs: t.Configs, Partitions: make([]meta.Partition, len(t.LogIDs))}
	for i := range topic.Partitions {
		topic.Partitions[i].ID = int32(i)
		if t.Replicas != nil {
			topic.Partitions[i].Replicas = t.Replicas[i]
		} else {
			topic.Partitions[i].Replicas = make([]int32, t.ReplicationFactor)
		}
	}
	return topic
}

// awaitCreated waits until the view has what was created. A topic whose logs take
// too long is there nevertheless: its answer stands, produces find out.
func (b *Broker) awaitCreated(ctx context.Context, answers []CreatedTopic) {
	ctx, cancel := context.WithTimeout(ctx, b.options.TopicReadyTimeout)
	defer cancel()
	for i := range answers {
		if answers[i].Topic == nil {
			continue
		}
		index := b.Image().Index
		err := b.await(ctx, func(image *meta.Image) bool {
			// Somebody may have deleted it meanwhile; an image that is newer
			// and does not have it must not be waited on for ever.
			_, ok := image.TopicByID(answers[i].Topic.ID)
			return ok || image.Tombstoned(answers[i].Topic.Partitions[0].LogID)
		})
		if err != nil {
			b.limitedLogger.Warn("topic was created, but its logs are not ready in time", "topic", answers[i].Name, "image", index, "error", err)
			return
		}
		if err := b.offline(answers[i].Topic); err != nil {
			answers[i].Topic, answers[i].Err = nil, err
		}
	}
}

// offline returns why a topic that was created is not served whole: a log of it
// could not be made, for lack of file descriptors or because its disk failed.
//
// Kafka's controller answers success as soon as the metadata is written, and a broker
// that cannot make a log takes the whole directory offline: whoever looks sees
// partitions without a leader. Here the broker that answers is the one that failed, and it stays
// the leader, so that a success would be a claim known to be false. The topic is not
// taken back, which could fail for the same reason: the answer is
// KAFKA_STORAGE_ERROR while the topic exists, as Kafka's REQUEST_TIMED_OUT does for
// a topic that is not ready in time, and the logs are tried again by the reconciler.
func (b *Broker) offline(created *meta.Topic) error {
	topic, err := b.TopicByID(created.ID)
	if err != nil {
		return nil // deleted meanwhile: it was there
	}
	count := 0
	for i := range topic.logs {
		if topic.logs[i].err != nil {
			count++
			err = topic.logs[i].err
		}
	}
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%w: topic %q exists, but %d of its %d logs could not be made and are tried again: %w",
		ErrLogOffline, created.Name, count, len(topic.logs), err)
}

// DeletedTopic answers one topic of DeleteTopics.
type DeletedTopic struct {
	Name string // "" when an id is unknown
	ID   meta.TopicID
	Err  error
}

// DeleteTopics deletes topics by id, each succeeding or failing for itself, and
// returns when no request finds them any more.
func (b *Broker) DeleteTopics(ctx context.Context, ids []meta.TopicID) ([]DeletedTopic, error) {
	ctx, cancel := b.withClosing(ctx)
	defer cancel()
	result, err := b.options.Controller.Propose(ctx, meta.DeleteTopics{IDs: ids})
	if err != nil {
		return nil, fmt.Errorf("%w: delete topics: %w", ErrControlPlane, err)
	}
	answers := make([]DeletedTopic, 0, len(ids))
	for _, r := range result.(meta.DeleteTopicsResult).Topics {
		answer := DeletedTopic{Name: r.Name, ID: r.ID, Err: r.Err}
		if r.Err == nil {
			answer.Err = b.await(ctx, func(image *meta.Image) bool {
				_, ok := image.TopicByID(r.ID)
				return !ok
			})
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

const (
	// autoCreationsMax bounds the topics that are being created on demand at once.
	autoCreationsMax = 1000
)

// autoCreations are the topics that are being created because a client named
// them: a thousand clients that ask at once make one topic.
type autoCreations struct {
	mu      sync.Mutex
	running map[string]bool
}

// AutoCreateTopic begins to create a topic with the broker's defaults and does
// not wait. nil says that it is under way: the client asks again. An error says
// that a topic of that name cannot be created.
func (b *Broker) AutoCreateTopic(name string) error {
	if err := meta.CheckTopicName(name); err != nil {
		return err
	}
	c := &b.creating
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[name] || len(c.running) >= autoCreationsMax {
		return nil
	}
	if meta.InternalTopicName(name) {
		b.startCreatingLocked(name, func() error {
			_, err := b.ensureOffsetsTopic(b.closing)
			return err
		})
		return nil
	}
	spec := TopicSpec{Name: name, Partitions: -1, ReplicationFactor: -1}
	if answers, err := b.CreateTopics(b.closing, []TopicSpec{spec}, true); err == nil && answers[0].Err != nil {
		if errors.Is(answers[0].Err, meta.ErrTopicExists) {
			return nil // somebody was faster
		}
		return answers[0].Err
	}
	b.startCreatingLocked(name, func() error {
		answers, err := b.CreateTopics(b.closing, []TopicSpec{spec}, false)
		if err == nil {
			err = answers[0].Err
		}
		return err
	})
	return nil
}

// startCreatingLocked runs create and notes that it does. REQUIRES: creating.mu is held.
func (b *Broker) startCreatingLocked(name string, create func() error) {
	c := &b.creating
	if c.running == nil {
		c.running = make(map[string]bool)
	}
	c.running[name] = true
	go func() {
		err := create()
		if err != nil && b.closing.Err() == nil && !errors.Is(err, meta.ErrTopicExists) {
			b.limitedLogger.Warn("topic is not created on demand", "topic", name, "error", err)
		}
		c.mu.Lock()
		delete(c.running, name)
		c.mu.Unlock()
	}()
}
