package crash

import (
	"iter"
	"maps"
	"slices"

	"ringlog/engine/disk"
)

// exhaustiveUnitsMax bounds CrashOutcomes whatever its limit: 2^24 outcomes are
// more than any test waits for.
const exhaustiveUnitsMax = 24

// Crash returns the disk as it is found after a power cut at this moment; seed
// decides all that is open. The Disk itself goes on as if nothing had happened.
func (d *Disk) Crash(seed uint64) *Disk {
	c := newDice(seed, 3)
	switch c.IntN(8) {
	case 0:
		c.mood = keepAll
	case 1:
		c.mood = keepNone
	}
	return d.crashWith(seed, c)
}

// CrashOutcomes goes through what may be found after a power cut at this
// moment: every outcome when no more than limit are possible, else limit of
// them, among them the one where all is kept and the one where nothing is.
func (d *Disk) CrashOutcomes(limit int) iter.Seq[*Disk] {
	return func(yield func(*Disk) bool) {
		if units := d.PendingUnits(); units <= exhaustiveUnitsMax && 1<<units <= limit {
			d.walkOutcomes(yield)
			return
		}
		for i := range limit {
			c := newDice(uint64(i), 4)
			switch i {
			case 0:
				c.mood = keepNone
			case 1:
				c.mood = keepAll
			}
			if !yield(d.crashWith(uint64(i), c)) {
				return
			}
		}
	}
}

// walkOutcomes yields every outcome there is.
func (d *Disk) walkOutcomes(yield func(*Disk) bool) {
	w := &walker{}
	for yield(d.crashWith(0, w)) && w.next() {
	}
}

// PendingUnits is the number of independent decisions a power cut at this
// moment would take: sectors, sizes and names that may be there or not.
func (d *Disk) PendingUnits() int {
	w := d.withFlights(newDice(0, 0), everything)
	units := len(w.names)
	for _, file := range w.dirty {
		for i := range file.effects {
			units += file.effects[i].units()
			if e := &file.effects[i]; e.tearable {
				units += e.sectors()
			}
		}
	}
	for _, f := range d.allFlying() {
		if f.kind == disk.Write && f.fault != nil && f.fault.Err != nil {
			units += len(f.buffer) / disk.SectorBytes // which of them it moves before it fails
		}
	}
	return units
}

// Kill returns the disk as the next process finds it when this one dies at
// this moment and the machine lives on: all that completed is there, what was
// handed to the device happened whole, in part or not at all. None of it has
// become any more durable.
func (d *Disk) Kill(seed uint64) *Disk {
	c := newDice(seed, 5)
	w := d.withFlights(c, somehow)
	options := d.options
	options.Seed = seed
	w.closeAll()
	return newDisk(options, w)
}

// crashWith builds one outcome of a power cut.
func (d *Disk) crashWith(seed uint64, c chooser) *Disk {
	w := d.withFlights(c, everything)
	w.surviveNames(c)
	rest := &world{root: newDirectory(), bytesMax: w.bytesMax}
	found := map[*inode]*inode{w.root: rest.root}
	rest.rebuild(w.root, rest.root, found, c)
	options := d.options
	options.Seed = seed
	return newDisk(options, rest)
}

// surviveNames decides which name effects are found after a power cut.
func (w *world) surviveNames(c chooser) {
	var gone []*nameEffect
	for _, n := range w.names {
		blocked := n.ordered && len(gone) > 0 ||
			slices.ContainsFunc(gone, func(g *nameEffect) bool { return n.touches(g) })
		if blocked || !c.flip() {
			gone = append(gone, n)
			continue
		}
		n.harden()
	}
	w.names = nil
}

// rebuild builds the directory to from what is durable in the directory from of
// another world. Names are taken in order, so that a seed decides alike each time.
func (w *world) rebuild(from, to *inode, found map[*inode]*inode, c chooser) {
	for _, name := range slices.Sorted(maps.Keys(from.durableEntries)) {
		old := from.durableEntries[name]
		fresh := found[old]
		switch {
		case fresh != nil: // a second name of the same file
		case old.directory:
			fresh = newDirectory()
			fresh.links = 0
			found[old] = fresh
			w.rebuild(old, fresh, found, c)
		default:
			content := survive(&old.durable, old.effects, c)
			fresh = &inode{live: content, durable: content.clone()}
			found[old] = fresh
			w.bytesUsed += content.size
		}
		fresh.links++
		to.entries[name], to.durableEntries[name] = fresh, fresh
	}
}

