package crash

import (
	"encoding/binary"
	"hash/crc64"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
)

// What follows looks at the files and prepares them past the seam: it takes no
// step, meets no fault and is at once durable.

// ReadFile returns the content of the file at name as the process sees it.
func (d *Disk) ReadFile(name string) ([]byte, error) {
	file, err := d.file(name)
	if err != nil {
		return nil, err
	}
	content := make([]byte, file.live.size)
	file.live.readAt(content, 0)
	return content, nil
}

// WriteFile makes content the whole content of the file at name, durably, with
// all directories above it.
func (d *Disk) WriteFile(name string, content []byte) error {
	parent, err := d.makeParents(path.Dir(name))
	if err != nil {
		return err
	}
	base := path.Base(name)
	file := parent.entries[base]
	if file == nil {
		file = &inode{links: 1}
		parent.entries[base], parent.durableEntries[base] = file, file
	}
	if file.directory {
		return syscall.EISDIR
	}
	d.world.bytesUsed += int64(len(content)) - file.live.size
	d.world.forget(file, len(file.effects))
	file.live = image{}
	file.live.writeAt(content, 0)
	file.durable = file.live.clone()
	return nil
}

// Corrupt flips the bits of mask in the byte at offset of the file at name, as
// a rotten medium does.
func (d *Disk) Corrupt(name string, offset int64, mask byte) error {
	file, err := d.file(name)
	if err != nil {
		return err
	}
	if offset < 0 || offset >= file.live.size {
		return syscall.EINVAL
	}
	for _, m := range []*image{&file.live, &file.durable} {
		if offset < m.size {
			var b [1]byte
			m.readAt(b[:], offset)
			b[0] ^= mask
			m.writeAt(b[:], offset)
		}
	}
	return nil
}

// Found is a file or directory that Inspect found.
type Found struct {
	Path        string // as the process sees it; "" when it has no name
	DurablePath string // as a power cut at its worst leaves it; "" when not at all
	Directory   bool
	Content     []byte // as the process sees it, up to the last byte that is not in a hole
	Durable     []byte // as a power cut at its worst leaves it
}

// Inspect returns everything that has a name or will have one after a power
// cut, in the order of the names, those that only a power cut brings back last.
func (d *Disk) Inspect() []Found {
	var found []Found
	numbers := map[*inode]int{}
	d.world.visit(d.world.root, "", func(name string, n *inode) {
		numbers[n] = len(found)
		found = append(found, Found{Path: name, Directory: n.directory, Content: n.live.bytes(), Durable: n.durable.bytes()})
	})
	d.world.visitDurable(d.world.root, "", func(name string, n *inode) {
		i, known := numbers[n]
		if !known {
			i = len(found)
			found = append(found, Found{Directory: n.directory, Content: n.live.bytes(), Durable: n.durable.bytes()})
		}
		found[i].DurablePath = name
	})
	return found
}

// List returns the path of everything there is, sorted; those of directories
// end in a slash.
func (d *Disk) List() []string {
	var names []string
	d.world.visit(d.world.root, "", func(name string, n *inode) {
		if n.directory {
			name += "/"
		}
		names = append(names, name)
	})
	slices.Sort(names)
	return names
}

// BytesUsed is the sum of all file sizes, those without a name but open included.
func (d *Disk) BytesUsed() int64 { return d.world.bytesUsed }

// Digest is a checksum of every name and every byte, for comparing outcomes.
func (d *Disk) Digest() uint64 {
	hash := crc64.New(crc64.MakeTable(crc64.ECMA))
	d.world.visit(d.world.root, "", func(name string, n *inode) {
		hash.Write([]byte(name))
		hash.Write(binary.BigEndian.AppendUint64([]byte{0}, uint64(n.live.size)))
		for _, index := range slices.Sorted(maps.Keys(n.live.pages)) {
			if p := n.live.pages[index]; *p != (page{}) {
				hash.Write(binary.BigEndian.AppendUint64(nil, uint64(index)))
				hash.Write(p[:])
			}
		}
	})
	return hash.Sum64()
}

// visit calls see for everything below directory, in the order of names.
func (w *world) visit(directory *inode, prefix string, see func(name string, n *inode)) {
	for _, name := range slices.Sorted(maps.Keys(directory.entries)) {
		n := directory.entries[name]
		see(prefix+name, n)
		if n.directory {
			w.visit(n, prefix+name+"/", see)
		}
	}
}

// visitDurable is visit for what a power cut leaves.
func (w *world) visitDurable(directory *inode, prefix string, see func(name string, n *inode)) {
	for _, name := range slices.Sorted(maps.Keys(directory.durableEntries)) {
		n := directory.durableEntries[name]
		see(prefix+name, n)
		if n.directory {
			w.visitDurable(n, prefix+name+"/", see)
		}
	}
}

func (d *Disk) file(name string) (*inode, error) {
	file, err := d.world.find(path.Clean(name))
	if err != nil {
		return nil, err
	}
	if file.directory {
		return nil, syscall.EISDIR
	}
	return file, nil
}

// makeParents returns the directory name, made durably where it was missing.
func (d *Disk) makeParents(name string) (*inode, error) {
	at := d.world.root
	if name == "." {
		return at, nil
	}
	for element := range strings.SplitSeq(name, "/") {
		next := at.entries[element]
		if next == nil {
			next = newDirectory()
			at.entries[element], at.durableEntries[element] = next, next
		}
		if !next.directory {
			return nil, syscall.ENOTDIR
		}
		at = next
	}
	return at, nil
}
