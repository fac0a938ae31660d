// Package meta is the cluster as everybody sees it: an immutable [Image] of
// topics, partitions and brokers, the commands that change it, and the
// registry of configurations.
//
//	command ──▶ Apply(image, index, command) ──▶ image', delta, result
//	                     pure: the same input gives the same output on every
//	                     broker, at every replay
//
// raftctl orders commands through its quorum and calls [Apply] on each broker
// in the same order; it alone makes new images. Everybody else (broker,
// frontends, tools) reads one: an Image and all that hangs on it never changes
// after it was published, so reading needs no lock and may go on for as
// long as the reader likes. Nothing here starts a goroutine, looks at a clock,
// draws a random number or does I/O: what has to be random (topic ids, log ids)
// is drawn by the proposer and travels inside the command.
//
// # Cost of a change
//
// An Image holds its topics three ways: a slice in name order and two
// [index]es, by name and by id, each cut into 256 small maps. A command copies the
// slice (eight bytes a topic: 80 KB and a few microseconds at 10,000 topics,
// once per command however many topics it touches) and, of the indexes, only the
// maps it writes to. A balanced tree would copy less, but it costs a reader of the
// produce path a dozen cache misses where the index costs one map lookup.
//
// # Stored form
//
// Commands and snapshots are framed by [AppendCommand] and [AppendImage]; see
// encoding.go for the bytes.
package meta
