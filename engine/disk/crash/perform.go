package crash

import (
	"maps"
	"math"
	"slices"
	"syscall"

	"ringlog/engine/disk"
)

// request is what an operation asks, taken from it at Submit.
type request struct {
	kind    disk.Kind
	flags   disk.Flags
	path    string // for messages and rules: of kinds that use a File, what it was opened by
	newPath string
	buffer  []byte
	offset  int64
	length  int64
	target  *openFile // of File
	// sequence is the world's when the operation was submitted: effects up to
	// it had completed, and a Flush must make them durable.
	sequence uint64
	fault    *Fault // what the script does to it, or nil
}

// result is what an operation answers.
type result struct {
	done    int
	opened  *inode
	free    int64
	total   int64
	entries []disk.Entry
}

// perform carries out one request at the moment of its completion.
func (w *world) perform(r *request, c chooser) (result, error) {
	if r.fault != nil && r.fault.Err != nil {
		w.fail(r, c)
		return result{}, r.fault.Err
	}
	if r.target != nil && r.target.readOnly && (r.kind == disk.Write || r.kind == disk.Preallocate || r.kind == disk.ZeroRange) {
		return result{}, syscall.EBADF
	}
	switch r.kind {
	case disk.Write:
		return w.write(r, c)
	case disk.Read:
		return result{done: r.read(c)}, nil
	case disk.Flush, disk.SyncFilesystem, disk.SyncDirectory:
		return result{}, w.sync(r, c)
	case disk.Preallocate:
		if r.offset+r.length <= r.target.inode.live.size {
			return result{}, nil
		}
		return result{}, w.add(r.target.inode, effect{kind: sized, offset: r.offset, length: r.length})
	case disk.ZeroRange:
		return result{}, w.add(r.target.inode, effect{kind: zeroed, offset: r.offset, length: r.length})
	case disk.Open:
		opened, err := w.open(r)
		return result{opened: opened}, err
	case disk.Close:
		r.target.inode.opens--
		w.unused(r.target.inode)
		return result{}, nil
	case disk.Rename:
		return result{}, w.rename(r)
	case disk.Exchange:
		return result{}, w.exchange(r)
	case disk.FreeSpace:
		return result{free: w.free(), total: w.bytesMax}, nil
	case disk.Unlink:
		return result{}, w.unlink(r)
	case disk.MakeDirectory:
		return result{}, w.makeDirectory(r)
	case disk.RemoveDirectory:
		return result{}, w.removeDirectory(r)
	case disk.ReadDirectory:
		entries, err := w.readDirectory(r)
		return result{entries: entries}, err
	}
	return result{}, syscall.EINVAL
}

// fail leaves behind what an operation does that is then reported as failed: a
// Write may have moved any part, a Flush may have made any part durable.
func (w *world) fail(r *request, c chooser) {
	switch r.kind {
	case disk.Write:
		if len(r.buffer) > 0 {
			// Running out of space on the way is one failure more of the same kind.
			_ = w.store(r.target.inode, r.buffer, r.offset, c.sectors(len(r.buffer)/disk.SectorBytes), false)
		}
	case disk.Flush:
		w.scatter(r.target.inode, r.sequence, c)
	case disk.SyncFilesystem:
		for _, file := range slices.Clone(w.dirty) {
			w.scatter(file, r.sequence, c)
		}
	}
}

func (w *world) write(r *request, c chooser) (result, error) {
	buffer, offset, tearable := r.buffer, r.offset, false
	if f := r.fault; f != nil {
		switch f.Effect {
		case Short:
			buffer = shortened(buffer, c)
		case LoseWrite:
			return result{done: len(buffer)}, nil
		case MisdirectWrite:
			offset = f.misdirected(r, c)
		case TearSectors:
			tearable = true
		}
	}
	if err := w.store(r.target.inode, buffer, offset, nil, tearable); err != nil {
		return result{}, err
	}
	return result{done: len(buffer)}, nil
}

func (r *request) read(c chooser) int {
	buffer := r.buffer
	if r.fault != nil && r.fault.Effect == Short {
		buffer = shortened(buffer, c)
	}
	done := r.target.inode.live.readAt(buffer, r.offset)
	if r.fault != nil && r.fault.Effect == FlipBit && done > 0 {
		buffer[c.below(done)] ^= 1 << c.below(8)
	}
	return done
}

// shortened cuts buffer to at least one block and less than all, when it has two.
func shortened(buffer []byte, c chooser) []byte {
	blocks := len(buffer) / disk.BlockBytes
	if blocks < 2 {
		return buffer
	}
	return buffer[:(1+c.below(blocks-1))*disk.BlockBytes]
}

