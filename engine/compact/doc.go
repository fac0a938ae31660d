// Package compact is the decisions of key compaction, without I/O: which segments
// of a log to compact and when, which record of each key is the newest, what is
// kept of a batch, and what the batch then looks like. Package engine reads, writes
// and swaps the segments; it calls this on a shard's thread (Decide, Groups) and, for
// what takes long, on a goroutine of the compaction (Mapper, Copier), one after the other.
//
//	segments   ├──── clean ────┼──────────── dirty ────────────┼── too young, active ──
//	           start        Cleaned                   end ≤   To
//
//	1. Mapper  reads [Cleaned, To) and notes the newest offset of each key, up to end,
//	           where the map is full; the rest is for the next pass.
//	2. Copier  reads [start, end) and drops each record that the map has a newer one of.
//
// After a pass everything below end is clean: no key has two records there.
//
// # No gaps
//
// Kafka's compaction leaves gaps between batches. Here the offsets of dropped batches are
// covered: by the batch before them, whose last offset is raised, or, where that batch
// must keep its sequence numbers, by one batch without records for the whole run of them. What
// this costs is at most 61 bytes a run, of a producer that still counts; what it saves is
// that a segment stays what the engine's recovery, scans, indexes and tools take for
// sound: batches that follow one another without a hole. The base offset lies outside of a
// batch's checksum, so its neighbours are all that vouches for it; with gaps, a
// flipped bit in it could not be told from a record that was dropped. Clients know
// such batches: Kafka leaves them where it keeps a producer's last sequence number.
package compact
