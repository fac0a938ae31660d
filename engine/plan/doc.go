// Package plan is the decisions of the storage engine, as pure functions: when
// a segment ends, what may be deleted, how much space to prepare, which bytes to
// write now, what to flush, where recovery begins and how it ends. Package engine
// calls them on the shard's thread and carries out what they say; here is no
// clock, no I/O and no state that the caller does not hold.
package plan
