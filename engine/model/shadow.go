package model

import "slices"

// shadowFile is what an Observer knows of one file: two contents, that of every
// completed write and that of the writes which are durable beyond doubt.
// Content is cut where only zeros follow: space is reserved far ahead.
type shadowFile struct {
	directory bool
	live      content
	durable   content
	pending   []shadowWrite // completed, not flushed, in order
}

// shadowWrite is one completed write, zeroing or truncation.
type shadowWrite struct {
	sequence uint64
	offset   int64
	length   int64  // of zeros, when data is nil
	data     []byte // nil for zeros
	empties  bool   // the file was truncated
}

// content is bytes with a memory of how far they were read as batches.
type content struct {
	bytes []byte
	read  walked
}

// walked is how far a file was read as the batches of a segment.
type walked struct {
	base     int64 // the segment's; another one's is of no use
	position int64
	end      int64 // offset behind the last batch
}

// apply carries out a write. What was read stays read when its bytes stay.
func (c *content) apply(w *shadowWrite) {
	switch {
	case w.empties:
		c.bytes, c.read = c.bytes[:0], walked{}
		return
	case w.data == nil:
		if w.offset < int64(len(c.bytes)) {
			clear(c.bytes[w.offset:min(w.offset+w.length, int64(len(c.bytes)))])
		}
		if w.offset < c.read.position {
			c.read = walked{}
		}
		return
	}
	data := trimZeros(w.data)
	if end := w.offset + int64(len(data)); len(data) > 0 && end > int64(len(c.bytes)) {
		c.bytes = append(c.bytes, make([]byte, end-int64(len(c.bytes)))...)
	}
	if w.offset < int64(len(c.bytes)) {
		old := c.bytes[w.offset:min(w.offset+int64(len(w.data)), int64(len(c.bytes)))]
		if w.offset < c.read.position {
			kept := min(c.read.position-w.offset, int64(len(old)))
			if !slices.Equal(old[:kept], w.data[:kept]) {
				c.read = walked{}
			}
		}
		copy(old, w.data)
	}
}

func trimZeros(data []byte) []byte {
	n := len(data)
	for n > 0 && data[n-1] == 0 {
		n--
	}
	return data[:n]
}

// change notes a completed write.
func (f *shadowFile) change(w shadowWrite) {
	f.live.apply(&w)
	f.pending = append(f.pending, w)
}

// harden makes everything durable that completed up to a sequence.
func (f *shadowFile) harden(sequence uint64) {
	n := 0
	for n < len(f.pending) && f.pending[n].sequence <= sequence {
		f.durable.apply(&f.pending[n])
		n++
	}
	f.pending = slices.Delete(f.pending, 0, n)
}

// nameChange gives a path to a file, or takes it away when file is nil.
type nameChange struct {
	sequence  uint64
	directory string
	path      string
	file      *shadowFile
}

// names is a name space: what every path leads to, and what it is sure to.
type names struct {
	live    map[string]*shadowFile
	durable map[string]*shadowFile
	pending []nameChange // in order
}

func (n *names) change(sequence uint64, path string, file *shadowFile) {
	if file == nil {
		delete(n.live, path)
	} else {
		n.live[path] = file
	}
	n.pending = append(n.pending, nameChange{sequence, parentOf(path), path, file})
}

// changed returns the directories with names that are not durable.
func (n *names) changed() []string {
	var directories []string
	for _, c := range n.pending {
		if !slices.Contains(directories, c.directory) {
			directories = append(directories, c.directory)
		}
	}
	return directories
}

// harden makes the changes in one directory durable that completed up to a
// sequence, and says whether there were any.
func (n *names) harden(directory string, sequence uint64) bool {
	before := len(n.pending)
	n.pending = slices.DeleteFunc(n.pending, func(c nameChange) bool {
		if c.directory != directory || c.sequence > sequence {
			return false
		}
		if c.file == nil {
			delete(n.durable, c.path)
		} else {
			n.durable[c.path] = c.file
		}
		return true
	})
	return len(n.pending) < before
}
