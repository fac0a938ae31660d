package buffer

import "math/bits"

// bitset is a set of small integers that finds its smallest member in a few
// word reads: each level holds one bit per non-empty word of the level below.
//
// The smallest member is what a buddy allocator wants. Taking the lowest
// address first packs live blocks together, leaves the high end of the arena
// in large free pieces, and makes the outcome independent of the order in
// which blocks came back. Free lists threaded through per-page links would
// be as quick but cost nine bytes a page where this costs two bits.
type bitset struct {
	// levels[0] holds the members; levels[i+1] bit w is set exactly when
	// word w of levels[i] is not zero. The last level is a single word.
	levels [][]uint64
}

func newBitset(size int) bitset {
	var s bitset
	for {
		words := max(1, (size+63)/64)
		s.levels = append(s.levels, make([]uint64, words))
		if words == 1 {
			return s
		}
		size = words
	}
}

func (s *bitset) has(i int) bool {
	word := i >> 6
	return word < len(s.levels[0]) && s.levels[0][word]&(1<<(i&63)) != 0
}

func (s *bitset) add(i int) {
	for _, level := range s.levels {
		word := i >> 6
		before := level[word]
		level[word] = before | 1<<(i&63)
		if before != 0 {
			return
		}
		i = word
	}
}

func (s *bitset) remove(i int) {
	for _, level := range s.levels {
		word := i >> 6
		level[word] &^= 1 << (i & 63)
		if level[word] != 0 {
			return
		}
		i = word
	}
}

// first returns the smallest member, or -1.
func (s *bitset) first() int {
	i := 0
	for l := len(s.levels) - 1; l >= 0; l-- {
		word := s.levels[l][i]
		if word == 0 {
			return -1
		}
		i = i<<6 | bits.TrailingZeros64(word)
	}
	return i
}

// next returns the smallest member that is at least i, or -1.
func (s *bitset) next(i int) int {
	for word := i >> 6; word < len(s.levels[0]); word++ {
		rest := s.levels[0][word]
		if word == i>>6 {
			rest &= ^uint64(0) << (i & 63)
		}
		if rest != 0 {
			return word<<6 | bits.TrailingZeros64(rest)
		}
	}
	return -1
}