// How much of the operations in flight withFlights carries out.
const (
	everything = false // all: the power cut then decides about each part
	somehow    = true  // each whole, in part or not at all
)

// withFlights returns a copy of the world in which the operations that were
// handed to the device have happened, in some order.
func (d *Disk) withFlights(c chooser, partly bool) *world {
	k := &copier{copies: map[*inode]*inode{}}
	w := k.world(d.world)
	flights := d.allFlying()
	c.shuffle(len(flights), func(i, j int) { flights[i], flights[j] = flights[j], flights[i] })
	for _, f := range flights {
		if f.refused != nil || !changes(f.kind) {
			continue
		}
		r := f.request
		if r.target != nil {
			target := *r.target
			target.inode = k.inode(target.inode)
			r.target = &target
		}
		if partly {
			switch c.below(3) {
			case 0:
				continue
			case 1:
				if r.kind == disk.Write {
					r.fault = &Fault{Err: ErrCrashed} // moves a part of its bytes
				}
			}
		}
		// That it fails is one way for it not to have happened.
		_, _ = w.perform(&r, c)
	}
	return w
}

// allFlying returns what was handed to the device by the Disk and its siblings.
func (d *Disk) allFlying() []*flight {
	var flights []*flight
	for _, sibling := range d.machine.disks {
		flights = append(flights, sibling.flying...)
	}
	return flights
}

// changes says whether the kind changes anything that a power cut could find.
// A Flush in flight need not be carried out: it only makes durable what may
// survive anyway.
func changes(kind disk.Kind) bool {
	switch kind {
	case disk.Read, disk.ReadDirectory, disk.Close, disk.Flush, disk.SyncFilesystem, disk.SyncDirectory:
		return false
	}
	return true
}

// copier copies a world, each inode once.
type copier struct {
	copies map[*inode]*inode
}

func (k *copier) world(w *world) *world {
	fresh := *w
	fresh.root = k.inode(w.root)
	fresh.names = make([]*nameEffect, len(w.names))
	for i, n := range w.names {
		fresh.names[i] = k.nameEffect(n)
	}
	fresh.dirty = k.inodes(w.dirty)
	return &fresh
}

func (k *copier) nameEffect(n *nameEffect) *nameEffect {
	fresh := *n
	fresh.unsynced = k.inodes(n.unsynced)
	fresh.changes = slices.Clone(n.changes)
	for i := range fresh.changes {
		c := &fresh.changes[i]
		c.directory = k.inode(c.directory)
		if c.inode != nil {
			c.inode = k.inode(c.inode)
		}
	}
	return &fresh
}

func (k *copier) inodes(list []*inode) []*inode {
	fresh := make([]*inode, len(list))
	for i, n := range list {
		fresh[i] = k.inode(n)
	}
	return fresh
}

func (k *copier) inode(n *inode) *inode {
	if fresh := k.copies[n]; fresh != nil {
		return fresh
	}
	fresh := &inode{directory: n.directory, links: n.links, opens: n.opens}
	k.copies[n] = fresh
	if !n.directory {
		fresh.live, fresh.durable = n.live.clone(), n.durable.clone()
		fresh.effects = slices.Clone(n.effects)
		return fresh
	}
	fresh.entries, fresh.durableEntries = k.entries(n.entries), k.entries(n.durableEntries)
	return fresh
}

func (k *copier) entries(entries map[string]*inode) map[string]*inode {
	fresh := make(map[string]*inode, len(entries))
	for name, n := range entries {
		fresh[name] = k.inode(n)
	}
	return fresh
}

// closeAll ends every handle, as the death of the process does.
func (w *world) closeAll() {
	w.bytesUsed = 0
	seen := map[*inode]bool{}
	var visit func(n *inode)
	visit = func(n *inode) {
		if seen[n] {
			return
		}
		seen[n] = true
		n.opens = 0
		w.bytesUsed += n.live.size
		for _, child := range n.entries {
			visit(child)
		}
	}
	visit(w.root)
}
