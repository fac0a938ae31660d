package broker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"ringlog/engine"
)

// FetchPart asks one partition for batches, and is answered in place.
type FetchPart struct {
	// Topic is nil when there is none; Err says why.
	Topic     *Topic
	Partition int32
	Offset    int64
	// LeaderEpoch is what the client takes the leader's epoch to be, or LeaderEpochAny.
	LeaderEpoch int32
	// LastFetchedEpoch is the epoch of the last batch that the client has, or
	// -1: the broker then tells whether the client's log runs apart from its own
	// (KIP-595).
	LastFetchedEpoch int32
	BytesMax         int

	// Batches are whole batches in order, the first of which may begin below
	// Offset. Their memory stays until Fetch.Release.
	Batches [][]byte
	Bytes   int
	// HighWatermark, LastStable and Start are the partition's positions, -1 when Err
	// is not nil.
	HighWatermark int64
	LastStable    int64
	Start         int64
	// DivergingEpoch and DivergingEnd say where the client's log runs apart, when
	// Diverges is true.
	Diverges       bool
	DivergingEpoch int32
	DivergingEnd   int64
	Err            error
}

// Fetch reads batches of partitions and waits for them if need be. It is made by
// NewFetch, filled, started by Start, and given back by Release after Done. It
// belongs to the caller but for the time between Start and Done.
type Fetch struct {
	Parts []FetchPart
	// BytesMax bounds the whole answer, as fetch.max.bytes does; the first batch of the first non-empty partition
	// is returned whatever its size (KIP-74).
	BytesMax int
	// BytesMin are waited for, at most Wait.
	BytesMin int
	Wait     time.Duration
	// Done is called once, on a shard's thread or in the goroutine of Start; it must
	// not block.
	Done func(*Fetch)

	broker   *Broker
	read     engine.Read
	partOf   []int       // of each part of read, its place in Parts
	readOf   []int       // of each of Parts, its place in read, or -1
	started  atomic.Bool // read is handed to the engine
	answered func(*engine.Read)
}

var fetches = sync.Pool{New: func() any {
	f := new(Fetch)
	f.answered = f.readDone
	return f
}}

// NewFetch returns an empty fetch.
func (b *Broker) NewFetch() *Fetch {
	f := fetches.Get().(*Fetch)
	f.broker = b
	return f
}

// Add appends a part and returns it, to be filled before the next Add.
func (f *Fetch) Add() *FetchPart {
	f.Parts = append(f.Parts, FetchPart{LeaderEpoch: LeaderEpochAny, LastFetchedEpoch: -1})
	return &f.Parts[len(f.Parts)-1]
}

// Release gives back the memory of all batches and the fetch itself. REQUIRES:
// Done was called, or Start never was.
func (f *Fetch) Release() {
	if f.started.Swap(false) {
		f.read.Release()
	}
	clear(f.Parts)
	for i := range f.read.Parts {
		f.read.Parts[i].Log = nil
	}
	f.Parts, f.partOf, f.readOf = f.Parts[:0], f.partOf[:0], f.readOf[:0]
	if cap(f.Parts) > partsPooledMax {
		f.Parts, f.partOf, f.readOf, f.read.Parts = nil, nil, nil, nil
	}
	f.BytesMax, f.BytesMin, f.Wait = 0, 0, 0
	f.Done, f.broker = nil, nil
	f.read.Parts, f.read.Done = f.read.Parts[:0], nil
	fetches.Put(f)
}

// Return gives the memory of all batches back before Release, of those before a slice for good: the
// others may not be looked at until Lend has brought them again. Return, Lend and Release are
// called by one goroutine at a time, after Done.
func (f *Fetch) Return(part, slice int) { f.read.Return(f.readOf[part], slice) }

// Lend brings slice number slice of Parts[part].Batches back after Return, and returns it: it may lie elsewhere than
// before. nil says that it is not in memory any more, and has to be restored.
func (f *Fetch) Lend(part, slice int) []byte {
	at := f.readOf[part]
	if !f.read.Lend(at, slice) {
		return nil
	}
	return f.read.Parts[at].Batches[slice]
}

