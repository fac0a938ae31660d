package crash

import (
	"path"
	"slices"
	"strings"
	"syscall"

	"ringlog/engine/disk"
)

// inode is one file or directory, whatever its names. Everything the running
// process sees is live; what a power cut is sure to leave is durable, and what
// lies between are the file's effects and the world's name effects.
type inode struct {
	directory bool
	links     int // live names
	opens     int // open handles

	// Of a file. Invariant: durable with all effects applied is live, unless a
	// lost write, a failed Flush or a lying one has parted them.
	live    image
	durable image
	effects []effect // in order of completion

	// Of a directory.
	entries        map[string]*inode
	durableEntries map[string]*inode
}

func newDirectory() *inode {
	return &inode{directory: true, links: 1, entries: map[string]*inode{}, durableEntries: map[string]*inode{}}
}

// change gives a name in a directory to an inode, or takes it away when inode is nil.
type change struct {
	directory *inode
	name      string
	inode     *inode
}

// nameEffect is one completed creation, rename or removal that is not durable
// yet. It survives a power cut whole or not at all, and only together with
// every earlier one of the same names: so a rename shows the old state or the
// new one, and a name never holds what it held between two others.
type nameEffect struct {
	sequence uint64
	changes  []change // one, or the two of a rename
	unsynced []*inode // directories that a SyncDirectory must still name
	// ordered effects (renames of directories) survive only with all earlier
	// ones: otherwise two of them could each hang below the other.
	ordered bool
}

// touches says whether the effect changes one of the names that other changes.
func (n *nameEffect) touches(other *nameEffect) bool {
	for _, mine := range n.changes {
		for _, its := range other.changes {
			if mine.directory == its.directory && mine.name == its.name {
				return true
			}
		}
	}
	return false
}

// harden makes the effect durable.
func (n *nameEffect) harden() {
	for _, c := range n.changes {
		if c.inode == nil {
			delete(c.directory.durableEntries, c.name)
		} else {
			c.directory.durableEntries[c.name] = c.inode
		}
	}
}

// world is a file system: what it shows, what it is sure to keep, and all that
// hangs between the two.
type world struct {
	root      *inode
	names     []*nameEffect // in order of completion
	dirty     []*inode      // files with effects
	sequence  uint64        // of the last effect
	bytesUsed int64         // sum of the live sizes of files with a name or a handle
	bytesMax  int64         // 0: no limit
}

// find returns what path names.
func (w *world) find(name string) (*inode, error) {
	at := w.root
	if name == "." {
		return at, nil
	}
	for rest := name; rest != ""; {
		element, tail, _ := strings.Cut(rest, "/")
		if !at.directory {
			return nil, syscall.ENOTDIR
		}
		next := at.entries[element]
		if next == nil {
			return nil, syscall.ENOENT
		}
		at, rest = next, tail
	}
	return at, nil
}

// findDirectory returns the directory that path names.
func (w *world) findDirectory(name string) (*inode, error) {
	at, err := w.find(name)
	if err == nil && !at.directory {
		return nil, syscall.ENOTDIR
	}
	return at, err
}

// findParent returns the directory that holds path, what path names there
// (nil when nothing) and its last element.
func (w *world) findParent(name string) (parent, child *inode, base string, err error) {
	parent, err = w.findDirectory(path.Dir(name))
	if err != nil {
		return nil, nil, "", err
	}
	base = path.Base(name)
	return parent, parent.entries[base], base, nil
}

// rename and its kin: the live names change now, the durable ones with harden.
func (w *world) changeNames(ordered bool, changes ...change) {
	w.sequence++
	n := &nameEffect{sequence: w.sequence, changes: changes, ordered: ordered}
	for _, c := range changes {
		if old := c.directory.entries[c.name]; old != nil {
			old.links--
		}
		if c.inode == nil {
			delete(c.directory.entries, c.name)
		} else {
			c.inode.links++
			c.directory.entries[c.name] = c.inode
		}
		if !slices.Contains(n.unsynced, c.directory) {
			n.unsynced = append(n.unsynced, c.directory)
		}
	}
	w.names = append(w.names, n)
}

// unused gives back the bytes of a file that lost its last name or handle.
func (w *world) unused(file *inode) {
	if file != nil && !file.directory && file.links == 0 && file.opens == 0 {
		w.bytesUsed -= file.live.size
	}
}

