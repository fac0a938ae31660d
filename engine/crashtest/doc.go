// Package crashtest looks for crashes that a log does not survive. It drives an
// engine.Stepper on a disk of package crash through scripts of operations, and
// at every point at which the disk could be found after a power cut or a kill
// it takes that disk, recovers from it, and holds what it finds against what
// was promised. The tests of package engine call it; everything runs on the
// calling goroutine and is a function of the seed.
//
//	script ─▶ engine ─▶ probe ─▶ crash.Disk
//	             │         │
//	   answers,  │         └─ at each Wait: Crash(seed), Kill(seed) ─▶ recover ─▶ read all, compare
//	   frontiers ▼                                                       │          retry the last five
//	         expectation ◀──────────────────────────────────────────────┘          append the next
//	         (what must be                                       and from inside recovery
//	          there, what may)                                   the same again, Depth times
//
// # What is promised
//
// An expectation says of one log, at one moment, what its user knows:
//
//   - no acknowledged record is lost, nor one that a reader could have seen, nor
//     one that the frontiers called durable (after a kill: written);
//   - an offset has one value for ever, unless a truncation that was asked for took it;
//   - there is no hole, and no batch that was not submitted, twice, or given up before;
//   - a retry of each of the last five batches of each producer is answered with
//     its offset and not appended again, and the next sequence is accepted;
//   - a recovery never fails, and another one after it finds the same;
//   - what was created, deleted, truncated or advanced durably, stays so, and
//     while it was under way the log is found in the state before or after.
//
// A bit that is flipped at rest or on its way from the disk may cost an error. It
// must not be served, and no log may shrink below its checkpoint in silence.
//
// Beside that, and without any crash, what an engine publishes is held against
// what it did to its disk: package engine/model derives from the operations alone
// what may be called durable (see life.holdPublished).
//
// Not asked: what a kill leaves after a failed flush (see life.outcome), and
// limits of reused segments, which begin at 64 MiB.
//
// Whether the explorer notices anything at all is tested by breaking the
// engine's rules one by one (package engine/internal/rule).
//
// A failure carries the seed, the script and a trace; the same seed replays it.
package crashtest
