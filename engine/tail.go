package engine

import (
	"time"

	"ringlog/buffer"
	"ringlog/engine/plan"
	"ringlog/record"
)

// chunk is a piece of a log's tail in memory. It lies over its segment file: bytes[0]
// is at file position start, a multiple of a block, so that the disk writes straight from it.
//
//	file     …──────┬───────┬───────┬───────┬───────┬──…   4 KiB blocks
//	batches     ──┤ A ├─┤  B  ├┤   C   ├┤    D     ├…
//	chunk 1      [start .. dataEnd)  A B              written up to the start of chunk 2
//	chunk 2                [start .. dataEnd)  C D    begins with the block that B ends in
//
// A batch lies whole in one chunk, so that readers get whole batches; the block
// in which the last batch of a chunk ends is copied (up to 4095 bytes) into the
// next chunk and written from there.
type chunk struct {
	buffer     *buffer.Buffer // nil: the chunk is only the block in which its log ends, on the heap
	bytes      []byte         // buffer.Bytes(), or that block
	log        *Log
	segment    *segmentFile
	start      int64 // file position of bytes[0]
	dataStart  int64 // file position of the first batch that begins in here
	dataEnd    int64 // file position behind the last batch
	baseOffset int64 // offset at dataStart
	nextOffset int64 // offset at dataEnd

	next *chunk // of the log

	clean                    bool          // below evictable, and in the list of tailCache
	cleanedAt                time.Duration // since when; the list is in this order
	cleanPrevious, cleanNext *chunk
}

// at returns the bytes at file positions [from, to).
func (c *chunk) at(from, to int64) []byte { return c.bytes[from-c.start : to-c.start : to-c.start] }

// logTail is the chunks of one log: always an unbroken run of batches up to the
// log's end, possibly empty when that end is at a block boundary.
type logTail struct {
	chunks []*chunk // from first on, ascending
	first  int      // index of the oldest that is still held
	size   int64    // of the last chunk made, which follows the log's rate
	madeAt time.Duration
}

func (t *logTail) held() []*chunk { return t.chunks[t.first:] }

func (t *logTail) last() *chunk {
	if t.first == len(t.chunks) {
		return nil
	}
	return t.chunks[len(t.chunks)-1]
}

// startOffset is the first offset that can be read from memory.
func (t *logTail) startOffset(l *Log) int64 {
	if t.first == len(t.chunks) {
		return l.next.offset
	}
	return t.chunks[t.first].baseOffset
}

