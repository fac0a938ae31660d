// Package model is the engine's durability rules as a machine small enough to
// be tried out completely: what a shard with a few logs, a commit journal, its
// segments, manifests and checkpoint may do, one step at a time, on a disk that
// may lose in any part what was not flushed. It decides and does nothing else:
//
//	Step(state, action) → state        Actions(state) → what may happen next
//	check(state) → what must hold      Crash: every subset of unflushed writes
//
// Explore goes through every state within a Scope, breadth first, Walk through
// long random ones; both return the shortest or the seeded trace to a broken
// promise. A Rule is one way to break the rules, to see that it is noticed; a
// rule whose absence is not noticed is not needed, and the tests name those.
//
// An Observer holds a run of the real engine against the same definitions: fed
// with what it appended, submitted, completed and published, it derives from
// first principles what may be called durable.
//
// Tests call both, on their own goroutine. What is left out: a batch is one or
// two blocks and a write one block, never torn (the crash disk tears); memory,
// pacing, retention, and failures of the disk other than a damaged frame.
//
//	state        frames         ring, one frame a place: absent, in flight, written, flushed
//	             blocks         of each log's segments, the same
//	             manifest       generation, second segment, sealed, cutting, deleted
//	             checkpoint     run, from, and of each log generation, S, D
//	             memory         next, S, ends of entries, flushes with what they captured
//	             promises       what was published, what was appended: seen by checks alone
package model
