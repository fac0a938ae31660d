package broker

import (
	"context"
	"fmt"

	"ringlog/engine"
	"ringlog/record"
)

// Timestamps with a meaning of their own in ListOffset, as Kafka numbers them.
const (
	TimestampLatest        int64 = -1 // the high watermark
	TimestampEarliest      int64 = -2 // the log start
	TimestampMax           int64 = -3 // the record with the largest timestamp (KIP-734)
	TimestampEarliestLocal int64 = -4 // the first offset on a local disk (KIP-405)
	TimestampLatestTiered  int64 = -5 // the last offset in the tier (KIP-1005)
	TimestampPendingUpload int64 = -6 // the first offset not yet in the tier (KIP-1023)
)

// timeReadBytes is how much is read at a time when looking for a timestamp: an
// index interval and the batch that may straddle it.
const timeReadBytes = 64 << 10

// ListedOffset answers ListOffset.
type ListedOffset struct {
	Offset      int64 // -1 when there is none
	Timestamp   int64 // of the record at Offset, -1 for positions that are no record
	LeaderEpoch int32 // of the record at Offset, or before the end; -1 when it is not known
}

// noOffset is the answer when no record is late enough.
var noOffset = ListedOffset{Offset: -1, Timestamp: -1, LeaderEpoch: -1}

// ListOffset finds an offset by its meaning or by time: the first record whose
// timestamp is at least the one given, exactly, also inside a compressed batch.
// Nothing at or above the high watermark is found.
func (b *Broker) ListOffset(ctx context.Context, topic *Topic, partition, leaderEpoch int32, timestamp int64) (ListedOffset, error) {
	log, err := b.leaderLog(topic, partition, leaderEpoch)
	if err != nil {
		return noOffset, err
	}
	id := engine.LogID(topic.Partitions[partition].LogID)
	switch {
	case timestamp == TimestampLatest:
		// The epoch of the last batch, not the leader's own: a client hands it
		// back in OffsetForLeaderEpoch, after the next leader change too, and
		// an epoch under which nothing was appended would look like a cut log.
		epoch, _, err := b.engine.EpochEnd(ctx, id, topic.Partitions[partition].LeaderEpoch)
		return ListedOffset{Offset: log.Frontiers().HighWatermark, Timestamp: -1, LeaderEpoch: epoch}, err
	case timestamp == TimestampEarliest, timestamp == TimestampEarliestLocal:
		return ListedOffset{Offset: log.Frontiers().Start, Timestamp: -1, LeaderEpoch: -1}, nil
	case timestamp == TimestampLatestTiered, timestamp == TimestampPendingUpload:
		return noOffset, nil // no tier: nothing was ever uploaded to it
	case timestamp == TimestampMax:
		return b.offsetOfMaxTimestamp(ctx, log, id)
	case timestamp < 0:
		return noOffset, fmt.Errorf("%w: %d", ErrUnsupportedTimestamp, timestamp)
	}
	return b.offsetOfTimestamp(ctx, log, id, timestamp)
}

func (b *Broker) offsetOfTimestamp(ctx context.Context, log *engine.Log, id engine.LogID, timestamp int64) (ListedOffset, error) {
	hint, ok, err := b.engine.TimeHint(ctx, id, timestamp)
	if err != nil || !ok {
		return noOffset, err
	}
	found := noOffset
	start := log.Frontiers().Start
	err = b.scan(ctx, log, max(hint, start), func(batch record.Batch) (bool, error) {
		offset, at, ok, err := findTimestamp(batch, timestamp, start)
		if err != nil || !ok {
			return true, err
		}
		found = ListedOffset{Offset: offset, Timestamp: at, LeaderEpoch: batch.LeaderEpoch()}
		return false, nil
	})
	return found, err
}

// findTimestamp is record.FindTimestamp for records from start on: the log may
// start inside a batch (DeleteRecords).
func findTimestamp(batch record.Batch, timestamp, start int64) (int64, int64, bool, error) {
	if batch.BaseOffset() >= start || batch.MaxTimestamp() < timestamp {
		return record.FindTimestamp(batch, timestamp)
	}
	var r record.Reader
	r.Reset(batch)
	defer r.Close()
	for r.Next() {
		if record := r.Record(); record.Offset >= start && record.Timestamp >= timestamp {
			return record.Offset, record.Timestamp, true, nil
		}
	}
	return 0, 0, false, r.Err()
}

