package buffer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// freeBlocks lists the free blocks of each order, for comparison.
func (b *buddy) freeBlocks() (blocks [orderCount][]int) {
	for order := range b.free {
		for i := b.free[order].next(0); i >= 0; i = b.free[order].next(i + 1) {
			blocks[order] = append(blocks[order], i)
		}
	}
	return blocks
}

// TestBuddyNeverOverlapsAndAlwaysCoalesces runs random takes and gives against
// the plainest model there is: who owns each page.
func TestBuddyNeverOverlapsAndAlwaysCoalesces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.IntRange(1, 5000).Draw(t, "pages")
		b := newBuddy(pages)
		fresh := b.freeBlocks()
		type block struct{ page, order int }
		var held []block
		owned := make([]bool, pages)
		ownedCount := 0

		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				order := rapid.IntRange(0, 8).Draw(t, "order")
				page, ok := b.take(order)
				if !ok {
					if order == 0 && ownedCount < pages {
						t.Fatalf("no page, with %d of %d held", ownedCount, pages)
					}
					return
				}
				if page%(1<<order) != 0 {
					t.Fatalf("block of order %d at page %d is not aligned", order, page)
				}
				for i := page; i < page+1<<order; i++ {
					if owned[i] {
						t.Fatalf("page %d has two holders", i)
					}
					owned[i] = true
				}
				ownedCount += 1 << order
				held = append(held, block{page, order})
			},
			"give": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing held")
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				given := held[i]
				held = append(held[:i], held[i+1:]...)
				for i := given.page; i < given.page+1<<given.order; i++ {
					owned[i] = false
				}
				ownedCount -= 1 << given.order
				b.give(given.page, given.order)
			},
			"": func(t *rapid.T) {
				free := 0
				for order, blocks := range b.freeBlocks() {
					for i, block := range blocks {
						free += 1 << order
						if owned[block<<order] {
							t.Fatalf("page %d is free and held", block<<order)
						}
						if i > 0 && order < orderMax && blocks[i-1]^1 == block {
							t.Fatalf("buddies %d and %d of order %d are both free", blocks[i-1], block, order)
						}
					}
				}
				if free+ownedCount != pages {
					t.Fatalf("%d free and %d held of %d pages", free, ownedCount, pages)
				}
			},
		})
		for _, h := range held {
			b.give(h.page, h.order)
		}
		if diff := cmp.Diff(fresh, b.freeBlocks()); diff != "" {
			t.Fatalf("all is back and the arena is not what it was (-fresh +now):\n%s", diff)
		}
	})
}

// TestBuddyServesTheLargestBlockAfterAnyHistory: when all small blocks have
// come back, in any order, the arena is as good as new.
func TestBuddyServesTheLargestBlockAfterAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pages = 1 << 10
		b := newBuddy(pages)
		var taken []int
		for page, ok := b.take(0); ok; page, ok = b.take(0) {
			taken = append(taken, page)
		}
		if len(taken) != pages {
			t.Fatalf("%d single pages out of %d", len(taken), pages)
		}
		for _, page := range rapid.Permutation(taken).Draw(t, "order of return") {
			if _, ok := b.take(10); ok {
				t.Fatal("the whole arena is free while a page is held")
			}
			b.give(page, 0)
		}
		if page, ok := b.take(10); !ok || page != 0 {
			t.Fatal("the arena did not grow together again")
		}
	})
}

func TestBuddyTakesTheLowestAddress(t *testing.T) {
	b := newBuddy(64)
	for want := range 8 {
		if page, _ := b.take(0); page != want {
			t.Fatalf("took page %d, want %d", page, want)
		}
	}
	b.give(5, 0)
	b.give(2, 0)
	if page, _ := b.take(0); page != 2 {
		t.Errorf("took page %d, want the lowest free one, 2", page)
	}
}

func TestBitsetFindsMembersLikeAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 300_000).Draw(t, "size")
		s := newBitset(size)
		model := map[int]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, size-1).Draw(t, "member")
			if model[i] {
				s.remove(i)
				delete(model, i)
			} else {
				s.add(i)
				model[i] = true
			}
			want := -1
			for m := range model {
				if want < 0 || m < want {
					want = m
				}
			}
			if got := s.first(); got != want {
				t.Fatalf("first is %d, want %d", got, want)
			}
			if got := s.next(0); got != want {
				t.Fatalf("next(0) is %d, want %d", got, want)
			}
			if s.has(i) != model[i] {
				t.Fatalf("has(%d) is %v", i, s.has(i))
			}
		}
	})
}