// add puts a completed effect on file: live now, durable by a Flush.
func (w *world) add(file *inode, e effect) error {
	if end := e.offset + e.length; e.kind != truncated && end > file.live.size {
		if w.bytesMax > 0 && w.bytesUsed+end-file.live.size > w.bytesMax {
			return syscall.ENOSPC
		}
		w.bytesUsed += end - file.live.size
		e.size = end
	}
	if e.kind == truncated {
		w.bytesUsed -= file.live.size
	}
	w.sequence++
	e.sequence = w.sequence
	e.apply(&file.live)
	if len(file.effects) == 0 {
		w.dirty = append(w.dirty, file)
	}
	file.effects = append(file.effects, e)
	return nil
}

// store writes buffer, or those of its sectors that keep names, at offset.
func (w *world) store(file *inode, buffer []byte, offset int64, keep func(sector int) bool, tearable bool) error {
	if len(buffer) == 0 {
		return nil
	}
	e := effect{kind: stored, offset: offset, length: int64(len(buffer)), tearable: tearable}
	for at := 0; at < len(buffer); at += disk.BlockBytes {
		p := new(page)
		if keep == nil {
			copy(p[:], buffer[at:])
		} else {
			p = file.live.copyOfPage((offset + int64(at)) / disk.BlockBytes)
			for i := range sectorsPerPage {
				if from := i * disk.SectorBytes; keep(at/disk.SectorBytes + i) {
					copy(p[from:from+disk.SectorBytes], buffer[at+from:])
				}
			}
		}
		e.pages = append(e.pages, p)
	}
	return w.add(file, e)
}

// flush makes the effects of file up to the one with sequence durable.
func (w *world) flush(file *inode, sequence uint64) {
	count := 0
	for count < len(file.effects) && file.effects[count].sequence <= sequence {
		file.effects[count].apply(&file.durable)
		count++
	}
	w.forget(file, count)
}

// scatter is what a failed Flush leaves behind: of each effect up to sequence
// some part is durable and the rest never will be, although it stays visible.
// (Linux marks pages clean after a failed write-back; a later fsync that
// succeeds says nothing of them.)
func (w *world) scatter(file *inode, sequence uint64, c chooser) {
	count := 0
	for count < len(file.effects) && file.effects[count].sequence <= sequence {
		count++
	}
	file.durable = survive(&file.durable, file.effects[:count], c)
	w.forget(file, count)
}

// forget drops the first count effects of file.
func (w *world) forget(file *inode, count int) {
	if count == 0 {
		return
	}
	file.effects = slices.Delete(file.effects, 0, count)
	if len(file.effects) == 0 {
		w.dirty = slices.DeleteFunc(w.dirty, func(d *inode) bool { return d == file })
	}
}

// flushAll is flush of every file.
func (w *world) flushAll(sequence uint64) {
	for _, file := range slices.Clone(w.dirty) {
		w.flush(file, sequence)
	}
}

// syncDirectory makes the name effects in directory up to sequence durable,
// those excepted that another directory must be synced for, too.
func (w *world) syncDirectory(directory *inode, sequence uint64) {
	due := make([]bool, len(w.names))
	for i, n := range w.names {
		if n.sequence > sequence {
			break
		}
		if at := slices.Index(n.unsynced, directory); at >= 0 {
			n.unsynced = slices.Delete(n.unsynced, at, at+1)
			due[i] = len(n.unsynced) == 0
		}
	}
	w.hardenNames(due)
}

// syncNames makes all name effects up to sequence durable.
func (w *world) syncNames(sequence uint64) {
	due := make([]bool, len(w.names))
	for i, n := range w.names {
		due[i] = n.sequence <= sequence
	}
	w.hardenNames(due)
}

// hardenNames makes those name effects durable that are due, with the earlier
// ones that they cannot do without.
func (w *world) hardenNames(due []bool) {
	for i := len(due) - 1; i >= 0; i-- {
		if !due[i] {
			continue
		}
		for j := range i {
			due[j] = due[j] || w.names[i].ordered || w.names[i].touches(w.names[j])
		}
	}
	kept := w.names[:0]
	for i, n := range w.names {
		if due[i] {
			n.harden()
		} else {
			kept = append(kept, n)
		}
	}
	clear(w.names[len(kept):])
	w.names = kept
}