// find returns the index in held of the chunk that holds offset. REQUIRES:
// startOffset ≤ offset < next.
func (t *logTail) find(offset int64) int {
	held := t.held()
	low, high := 0, len(held)
	for low < high {
		if middle := (low + high) / 2; held[middle].nextOffset <= offset {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// room makes sure that the last chunk can take size more bytes.
func (t *logTail) room(l *Log, size int64) bool {
	last := t.last()
	position := l.next.position
	if last != nil && last.buffer != nil && last.segment == l.active && position+size <= last.start+int64(len(last.bytes)) {
		return true
	}
	s := l.shard
	start := plan.RoundDown(position)
	need := position - start + size
	b := s.tail.get(plan.ChunkBytes(t.size, s.since(t.madeAt), need), plan.PowerOfTwo(max(need, plan.ChunkBytesMin)))
	if b == nil {
		return false
	}
	last = t.last() // getting memory may have replaced it
	c := s.tail.newChunk(l, l.active, b, b.Bytes(), start)
	c.dataStart, c.dataEnd = position, position
	c.baseOffset, c.nextOffset = l.next.offset, l.next.offset
	if position > start {
		copy(c.bytes, last.at(start, position))
	}
	t.size, t.madeAt = int64(len(c.bytes)), s.now
	t.cleaned(l) // those before last first: they go in order
	t.push(c)
	if last != nil {
		last.next = c
		if last.buffer == nil {
			s.tail.drop(last)
		}
	}
	if l.writes.chunk == nil {
		l.writes.chunk = c
	}
	return true
}

func (t *logTail) push(c *chunk) {
	if t.first > 64 && t.first > len(t.chunks)/2 {
		n := copy(t.chunks, t.chunks[t.first:])
		clear(t.chunks[n:])
		t.chunks, t.first = t.chunks[:n], 0
	}
	t.chunks = append(t.chunks, c)
}

// put copies batch to the end. REQUIRES: room said yes.
func (t *logTail) put(l *Log, batch record.Batch, nextOffset int64) {
	c := t.last()
	l.shard.tail.makeDirty(c)
	copy(c.bytes[c.dataEnd-c.start:], batch)
	c.dataEnd += int64(len(batch))
	c.nextOffset = nextOffset
}

// evictable is the offset below which the tail need not be held: what readers may see
// and the disk can give them. What the journal holds too may go when it is written to
// the segment: a flush that fails later poisons the log, and the next start merges
// the journal. A relaxed log does not wait for its flush: held
// until then, its writes would stop each time the pool is full of written bytes.
// What waits for a frame stays: it is copied from here.
func (l *Log) evictable() int64 {
	switch {
	case l.shard.journal.enabled() && l.way != direct:
		written, durable := l.durableRun()
		if l.config.relaxed() {
			durable = min(written, l.journaled.offset)
		}
		return min(l.completed.offset, durable)
	case l.config.relaxed():
		return l.completed.offset
	}
	return l.flushed.offset
}

// cleaned is called when evictable rose: chunks below it may go from now on.
func (t *logTail) cleaned(l *Log) {
	held := t.held()
	// Clean chunks come first; go back from the end to the first dirty one.
	i := len(held)
	for i > 0 && !held[i-1].clean {
		i--
	}
	for ; i < len(held) && held[i].nextOffset <= l.evictable(); i++ {
		l.shard.tail.makeClean(held[i])
	}
}

// settle makes evictable what is, after the log has failed: nothing that is dirty will
// ever be written. What readers may see and only the journal has stays in memory until the log
// is closed (rule 13): it is no more than the ring had of it.
func (t *logTail) settle(l *Log) {
	if l.writes.count > 0 {
		return // the disk still reads from the chunks; wrote comes back here
	}
	l.writes.chunk = nil
	for _, c := range t.held() {
		if c.nextOffset > l.completed.offset && c.baseOffset < l.highWatermark {
			return // those behind it stay too: a tail has no holes
		}
		l.shard.tail.makeClean(c)
	}
}

// drop releases all chunks.
func (t *logTail) drop(l *Log) {
	for _, c := range t.held() {
		l.shard.tail.forget(c)
	}
	clear(t.chunks)
	t.chunks, t.first = t.chunks[:0], 0
	l.writes.chunk = nil
}

// tailCache is the memory of all tails of a shard. Dirty chunks stay; clean ones are
// cache for readers at the tail and go, oldest first, when memory is asked for.
type tailCache struct {
	shard    *shard
	pool     *buffer.Pool
	oldest   *chunk // of the clean ones
	newest   *chunk
	idle     *chunk // headers for reuse, linked by next
	released bool   // there may be memory again
}

func (t *tailCache) init(s *shard) {
	t.shard, t.pool = s, s.options.Tail
}

// get returns a buffer of want bytes, or at least of need, or nil when nothing
// clean is left to evict. Memory that was touched before comes first: where the
// pool has none at hand, as much cache as is asked for is given up, rather
// than to wait for the zeroing of fresh pages. So the cache grows at the pace
// at which the pool is warmed.
func (t *tailCache) get(want, need int64) *buffer.Buffer {
	for {
		if b := t.getWarm(want); b != nil {
			return b
		}
		if b := t.pool.TryGet(int(want)); b != nil {
			return b
		}
		if want > need {
			// Smaller first: a busy log must not empty everybody's cache.
			want = max(want/4, need)
			continue
		}
		if !t.evict() {
			return nil
		}
	}
}

// getWarm returns a buffer of want bytes that costs no page fault, giving up at
// most twice as much cache for it: what is given up need not lie together, and may be
// held by readers.
func (t *tailCache) getWarm(want int64) *buffer.Buffer {
	for given := int64(0); ; {
		if b := t.pool.TryGetWarm(int(want)); b != nil {
			return b
		}
		if given >= 2*want || t.oldest == nil {
			return nil
		}
		given += int64(len(t.oldest.bytes))
		t.evict()
	}
}

// evict gives up the oldest clean chunk; false when there is none.
func (t *tailCache) evict() bool {
	c := t.oldest
	if c == nil {
		return false
	}
	l := c.log
	if c == l.tail.last() && c.dataEnd%plan.BlockBytes != 0 && c.segment == l.active && l.usable() == nil {
		l.keepBlock(c.at(plan.RoundDown(c.dataEnd), c.dataEnd))
	}
	t.shard.counters.evictions.Add(1)
	t.missesUntil(c.cleanedAt)
	t.drop(c)
	return true
}

// missesUntil notes that what was appended at the time at, or before, may be in memory no
// more: the cache window begins there. Eviction goes by when chunks became clean, over
// all logs of the shard, so what came later is still held, of every log.
func (t *tailCache) missesUntil(at time.Duration) {
	counter := &t.shard.counters.windowFrom
	counter.Store(max(counter.Load(), int64(at)))
}

// keepBlock makes a chunk of the block in which the log ends, of which content
// is the data: appends go on there. It lies on the heap, so that ten thousand
// quiet logs, or one reader that holds a large chunk, cannot use up the memory that
// everybody waits for. It takes no batch: the next append makes a chunk.
func (l *Log) keepBlock(content []byte) {
	t := &l.shard.tail
	last := l.tail.last()
	block := l.shard.commit.takeBlock()
	copy(block, content)
	c := t.newChunk(l, l.active, nil, block, plan.RoundDown(l.next.position))
	c.dataStart, c.dataEnd = l.next.position, l.next.position
	c.baseOffset, c.nextOffset = l.next.offset, l.next.offset
	l.tail.size = plan.BlockBytes
	l.tail.push(c)
	if last != nil {
		last.next = c
	}
	if l.writes.chunk == nil {
		l.writes.chunk = c
	}
}

// drop takes the oldest chunk out of its log.
func (t *tailCache) drop(c *chunk) {
	tail := &c.log.tail
	if c != tail.chunks[tail.first] {
		panic("engine: a chunk is evicted out of order")
	}
	if c.log.writes.chunk == c {
		c.log.writes.chunk = c.next
	}
	tail.chunks[tail.first] = nil
	tail.first++
	if tail.first == len(tail.chunks) {
		tail.chunks, tail.first = tail.chunks[:0], 0
	}
	t.forget(c)
}

// newChunk makes a chunk of bytes, those of b, which it owns, or of a block.
func (t *tailCache) newChunk(l *Log, f *segmentFile, b *buffer.Buffer, bytes []byte, start int64) *chunk {
	c := t.idle
	if c == nil {
		c = new(chunk)
	} else {
		t.idle = c.next
	}
	*c = chunk{buffer: b, bytes: bytes, log: l, segment: f, start: start}
	if b != nil {
		t.shard.counters.tailBytes.Add(int64(len(bytes)))
	}
	return c
}

// forget releases the memory of c; readers that hold it keep their reference.
func (t *tailCache) forget(c *chunk) {
	t.makeDirty(c)
	if c.buffer == nil {
		t.shard.commit.blocks = append(t.shard.commit.blocks, c.bytes)
	} else {
		t.shard.counters.tailBytes.Add(-int64(len(c.bytes)))
		c.buffer.Release()
	}
	*c = chunk{next: t.idle}
	t.idle = c
}

// makeClean puts c at the young end of the clean ones.
func (t *tailCache) makeClean(c *chunk) {
	if c.clean || c.buffer == nil {
		return
	}
	c.clean, c.cleanedAt = true, t.shard.now
	t.released = true
	c.cleanPrevious = t.newest
	if t.newest == nil {
		t.oldest = c
	} else {
		t.newest.cleanNext = c
	}
	t.newest = c
}

// makeDirty takes c out of the clean ones.
func (t *tailCache) makeDirty(c *chunk) {
	if !c.clean {
		return
	}
	c.clean = false
	if c.cleanPrevious == nil {
		t.oldest = c.cleanNext
	} else {
		c.cleanPrevious.cleanNext = c.cleanNext
	}
	if c.cleanNext == nil {
		t.newest = c.cleanPrevious
	} else {
		c.cleanNext.cleanPrevious = c.cleanPrevious
	}
	c.cleanPrevious, c.cleanNext = nil, nil
}

// end releases everything when the shard is over.
func (t *tailCache) end() {
	for _, l := range t.shard.logs {
		l.tail.drop(l)
	}
}

// starve queues the log for memory, or room in the journal, unless that does not come before there
// is space on the disk: it says so then.
func (l *Log) starve() error {
	if short := l.shard.short; short != nil {
		return l.noSpace(short)
	}
	if !l.starving {
		l.starving = true
		l.shard.starved = append(l.shard.starved, l)
	}
	return nil
}

// feedStarved lets the logs that wait for memory try again, first come first
// served, when there may be some.
func (s *shard) feedStarved() {
	if !s.tail.released || len(s.starved) == 0 {
		s.tail.released = false
		return
	}
	s.tail.released = false
	for i, l := range s.starved {
		l.starving = false
		l.retryWaiting()
		if l.starving {
			// It queued itself again at the end; it keeps its place instead.
			s.starved = append(s.starved[:0], s.starved[i:len(s.starved)-1]...)
			return
		}
	}
	s.starved = s.starved[:0]
}
