package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"ringlog/engine"
	"ringlog/meta"
)

const (
	// logChangesParallel is how many logs are created, configured or deleted at
	// once: each waits for a flush of its directory, and flushes run side by side.
	logChangesParallel = 16
	// logOpensParallel is how many are opened at once at the start: each is a dozen small reads
	// one after the other, and a device answers many at a time.
	logOpensParallel = 128
	// partitionEpochUnmadeMax is the partition epoch up to which a log may never
	// have been made: a topic begins at 0, and if the broker stops before it has
	// made the logs, its next start raises that to 1. Above it a log that is missing is
	// lost, and an empty one must not take its place.
	partitionEpochUnmadeMax = 1
	// tombstoneProposalTimeout bounds one report of removed logs; it is made again
	// with the next change of the image, or after the next start.
	tombstoneProposalTimeout = 30 * time.Second
)

// reconciler carries images out, one at a time, in the order of the metadata log.
type reconciler struct {
	broker *Broker
	topics topicTable
	retry  sync.WaitGroup // the goroutine that tries offline logs again, and reports
	// offlineLogs is the sum of offline, for who does not hold mu.
	offlineLogs atomic.Int64

	// mu is held while an image is carried out and guards the fields below.
	mu sync.Mutex
	// offline counts the logs that could not be opened, by topic; without zeros.
	offline map[meta.TopicID]int
	// defaults are those of the image that is being, or was last, carried out.
	defaults *meta.Defaults
	// reported are the logs with a tombstone that were removed here; they stay
	// until the tombstone is gone.
	reported map[meta.LogID]bool
}

func (r *reconciler) init(b *Broker) {
	r.broker, r.defaults = b, b.options.Defaults
	r.offline = make(map[meta.TopicID]int)
	r.reported = make(map[meta.LogID]bool)
}

// Start carries out image as a whole and publishes it. Call it once, before
// requests come and before Apply. Logs may be open in the engine already (their
// epochs have to be known before the broker may lead); the others are opened or made.
func (b *Broker) Start(ctx context.Context, image *meta.Image) error {
	r := &b.reconciler
	delta := meta.Delta{Index: image.Index}
	for topic := range image.Topics() {
		delta.TopicsCreated = append(delta.TopicsCreated, topic)
	}
	b.groups.start()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apply(ctx, delta, image)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("broker: start: %w", context.Cause(ctx))
	}
	for _, id := range b.engine.Unknown() {
		if !image.Tombstoned(meta.LogID(id)) {
			b.log.Warn("directory holds a log that no topic knows; it is kept", "id", id)
		}
	}
	r.retry.Add(1)
	go r.retryOffline()
	return nil
}

// Apply carries out the next image and returns when its logs are ready, or have
// failed, and requests see it. Deltas come in order, from one goroutine, and none
// may be left out: raftctl's Subscribe, from the image that Start had, is made
// for this.
func (b *Broker) Apply(delta meta.Delta, image *meta.Image) {
	r := &b.reconciler
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apply(b.closing, delta, image)
}

// retryOffline tries topics with offline logs again from time to time, and puts
// what came of it under the present image.
func (r *reconciler) retryOffline() {
	defer r.retry.Done()
	ctx := r.broker.closing
	ticker := time.NewTicker(r.broker.options.OfflineRetryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		r.mu.Lock()
		image := r.broker.Image()
		for id := range r.offline {
			topic, ok := image.TopicByID(id)
			if !ok {
				r.setOffline(id, 0)
				continue
			}
			previous, _ := r.topics.get(topic)
			r.topics.put(r.open(ctx, previous, topic))
		}
		r.mu.Unlock()
	}
}

