// Package perf measures: a broker (Produce, Consume), the ceiling that the same
// machine sets for it (Bare), and the disk alone (Device). The command line calls it;
// everything it reports marshals to JSON.
//
// The load generator speaks the Kafka protocol to any broker and is built to
// measure the broker and not itself: the record batch is built once, requests
// are encoded once per partition, and a send is one writev of a 12-byte header
// of its own and memory that all connections share. Replies are checked at
// byte positions that were found by encoding the expected reply (layout.go);
// a reply of any other shape is decoded in full.
//
//	produce ── raw pipelined connections ──▶ any Kafka broker
//	bare    ── the same connections ──▶ BareServer: checksum, copy, write, flush, fixed reply
//	device  ── engine/disk alone
//
// A closed loop keeps Depth requests in flight per connection. An open loop
// (Rate) sends by the clock and measures each latency from the time at which
// the request was due, so a stall is paid by every request that it delayed. That of
// a stall at the end is sent too, late: what was due in a run is part of it.
//
// Errors in replies are counted by name and make the run fail: a rate of
// refused requests is not a rate.
package perf
