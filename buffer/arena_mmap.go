//go:build linux && !race

package buffer

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// arena is the memory behind a pool: bytes that start on a huge page.
type arena struct {
	bytes  []byte
	mapped []byte
}

// newArena reserves address space only. MAP_NORESERVE: the budget of the pool
// is the bound, and a strict overcommit policy must not refuse to start a
// broker for memory that it may never touch.
func newArena(size int) arena {
	mapped, err := unix.Mmap(-1, 0, size+hugePageBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		// Address space is refused only by a limit set on the process
		// (RLIMIT_AS). A broker cannot run on without its memory.
		panic(fmt.Sprintf("buffer: cannot reserve %d bytes of address space: %v", size, err))
	}
	bytes := alignedSlice(mapped, size)
	if size >= hugePageBytes {
		// Advice only: a kernel without transparent huge pages refuses it
		// and the pool works on small pages.
		_ = unix.Madvise(bytes, unix.MADV_HUGEPAGE)
	}
	return arena{bytes: bytes, mapped: mapped}
}

// discard gives the pages of b, a piece of the arena, back to the system. They
// read as zero when touched again. It reports whether they did go back.
func (a arena) discard(b []byte) bool {
	return unix.Madvise(b, unix.MADV_DONTNEED) == nil
}

// touch makes the pages of b, a free piece of the arena, resident. Kernels
// before 5.14 refuse the advice; then each page is written to: the memory is
// free, so its content is nobody's.
func (a arena) touch(b []byte) {
	if unix.Madvise(b, unix.MADV_POPULATE_WRITE) == nil {
		return
	}
	for i := 0; i < len(b); i += pageBytes {
		b[i] = 0
	}
}

func (a arena) close() error { return unix.Munmap(a.mapped) }
