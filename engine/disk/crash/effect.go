package crash

import (
	"ringlog/engine/disk"
)

// effectKind says what an effect does to a file's content.
type effectKind uint8

const (
	stored    effectKind = iota // pages were written
	zeroed                      // a range was zeroed
	sized                       // only the size grew
	truncated                   // everything was dropped; no later effect survives without it
)

// effect is one completed change of a file that no Flush has made durable yet.
// A power cut keeps any part of it: each of its sectors, and its change of
// size, is a unit that is there afterwards or is not.
type effect struct {
	sequence uint64 // of its completion; a Flush compares it with that of its submission
	kind     effectKind
	offset   int64
	length   int64
	pages    []*page // of stored, from page offset/BlockBytes on
	size     int64   // the file's size after this, when this made it grow; else 0
	tearable bool    // its sectors may be torn inside
}

// sectors is the number of sectors that the effect touches, in part or whole.
func (e *effect) sectors() int {
	switch e.kind {
	case stored:
		return len(e.pages) * sectorsPerPage
	case zeroed:
		return int((e.offset+e.length-1)/disk.SectorBytes - e.offset/disk.SectorBytes + 1)
	}
	return 0
}

// units is the number of independent decisions a power cut takes about the effect.
func (e *effect) units() int {
	units := e.sectors()
	if e.size > 0 || e.kind == truncated {
		units++
	}
	return units
}

// apply carries the whole effect out on m.
func (e *effect) apply(m *image) {
	switch e.kind {
	case stored:
		for i, p := range e.pages {
			m.put(e.offset/disk.BlockBytes+int64(i), p)
		}
	case zeroed:
		m.zero(e.offset, e.length)
	case truncated:
		*m = image{}
	}
	m.size = max(m.size, e.size)
}

// applySome carries out those sectors that keep names, and the growth when
// grow is set. The caller cuts m to its size when all effects are applied.
func (e *effect) applySome(m *image, keep func(sector int) bool, grow bool, c chooser) {
	switch e.kind {
	case stored:
		for i, p := range e.pages {
			e.applyPage(m, e.offset/disk.BlockBytes+int64(i), p, i*sectorsPerPage, keep, c)
		}
	case zeroed:
		first := e.offset / disk.SectorBytes
		for i := range e.sectors() {
			if !keep(i) {
				continue
			}
			from := max(e.offset, (first+int64(i))*disk.SectorBytes)
			to := min(e.offset+e.length, (first+int64(i)+1)*disk.SectorBytes)
			m.zero(from, to-from)
		}
	}
	if grow {
		m.size = max(m.size, e.size)
	}
}

// applyPage merges the kept sectors of p into page index of m.
func (e *effect) applyPage(m *image, index int64, p *page, firstSector int, keep func(int) bool, c chooser) {
	var mask uint8
	for i := range sectorsPerPage {
		if keep(firstSector + i) {
			mask |= 1 << i
		}
	}
	switch {
	case mask == 0:
		return
	case mask == 1<<sectorsPerPage-1 && !e.tearable:
		m.put(index, p)
		return
	}
	merged := m.copyOfPage(index)
	for i := range sectorsPerPage {
		if mask&(1<<i) == 0 {
			continue
		}
		from, count := i*disk.SectorBytes, disk.SectorBytes
		if e.tearable && c.flip() {
			count = c.below(disk.SectorBytes)
		}
		copy(merged[from:from+count], p[from:])
	}
	m.put(index, merged)
}

// survive returns what a power cut leaves of a file: its durable image and any
// part of the effects behind it, in the order in which they completed, so that
// of several values written to one sector any may be found.
func survive(durable *image, effects []effect, c chooser) image {
	m := durable.clone()
	for i := range effects {
		e := &effects[i]
		if e.kind == truncated {
			// Metadata of one file reaches the device in order: what was
			// allocated after the truncation is not there without it.
			if !c.flip() {
				break
			}
			e.apply(&m)
			continue
		}
		keep := c.sectors(e.sectors())
		grow := e.size > 0 && c.flip()
		e.applySome(&m, keep, grow, c)
	}
	m.cut()
	return m
}
