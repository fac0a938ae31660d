package engine

import (
	"time"

	"ringlog/buffer"
	"ringlog/engine/plan"
	"ringlog/record"
)

const (
	// streamsMax bounds the consumers behind the tail that are remembered.
	streamsMax = 512
	// streamIdle is how long one is remembered that does not come again.
	streamIdle = 5 * time.Second
	// slotsMax is how many buffers of coldBytesMax are read ahead for one consumer: the next one is on
	// its way while it is served from the one before.
	slotsMax = 2
	// aheadShare is the share of the cold memory, one part in so many, that may lie read ahead.
	aheadShare = 2
)

// stream is a consumer that reads one log from disk, as seen from here: somebody will ask for the
// batch at place. Who asks a second time where the first answer ended is taken for one that goes on, and
// from then on the next buffers are read before they are asked for.
//
//	begin ──asked again──▶ serve from the slots, or from disk ──▶ read ahead, up to slotsMax ──┐
//	                             ▲                                                            │
//	                             └────────────────────────── asked again ─────────────────────┘
type stream struct {
	log   *Log
	gen   uint64
	place mark // of the batch that is asked for next
	ahead mark // where reading ahead goes on

	slots [slotsMax]slot // the first count of them, in order from place to ahead
	count int

	busy    bool // a worker serves from it
	reading bool // a worker reads ahead for it
	listed  bool // it waits for that
	dropped bool // it is nobody's any more
	waiter  *job // of the worker that serves and waits for the one that reads

	used          time.Duration
	older, newer  *stream
	nextOfLog     *stream
	nextWanted    *stream
	previousOfLog *stream
}

// slot is whole batches that were read ahead: data[at:end], from offset on. They were not checked yet.
type slot struct {
	memory *buffer.Buffer
	file   *segmentFile
	start  int64 // position of memory.Bytes()[0]
	at     int64
	end    int64
	offset int64
}

// streams is all of a shard, in order of their last use, and those that want to be read ahead for.
type streams struct {
	readers        *readers
	count          int
	held           int64 // bytes of memory in slots
	oldest, newest *stream
	wantedHead     *stream
	wantedTail     *stream
	idle           *stream // for reuse, linked by nextOfLog
	timer          timer
}

// find returns the stream of whoever asks for this offset of l, or nil.
func (q *streams) find(l *Log, offset int64) *stream {
	for s := l.streams; s != nil; s = s.nextOfLog {
		if s.place.offset == offset && !s.busy {
			if s.gen != l.gen || s.place.segment.gone {
				q.drop(s)
				return nil
			}
			return s
		}
	}
	return nil
}

// begin remembers that somebody was answered up to place.
func (q *streams) begin(l *Log, place mark) {
	if place.offset >= min(l.highWatermark, l.tail.startOffset(l)) {
		return // it goes on at the tail
	}
	for s := l.streams; s != nil; s = s.nextOfLog {
		if s.place.offset == place.offset && !s.busy {
			return
		}
	}
	if q.count >= streamsMax && !q.dropOldest() {
		return
	}
	s := q.idle
	if s == nil {
		s = new(stream)
	} else {
		q.idle = s.nextOfLog
	}
	*s = stream{log: l, gen: l.gen, place: place, ahead: place, nextOfLog: l.streams}
	if l.streams != nil {
		l.streams.previousOfLog = s
	}
	l.streams = s
	q.count++
	q.link(s)
	if q.timer.index == 0 {
		q.readers.shard.timers.set(&q.timer, s.used+streamIdle, q)
	}
}

// expire forgets streams that nobody has asked for.
func (q *streams) expire(s *shard) {
	for q.oldest != nil && q.oldest.used+streamIdle <= s.now {
		if !q.dropOldest() {
			q.use(q.oldest) // it is being served
		}
	}
	if q.oldest != nil {
		s.timers.set(&q.timer, q.oldest.used+streamIdle, q)
	}
}

// dropOldest forgets the stream that was used longest ago; false when a worker serves from it.
func (q *streams) dropOldest() bool {
	if q.oldest == nil || q.oldest.busy {
		return false
	}
	q.drop(q.oldest)
	return true
}

// giveUp gives back the memory of one stream, of the one that was used longest ago; false when none has any.
func (q *streams) giveUp() bool {
	for s := q.oldest; s != nil; s = s.newer {
		if s.count > 0 && !s.busy {
			for s.count > 0 {
				s.wasted(&s.slots[s.count-1])
				q.release(s, s.count-1)
			}
			s.ahead = s.place
			return true
		}
	}
	return false
}

func (s *stream) wasted(x *slot) { s.log.shard.counters.aheadWasted.Add(x.end - x.at) }

// release gives back slot i, and moves those behind it up.
func (q *streams) release(s *stream, i int) {
	b := s.slots[i].memory
	q.held -= int64(len(b.Bytes()))
	b.Release()
	copy(s.slots[i:s.count], s.slots[i+1:s.count])
	s.count--
	s.slots[s.count] = slot{}
}

