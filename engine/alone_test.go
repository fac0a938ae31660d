package engine

import (
	"encoding/binary"
	"fmt"

	"ringlog/record"
)

// aloneReplica is the smallest Replica that leads alone: it accepts every batch,
// commits what is durable (or written, when relaxed) and keeps a count of
// batches as its side state. It allocates nothing once its queue has grown.
type aloneReplica struct {
	epoch         int32
	relaxed       bool
	highWatermark int64
	parked        []aloneParked
	head          int
	batches       uint64 // appended or replayed
	replayed      int    // batches seen by Replay since the start
	restored      int64  // count that Restore brought, -1 for none
	failed        error
	remembered    []int64          // what compaction must keep
	truncated     func(next int64) // told of each EventTruncated, if not nil
}

type aloneParked struct {
	append *Append
	base   int64
	end    int64
}

func (r *aloneReplica) Restore(snapshot []byte) error {
	r.batches, r.restored = 0, -1
	if snapshot == nil {
		return nil
	}
	if len(snapshot) != 8 {
		return fmt.Errorf("replica: snapshot of %d bytes", len(snapshot))
	}
	r.batches = binary.LittleEndian.Uint64(snapshot)
	r.restored = int64(r.batches)
	return nil
}

func (r *aloneReplica) AppendSnapshot(dst []byte) []byte {
	return binary.LittleEndian.AppendUint64(dst, r.batches)
}

func (r *aloneReplica) Remembered(int64, []int64) []int64 { return r.remembered }

func (r *aloneReplica) Replay(record.Batch) {
	r.batches++
	r.replayed++
}

func (r *aloneReplica) Step(_ int64, event *Event, effects []Effect) []Effect {
	f := event.Frontiers
	switch event.Kind {
	case EventLead:
		r.epoch = event.Epoch
	case EventConfigured:
		r.relaxed = event.Relaxed
		return r.advance(f, effects)
	case EventProduce:
		a := event.Append
		end := f.Next + int64(a.Batch.LastOffsetDelta()) + 1
		r.parked = append(r.parked, aloneParked{append: a, base: f.Next, end: end})
		r.batches++
		return append(effects, Effect{Kind: EffectAppend, Append: a, Epoch: r.epoch})
	case EventOpened, EventAdvanced, EventStartAdvanced:
		return r.advance(f, effects)
	case EventTruncated:
		r.highWatermark = min(r.highWatermark, f.Next)
		if r.truncated != nil {
			r.truncated(f.Next)
		}
	case EventFailed, EventClosing:
		r.failed = event.Err
		for _, p := range r.parked[r.head:] {
			effects = append(effects, Effect{Kind: EffectAnswer, Append: p.append, Offset: -1, Err: event.Err})
		}
		r.parked, r.head = nil, 0
	}
	return effects
}

func (r *aloneReplica) advance(f Frontiers, effects []Effect) []Effect {
	committed := f.Durable
	if r.relaxed {
		committed = f.Written
	}
	if committed <= r.highWatermark {
		return effects
	}
	r.highWatermark = committed
	effects = append(effects, Effect{Kind: EffectHighWatermark, Offset: committed})
	for r.head < len(r.parked) && r.parked[r.head].end <= committed {
		p := r.parked[r.head]
		r.head++
		effects = append(effects, Effect{Kind: EffectAnswer, Append: p.append, Offset: p.base})
	}
	if r.head == len(r.parked) {
		r.parked, r.head = r.parked[:0], 0
	} else if r.head > 1024 {
		n := copy(r.parked, r.parked[r.head:])
		r.parked, r.head = r.parked[:n], 0
	}
	return effects
}
