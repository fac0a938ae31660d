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

	// state is the number of references in the low half, 0 when the block is back in the
	// pool, and in the high half how often the header was handed out: a Weak names one such time.
	state atomic.Uint64

	next *Buffer // link in the pool's list of idle headers, under Pool.mu
}

// generationShift is where in Buffer.state the count of its lives stands.
const generationShift = 32

// references is the number of references in a state.
func references(state uint64) int32 { return int32(uint32(state)) }

// begin is the start of a new life, with one reference. REQUIRES: Pool.mu, and nobody owns one.
func (b *Buffer) begin() {
	b.state.Store((b.state.Load()>>generationShift+1)<<generationShift | 1)
}

// Bytes returns the whole block: a power of two of at least 4 KiB and of the
// size asked for, starting at a multiple of 4 KiB. What it holds at first is
// arbitrary. The slice is valid while the caller owns a reference. It panics
// when nobody does.
func (b *Buffer) Bytes() []byte {
	if references(b.state.Load()) <= 0 {
		panic(fmt.Sprintf("buffer: pool %s: Bytes of a released buffer", b.pool.name))
	}
	return b.memory
}

// Retain adds a reference, to be released by its new owner, and returns b. The
// caller must own a reference; it panics when nobody does.
func (b *Buffer) Retain() *Buffer {
	if references(b.state.Add(1)) <= 1 {
		panic(fmt.Sprintf("buffer: pool %s: Retain of a released buffer", b.pool.name))
	}
	return b
}

// Release drops one reference; the last one gives the memory back to the pool
// and may wake who waits for it. It panics when there is none left.
func (b *Buffer) Release() {
	left := references(b.state.Add(^uint64(0)))
	if left > 0 {
		return
	}
	if left < 0 {
		panic(fmt.Sprintf("buffer: pool %s: Release of a released buffer", b.pool.name))
	}
	b.pool.giveBack(b)
}

// Weak names a buffer without owning it: it keeps nothing from being given back. The zero
// Weak names nothing.
type Weak struct {
	buffer     *Buffer
	generation uint32
}

// Weak returns a name by which the buffer can be retained later, if it is still there then. The
// caller must own a reference.
func (b *Buffer) Weak() Weak {
	state := b.state.Load()
	if references(state) <= 0 {
		panic(fmt.Sprintf("buffer: pool %s: Weak of a released buffer", b.pool.name))
	}
	return Weak{buffer: b, generation: uint32(state >> generationShift)}
}

// Retain adds a reference, to be released by the caller, and returns the buffer, with the bytes
// that it had when Weak was called or that its owners have put there since; nil when
// its memory has gone back to the pool meanwhile. Safe for use by any goroutine.
func (w Weak) Retain() *Buffer {
	if w.buffer == nil {
		return nil
	}
	for {
		state := w.buffer.state.Load()
		if uint32(state>>generationShift) != w.generation || references(state) <= 0 {
			return nil
		}
		if w.buffer.state.CompareAndSwap(state, state+1) {
			return w.buffer
		}
	}
}