// drop forgets s. One that a worker has in hand is only marked.
func (q *streams) drop(s *stream) {
	if s.dropped {
		return
	}
	s.dropped = true
	for s.count > 0 {
		s.wasted(&s.slots[s.count-1])
		q.release(s, s.count-1)
	}
	q.unlink(s)
	q.unwant(s)
	if s.previousOfLog == nil {
		s.log.streams = s.nextOfLog
	} else {
		s.previousOfLog.nextOfLog = s.nextOfLog
	}
	if s.nextOfLog != nil {
		s.nextOfLog.previousOfLog = s.previousOfLog
	}
	s.previousOfLog, s.nextOfLog = nil, nil
	q.count--
	q.free(s)
}

// free keeps a dropped stream for reuse when no worker has it in hand any more.
func (q *streams) free(s *stream) {
	if !s.busy && !s.reading {
		*s = stream{dropped: true, nextOfLog: q.idle}
		q.idle = s
	}
}

// forget drops the streams of a log.
func (q *streams) forget(l *Log) {
	for l.streams != nil {
		q.drop(l.streams)
	}
}

func (q *streams) end() {
	for q.oldest != nil {
		q.drop(q.oldest)
	}
}

// link puts s at the young end.
func (q *streams) link(s *stream) {
	s.used = q.readers.shard.now
	s.older, s.newer = q.newest, nil
	if q.newest == nil {
		q.oldest = s
	} else {
		q.newest.newer = s
	}
	q.newest = s
}

func (q *streams) unlink(s *stream) {
	if s.older == nil {
		q.oldest = s.newer
	} else {
		s.older.newer = s.newer
	}
	if s.newer == nil {
		q.newest = s.older
	} else {
		s.newer.older = s.older
	}
	s.older, s.newer = nil, nil
}

// use notes that s was asked for, and asks for more to be read ahead.
func (q *streams) use(s *stream) {
	q.unlink(s)
	q.link(s)
	q.want(s)
}

// want lists s to be read ahead for.
func (q *streams) want(s *stream) {
	if s.listed || s.reading || s.dropped || s.count == slotsMax || s.ahead.offset >= s.below() {
		return
	}
	s.listed, s.nextWanted = true, nil
	if q.wantedTail == nil {
		q.wantedHead = s
	} else {
		q.wantedTail.nextWanted = s
	}
	q.wantedTail = s
}

func (q *streams) unwant(s *stream) {
	if !s.listed {
		return
	}
	var before *stream
	for at := q.wantedHead; at != s; at = at.nextWanted {
		before = at
	}
	if before == nil {
		q.wantedHead = s.nextWanted
	} else {
		before.nextWanted = s.nextWanted
	}
	if q.wantedTail == s {
		q.wantedTail = before
	}
	s.listed, s.nextWanted = false, nil
}

// wanted says that a stream is to be read ahead: nobody waits for room in the device's queue, and there is some.
func (q *streams) wanted() bool {
	c := &q.readers.cold
	if q.wantedHead == nil || len(c.deep) > 0 {
		return false
	}
	p := q.readers.shard.coldPlan()
	return c.inFlight+p.StepBytes() <= p.DepthBytes()
}

func (q *streams) popWanted() *stream {
	if !q.wanted() {
		return nil
	}
	s := q.wantedHead
	q.unwant(s)
	s.reading = true
	return s
}

// below is where a stream ends: what readers see and the segments have. The rest is at the tail.
func (s *stream) below() int64 { return min(s.log.highWatermark, s.log.tail.startOffset(s.log)) }

// settle moves the places of s from the end of a segment to the begin of the next one.
func (s *stream) settle() {
	for _, at := range [...]*mark{&s.place, &s.ahead} {
		if f := at.segment; f != s.log.active && at.position >= f.Bytes {
			if next := s.log.segmentOf(at.offset); next != f {
				*at = mark{segment: next, offset: next.BaseOffset}
			}
		}
	}
}

// keep takes the bytes [at, end) of b, which holds the segment of s.ahead from start on, as the next slot.
func (s *stream) keep(b *buffer.Buffer, start, at int64, whole run) {
	q := &s.log.shard.reads.cold.streams
	if whole.end <= at || s.count == slotsMax || q.held+int64(len(b.Bytes())) > q.limit() {
		return
	}
	s.slots[s.count] = slot{memory: b.Retain(), file: s.ahead.segment, start: start, at: at, end: whole.end, offset: s.ahead.offset}
	s.count++
	q.held += int64(len(b.Bytes()))
	s.ahead.position, s.ahead.offset = start+whole.end, whole.next
}

func (q *streams) limit() int64 { return q.readers.shard.options.Cold.LimitBytes() / aheadShare }

// run is whole batches: where they end, and the offset behind.
type run struct{ end, next int64 }

