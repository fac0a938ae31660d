//go:build !linux || race

package buffer

// arena is the memory behind a pool: bytes that start on a huge page. This
// one is a piece of the Go heap, because the race detector does not look at
// memory mapped by hand.
type arena struct {
	bytes []byte
}

func newArena(size int) arena {
	return arena{bytes: alignedSlice(make([]byte, size+hugePageBytes), size)}
}

// discard reports false: the Go heap has no way to give back a part of an
// object.
func (arena) discard([]byte) bool { return false }

// touch does nothing: the runtime zeroed the object when it was made.
func (arena) touch([]byte) {}

func (arena) close() error { return nil }
