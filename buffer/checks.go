package buffer

import (
	"bytes"
	"fmt"
	"testing"
)

// poisonByte fills freed memory in checked builds. 0xDB reads as a batch of
// negative length and an impossible magic, so a stale slice fails the first
// look at it instead of passing for somebody's data.
const poisonByte = 0xDB

// checksOn says whether new pools check the use of their memory: always in
// test binaries, in builds with the race detector, and in builds with the tag
// "invariants". A pool with checks
//
//   - fills a block with poisonByte when its last reference goes,
//   - panics when such a block was written to before it is handed out again,
//   - keeps a released header out of use for a while, so that releasing or
//     reading a buffer twice meets the dead header and panics, rather than
//     its next owner.
var checksOn = checksForced || testing.Testing()

// quarantineCount is how many released headers a checked pool holds back.
const quarantineCount = 1024

var poisonPage = bytes.Repeat([]byte{poisonByte}, pageBytes)

// poison remembers which pages are filled with poisonByte. A page that was
// never used, or was trimmed, is not. Each entry belongs to the holder of its
// page; a byte each, not a bit, because neighbours have different holders.
type poison struct {
	pages []bool
}

// freed fills a block that is about to go back to the allocator.
func (p *poison) freed(memory []byte, page int) {
	for i := 0; i < len(memory); i += pageBytes {
		copy(memory[i:], poisonPage)
		p.pages[page+i>>pageShift] = true
	}
}

// taken checks a block that the allocator just handed out.
func (p *poison) taken(pool string, memory []byte, page int) {
	for i := 0; i < len(memory); i += pageBytes {
		poisoned := &p.pages[page+i>>pageShift]
		if *poisoned && !bytes.Equal(memory[i:i+pageBytes], poisonPage) {
			at := i
			for memory[at] == poisonByte {
				at++
			}
			panic(fmt.Sprintf("buffer: pool %s: byte %d of the arena was written after its buffer was released", pool, page<<pageShift+at))
		}
		*poisoned = false
	}
}

// discarded forgets the poison of pages that went back to the system.
func (p *poison) discarded(page, count int) {
	clear(p.pages[page : page+count])
}
