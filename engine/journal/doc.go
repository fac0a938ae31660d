// Package journal is the frames of the commit journal as bytes, and the
// judgement of what a restart finds of them. Small appends of all logs of a shard
// go into one frame; one flush of the journal makes all of them durable
// (docs/journal.md). Package engine owns the ring of frames and calls this
// package from the shard's goroutine; here is no clock, no goroutine and no I/O.
//
// A frame is written once and never again. It begins at a block of 4096 bytes and
// fills whole blocks:
//
//	0          84                84 + data     84 + data + table
//	+----------+---------- … ----+------ … ----+-------+
//	|  header  |  batches of     |  table: one | zeros |
//	|          |  all entries    |  row each   |       |
//	+----------+---------- … ----+------ … ----+-------+
//	     │                            ▲  │         to a multiple of 4096
//	     │ CRC-32C of itself, and of ─┘  └─ CRC-32C of each entry's batches
//
// The table lies behind the batches because it is known last; batches are copied
// once, to where they stay. Three layers of checksums say what a damaged byte costs:
// in the header or the table the frame, in the batches one entry, in the padding
// nothing. docs/format/journal.md has every field.
package journal
