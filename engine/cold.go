package engine

import (
	"fmt"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/plan"
)

const (
	// coldWorkersMax bounds the reads that are served from disk at a time; the others wait in order.
	coldWorkersMax = 16
	// coldBytesMax bounds what is read from disk at a time, and what one part takes so: enough for
	// the device's full rate, little enough that many laggards fit into memory.
	coldBytesMax = 1 << 20
	// coldShare is the share of the cold memory, one part in so many, up to which a
	// read goes on taking more once it has something.
	coldShare = 4
)

// coldRead is what the shard keeps of a read one of whose parts lies behind the tail.
type coldRead struct {
	part  int // the first part that is not served yet
	left  int // bytes that the read may still take
	empty bool
	held  int64 // bytes of the cold memory that its batches lie in
	next  *Read // in the queue
}

// coldQueue is the reads that wait for the disk, and who serves them. What is
// read never enters the tail cache, so that a consumer that lags by days cannot
// push one at the tail onto the disk.
type coldQueue struct {
	head, tail *Read
	workers    []*coldWorker
	idle       []*coldWorker
	hungry     []*job // wait for memory
	deep       []*job // wait for room in flight
	inFlight   int64  // bytes
	streams    streams
}

// coldWorker serves one read at a time, or reads ahead. Its job stays when there is nothing to do,
// so that a fetch behind the tail allocates nothing.
type coldWorker struct {
	readers *readers
	job     *job
	read    *Read   // that it serves
	stream  *stream // that it reads ahead for
}

func (q *coldQueue) push(read *Read) {
	read.state.cold.next = nil
	if q.tail == nil {
		q.head = read
	} else {
		q.tail.state.cold.next = read
	}
	q.tail = read
}

func (q *coldQueue) pop() *Read {
	read := q.head
	if read != nil {
		if q.head = read.state.cold.next; q.head == nil {
			q.tail = nil
		}
		read.state.cold.next = nil
	}
	return read
}

// startCold gives waiting reads, and after them streams, to workers.
func (r *readers) startCold() {
	q := &r.cold
	if r.released {
		r.released = false
		q.hungry = r.wakeAll(q.hungry)
	}
	for q.head != nil || q.streams.wanted() {
		w := r.freeWorker()
		if w == nil {
			return
		}
		if !w.take() {
			q.idle = append(q.idle, w)
			return
		}
		r.shard.wakeJob(w.job)
	}
}

func (r *readers) wakeAll(jobs []*job) []*job {
	for i, j := range jobs {
		jobs[i] = nil
		r.shard.wakeJob(j)
	}
	return jobs[:0]
}

// freeWorker returns a worker without work, or nil.
func (r *readers) freeWorker() *coldWorker {
	q := &r.cold
	if n := len(q.idle); n > 0 {
		w := q.idle[n-1]
		q.idle = q.idle[:n-1]
		return w
	}
	if len(q.workers) == coldWorkersMax {
		return nil
	}
	w := &coldWorker{readers: r}
	q.workers = append(q.workers, w)
	w.job = r.shard.start("cold read", w.run)
	return w
}

// take gives the worker what is to be done next; false when there is nothing.
func (w *coldWorker) take() bool {
	q := &w.readers.cold
	if w.read = q.pop(); w.read == nil {
		w.stream = q.streams.popWanted()
	}
	return w.read != nil || w.stream != nil
}

// run serves until the shard ends.
func (w *coldWorker) run(j *job) {
	for {
		switch {
		case w.read != nil:
			w.serve()
		case w.stream != nil:
			w.readAhead(w.stream)
			w.stream = nil
		}
		if j.abandoned {
			return // what it served is answered by the queue's end
		}
		if w.take() {
			continue
		}
		w.readers.cold.idle = append(w.readers.cold.idle, w)
		for w.read == nil && w.stream == nil {
			if j.park() != nil {
				return
			}
		}
	}
}

// end answers all cold reads with ErrClosed.
func (q *coldQueue) end(r *readers) {
	q.streams.end()
	var left []*Read
	for _, w := range q.workers {
		if w.read != nil {
			left = append(left, w.read)
			w.read = nil
		}
	}
	for read := q.pop(); read != nil; read = q.pop() {
		left = append(left, read)
	}
	q.workers, q.idle = nil, nil
	for _, read := range left {
		for i := read.state.cold.part; i < len(read.Parts); i++ {
			if p := &read.Parts[i]; p.Err == nil {
				p.Err = ErrClosed
			}
		}
		r.done(read)
	}
}

