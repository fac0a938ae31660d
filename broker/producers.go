package broker

import (
	"context"

	"ringlog/engine"
	"ringlog/replica"
)

// ActiveProducer is an idempotent producer that a partition remembers.
type ActiveProducer = replica.ProducerState

// Producers returns the producers that have appended to a partition and are remembered, in
// the order of their last appends.
func (b *Broker) Producers(ctx context.Context, topic *Topic, partition int32) ([]ActiveProducer, error) {
	if _, err := b.leaderLog(topic, partition, LeaderEpochAny); err != nil {
		return nil, err
	}
	snapshot, err := b.engine.ReplicaSnapshot(ctx, engine.LogID(topic.Partitions[partition].LogID))
	if err != nil {
		return nil, err
	}
	return replica.ReadProducers(snapshot)
}