// offsetOfMaxTimestamp looks from the engine's hint on for the first record that
// carries the largest timestamp of the log. While produces are under way that
// record may not be committed yet; then the largest of what is committed in the
// last segment answers.
func (b *Broker) offsetOfMaxTimestamp(ctx context.Context, log *engine.Log, id engine.LogID) (ListedOffset, error) {
	hint, ok, err := b.engine.MaxTimestampHint(ctx, id)
	if err != nil || !ok {
		return noOffset, err
	}
	status, err := b.engine.Status(ctx, id)
	if err != nil {
		return noOffset, err
	}
	largest, lastBase := record.NoTimestamp, status.Frontiers.Start
	for _, segment := range status.Segments {
		largest = max(largest, segment.MaxTimestamp)
		if segment.BaseOffset < status.Frontiers.HighWatermark {
			lastBase = max(lastBase, segment.BaseOffset)
		}
	}
	found := noOffset
	visit := func(batch record.Batch) (bool, error) {
		if batch.MaxTimestamp() <= found.Timestamp {
			return true, nil
		}
		offset, at, ok, err := record.MaxTimestamp(batch)
		if err == nil && ok && at > found.Timestamp {
			found = ListedOffset{Offset: offset, Timestamp: at, LeaderEpoch: batch.LeaderEpoch()}
		}
		return found.Timestamp < largest, err
	}
	if hint < status.Frontiers.HighWatermark {
		err = b.scan(ctx, log, max(hint, status.Frontiers.Start), visit)
	}
	if err == nil && found.Timestamp < largest && lastBase < status.Frontiers.HighWatermark {
		err = b.scan(ctx, log, lastBase, visit)
	}
	return found, err
}

// scan reads committed batches from offset on until visit returns false, and a batch
// is valid during visit only.
func (b *Broker) scan(ctx context.Context, log *engine.Log, offset int64, visit func(record.Batch) (bool, error)) error {
	return b.scanBy(ctx, log, offset, timeReadBytes, visit)
}

// scanBy is scan with the size of its reads.
func (b *Broker) scanBy(ctx context.Context, log *engine.Log, offset int64, readBytes int, visit func(record.Batch) (bool, error)) error {
	for {
		read, err := b.readNow(ctx, log, offset, readBytes)
		if err != nil {
			return err
		}
		next, more, err := visitAll(read.Parts[0].Batches, offset, visit)
		read.Release()
		if err != nil || !more || next == offset {
			return err
		}
		offset = next
	}
}

// visitAll visits batches and returns the offset behind the last.
func visitAll(batches [][]byte, offset int64, visit func(record.Batch) (bool, error)) (next int64, more bool, err error) {
	next = offset
	for _, bytes := range batches {
		for len(bytes) > 0 {
			var batch record.Batch
			if batch, bytes, err = record.Next(bytes); err != nil {
				return next, false, err
			}
			if more, err = visit(batch); err != nil || !more {
				return next, false, err
			}
			next = batch.LastOffset() + 1
		}
	}
	return next, true, nil
}

// readNow reads some batches without waiting for new ones. The caller releases
// what it returns.
func (b *Broker) readNow(ctx context.Context, log *engine.Log, offset int64, readBytes int) (*engine.Read, error) {
	done := make(chan struct{})
	read := &engine.Read{
		Parts:    []engine.ReadPart{{Log: log, Offset: offset, BytesMax: readBytes}},
		BytesMax: readBytes,
		Done:     func(*engine.Read) { close(done) },
	}
	b.engine.Read(read)
	select {
	case <-done:
	case <-ctx.Done():
		b.engine.Cancel(read)
		<-done // answered now: Cancel and Close of the engine both see to it
	}
	err := read.Parts[0].Err
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		read.Release()
		return nil, err
	}
	return read, nil
}

// EpochEnd answers OffsetForLeaderEpoch (KIP-101, KIP-320): the largest epoch at
// or below epoch that the log knows, and the offset where it ends; both are -1
// when there is none.
func (b *Broker) EpochEnd(ctx context.Context, topic *Topic, partition, leaderEpoch, epoch int32) (int32, int64, error) {
	log, err := b.leaderLog(topic, partition, leaderEpoch)
	if err != nil {
		return -1, -1, err
	}
	led := topic.Partitions[partition].LeaderEpoch
	if epoch == led {
		// The leader's own epoch ends where the log does, also when nothing
		// was appended under it yet.
		return epoch, log.Frontiers().HighWatermark, nil
	}
	if epoch > led || epoch < 0 {
		return -1, -1, nil
	}
	return b.engine.EpochEnd(ctx, engine.LogID(topic.Partitions[partition].LogID), epoch)
}

// Status describes a partition's log.
func (b *Broker) Status(ctx context.Context, topic *Topic, partition int32) (engine.LogStatus, error) {
	if _, ok := topic.Partition(partition); !ok {
		return engine.LogStatus{}, ErrUnknownPartition
	}
	return b.engine.Status(ctx, engine.LogID(topic.Partitions[partition].LogID))
}
