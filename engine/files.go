package engine

import (
	"fmt"

	"ringlog/engine/disk"
)

// fileCache keeps at most max segment files open, and closes the one that was
// used longest ago. A file in use stays: one that is pinned, that has writes to come or
// writes that no flush covers. So the bound may be passed by the number of busy logs.
type fileCache struct {
	max            int
	count          int
	oldest, newest *segmentFile
	opening        jobLock
}

func (c *fileCache) init(limit int) { c.max = limit }

// open makes sure that f is open, and closes others to stay within the bound.
func (c *fileCache) open(j *job, f *segmentFile) error {
	if f.isOpen {
		c.touch(f)
		return nil
	}
	// One at a time: two jobs must not open one file twice, and opens are rare.
	if err := c.opening.lock(j); err != nil {
		return err
	}
	defer c.opening.unlock(j.shard)
	if f.isOpen {
		c.touch(f)
		return nil
	}
	file, size, err := j.open(f.path(), 0)
	if err != nil {
		return fmt.Errorf("engine: open %s: %w", f.path(), err)
	}
	c.opened(f, file)
	f.prepared = max(f.prepared, size&^(disk.BlockBytes-1))
	return c.trim(j)
}

// opened takes note that f is open as file.
func (c *fileCache) opened(f *segmentFile, file disk.File) {
	f.file, f.isOpen = file, true
	c.count++
	f.log.shard.counters.filesOpen.Add(1)
	c.link(f)
}

// trimLooks is how many files one open looks at for one that can be closed. A look at all
// would be one at ten thousand for each open when as many logs are busy (measured: half of
// the time of a shard whose 10,000 logs get an append each).
const trimLooks = 32

// trim closes files that were used longest ago, down to the bound. One that is in
// use counts as just used.
func (c *fileCache) trim(j *job) error {
	for range trimLooks {
		f := c.oldest
		switch {
		case c.count <= c.max:
			return nil
		case f.inUse():
			c.touch(f)
		default:
			if err := c.close(j, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// inUse says whether f must stay open.
func (f *segmentFile) inUse() bool {
	if f.pins > 0 || f.unflushed() || f == f.log.coming || !f.renamed {
		return true // one without its final name could not be opened again while it gets it
	}
	l := f.log
	return f.BaseOffset >= l.flushed.segment.BaseOffset && l.flushed.offset < l.next.offset && l.failed == nil
}

// close closes f. REQUIRES: nothing is in flight on it.
func (c *fileCache) close(j *job, f *segmentFile) error {
	if !f.isOpen {
		return nil
	}
	c.unlink(f)
	f.isOpen = false
	c.count--
	f.log.shard.counters.filesOpen.Add(-1)
	return j.close(f.file)
}

func (c *fileCache) touch(f *segmentFile) {
	if c.newest != f {
		c.unlink(f)
		c.link(f)
	}
}

func (c *fileCache) link(f *segmentFile) {
	f.lruPrevious, f.lruNext = c.newest, nil
	if c.newest == nil {
		c.oldest = f
	} else {
		c.newest.lruNext = f
	}
	c.newest = f
}

func (c *fileCache) unlink(f *segmentFile) {
	if f.lruPrevious == nil {
		c.oldest = f.lruNext
	} else {
		f.lruPrevious.lruNext = f.lruNext
	}
	if f.lruNext == nil {
		c.newest = f.lruPrevious
	} else {
		f.lruNext.lruPrevious = f.lruPrevious
	}
	f.lruPrevious, f.lruNext = nil, nil
}
