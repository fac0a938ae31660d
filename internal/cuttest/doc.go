// Package cuttest cuts the power of a real file system under the real engine:
// ext4 and xfs on a loop device (package loopfs), O_DIRECT, io_uring. Again and
// again the engine runs under load, loses its disk at a moment that was drawn,
// must answer nothing with success from then on, and is started on what
// the file system then has.
//
// The package itself is the memory of what one log's user was told, the Ledger,
// which judges what a start finds; it knows no disk, and its own tests plant
// every kind of fault. Load and cuts are in its test files:
//
//	go test ./internal/cuttest -run TestCut -v -args -cuts=60 -seed=7
//
// # What is shown
//
// That every name, extent, size and rename that an answer relied on had been
// synced before: of segments that were created, rolled, deleted and reused, of
// log.meta, checkpoint, snapshots and indexes, of prepared space that is
// written for the first time. Cuts are aimed at the moment after each of these
// operations, in the load and in recoveries, and at any time.
//
// # What is not
//
// A loop device has no cache to lose: what was written to blocks that were
// written and committed before survives without a flush, and no sector is torn
// (see package loopfs). A missing flush of an overwritten block is invisible
// here. Package engine/crashtest, on a disk in memory that loses exactly that,
// carries the rest.
//
// A seed fixes the load and the aim. How far the engine got by then it cannot
// fix, so a failure prints the seed and what contradicts the ledger.
package cuttest
