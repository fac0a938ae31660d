// Package dump reads a data directory without a broker: what it holds, and whether
// all of it is what was written. `ringlog dump` calls it, from its own goroutine;
// nothing here changes a byte.
//
//	Store ── Log ── Batches ──▶ batches of the segments, then those that only the journal has
//	   │       └─── Summary
//	   ├──── Ring ── Frames ──▶ what lies in a commit journal, and what a start would take of it
//	   └──── Verify ──────────▶ Report: Damage with file, position and offsets, and what to do
//
// Every format is read by its owner's decoder (engine/segment, engine/journal, record, replica, meta,
// raftctl), and the pure decisions of a start (journal.Judge, plan.Batch, plan.Recovery) say
// what it would take. What this package has of its own is the walk: recovery in
// package engine repairs as it reads, and that is what a reader of evidence must not do.
//
// A Store stands on an fs.FS whose root is the engine's directory, DATA-DIR/logs, so that a
// test may hold one in memory and damage it. Files must implement io.ReaderAt, as those of
// os.DirFS do. A Store belongs to one goroutine.
//
// While a broker writes, what is read is of several moments: Options.Live then takes for
// a note what only a directory at rest can be blamed for.
package dump
