// Package coord runs coordinators: state machines, each behind one partition of an internal topic, whose every
// change is a record of that partition. It knows neither Kafka nor the engine; it reaches the partitions
// through its own interface [Log].
//
//	Ask ──▶ inbox ──▶ Machine.Step ──▶ records ──▶ Log.Append ──▶ committed
//	                        │                                        │
//	                        └──▶ answers ── parked until ────────────┘──▶ who asked
//
// State changes when a machine steps, not when its records are committed: the next request is decided on
// what the last one did, and many requests share one append. Nobody learns of it earlier, though: an
// answer leaves when all that was appended before it is committed. So what a
// client was told is always in the log, and a machine that cannot append is thrown away:
// who waits is told to try again, and a new one is loaded from the log, which is the
// truth.
//
//	         Lead                 replayed
//	(none) ───────▶ loading ───────────────▶ active
//	   ▲              ▲  │ unreadable           │ append failed
//	   │ Resign       │  ▼                      ▼
//	   └───────── (any)  failed ◀───────────────┘
//	                  └── after a pause, when no append is under way
//
// While a partition is loading requests get [ErrLoading], while it has failed [ErrUnavailable]: never an answer
// from half a state.
//
// # Goroutines
//
// A [Runtime] has one goroutine, which owns all its machines but those that are loading: each of these belongs to
// the goroutine that replays its log, until it is handed over. Methods of Runtime are safe for use by any goroutine and do
// not block. Callbacks run on the runtime's goroutine and must not block.
package coord
