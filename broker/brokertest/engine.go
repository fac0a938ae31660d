package brokertest

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"ringlog/engine"
	"ringlog/record"
)

// Engine is an engine.API that keeps batches in memory and calls back in the
// goroutine of whoever calls it. A log's *engine.Log is only a name here:
// its Frontiers are zero. Safe for concurrent use.
type Engine struct {
	mu     sync.Mutex
	logs   map[engine.LogID]*log
	byName map[*engine.Log]*log
	parked []*engine.Read

	creating func(engine.LogSpec) error
}

// log is one log: batches in order.
type log struct {
	engine.LogSpec
	name    *engine.Log
	batches []record.Batch
	start   int64
	next    int64
	epoch   int32
}

var _ engine.API = (*Engine)(nil)

// NewEngine returns an engine without logs.
func NewEngine() *Engine {
	return &Engine{logs: make(map[engine.LogID]*log), byName: make(map[*engine.Log]*log)}
}

// Append implements engine.API.
func (e *Engine) Append(group *engine.AppendGroup) {
	e.mu.Lock()
	for i := range group.Appends {
		a := &group.Appends[i]
		l := e.byName[a.Log]
		if l == nil {
			a.Err = engine.ErrClosed
			continue
		}
		batch := slices.Clone(a.Batch)
		batch.SetBaseOffset(l.next)
		batch.SetLeaderEpoch(l.epoch)
		l.batches = append(l.batches, batch)
		a.BaseOffset, a.MaxTimestamp, a.StartOffset = l.next, batch.MaxTimestamp(), l.start
		l.next = batch.LastOffset() + 1
	}
	ready := e.takeReadyLocked()
	e.mu.Unlock()
	group.Owner.Consumed(group)
	group.Owner.Answered(group)
	for _, read := range ready {
		read.Done(read)
	}
}

// Read implements engine.API.
func (e *Engine) Read(read *engine.Read) {
	e.mu.Lock()
	if !e.gatherLocked(read) && read.Wait > 0 {
		e.parked = append(e.parked, read)
		e.mu.Unlock()
		time.AfterFunc(read.Wait, func() { e.Cancel(read) })
		return
	}
	e.mu.Unlock()
	read.Done(read)
}

// Cancel implements engine.API.
func (e *Engine) Cancel(read *engine.Read) {
	e.mu.Lock()
	at := slices.Index(e.parked, read)
	if at >= 0 {
		e.parked = slices.Delete(e.parked, at, at+1)
		e.gatherLocked(read)
	}
	e.mu.Unlock()
	if at >= 0 {
		go read.Done(read) // like a shard: not inside Cancel
	}
}

// Restore implements engine.API: batches stay in memory, so nothing has to be restored.
func (e *Engine) Restore(_ *engine.Read, _, _ int, done func(error)) { go done(nil) }

// takeReadyLocked takes the parked reads that have something to answer.
func (e *Engine) takeReadyLocked() (ready []*engine.Read) {
	e.parked = slices.DeleteFunc(e.parked, func(read *engine.Read) bool {
		enough := e.gatherLocked(read)
		if enough {
			ready = append(ready, read)
		}
		return enough
	})
	return ready
}

// gatherLocked fills the answer and reports whether it need not wait.
func (e *Engine) gatherLocked(read *engine.Read) (enough bool) {
	left, total := read.BytesMax, 0
	for i := range read.Parts {
		p := &read.Parts[i]
		p.Batches, p.Bytes, p.Err = p.Batches[:0], 0, nil
		l := e.byName[p.Log]
		switch {
		case l == nil:
			p.Err = engine.ErrClosed
		case p.Offset < l.start || p.Offset > l.next:
			p.Frontiers = l.frontiers()
			p.Err = engine.ErrOffsetOutOfRange
		default:
			p.Frontiers = l.frontiers()
			for _, batch := range l.batches {
				if batch.LastOffset() < p.Offset {
					continue
				}
				if total > 0 && (len(batch) > left || p.Bytes+len(batch) > p.BytesMax) {
					break
				}
				p.Batches = append(p.Batches, batch)
				p.Bytes += len(batch)
				total += len(batch)
				left -= len(batch)
			}
		}
		enough = enough || p.Err != nil
	}
	return enough || total >= read.BytesMin
}

func (l *log) frontiers() engine.Frontiers {
	return engine.Frontiers{Start: l.start, HighWatermark: l.next, Durable: l.next, Written: l.next, Next: l.next}
}

// Log implements engine.API.
func (e *Engine) Log(id engine.LogID) (*engine.Log, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l, ok := e.logs[id]
	if !ok {
		return nil, false
	}
	return l.name, true
}

// Open implements engine.API: a log that is not open does not exist.
func (e *Engine) Open(context.Context, engine.LogSpec) (*engine.Log, error) {
	return nil, engine.ErrUnknownLog
}