// Restore reads a slice that Lend did not find from disk again, and calls done once, by
// another goroutine, which it must not block. Release is not called before.
func (f *Fetch) Restore(part, slice int, done func(error)) {
	f.broker.engine.Restore(&f.read, f.readOf[part], slice, done)
}

// Start begins the fetch. It does not block, unless a part has a
// LastFetchedEpoch: then the shard is asked first, within ctx.
func (f *Fetch) Start(ctx context.Context) {
	failed := false
	for i := range f.Parts {
		part := &f.Parts[i]
		part.HighWatermark, part.LastStable, part.Start = -1, -1, -1
		f.readOf = append(f.readOf, -1)
		if part.Err != nil {
			failed = true
			continue
		}
		log, err := f.broker.leaderLog(part.Topic, part.Partition, part.LeaderEpoch)
		if err == nil && part.LastFetchedEpoch >= 0 {
			err = f.compareEpochs(ctx, part)
		}
		if err != nil {
			part.Err = err
			failed = true
			continue
		}
		if part.Diverges {
			failed = true // nothing to wait for: the client has to truncate first
		}
		read := f.addRead()
		read.Log, read.Offset, read.BytesMax = log, part.Offset, part.BytesMax
		if part.Diverges {
			read.BytesMax = 0
		}
		f.readOf[i] = len(f.partOf)
		f.partOf = append(f.partOf, i)
	}
	if len(f.read.Parts) == 0 {
		f.Done(f)
		return
	}
	f.read.BytesMax = min(f.BytesMax, f.broker.fetchBytesMax)
	f.read.BytesMin, f.read.Wait = f.BytesMin, f.Wait
	if failed { // an error is told at once, with what the other partitions have
		f.read.BytesMin, f.read.Wait = 0, 0
	}
	f.read.Done = f.answered
	f.started.Store(true)
	f.broker.engine.Read(&f.read)
}

// addRead appends a part to what the engine is asked for. It keeps the memory of
// the list of batches that the part had in an earlier life.
func (f *Fetch) addRead() *engine.ReadPart {
	parts := f.read.Parts
	if len(parts) < cap(parts) {
		parts = parts[:len(parts)+1]
	} else {
		parts = append(parts, engine.ReadPart{})
	}
	f.read.Parts = parts
	return &parts[len(parts)-1]
}

// Cancel makes a parked fetch answer now. One that comes while Start still runs may
// have no effect: who cannot exclude that calls it again after Start. REQUIRES:
// Release was not called.
func (f *Fetch) Cancel() {
	if f.started.Load() {
		f.broker.engine.Cancel(&f.read)
	}
}

// readDone takes the engine's answer over.
func (f *Fetch) readDone(read *engine.Read) {
	for i := range read.Parts {
		from, to := &read.Parts[i], &f.Parts[f.partOf[i]]
		err := from.Err
		if errors.Is(err, engine.ErrOffsetOutOfRange) && from.Offset > from.Frontiers.HighWatermark && from.Offset <= from.Frontiers.Next {
			// The client knows of records that are appended and not yet
			// committed (it produced with acks=0, or read them from a leader
			// that failed): they are about to become readable, so there is
			// nothing to reset.
			err = nil
		}
		if err != nil {
			to.Err = err
			continue
		}
		if !to.Diverges {
			to.Batches, to.Bytes = from.Batches, from.Bytes
		}
		to.HighWatermark, to.Start = from.Frontiers.HighWatermark, from.Frontiers.Start
		to.LastStable = to.HighWatermark // nothing is undecided: transactions are not served
	}
	f.Done(f)
}

// compareEpochs finds out whether the client's log, which ends at the part's offset
// with a batch of LastFetchedEpoch, runs apart from this one (KIP-595).
func (f *Fetch) compareEpochs(ctx context.Context, part *FetchPart) error {
	epoch, end, err := f.broker.EpochEnd(ctx, part.Topic, part.Partition, part.LeaderEpoch, part.LastFetchedEpoch)
	if err != nil {
		return err
	}
	if epoch < 0 || end < 0 {
		return ErrOffsetOutOfRange
	}
	if epoch < part.LastFetchedEpoch || end < part.Offset {
		part.Diverges, part.DivergingEpoch, part.DivergingEnd = true, epoch, end
	}
	return nil
}
