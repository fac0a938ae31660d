// Package uring is the disk.Disk on Linux's io_uring, reached with raw system
// calls: no cgo and no ring library. One shard makes one and owns it; package backend
// chooses between it and package portable.
//
// The ring is set up with SINGLE_ISSUER and DEFER_TASKRUN where the kernel has
// them: completions are then posted only while the owner is inside
// io_uring_enter, so nothing interrupts it. That ties the ring to one thread:
// the first Wait locks the calling goroutine to its thread, Close unlocks it, and
// both must come from the same goroutine as every Wait between them.
//
// An operation travels
//
//	Submit → backlog → slot and submission entry → kernel → completion entry → Wait
//	                        ↑___________________________________|
//	                        the next step of an operation on paths
//
// The number of slots is the number of submission entries less one, which the
// wake needs. So the submission queue has room for each step, the completion
// queue (twice as long) cannot overflow, and what does not fit waits in the backlog.
//
// The kernel holds addresses of slots, paths and buffers that the garbage
// collector does not see: slots live in one array that never moves, and keep the
// operation, and with it the buffer, alive until its last completion.
//
// io_uring knows neither syncfs nor getdents: one helper goroutine makes these
// calls, and those that replace what a file system lacks, and wakes the owner
// through the ring like everybody else.
//
// Sources: io_uring(7), io_uring_setup(2), io_uring_enter(2),
// io_uring_register(2), openat2(2).
package uring

// DefaultEntries is the number of submission entries when Options names none:
// more than any measured device gains from (8 writes of 256 KiB keep it busy),
// enough for a recovery that opens hundreds of files at a time.
const DefaultEntries = 256

// entriesMax is the kernel's own bound (io_uring_setup(2), IORING_MAX_ENTRIES).
const entriesMax = 32768

// Options shape a Disk; the zero value is the default.
type Options struct {
	// Entries is the number of submission entries, rounded up to a power of
	// two between 4 and 32768; 0 means DefaultEntries. One less operation can be
	// with the kernel at a time.
	Entries int
	// Buffered asks for the page cache even where the file system takes O_DIRECT.
	Buffered bool
	// Reason is what Info says of why this implementation was chosen; "" when it was asked for.
	Reason string
}
