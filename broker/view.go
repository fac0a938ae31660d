package broker

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"ringlog/engine"
	"ringlog/meta"
	"ringlog/record"
)

// view is what requests see: an image that was carried out. It is immutable and
// replaced as a whole.
type view struct {
	image *meta.Image
	// defaults are what holds on topics that set nothing, by image's dynamic configurations.
	defaults *meta.Defaults
	// replaced is closed when a newer view was published.
	replaced chan struct{}
}

// Topic is a topic as this broker serves it, with its logs. It is immutable; a
// change of the topic makes another.
type Topic struct {
	*meta.Topic
	// Config is what holds for the topic, set on it or by default.
	Config meta.TopicConfig

	logs []partitionLog // by partition number
	// codec is what batches are stored in, when recompress is set: then they are compressed anew
	// if they come in another.
	codec      record.Codec
	recompress bool
}

// partitionLog is what this broker has of a partition.
type partitionLog struct {
	// log is nil when the partition has no replica here, or when err says why
	// it could not be opened.
	log *engine.Log
	err error
}

// topicTable finds the Topic that belongs to a meta.Topic of a published view.
// It is keyed by pointer: meta makes a new Topic at each change, so an entry
// never changes either, and a request that read view and table at different
// times cannot mix two states. (A map inside the view would be copied at each change:
// half a millisecond at 10,000 topics.)
type topicTable struct {
	entries sync.Map // *meta.Topic → *Topic
}

func (t *topicTable) get(topic *meta.Topic) (*Topic, bool) {
	entry, ok := t.entries.Load(topic)
	if !ok {
		return nil, false
	}
	return entry.(*Topic), true
}

func (t *topicTable) put(topic *Topic)         { t.entries.Store(topic.Topic, topic) }
func (t *topicTable) remove(topic *meta.Topic) { t.entries.Delete(topic) }

// Topic returns the topic of that name, or ErrUnknownTopic. name may be part of a
// request: it is not kept, and the call does not allocate.
func (b *Broker) Topic(name []byte) (*Topic, error) {
	for {
		view := b.view.Load()
		found, ok := view.image.TopicOfBytes(name)
		if !ok {
			return nil, ErrUnknownTopic
		}
		if topic, ok := b.reconciler.topics.get(found); ok {
			return topic, nil
		}
		if b.view.Load() == view { // an entry leaves only after its view
			return nil, fmt.Errorf("%w: %s is not carried out", ErrNotLeader, name)
		}
	}
}

// TopicByID returns the topic with that id, or ErrUnknownTopicID. The call does
// not allocate.
func (b *Broker) TopicByID(id meta.TopicID) (*Topic, error) {
	for {
		view := b.view.Load()
		found, ok := view.image.TopicByID(id)
		if !ok {
			return nil, ErrUnknownTopicID
		}
		if topic, ok := b.reconciler.topics.get(found); ok {
			return topic, nil
		}
		if b.view.Load() == view {
			return nil, fmt.Errorf("%w: %s is not carried out", ErrNotLeader, found.Name)
		}
	}
}

// LeaderEpochAny is the epoch of a client that does not know the leader's epoch.
const LeaderEpochAny int32 = -1

// leaderLog returns the log of a partition that this broker leads, for a client
// that takes the leader epoch to be epoch.
func (b *Broker) leaderLog(topic *Topic, id, epoch int32) (*engine.Log, error) {
	partition, ok := topic.Partition(id)
	if !ok {
		return nil, ErrUnknownPartition
	}
	if epoch != LeaderEpochAny && epoch != partition.LeaderEpoch {
		if epoch < partition.LeaderEpoch {
			return nil, ErrFencedLeaderEpoch
		}
		return nil, ErrUnknownLeaderEpoch
	}
	if partition.Leader != b.options.NodeID {
		return nil, ErrNotLeader
	}
	at := topic.logs[id]
	if at.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLogOffline, at.err)
	}
	if at.log == nil {
		return nil, ErrNotLeader
	}
	return at.log, nil
}

// hosts reports whether this broker has a replica of the partition.
func (b *Broker) hosts(p *meta.Partition) bool { return slices.Contains(p.Replicas, b.options.NodeID) }

// awaitIndex waits until an image with that index, or a later one, is carried out.
func (b *Broker) awaitIndex(ctx context.Context, index uint64) error {
	return b.await(ctx, func(image *meta.Image) bool { return image.Index >= index })
}

// await waits until a published view satisfies done.
func (b *Broker) await(ctx context.Context, done func(*meta.Image) bool) error {
	for {
		view := b.view.Load()
		if done(view.image) {
			return nil
		}
		select {
		case <-view.replaced:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
