// Package segment is how the data of one log lies on disk: file names, the
// formats of the small files beside the records, and the index from offsets and
// timestamps to file positions. It turns values into bytes and back and does no
// I/O; package engine reads and writes the files, on the shard's thread.
//
// A log has one directory, named by its id:
//
//	0f3c…/                          32 hex digits
//	  log.meta                      the manifest: the one list of what belongs to the log
//	  00000000000000000000.log      record batches, named by the first offset
//	  00000000000000000000.index    offset index of that file
//	  00000000000000000000.timeindex
//	  00000000000000052310.log      the last one is being appended to
//	  00000000000000010000.2.log    a segment that compaction wrote, in its second pass there
//	  00000000000000071044.snapshot side state of the replica as of that offset
//	  coming-1.prepared             space for the segments after it
//	shard-0.checkpoint              beside the directories: where recovery starts
//	shard-0.journal                 the ring of package journal's frames
//	shard-0.reserve                 space that is given up when the disk is full
//
// A segment file is Kafka's record batches (magic 2) back to back from position
// 0, exactly as the producer sent them but for base offset and leader epoch, or what package
// compact left of them. Behind
// the last batch lies prepared space: zeros, or, in a file that was used before,
// older batches of the same log, whose offsets are lower than any that may come.
//
// All other files are stored as one block (see [AppendStored]):
//
//	 0        4         6      8          12         16
//	+--------+---------+------+----------+----------+--- … ---+--- … ---+
//	| magic  | version | zero | length   | CRC-32C  |  body   |  zeros  |
//	+--------+---------+------+----------+----------+--- … ---+--- … ---+
//	  4 B      2 B       2 B    4 B        4 B        length    to a multiple of 4096
//
// Numbers are little-endian. The CRC covers the bytes 0 to 12 and the body. The
// bodies are drawn at [Manifest], [Checkpoint], [Index] and [Snapshot], and in docs/format.
package segment