// sync carries out the three kinds that make things durable: what the seam
// promises, and now and then some of what completed since, as devices do.
func (w *world) sync(r *request, c chooser) error {
	horizon := r.sequence
	if more := int(w.sequence - r.sequence); more > 0 && c.flip() {
		horizon += uint64(c.below(more + 1))
	}
	var directory *inode
	if r.kind == disk.SyncDirectory {
		var err error
		if directory, err = w.findDirectory(r.path); err != nil {
			return err
		}
	}
	if r.fault != nil && r.fault.Effect == LieAboutFlush {
		return nil
	}
	switch r.kind {
	case disk.Flush:
		w.flush(r.target.inode, horizon)
	case disk.SyncFilesystem:
		w.flushAll(horizon)
		w.syncNames(horizon)
	case disk.SyncDirectory:
		w.syncDirectory(directory, horizon)
	}
	return nil
}

func (w *world) open(r *request) (*inode, error) {
	parent, file, base, err := w.findParent(r.path)
	if err != nil {
		return nil, err
	}
	switch {
	case file == nil && r.flags&disk.Create == 0:
		return nil, syscall.ENOENT
	case file == nil:
		file = &inode{}
		w.changeNames(false, change{parent, base, file})
		return file, nil
	case r.flags&disk.Exclusive != 0:
		return nil, syscall.EEXIST
	case file.directory:
		return nil, syscall.EISDIR
	}
	if r.flags&disk.Truncate != 0 && file.live.size > 0 {
		return file, w.add(file, effect{kind: truncated})
	}
	return file, nil
}

func (w *world) rename(r *request) error {
	from, moved, fromBase, err := w.findParent(r.path)
	if err != nil {
		return err
	}
	to, replaced, toBase, err := w.findParent(r.newPath)
	switch {
	case err != nil:
		return err
	case moved == nil:
		return syscall.ENOENT
	case moved == replaced:
		return nil
	case moved.directory && (moved == to || contains(moved, to)):
		return syscall.EINVAL
	case replaced == nil:
	case moved.directory && !replaced.directory:
		return syscall.ENOTDIR
	case !moved.directory && replaced.directory:
		return syscall.EISDIR
	case replaced.directory && len(replaced.entries) > 0:
		return syscall.ENOTEMPTY
	}
	w.changeNames(moved.directory, change{from, fromBase, nil}, change{to, toBase, moved})
	w.unused(replaced)
	return nil
}

// exchange swaps two files in one step: a power cut shows both as they were, or both as they are.
func (w *world) exchange(r *request) error {
	from, one, oneBase, err := w.findParent(r.path)
	if err != nil {
		return err
	}
	to, two, twoBase, err := w.findParent(r.newPath)
	switch {
	case err != nil:
		return err
	case one == nil || two == nil:
		return syscall.ENOENT
	case one.directory || two.directory:
		return syscall.EISDIR
	case one != two:
		w.changeNames(false, change{from, oneBase, two}, change{to, twoBase, one})
	}
	return nil
}

// free is what files may still grow by.
func (w *world) free() int64 {
	if w.bytesMax == 0 {
		return math.MaxInt64
	}
	return max(w.bytesMax-w.bytesUsed, 0)
}

// contains says whether directory holds other at any depth.
func contains(directory, other *inode) bool {
	for child := range maps.Values(directory.entries) {
		if child == other || child.directory && contains(child, other) {
			return true
		}
	}
	return false
}

func (w *world) unlink(r *request) error {
	parent, file, base, err := w.findParent(r.path)
	switch {
	case err != nil:
		return err
	case file == nil:
		return syscall.ENOENT
	case file.directory:
		return syscall.EISDIR
	}
	w.changeNames(false, change{parent, base, nil})
	w.unused(file)
	return nil
}

func (w *world) makeDirectory(r *request) error {
	parent, there, base, err := w.findParent(r.path)
	switch {
	case err != nil:
		return err
	case there != nil && there.directory:
		return nil
	case there != nil:
		return syscall.EEXIST
	}
	made := newDirectory()
	made.links = 0
	w.changeNames(false, change{parent, base, made})
	return nil
}

func (w *world) removeDirectory(r *request) error {
	parent, directory, base, err := w.findParent(r.path)
	switch {
	case err != nil:
		return err
	case directory == nil:
		return syscall.ENOENT
	case !directory.directory:
		return syscall.ENOTDIR
	case len(directory.entries) > 0:
		return syscall.ENOTEMPTY
	}
	w.changeNames(false, change{parent, base, nil})
	return nil
}

func (w *world) readDirectory(r *request) ([]disk.Entry, error) {
	directory, err := w.findDirectory(r.path)
	if err != nil {
		return nil, err
	}
	entries := make([]disk.Entry, 0, len(directory.entries))
	for _, name := range slices.Sorted(maps.Keys(directory.entries)) {
		child := directory.entries[name]
		entries = append(entries, disk.Entry{Name: name, Directory: child.directory, Bytes: child.live.size})
	}
	return entries, nil
}
