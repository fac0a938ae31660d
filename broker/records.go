package broker

import (
	"context"
	"errors"
	"fmt"

	"ringlog/engine"
)

// DeleteToHighWatermark as an offset of DeleteRecords is the high watermark.
const DeleteToHighWatermark int64 = -1

// ErrRecordsKept is returned by DeleteRecords for a topic whose cleanup.policy
// does not contain delete.
var ErrRecordsKept = errors.New("broker: records of the topic are not deleted")

// DeleteRecords makes everything below offset unreadable, durably, and returns the
// log's start offset. An offset at or below the start changes nothing;
// one above the high watermark is ErrOffsetOutOfRange.
func (b *Broker) DeleteRecords(ctx context.Context, topic *Topic, partition int32, offset int64) (start int64, err error) {
	log, err := b.leaderLog(topic, partition, LeaderEpochAny)
	if err != nil {
		return -1, err
	}
	if !topic.Config.Delete {
		return -1, fmt.Errorf("%w: cleanup.policy of %s does not contain delete", ErrRecordsKept, topic.Name)
	}
	frontiers := log.Frontiers()
	if offset == DeleteToHighWatermark {
		offset = frontiers.HighWatermark
	}
	if offset < 0 || offset > frontiers.HighWatermark {
		return -1, fmt.Errorf("%w: %d, the high watermark of %s-%d is %d", ErrOffsetOutOfRange, offset, topic.Name, partition, frontiers.HighWatermark)
	}
	if offset > frontiers.Start {
		if err := b.engine.AdvanceStart(ctx, engine.LogID(topic.Partitions[partition].LogID), offset); err != nil {
			return -1, err
		}
	}
	return log.Frontiers().Start, nil
}