// apply carries out one change: logs are opened first, then the view is
// published, then logs that nobody can find any more are deleted. REQUIRES: mu is held.
func (r *reconciler) apply(ctx context.Context, delta meta.Delta, image *meta.Image) {
	before := r.broker.Image()
	r.defaults = r.broker.options.Defaults.WithDynamic(image, r.broker.options.NodeID)
	var replaced []*meta.Topic
	for _, topic := range delta.TopicsCreated {
		r.topics.put(r.open(ctx, nil, topic))
	}
	for _, topic := range delta.TopicsChanged {
		var previous *Topic
		if old, ok := before.TopicByID(topic.ID); ok {
			previous, _ = r.topics.get(old)
			replaced = append(replaced, old)
		}
		r.topics.put(r.open(ctx, previous, topic))
	}
	for _, topic := range delta.TopicsDeleted {
		r.setOffline(topic.ID, 0)
		if old, ok := before.TopicByID(topic.ID); ok {
			replaced = append(replaced, old)
		}
	}
	if r.broker.concerns(delta.BrokerConfigsChanged) {
		r.reconfigure(ctx, delta, image)
	}
	r.publish(image)
	r.broker.groups.apply(&delta, image)
	for _, old := range replaced {
		r.topics.remove(old)
	}
	r.removeTombstoned(ctx, image)
}

// reconfigure brings the defaults that have changed to the topics that delta leaves as they
// were. REQUIRES: mu is held.
func (r *reconciler) reconfigure(ctx context.Context, delta meta.Delta, image *meta.Image) {
	opened := make(map[meta.TopicID]bool, len(delta.TopicsCreated)+len(delta.TopicsChanged))
	for _, topic := range slices.Concat(delta.TopicsCreated, delta.TopicsChanged) {
		opened[topic.ID] = true
	}
	for topic := range image.Topics() {
		previous, ok := r.topics.get(topic)
		if opened[topic.ID] || ok && previous.Config == r.defaults.Topic(topic) {
			continue
		}
		r.topics.put(r.open(ctx, previous, topic))
	}
}

// settle waits until what requests see is carried out to the end.
func (r *reconciler) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
}

// publish makes image what requests see.
func (r *reconciler) publish(image *meta.Image) {
	old := r.broker.view.Load()
	r.broker.view.Store(&view{image: image, defaults: r.defaults, replaced: make(chan struct{})})
	close(old.replaced)
}

// open makes the Topic for a topic that is new or has changed: its logs are
// created, configured and led as the image says. A log that fails is offline and
// does not hold up the others.
func (r *reconciler) open(ctx context.Context, previous *Topic, topic *meta.Topic) *Topic {
	b := r.broker
	opened := &Topic{Topic: topic, Config: r.defaults.Topic(topic), logs: make([]partitionLog, len(topic.Partitions))}
	opened.setCodec(&opened.Config)
	config := logConfig(&opened.Config)
	var group errgroup.Group
	group.SetLimit(logChangesParallel)
	for i := range topic.Partitions {
		if !b.hosts(&topic.Partitions[i]) {
			continue
		}
		group.Go(func() error {
			partition, at := &topic.Partitions[i], &opened.logs[i]
			at.log, at.err = r.openLog(ctx, previous, topic, partition, config)
			return nil
		})
	}
	_ = group.Wait() // failures stay with their partitions
	offline := 0
	for i := range opened.logs {
		if err := opened.logs[i].err; err != nil {
			offline++
			b.log.Error("log is offline", "topic", topic.Name, "partition", i, "id", topic.Partitions[i].LogID, "error", err)
		}
	}
	r.setOffline(topic.ID, offline)
	return opened
}

// setOffline notes how many logs of a topic are offline. REQUIRES: mu is held.
func (r *reconciler) setOffline(id meta.TopicID, count int) {
	r.offlineLogs.Add(int64(count - r.offline[id]))
	if count == 0 {
		delete(r.offline, id)
	} else {
		r.offline[id] = count
	}
}

// OfflineLogs returns how many logs of this broker could not be opened or made. Their
// partitions answer ErrLogOffline; they are tried again from time to time.
func (b *Broker) OfflineLogs() int { return int(b.reconciler.offlineLogs.Load()) }

