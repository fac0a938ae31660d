// Package engine is the storage engine: append-only logs of record batches on
// one data directory, made durable by group commit. Package broker calls it
// through [API]; package replica decides, through [Replica], what is appended and
// what readers may see.
//
// # Ownership
//
// A shard owns a disk.Disk and the logs on it. Everything of a shard belongs to
// the goroutine that calls its turn: the loop of an [Engine], locked to its
// thread, or a test's own goroutine through a [Stepper]. Other goroutines send
// messages through an inbox, read a Log's published frontiers, and hold counted
// references to memory. There is no lock on the data path but the inbox's.
//
// # Shards
//
//	          ┌▶ inbox ─▶ shard 0 ─▶ disk ─┐
//	Engine ───┼▶ inbox ─▶ shard 1 ─▶ disk ─┼─▶ one directory
//	   │      └▶ inbox ─▶ shard 2 ─▶ disk ─┘
//	   └ Log.home ◀─ placement table
//
// A group of appends goes whole to each shard of its logs, and each takes its own of
// it (group.go). A read of several shards is led by one of them (join.go). What the
// last run left is read once, before any shard takes a log (boot.go), so the number of shards
// may change between runs; a log can change its shard at any time (move.go).
// What belongs to all of them is the registry of open logs, the placement table and
// the pools of memory; a shard that has none left asks the others (memory.go).
//
// # The life of a batch
//
//	Append ─▶ inbox ─▶ room? ─▶ Replica.Step ─▶ offset, copy into the tail
//	                    │ no: waits for space, memory or a trim, in order
//	                    ▼
//	tail ─┬─ little ─▶ frame of all logs ─▶ write ─▶ flush of the journal ─▶ J ─┐
//	      │              └ later ─▶ written back, one syncfs a trim ─▶ S        ├▶ durable = max(S, J)
//	      └─ much ───▶ write to the segment ─▶ flush of the segment ─▶ S ───────┘        │
//	                                 Replica.Step ─▶ high watermark ─▶ readers, answers ◀┘
//
//	offset    start ≤ high watermark ≤ durable ≤ written ≤ next
//	bytes                              flushed ≤ completed ≤ submitted ≤ next
//
// Writes of a log complete in any order and count in order, and so do frames; a flush covers what
// had completed when it was submitted; published frontiers stop at the first
// segment whose name is not durable. That is all there is to "acknowledged means
// durable", and each step is a comparison in write.go, commit.go, journal.go or log.go.
// Without a journal everything goes the second way. A start merges what the journal has and the
// segments have not (merge.go) before any log is opened. docs/journal.md is the design.
//
// # A log
//
//	            Create            Lead, Append, Read, Truncate, ...
//	 (nothing) ───────▶ open ◀──────────────────────────────────┐
//	                     ▲ │ └──────────────────────────────────┘
//	Open: recover, flush │ │ write or flush failed      Delete, Close
//	                     │ ▼                                 │
//	          on disk ───┘ poisoned: reads only ─────────────┴──▶ closed
//	             │ durable bytes are gone        ▲
//	             └──────────▶ fenced ────────────┘
//
// # Work of several steps
//
// Whatever needs the disk more than once (open, roll, seal, truncate, retention,
// checkpoint, reads behind the tail) is a job: straight-line code in a coroutine
// on the shard's thread that gives the thread back at each wait (job.go). Appends,
// writes and flushes are no jobs but a state machine that allocates nothing.
//
// How the files look is written in packages segment and journal, what decides in
// package plan, how disks behave in package disk.
package engine