// Create implements engine.API.
func (e *Engine) Create(_ context.Context, spec engine.LogSpec) (*engine.Log, error) {
	e.mu.Lock()
	creating := e.creating
	e.mu.Unlock()
	if creating != nil {
		if err := creating(spec); err != nil {
			return nil, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	l := &log{LogSpec: spec, name: new(engine.Log)}
	e.logs[spec.ID], e.byName[l.name] = l, l
	return l.name, nil
}

// Creating has f called before each log is made, without a lock: it may wait, and
// its error fails the Create.
func (e *Engine) Creating(f func(engine.LogSpec) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.creating = f
}

// Delete implements engine.API.
func (e *Engine) Delete(_ context.Context, id engine.LogID) error {
	return e.on(id, func(l *log) {
		delete(e.logs, id)
		delete(e.byName, l.name)
	})
}

// on runs f on a log under the lock.
func (e *Engine) on(id engine.LogID, f func(*log)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	l, ok := e.logs[id]
	if !ok {
		return engine.ErrUnknownLog
	}
	f(l)
	return nil
}

// Configure implements engine.API.
func (e *Engine) Configure(_ context.Context, id engine.LogID, config engine.LogConfig) error {
	return e.on(id, func(l *log) { l.Config = config })
}

// Config returns how a log is configured.
func (e *Engine) Config(id engine.LogID) (config engine.LogConfig, err error) {
	err = e.on(id, func(l *log) { config = l.Config })
	return config, err
}

// Lead implements engine.API.
func (e *Engine) Lead(_ context.Context, id engine.LogID, epoch int32) error {
	return e.on(id, func(l *log) { l.epoch = epoch })
}

// AdvanceStart implements engine.API.
func (e *Engine) AdvanceStart(_ context.Context, id engine.LogID, offset int64) error {
	return e.on(id, func(l *log) { l.start = offset })
}

// Truncate implements engine.API.
func (e *Engine) Truncate(_ context.Context, id engine.LogID, offset int64) error {
	return e.on(id, func(l *log) {
		l.batches = slices.DeleteFunc(l.batches, func(b record.Batch) bool { return b.BaseOffset() >= offset })
		l.next = offset
	})
}

// EpochEnd implements engine.API.
func (e *Engine) EpochEnd(_ context.Context, id engine.LogID, epoch int32) (found int32, end int64, err error) {
	found, end = -1, -1
	err = e.on(id, func(l *log) {
		for _, batch := range l.batches {
			if batch.LeaderEpoch() <= epoch {
				found, end = batch.LeaderEpoch(), batch.LastOffset()+1
			}
		}
	})
	return found, end, err
}

// TimeHint implements engine.API: the start of the log, which is always near enough here.
func (e *Engine) TimeHint(_ context.Context, id engine.LogID, millis int64) (offset int64, ok bool, err error) {
	err = e.on(id, func(l *log) {
		offset = l.start
		ok = slices.ContainsFunc(l.batches, func(b record.Batch) bool { return b.MaxTimestamp() >= millis })
	})
	return offset, ok, err
}

// MaxTimestampHint implements engine.API.
func (e *Engine) MaxTimestampHint(ctx context.Context, id engine.LogID) (offset int64, ok bool, err error) {
	return e.TimeHint(ctx, id, math.MinInt64)
}

// Status implements engine.API.
func (e *Engine) Status(_ context.Context, id engine.LogID) (status engine.LogStatus, err error) {
	err = e.on(id, func(l *log) {
		largest := record.NoTimestamp
		for _, batch := range l.batches {
			largest = max(largest, batch.MaxTimestamp())
			status.Bytes += int64(len(batch))
		}
		status.ID, status.Label, status.Frontiers, status.Epoch = id, l.Label, l.frontiers(), l.epoch
		status.Segments = []engine.SegmentStatus{{BaseOffset: 0, NextOffset: l.next, Bytes: status.Bytes, MaxTimestamp: largest}}
	})
	return status, err
}

// ReplicaSnapshot implements engine.API.
func (e *Engine) ReplicaSnapshot(_ context.Context, id engine.LogID) (snapshot []byte, err error) {
	err = e.on(id, func(l *log) { snapshot = l.Replica.AppendSnapshot(nil) })
	return snapshot, err
}

// Stored returns the batches of a log: the very slices that reads answer with.
func (e *Engine) Stored(id engine.LogID) (batches []record.Batch, err error) {
	err = e.on(id, func(l *log) { batches = slices.Clone(l.batches) })
	return batches, err
}

// Unknown implements engine.API.
func (e *Engine) Unknown() []engine.LogID { return nil }

// Remove implements engine.API.
func (e *Engine) Remove(context.Context, engine.LogID) error { return engine.ErrUnknownLog }

// Close implements engine.API.
func (e *Engine) Close(context.Context) error { return nil }

// Parked is the number of reads that wait.
func (e *Engine) Parked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.parked)
}
