// Package handle gives out the disk.File numbers of one Disk. A number carries
// a generation, so that a File which was closed names nothing, even after its
// place in the table was taken by another: using it is EBADF, never somebody
// else's file. The goroutine that owns the Disk owns its table.
package handle

import "ringlog/engine/disk"

const (
	slotBits       = 20 // a million open files, above any descriptor limit
	slotMask       = 1<<slotBits - 1
	generationMask = 1<<(31-slotBits) - 1 // what is left of a positive int32
)

// Table maps disk.File numbers to what an implementation keeps per open file.
// The zero Table is empty and ready for use.
type Table[T any] struct {
	slots []slot[T]
	free  []int32 // indices of slots not in use; the last freed is taken first
}

type slot[T any] struct {
	value      T
	generation int32
	used       bool
}

// Add stores value and returns its number, or false when the table is full.
func (t *Table[T]) Add(value T) (disk.File, bool) {
	var index int32
	if last := len(t.free) - 1; last >= 0 {
		index = t.free[last]
		t.free = t.free[:last]
	} else {
		if len(t.slots) >= slotMask {
			return 0, false
		}
		index = int32(len(t.slots))
		t.slots = append(t.slots, slot[T]{})
	}
	s := &t.slots[index]
	s.value, s.used = value, true
	// The slot part is index+1, so that no File is ever zero.
	return disk.File(s.generation<<slotBits | (index + 1)), true
}

// Get returns what file names.
func (t *Table[T]) Get(file disk.File) (value T, ok bool) {
	s := t.slot(file)
	if s == nil {
		return value, false
	}
	return s.value, true
}

// Remove forgets file and returns what it named.
func (t *Table[T]) Remove(file disk.File) (value T, ok bool) {
	s := t.slot(file)
	if s == nil {
		return value, false
	}
	value = s.value
	var none T
	s.value, s.used = none, false
	s.generation = (s.generation + 1) & generationMask
	t.free = append(t.free, int32(file)&slotMask-1)
	return value, true
}

// Len is the number of files in the table.
func (t *Table[T]) Len() int { return len(t.slots) - len(t.free) }

// All calls visit for each file, in the order of their slots.
func (t *Table[T]) All(visit func(file disk.File, value T)) {
	for index := range t.slots {
		if s := &t.slots[index]; s.used {
			visit(disk.File(s.generation<<slotBits|int32(index+1)), s.value)
		}
	}
}

// slot returns the slot that file names, or nil when file is stale or was never given out.
func (t *Table[T]) slot(file disk.File) *slot[T] {
	index := int(file)&slotMask - 1
	if file <= 0 || index < 0 || index >= len(t.slots) {
		return nil
	}
	s := &t.slots[index]
	if !s.used || s.generation != int32(file)>>slotBits {
		return nil
	}
	return s
}
