package kafka

// ListOffsets (key 2): versions 1 to 11.
//
//	1    one offset by timestamp (KIP-79); -1 is the end, -2 the start
//	2    isolation level (KIP-98): without transactions the last stable offset is the high watermark
//	4    leader epochs (KIP-320)
//	6    flexible
//	7    -3, the record with the largest timestamp (KIP-734)
//	8    -4, the first offset on a local disk (KIP-405)
//	9    -5, the last offset in the tier (KIP-1005): -1, there is none
//	10   a timeout (KIP-1075)
//	11   -6, the first offset not yet in the tier (KIP-1023): -1
//
// A special timestamp that the version does not know yet is UNSUPPORTED_VERSION,
// as in Kafka; so is one that no version knows. No record late enough: offset -1
// and timestamp -1 without an error.

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
)

// specialTimestampMin is the version from which on a special timestamp exists.
var specialTimestampMin = map[int64]int16{
	broker.TimestampLatest:        1,
	broker.TimestampEarliest:      1,
	broker.TimestampMax:           7,
	broker.TimestampEarliestLocal: 8,
	broker.TimestampLatestTiered:  9,
	broker.TimestampPendingUpload: 11,
}

func listOffsets(ctx context.Context, c *call, asked *kmsg.ListOffsetsRequest, answer *kmsg.ListOffsetsResponse) {
	if asked.Version >= 10 && asked.TimeoutMillis > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(asked.TimeoutMillis)*time.Millisecond)
		defer cancel()
	}
	b := c.session.protocol.broker
	seen := make(map[string]bool)
	for i := range asked.Topics {
		topic, unknown := b.Topic([]byte(asked.Topics[i].Topic))
		answered := kmsg.NewListOffsetsResponseTopic()
		answered.Topic = asked.Topics[i].Topic
		for j := range asked.Topics[i].Partitions {
			partition := &asked.Topics[i].Partitions[j]
			err := unknown
			if name := fmt.Sprintf("%s-%d", answered.Topic, partition.Partition); seen[name] {
				err = fmt.Errorf("%w: partition %s is asked for twice", errInvalidRequest, name)
			} else {
				seen[name] = true
			}
			answered.Partitions = append(answered.Partitions, c.listOffset(ctx, asked.Version, topic, partition, err))
		}
		answer.Topics = append(answer.Topics, answered)
	}
}

func (c *call) listOffset(ctx context.Context, version int16, topic *broker.Topic, asked *kmsg.ListOffsetsRequestTopicPartition, err error) kmsg.ListOffsetsResponseTopicPartition {
	epoch := asked.CurrentLeaderEpoch
	if version < 4 {
		epoch = broker.LeaderEpochAny
	}
	if from, special := specialTimestampMin[asked.Timestamp]; err == nil && special && version < from {
		err = fmt.Errorf("%w: timestamp %d, use version %d", errUnsupportedVersion, asked.Timestamp, from)
	}
	found := broker.ListedOffset{Offset: -1, Timestamp: -1, LeaderEpoch: -1}
	if err == nil {
		found, err = c.session.protocol.broker.ListOffset(ctx, topic, asked.Partition, epoch, asked.Timestamp)
	}
	p := kmsg.NewListOffsetsResponseTopicPartition()
	p.Partition = asked.Partition
	if p.ErrorCode = c.failed(err); err != nil {
		p.Offset, p.Timestamp, p.LeaderEpoch = -1, -1, -1
		return p
	}
	p.Offset, p.Timestamp, p.LeaderEpoch = found.Offset, found.Timestamp, found.LeaderEpoch
	return p
}
