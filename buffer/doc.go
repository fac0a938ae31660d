// Package buffer hands out off-heap memory that is counted, bounded and
// reference counted: the only currency between network, frontends and engine.
//
// A [Pool] reserves its whole budget as one arena when it is made and cuts it
// with a buddy allocator into power-of-two blocks of 4 KiB to 128 MiB, each
// aligned to 4 KiB so that it can go to an O_DIRECT write as it is. Pages cost
// nothing until they are touched; memory that comes back stays with the pool
// (and warm) until [Pool.Trim].
//
//	arena   |<------------------------- LimitBytes ------------------------>|
//	        +---------------+-------+---+-+-+-------------------------------+
//	        |    held       | free  | h |f|h|             free              |
//	        +---------------+-------+---+-+-+-------------------------------+
//	block   2^n pages of 4 KiB, at a multiple of its own size; two free
//	        halves of the same parent are joined the moment the second one
//	        comes back
//
// # Ownership
//
// Any goroutine may call any method of a Pool. A [Buffer] starts with one
// reference, owned by who asked for it. Whoever hands it to somebody who may
// outlive the call retains it first; every reference is released exactly once
// and the last release returns the memory. A slice of [Buffer.Bytes] is valid
// only while its holder owns a reference.
//
// # Why not the Go heap
//
// The kernel reads and writes these bytes while no Go code runs, huge pages
// double the rate at which they can be filled, and gigabytes of live buffers
// would otherwise set the pace of the garbage collector. The price is that
// nobody but the reference count knows who uses a block, so test builds poison
// what is freed and look for later writes (see checks.go), and race builds
// take the arena from the Go heap, where the race detector can see it.
package buffer