// wholeBatches returns the run of whole batches of data from position at and offset next on, all of
// which end below an offset: what was not stored yet when it was read is none. Only lengths are looked at.
func wholeBatches(data []byte, at, next, below int64) run {
	for at < int64(len(data)) {
		batch, _, err := record.Next(data[at:])
		if err != nil || batch.BaseOffset() != next || batch.LastOffset() >= below {
			break
		}
		at += int64(len(batch))
		next = batch.LastOffset() + 1
	}
	return run{end: at, next: next}
}

// readAhead reads the next buffer of s, if there is memory and something to read. Errors are
// not told: whoever asks for the place meets them.
func (w *coldWorker) readAhead(s *stream) {
	q := &w.readers.cold.streams
	more := w.readAheadInto(s)
	s.reading = false
	if s.waiter != nil {
		w.readers.shard.wakeJob(s.waiter)
		s.waiter = nil
	}
	switch {
	case s.dropped:
		q.free(s)
	case more:
		q.want(s)
	}
}

// readAheadInto says whether it got something.
func (w *coldWorker) readAheadInto(s *stream) bool {
	l, q, j := s.log, &w.readers.cold.streams, w.job
	if s.dropped || !j.shard.owns(l) || l.closed != nil || l.cut.active || s.gen != l.gen || s.count == slotsMax {
		return false
	}
	if q.held+coldBytesMax > q.limit() || len(w.readers.cold.hungry) > 0 {
		return false
	}
	s.settle()
	f, at, below := s.ahead.segment, s.ahead, s.below()
	if f.gone || at.offset >= below || at.position >= f.Bytes {
		return false
	}
	b := w.readers.shard.options.Cold.TryGet(coldBytesMax)
	if b == nil {
		return false
	}
	defer b.Release()
	l.jobs++
	f.pins++
	defer func() {
		l.jobs--
		f.pins--
	}()
	if l.shard.files.open(j, f) != nil {
		return false
	}
	start, end := plan.RoundDown(at.position), f.Bytes
	data := b.Bytes()[:min(int64(len(b.Bytes())), plan.RoundUp(end)-start)]
	if w.fill(f.file, data, start) != nil {
		return false
	}
	if s.dropped || l.closed != nil || l.cut.active || s.gen != l.gen || s.ahead != at {
		return false
	}
	counters := &l.shard.counters
	counters.aheadReads.Add(1)
	counters.aheadBytes.Add(int64(len(data)))
	data = data[:min(int64(len(data)), end-start)]
	whole := wholeBatches(data, at.position-start, at.offset, below)
	s.keep(b, start, at.position-start, whole)
	return whole.next > at.offset
}

// readStream fills p from what was read ahead, or is being read now, and from disk when that is nothing.
func (w *coldWorker) readStream(p *ReadPart, c *coldRead, s *stream) error {
	q := &w.readers.cold.streams
	q.unwant(s)
	for s.reading && s.count == 0 && !s.dropped {
		s.waiter = w.job
		if err := w.job.park(); err != nil {
			return err
		}
	}
	limit := min(p.BytesMax, c.left)
	for s.count > 0 && !s.dropped {
		x := &s.slots[0]
		if p.Bytes > 0 && c.held+int64(len(x.memory.Bytes())) > w.readers.shard.options.Cold.LimitBytes()/coldShare {
			break
		}
		more, err := w.takeSlot(p, c, s, x, limit-p.Bytes)
		if err != nil || !more {
			return err
		}
	}
	if p.Bytes > 0 {
		return nil
	}
	if _, err := p.available(); err != nil {
		return err
	}
	return w.readDisk(p, c, s)
}

// takeSlot puts batches of x, the first slot of s, into p; more says that the slot is used up, and p
// may have more.
func (w *coldWorker) takeSlot(p *ReadPart, c *coldRead, s *stream, x *slot, limit int) (more bool, err error) {
	l, q := p.Log, &w.readers.cold.streams
	if _, err := p.available(); err != nil || l.passed(p.Offset) || l.cut.active || s.gen != l.gen {
		return false, err
	}
	data := x.memory.Bytes()[:x.end]
	v := window{
		log: l, data: data, at: x.at, next: x.offset, offset: x.offset, below: l.highWatermark,
		limit: limit, first: c.empty && p.Bytes == 0,
	}
	at, to, _, bad := v.choose()
	if bad != nil {
		if p.Bytes > 0 {
			return false, nil // the next read meets it first
		}
		q.drop(s) // it is read again, by itself
		return true, nil
	}
	if to == at {
		return false, nil
	}
	p.addCold(x.file, x.memory, x.start, at, to)
	l.shard.counters.aheadHits.Add(to - at)
	c.held += int64(len(x.memory.Bytes()))
	x.at, x.offset = to, lastOffset(data[at:to])+1
	s.place = mark{segment: x.file, position: x.start + to, offset: x.offset}
	if x.at < x.end {
		return false, nil
	}
	q.release(s, 0)
	return true, nil
}