// serve fills the parts of the worker's read in order, up to the end, and answers it; or up to one that
// came from disk, when others wait: then it goes behind them.
func (w *coldWorker) serve() {
	r, read := w.readers, w.read
	c := &read.state.cold
	for c.part < len(read.Parts) {
		p := &read.Parts[c.part]
		if !r.shard.owns(p.Log) {
			c.part++
			continue // it has moved while the read waited: the client asks again
		}
		if !read.restores() && !p.gatherTail(&c.left, &c.empty) {
			c.part++
			continue
		}
		p.Err = w.readPart(p)
		if w.job.abandoned {
			return
		}
		c.part++
		p.took(&c.left, &c.empty)
		r.shard.counters.coldReads.Add(1)
		r.shard.counters.coldReadBytes.Add(int64(p.Bytes))
		if c.part < len(read.Parts) && r.cold.head != nil {
			w.read = nil
			r.cold.push(read)
			return
		}
	}
	w.read = nil
	r.done(read)
}

// memory gets a buffer of the cold pool, waiting until there is one. A read that has
// something already does not wait (errNoMemory), gets nothing before those who do,
// and no more than its share: what others hold is given back when they are answered, so
// readers that wait for each other, or one for itself, would wait for ever. Before anybody
// waits, answers give up what can be read again, and streams what was read ahead.
func (w *coldWorker) memory(c *coldRead, want int64) (*buffer.Buffer, error) {
	r := w.readers
	pool, q, spare := r.shard.options.Cold, &r.cold, &r.shard.engine.spare
	if want > int64(pool.MaxBytes()) {
		return nil, fmt.Errorf("%w: a batch of %d bytes", buffer.ErrTooLarge, want)
	}
	if !c.empty && c.held+want > pool.LimitBytes()/coldShare {
		return nil, errNoMemory
	}
	if len(q.hungry) == 0 {
		if b := pool.TryGet(int(want)); b != nil {
			return b, nil
		}
	}
	if !c.empty {
		return nil, errNoMemory
	}
	spare.hungry.Add(1)
	defer spare.hungry.Add(-1)
	for waited := false; ; waited = true {
		for waited || len(q.hungry) == 0 {
			if b := pool.TryGet(int(want)); b != nil {
				return b, nil
			}
			if !spare.giveUp() && !q.streams.giveUp() {
				break
			}
		}
		if !waited {
			r.shard.counters.coldWaits.Add(1)
		}
		q.hungry = append(q.hungry, w.job)
		if err := w.job.park(); err != nil {
			return nil, err
		}
	}
}

// fill is readers.fill for the worker's job.
func (w *coldWorker) fill(file disk.File, data []byte, offset int64) error {
	return w.readers.fill(w.job, file, data, offset)
}

// fill reads data from offset of file on, in steps of several reads in flight, each when there is room for
// it in the device's queue; all of it must be there, or it reads as zeros.
func (r *readers) fill(j *job, file disk.File, data []byte, offset int64) error {
	q := &r.cold
	for len(data) > 0 {
		size := int64(0)
		for waited := false; ; waited = true {
			c := r.shard.coldPlan()
			size = min(int64(len(data)), c.StepBytes())
			if (q.inFlight == 0 || q.inFlight+size <= c.DepthBytes()) && (waited || len(q.deep) == 0) {
				break
			}
			q.deep = append(q.deep, j)
			if err := j.park(); err != nil {
				return err
			}
		}
		q.inFlight += size
		err := j.readPieces(file, data[:size], offset)
		q.inFlight -= size
		if len(q.deep) > 0 {
			q.deep = r.wakeAll(q.deep)
		}
		if err != nil {
			return err
		}
		data, offset = data[size:], offset+size
	}
	return nil
}

// coldPlan describes the shard to those who decide how much is read behind the tail.
func (s *shard) coldPlan() plan.Cold { return plan.Cold{SinceAppend: s.since(s.appendedAt)} }
