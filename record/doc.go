// Package record reads, checks, patches and builds Kafka record batches of
// format 2 (KIP-98), as bytes. It is the format on the wire and on disk: a
// batch is stored exactly as its producer sent it, but for the few header
// fields that belong to the broker.
//
//	          0        8       12       16      17      21       23
//	          +--------+--------+--------+-------+-------+--------+
//	          | base   | batch  | leader | magic | CRC   | attri- |
//	          | offset | length | epoch  | = 2   | -32C  | butes  |
//	          +--------+--------+--------+-------+-------+--------+
//	bytes         8        4        4        1       4       2
//	                                                   ^------------ the CRC covers
//	          23       27       35       43       51      53       57      61
//	          +--------+--------+--------+--------+-------+--------+-------+
//	          | last   | base   | maximum| pro-   | pro-  | base   | record|
//	          | offset | time-  | time-  | ducer  | ducer | se-    | count |
//	          | delta  | stamp  | stamp  | id     | epoch | quence |       |
//	          +--------+--------+--------+--------+-------+--------+-------+
//	bytes         4        8        8        8        2       4        4
//	          followed by the records, compressed as one piece or not ------> to the end
//
// Integers are big endian. Base offset and leader epoch lie before the CRC, so
// that a leader patches both without touching the checksum; docs/format/
// record-batch.md describes every field and the records.
//
// Who uses what: frontends check what a client sent with a [Validator]; the
// engine walks segments and journals with [Next] and [Batch.Check]; list-offsets
// and compaction read records with a [Reader], [FindTimestamp] and
// [MaxTimestamp]; coordinators, tools and tests build batches with a [Builder].
//
// Nothing here starts a goroutine, reads a clock or does I/O. Functions are
// safe for concurrent use on different bytes; Validator, Reader and Builder
// belong to one goroutine at a time.
package record
