// Package commit measures what it costs to make small appends to many logs
// durable: the storage engine without its network, and raw programs that do
// the same writes with no engine. The command line calls it (perf commit).
//
//	group of appends ─▶ engine.Append ──▶ shard ─▶ files ─▶ Answered
//	the same group  ──▶ a raw program, one goroutine and its ring ─▶ answered
//
// An append is one batch with one record. Partitions are cut into slices, and a
// group is one append to each partition of a slice: what one produce request
// with many partitions is to a broker. A group is submitted as one, and again as
// soon as it is answered, which is when all its appends are: a closed loop.
//
// The raw programs do what cannot be left out and nothing else. Each copies a
// batch once, into aligned memory, takes one CRC-32C over it (a frame needs one,
// since another log's bytes may follow), writes past the page cache into files that were
// written before, and flushes. They keep no offsets, indexes, names, space or
// readers, and answer without a hand-over between threads.
//
//	journal  all batches of a commit one behind the other in one file, one flush
//	syncfs   one write for each partition's file, then one syncfs with its fdatasync
//	files    one write for each partition's file, then a flush of each, in parallel
//	direct   each partition for itself: whole blocks for each append, then its flush
//
// One goroutine, the caller's of Run, owns the load and all figures; a raw
// program's disk belongs to a goroutine that Run starts and waits for.
package commit
