package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"ringlog/coord"
	"ringlog/engine"
	"ringlog/meta"
	"ringlog/record"
)

// groupBatchBytesMax is the size at which records of a step go on in another batch.
const groupBatchBytesMax = 512 << 10

// groupReadBytes is how much of a partition is read at a time while it is loaded, as a whole and in order.
const groupReadBytes = 1 << 20

// groupsLog is the offsets topic as the coordinators' runtime sees it: coord.Log.
type groupsLog struct{ broker *Broker }

// log returns the log of a partition that this broker leads under epoch.
func (l groupsLog) log(partition, epoch int32) (*engine.Log, error) {
	topic, err := l.broker.Topic([]byte(meta.OffsetsTopic))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", coord.ErrNotCoordinator, err)
	}
	log, err := l.broker.leaderLog(topic, partition, epoch)
	if err != nil && !errors.Is(err, ErrLogOffline) {
		err = fmt.Errorf("%w: %w", coord.ErrNotCoordinator, err)
	}
	return log, err
}

// Append implements coord.Log.
func (l groupsLog) Append(partition, epoch int32, records []coord.Record, done func(error)) {
	log, err := l.log(partition, epoch)
	if err != nil {
		done(err)
		return
	}
	a := groupAppends.Get().(*groupAppend)
	a.done = done
	if err := a.build(log, records); err != nil {
		a.end(err)
		return
	}
	l.broker.engine.Append(&a.group)
}

// Load implements coord.Log. What is not committed when it begins was never promised to anybody: the runtime
// loads only when no append is under way.
func (l groupsLog) Load(ctx context.Context, partition, epoch int32, visit func(coord.Record) error) error {
	log, err := l.log(partition, epoch)
	if err != nil {
		return err
	}
	var reader record.Reader
	defer reader.Close()
	return l.broker.scanBy(ctx, log, log.Frontiers().Start, groupReadBytes, func(batch record.Batch) (bool, error) {
		if batch.Control() {
			return true, nil
		}
		reader.Reset(batch)
		for reader.Next() {
			r := reader.Record()
			if err := visit(coord.Record{Key: r.Key, Value: r.Value, TimestampMillis: r.Timestamp}); err != nil {
				return false, fmt.Errorf("offset %d of %s: %w", r.Offset, log.Label(), err)
			}
		}
		return true, reader.Err()
	})
}

// groupAppend is an append of a coordinator on its way through the engine.
type groupAppend struct {
	group    engine.AppendGroup
	builders []*record.Builder // of each batch
	done     func(error)
}

var groupAppends = sync.Pool{New: func() any {
	a := new(groupAppend)
	a.group.Owner = a
	return a
}}

// build makes batches of records.
func (a *groupAppend) build(log *engine.Log, records []coord.Record) error {
	for len(records) > 0 {
		batches := len(a.group.Appends)
		if batches == len(a.builders) {
			a.builders = append(a.builders, new(record.Builder))
		}
		builder := a.builders[batches]
		builder.Reset(record.BuilderOptions{})
		for len(records) > 0 && (builder.Count() == 0 || builder.PlainBytes()+len(records[0].Key)+len(records[0].Value) <= groupBatchBytesMax) {
			builder.Append(records[0].TimestampMillis, records[0].Key, records[0].Value)
			records = records[1:]
		}
		batch, err := builder.Build()
		if err != nil {
			return err
		}
		a.group.Appends = append(a.group.Appends, engine.Append{Log: log, Batch: batch})
	}
	return nil
}

// Consumed implements engine.AppendOwner.
func (a *groupAppend) Consumed(*engine.AppendGroup) {}

// Answered implements engine.AppendOwner.
func (a *groupAppend) Answered(group *engine.AppendGroup) {
	var err error
	for i := range group.Appends {
		if err = group.Appends[i].Err; err != nil {
			break
		}
	}
	a.end(err)
}

// groupBuildersPooledMax bounds what an append keeps for the next one.
const groupBuildersPooledMax = 2

func (a *groupAppend) end(err error) {
	done := a.done
	a.done = nil
	clear(a.group.Appends)
	a.group.Appends = a.group.Appends[:0]
	if len(a.builders) > groupBuildersPooledMax {
		a.builders = nil
	}
	groupAppends.Put(a)
	done(err)
}
