package engine

import "ringlog/record"

// Replica decides, on the shard's thread, what happens to each produced batch
// and how far readers may see. It is a pure step: no clock, no goroutine, no
// I/O, no lock; the engine owns it, calls it from the shard only, and carries
// out its effects. Package replica implements it; the engine only knows this
// interface, so the arrow replica → engine stays one-way.
type Replica interface {
	// Restore loads what AppendSnapshot made. It is called before any Replay, with
	// nil when there is no usable snapshot. An error means that the snapshot
	// lies: the engine forgets it and replays the whole log instead. It starts
	// the side state over: a truncation calls it again, with what there is of
	// below the cut, followed by Replay and EventTruncated.
	Restore(snapshot []byte) error

	// AppendSnapshot appends the replica's side state (producer ids, epochs and
	// last sequences) as of the last batch appended or replayed, and returns dst.
	AppendSnapshot(dst []byte) []byte

	// Remembered appends to offsets the base offsets of the batches that a producer's retry
	// would be answered from, in any order, and returns it: compaction keeps their
	// sequence numbers, so that Replay of the whole log leads to the same answers.
	Remembered(nowMillis int64, offsets []int64) []int64

	// Replay shows the replica a batch that recovery found above the snapshot,
	// in offset order. batch is valid during the call only.
	Replay(batch record.Batch)

	// Step takes one event and appends its effects, in order, to effects,
	// which it returns. nowMillis is wall-clock time. event is valid during the
	// call only; effects belong to the engine.
	Step(nowMillis int64, event *Event, effects []Effect) []Effect
}

// EventKind says what an Event tells a Replica.
type EventKind uint8

const (
	// EventOpened: the log is recovered and flushed; Frontiers are set. Comes
	// once, after Restore and Replay, before all else.
	EventOpened EventKind = iota + 1
	// EventConfigured: Relaxed is set. Comes after EventOpened and at each change.
	EventConfigured
	// EventLead: this broker leads the partition under Epoch from now on.
	EventLead
	// EventProduce: Append.Batch asks for offsets, the next being Frontiers.Next.
	// The replica answers with exactly one EffectAppend, or with an EffectAnswer
	// (refused, or a duplicate that is already below the high watermark), or
	// with neither when it parks a duplicate until its original is durable.
	EventProduce
	// EventAdvanced: Frontiers.Written or Frontiers.Durable rose.
	EventAdvanced
	// EventTruncated: everything at and above Frontiers.Next is gone.
	EventTruncated
	// EventStartAdvanced: Frontiers.Start rose (retention, DeleteRecords).
	EventStartAdvanced
	// EventFailed: the log is poisoned by Err; every parked produce is answered
	// with it and no produce is ever accepted again.
	EventFailed
	// EventClosing: the log closes; every parked produce is answered with Err.
	EventClosing
)

// Event is one input of a Replica.
type Event struct {
	Kind      EventKind
	Frontiers Frontiers
	Epoch     int32
	Relaxed   bool    // flush.messages > 1: written is enough, durable follows by flush.ms
	Append    *Append // of EventProduce; the replica may keep the pointer until it answers
	Err       error
}

// EffectKind says what an Effect asks of the engine.
type EffectKind uint8

const (
	// EffectAppend: give Append's batch the next offset, under leader epoch Epoch.
	EffectAppend EffectKind = iota + 1
	// EffectAnswer: answer Append with BaseOffset and MaxTimestamp, or with Err. Each Append is answered
	// exactly once.
	EffectAnswer
	// EffectHighWatermark: readers may see everything below Offset.
	EffectHighWatermark
)

// Effect is one output of a Replica.
type Effect struct {
	Kind   EffectKind
	Append *Append
	Epoch  int32
	Offset int64 // EffectHighWatermark: exclusive. EffectAnswer: the base offset
	// MaxTimestamp is, of an EffectAnswer, that of the batch that is stored.
	MaxTimestamp int64
	Err          error
}

// Frontiers are a log's positions, all exclusive ends but Start:
// Start ≤ HighWatermark ≤ Durable ≤ Written ≤ Next (a relaxed topic's high
// watermark may pass Durable, never Written).
type Frontiers struct {
	Start         int64 // first offset that can be read
	HighWatermark int64 // readers see what is below
	Durable       int64 // flushed: survives a power cut
	Written       int64 // the device took it: survives kill -9
	Next          int64 // offset of the next record to be appended
}
