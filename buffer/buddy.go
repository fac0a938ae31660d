package buffer

import "math/bits"

const (
	pageBytes     = 4 << 10
	pageShift     = 12
	hugePageBytes = 2 << 20
	orderMax      = 15 // 4 KiB << 15 = 128 MiB
	orderCount    = orderMax + 1
	orderHuge     = 9 // the order of a block of one huge page
)

const (
	_ = uint(pageBytes<<orderHuge - hugePageBytes)
	_ = uint(hugePageBytes - pageBytes<<orderHuge)
)

// buddy decides which pages of an arena are free. It knows page numbers, not
// memory. A block of order k is 2^k pages and starts at a multiple of 2^k.
// Its owner serialises access.
//
// Invariant: no two free blocks are buddies (they would be one block of the
// next order), and every page belongs to exactly one held block or one free
// block.
type buddy struct {
	free  [orderCount]bitset // free[k] holds (first page >> k) of each free block of order k
	pages int
}

func newBuddy(pages int) *buddy {
	b := &buddy{pages: pages}
	for order := range b.free {
		b.free[order] = newBitset(pages >> order)
	}
	// An arena that is no power of two is a row of ever smaller blocks. The
	// buddy of the last one of each size lies beyond the end and is never
	// free, so release needs no special case for it.
	for page := 0; page < pages; {
		order := min(orderMax, bits.Len(uint(pages-page))-1)
		b.free[order].add(page >> order)
		page += 1 << order
	}
	return b
}

// orderFor returns the smallest order whose block holds size bytes.
func orderFor(size int) int {
	if size <= pageBytes {
		return 0
	}
	return bits.Len(uint(size-1)) - pageShift
}

// take returns the first page of a block of the order, the lowest there is in
// the smallest piece that fits; ok is false when no piece is large enough.
func (b *buddy) take(order int) (page int, ok bool) {
	for have := order; have < orderCount; have++ {
		block := b.free[have].first()
		if block < 0 {
			continue
		}
		b.free[have].remove(block)
		for ; have > order; have-- {
			block <<= 1
			b.free[have-1].add(block + 1)
		}
		return block << order, true
	}
	return 0, false
}

// peek returns what take would, and takes nothing.
func (b *buddy) peek(order int) (page int, ok bool) {
	for have := order; have < orderCount; have++ {
		if block := b.free[have].first(); block >= 0 {
			return block << have, true
		}
	}
	return 0, false
}

// split takes the block of order want that starts at page out of the free
// block of order have that starts at from and contains it; the rest stays free.
func (b *buddy) split(from, have, page, want int) bool {
	if !b.takeAt(from, have) {
		return false
	}
	for have > want {
		have--
		half := from + 1<<have
		if page >= half {
			b.free[have].add(from >> have)
			from = half
		} else {
			b.free[have].add(half >> have)
		}
	}
	return true
}

// takeAt takes the free block of exactly this order that starts at page.
func (b *buddy) takeAt(page, order int) bool {
	if !b.free[order].has(page >> order) {
		return false
	}
	b.free[order].remove(page >> order)
	return true
}

// give returns a block and joins it with its free buddies.
func (b *buddy) give(page, order int) {
	block := page >> order
	for order < orderMax && b.free[order].has(block^1) {
		b.free[order].remove(block ^ 1)
		block >>= 1
		order++
	}
	b.free[order].add(block)
}