// openLog brings one log to where the image wants it.
func (r *reconciler) openLog(ctx context.Context, previous *Topic, topic *meta.Topic, partition *meta.Partition, config engine.LogConfig) (*engine.Log, error) {
	b := r.broker
	id := engine.LogID(partition.LogID)
	log, open := b.engine.Log(id)
	if !open {
		label := fmt.Sprintf("%s-%d", topic.Name, partition.ID)
		spec := engine.LogSpec{ID: id, Label: label, Config: config, Replica: b.options.NewReplica(label)}
		var err error
		if partition.PartitionEpoch > partitionEpochUnmadeMax {
			log, err = b.engine.Open(ctx, spec)
		} else {
			log, err = b.engine.Create(ctx, spec)
		}
		if errors.Is(err, engine.ErrUnknownLog) {
			return nil, fmt.Errorf("%w: it was there when the broker ran before; if its data is really gone, delete the topic", err)
		}
		if err != nil {
			return nil, err
		}
	} else if previous == nil || logConfig(&previous.Config) != config {
		if err := b.engine.Configure(ctx, id, config); err != nil {
			return nil, err
		}
	}
	if partition.Leader != b.options.NodeID || open && previous != nil && led(previous, partition) {
		return log, nil
	}
	if err := b.engine.Lead(ctx, id, partition.LeaderEpoch); err != nil {
		return nil, err
	}
	return log, nil
}

// led reports whether the previous state of the topic had this broker lead the
// partition under the same epoch already.
func led(previous *Topic, partition *meta.Partition) bool {
	old, ok := previous.Partition(partition.ID)
	return ok && old.Leader == partition.Leader && old.LeaderEpoch == partition.LeaderEpoch &&
		previous.logs[partition.ID].log != nil
}

// removeTombstoned removes the logs of deleted topics and reports them gone. It
// goes by the image's tombstones, not by a delta: what this broker slept through, or
// failed to remove before, is found the same way. A log without a tombstone is
// kept, because metadata may be what is missing.
func (r *reconciler) removeTombstoned(ctx context.Context, image *meta.Image) {
	b := r.broker
	for id := range r.reported {
		if !image.Tombstoned(id) {
			delete(r.reported, id)
		}
	}
	var mu sync.Mutex
	var removed []meta.LogID
	var group errgroup.Group
	group.SetLimit(logChangesParallel)
	for _, tombstone := range image.Tombstones() {
		if r.reported[tombstone.LogID] || !slices.Contains(tombstone.Brokers, b.options.NodeID) {
			continue
		}
		group.Go(func() error {
			if err := b.removeLog(ctx, engine.LogID(tombstone.LogID)); err != nil {
				b.log.Error("log of a deleted topic is not removed", "log", tombstone.Label, "id", tombstone.LogID, "error", err)
				return nil
			}
			mu.Lock()
			removed = append(removed, tombstone.LogID)
			mu.Unlock()
			return nil
		})
	}
	_ = group.Wait() // what failed keeps its tombstone
	r.report(removed)
}

// removeLog removes a log, be it open or left over; nil when there is none.
func (b *Broker) removeLog(ctx context.Context, id engine.LogID) error {
	err := b.engine.Delete(ctx, id)
	if errors.Is(err, engine.ErrUnknownLog) {
		if err = b.engine.Remove(ctx, id); errors.Is(err, engine.ErrUnknownLog) {
			return nil
		}
	}
	return err
}

// report proposes to forget tombstones. It does not wait: the answer comes back
// as the next image.
func (r *reconciler) report(logs []meta.LogID) {
	if len(logs) == 0 {
		return
	}
	for _, id := range logs {
		r.reported[id] = true
	}
	b := r.broker
	r.retry.Add(1)
	go func() {
		defer r.retry.Done()
		ctx, cancel := context.WithTimeout(b.closing, tombstoneProposalTimeout)
		defer cancel()
		_, err := b.options.Controller.Propose(ctx, meta.RemoveTombstones{Broker: b.options.NodeID, LogIDs: logs})
		if err == nil || b.closing.Err() != nil {
			return
		}
		b.log.Warn("removed logs are not reported yet", "logs", len(logs), "error", err)
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, id := range logs {
			delete(r.reported, id)
		}
	}()
}
