package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"ringlog/engine"
	"ringlog/meta"
)

// Recover opens the logs of image that are here and returns the highest leader
// epoch in them, -1 when there is none: the controller grants this start of the broker
// one above it (architecture rule 11). Call it before Start. A log that cannot
// be opened is left to Start, which takes it offline, and does not count: its
// epochs were granted by the metadata log, which knows them.
func (b *Broker) Recover(ctx context.Context, image *meta.Image) (epochMax int32, err error) {
	var mu sync.Mutex
	epochMax = -1
	var group errgroup.Group
	group.SetLimit(logOpensParallel)
	defaults := b.options.Defaults.WithDynamic(image, b.options.NodeID)
	for topic := range image.Topics() {
		topicConfig := defaults.Topic(topic)
		config := logConfig(&topicConfig)
		for i := range topic.Partitions {
			partition := &topic.Partitions[i]
			if !b.hosts(partition) {
				continue
			}
			group.Go(func() error {
				epoch, err := b.recoverLog(ctx, topic, partition, config)
				switch {
				case ctx.Err() != nil:
					return context.Cause(ctx)
				case errors.Is(err, engine.ErrUnknownLog):
					return nil // not made yet, or lost: Start tells the two apart
				case err != nil:
					b.log.Error("log cannot be opened", "topic", topic.Name, "partition", partition.ID, "id", partition.LogID, "error", err)
					return nil
				}
				mu.Lock()
				epochMax = max(epochMax, epoch)
				mu.Unlock()
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return -1, fmt.Errorf("broker: opening logs: %w", err)
	}
	return epochMax, nil
}

// recoverLog opens one log and returns the highest epoch in it.
func (b *Broker) recoverLog(ctx context.Context, topic *meta.Topic, partition *meta.Partition, config engine.LogConfig) (int32, error) {
	id, label := engine.LogID(partition.LogID), fmt.Sprintf("%s-%d", topic.Name, partition.ID)
	_, err := b.engine.Open(ctx, engine.LogSpec{ID: id, Label: label, Config: config, Replica: b.options.NewReplica(label)})
	if err != nil {
		return -1, err
	}
	status, err := b.engine.Status(ctx, id)
	return status.Epoch, err
}
