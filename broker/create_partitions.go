package broker

import (
	"context"
	"crypto/rand"
	"fmt"

	"ringlog/meta"
)

// PartitionsSpec asks for more partitions of a topic.
type PartitionsSpec struct {
	Name string
	// Count is how many partitions the topic is to have.
	Count int32
	// Replicas names the replicas of each new partition; nil leaves that to the cluster.
	Replicas [][]int32
}

// CreatePartitions adds partitions to topics, each succeeding or failing for itself, and
// returns when their logs are ready to be written; a topic is named once. A partition
// whose log cannot be made is there, and its topic answered with ErrLogOffline. Answers come in the order of
// specs. The error is that of the request as a whole.
func (b *Broker) CreatePartitions(ctx context.Context, specs []PartitionsSpec, validateOnly bool) ([]error, error) {
	ctx, cancel := b.withClosing(ctx)
	defer cancel()
	answers := make([]error, len(specs))
	image := b.Image()
	if err := meta.CheckPartitionTotal(partitionsAdded(image, specs)); err != nil {
		for i := range answers {
			answers[i] = err
		}
		return answers, nil
	}
	var asked meta.CreatePartitions
	var at []int // of each topic in asked, its place in answers
	for i := range specs {
		more, err := morePartitions(image, &specs[i])
		if err != nil {
			answers[i] = err
			continue
		}
		asked.Topics, at = append(asked.Topics, more), append(at, i)
	}
	command, refused := image.CheckMorePartitions(asked)
	accepted := make([]int, 0, len(command.Topics)) // of each topic in command, its place in answers
	for n, i := range at {
		if err, is := refused[n]; is {
			answers[i] = err
			continue
		}
		accepted = append(accepted, i)
	}
	if len(command.Topics) == 0 || validateOnly {
		return answers, nil
	}
	result, err := b.options.Controller.Propose(ctx, command)
	if err != nil {
		return nil, fmt.Errorf("%w: create partitions: %w", ErrControlPlane, err)
	}
	created := result.(meta.CreatePartitionsResult)
	ready := b.awaitPartitions(ctx, created.Index)
	for n := range created.Topics {
		answers[accepted[n]] = created.Topics[n].Err
		if topic := created.Topics[n].Topic; topic != nil && ready {
			answers[accepted[n]] = b.offline(topic)
		}
	}
	return answers, nil
}

// partitionsAdded is how many partitions specs add to topics that are there.
func partitionsAdded(image *meta.Image, specs []PartitionsSpec) (total int) {
	for i := range specs {
		if topic, ok := image.Topic(specs[i].Name); ok {
			total += max(int(specs[i].Count)-len(topic.Partitions), 0)
		}
	}
	return total
}

// morePartitions resolves a spec and draws ids. Faults of the numbers are left to
// meta.CheckMorePartitions.
func morePartitions(image *meta.Image, spec *PartitionsSpec) (meta.MorePartitions, error) {
	topic, ok := image.Topic(spec.Name)
	if !ok {
		return meta.MorePartitions{}, fmt.Errorf("%w: %s", ErrUnknownTopic, spec.Name)
	}
	if topic.Internal { // which group belongs to which partition must not change
		return meta.MorePartitions{}, fmt.Errorf("%w: %s", ErrInternalTopic, spec.Name)
	}
	more := meta.MorePartitions{Topic: topic.ID, Count: spec.Count, Replicas: spec.Replicas}
	return more, more.Draw(rand.Reader, len(topic.Partitions))
}

// awaitPartitions waits until the view has what was created. Partitions whose logs take too
// long are there nevertheless: the answer stands, produces find out.
func (b *Broker) awaitPartitions(ctx context.Context, index uint64) (ready bool) {
	ctx, cancel := context.WithTimeout(ctx, b.options.TopicReadyTimeout)
	defer cancel()
	if err := b.awaitIndex(ctx, index); err != nil {
		b.limitedLogger.Warn("partitions were created, but their logs are not ready in time", "image", index, "error", err)
		return false
	}
	return true
}
