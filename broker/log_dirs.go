package broker

import (
	"context"

	"golang.org/x/sync/errgroup"

	"ringlog/engine"
)

// LogDir is where this broker's logs are, and what they take.
type LogDir struct {
	Path string
	// TotalBytes and UsableBytes are those of the file system, -1 when they are not known.
	TotalBytes  int64
	UsableBytes int64
	// Logs are in the order in which they were asked for.
	Logs []LogSize
}

// LogSize is what one log takes.
type LogSize struct {
	Topic     string
	Partition int32
	Bytes     int64 // of all segments, without prepared space
	OffsetLag int64 // how far the log's end lies behind the high watermark
}

// PartitionName names a partition.
type PartitionName struct {
	Topic     string
	Partition int32
}

// LogDir describes the data directory with those of the partitions that have a log here; nil
// is all. Each log's shard is asked, so that the sizes are what is stored at this moment.
func (b *Broker) LogDir(ctx context.Context, partitions []PartitionName) (LogDir, error) {
	dir := LogDir{Path: b.options.LogDir, TotalBytes: -1, UsableBytes: -1}
	if b.options.DiskSpace != nil {
		if total, usable, err := b.options.DiskSpace(); err == nil {
			dir.TotalBytes, dir.UsableBytes = total, usable
		} else {
			b.limitedLogger.Warn("the space of the data directory is not known", "error", err)
		}
	}
	if partitions == nil {
		partitions = b.allPartitions()
	}
	sizes := make([]*LogSize, len(partitions))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(logChangesParallel)
	for i := range partitions {
		group.Go(func() (err error) {
			sizes[i], err = b.logSize(ctx, partitions[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return LogDir{}, err
	}
	for _, size := range sizes {
		if size != nil {
			dir.Logs = append(dir.Logs, *size)
		}
	}
	return dir, nil
}

// allPartitions names all partitions, those without a log here included.
func (b *Broker) allPartitions() []PartitionName {
	image := b.Image()
	names := make([]PartitionName, 0, image.PartitionCount())
	for topic := range image.Topics() {
		for i := range topic.Partitions {
			names = append(names, PartitionName{topic.Name, int32(i)})
		}
	}
	return names
}

// logSize returns nil when the partition has no open log here.
func (b *Broker) logSize(ctx context.Context, name PartitionName) (*LogSize, error) {
	topic, err := b.Topic([]byte(name.Topic))
	if err != nil {
		return nil, nil // unknown here: it is left out
	}
	partition, ok := topic.Partition(name.Partition)
	if !ok || topic.logs[name.Partition].log == nil {
		return nil, nil
	}
	status, err := b.engine.Status(ctx, engine.LogID(partition.LogID))
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, nil // deleted meanwhile
	}
	lag := max(status.Frontiers.HighWatermark-status.Frontiers.Next, 0)
	return &LogSize{Topic: name.Topic, Partition: name.Partition, Bytes: status.Bytes, OffsetLag: lag}, nil
}
