package buffer

import (
	"fmt"
	"sync/atomic"
)

// Buffer is a counted reference to one block of a pool. The header lives on
// the Go heap and is recycled by the pool; the bytes do not.
type Buffer struct {
	pool   *Pool
	memory []byte // the block; valid while references > 0
	page   int    // first page of the block in the arena
	order  int

	references atomic.Int32 // 0: the block is back in the pool

	next *Buffer // link in the pool's list of idle headers, under Pool.mu
}

// Bytes returns the whole block: a power of two of at least 4 KiB and of the
// size asked for, starting at a multiple of 4 KiB. What it holds at first is
// arbitrary. The slice is valid while the caller owns a reference. It panics
// when nobody does.
func (b *Buffer) Bytes() []byte {
	if b.references.Load() <= 0 {
		panic(fmt.Sprintf("buffer: pool %s: Bytes of a released buffer", b.pool.name))
	}
	return b.memory
}

// Retain adds a reference, to be released by its new owner, and returns b. The
// caller must own a reference; it panics when nobody does.
func (b *Buffer) Retain() *Buffer {
	if b.references.Add(1) <= 1 {
		panic(fmt.Sprintf("buffer: pool %s: Retain of a released buffer", b.pool.name))
	}
	return b
}

// Release drops one reference; the last one gives the memory back to the pool
// and may wake who waits for it. It panics when there is none left.
func (b *Buffer) Release() {
	left := b.references.Add(-1)
	if left > 0 {
		return
	}
	if left < 0 {
		panic(fmt.Sprintf("buffer: pool %s: Release of a released buffer", b.pool.name))
	}
	b.pool.giveBack(b)
}
