package perf

import (
	"ringlog/engine/disk"
)

// bareFile is one partition: a ring of memory in front of a ring of a file.
// Positions count bytes since the start of the run and only grow.
//
//	durable ≤ written ≤ submitted ≤ tail ≤ written + len(ring)
type bareFile struct {
	file      disk.File
	ring      []byte
	chunk     int
	writesMax int
	fileBytes int64

	tail      int64 // end of what was appended
	submitted int64 // end of what is in writes, whole blocks but for a tail block
	written   int64 // end of the prefix that is written
	durable   int64 // end of the prefix that was flushed
	flushing  int64 // what durable becomes when the flush in flight completes
	next      int64 // offset of the next record

	waiting    []*bareRequest // no room in the ring yet
	unanswered []*bareRequest // appended
	touched    bool

	writes []*bareWrite // in flight, oldest first
	spare  []*bareWrite
	flush  struct {
		operation disk.Operation
		inFlight  bool
	}
	// tailBlock is the private copy that a partial last block is written from,
	// alone in flight, so that no two writes of one block overlap.
	tailBlock       []byte
	tailBlockFlying bool
}

// bareWrite is a write in flight.
type bareWrite struct {
	operation disk.Operation
	end       int64 // position behind the last byte that matters
	partial   bool
	done      bool
}

// appendWaiting copies batches to the tail of the ring while there is room.
func (f *bareFile) appendWaiting() {
	count := 0
	for _, r := range f.waiting {
		// What is not written yet, and the block that the tail lies in, must stay.
		if f.tail+int64(len(r.batch)) > f.written/disk.BlockBytes*disk.BlockBytes+int64(len(f.ring)) {
			break
		}
		r.batch.SetBaseOffset(f.next)
		r.base = f.next
		f.next += int64(r.batch.LastOffsetDelta()) + 1
		at := int(f.tail % int64(len(f.ring)))
		copy(f.ring, r.batch[copy(f.ring[at:], r.batch):])
		f.tail += int64(len(r.batch))
		r.end = f.tail
		f.unanswered = append(f.unanswered, r)
		count++
	}
	f.waiting = append(f.waiting[:0], f.waiting[count:]...)
}

// submitWrites writes whole chunks while there are any, and what is less than
// a chunk only when nothing else is in flight: under load, small appends gather.
func (f *bareFile) submitWrites(d disk.Disk) {
	for len(f.writes) < f.writesMax && !f.tailBlockFlying {
		start := f.submitted / disk.BlockBytes * disk.BlockBytes
		whole := (f.tail - start) / disk.BlockBytes * disk.BlockBytes
		toChunkEnd := int64(f.chunk) - start%int64(f.chunk)
		switch {
		case whole >= toChunkEnd:
			f.submitWrite(d, start, toChunkEnd)
		case len(f.writes) > 0 || f.tail == f.submitted:
			return
		default:
			if whole > 0 {
				f.submitWrite(d, start, whole)
			}
			if f.tail > start+whole {
				f.submitTailBlock(d, start+whole)
			}
			return
		}
	}
}

func (f *bareFile) submitWrite(d disk.Disk, start, length int64) {
	at := start % int64(len(f.ring))
	f.submit(d, f.ring[at:at+length:at+length], start, start+length, false)
}

func (f *bareFile) submitTailBlock(d disk.Disk, start int64) {
	at := start % int64(len(f.ring))
	clear(f.tailBlock[copy(f.tailBlock, f.ring[at:at+f.tail-start]):])
	f.tailBlockFlying = true
	f.submit(d, f.tailBlock, start, f.tail, true)
}

func (f *bareFile) submit(d disk.Disk, buffer []byte, start, end int64, partial bool) {
	var w *bareWrite
	if n := len(f.spare); n > 0 {
		w, f.spare = f.spare[n-1], f.spare[:n-1]
	} else {
		w = new(bareWrite)
	}
	*w = bareWrite{end: end, partial: partial}
	w.operation = disk.Operation{Kind: disk.Write, File: f.file, Buffer: buffer, Offset: start % f.fileBytes, Owner: f}
	f.submitted = end
	f.writes = append(f.writes, w)
	d.Submit(&w.operation)
}

// submitFlush flushes back to back: the next flush begins when the last ended.
func (f *bareFile) submitFlush(d disk.Disk) {
	if f.flush.inFlight || f.written == f.durable {
		return
	}
	f.flush.inFlight = true
	f.flushing = f.written // a flush covers the writes that completed before it was submitted
	f.flush.operation = disk.Operation{Kind: disk.Flush, File: f.file, Owner: f}
	d.Submit(&f.flush.operation)
}

// completed moves the frontiers.
func (f *bareFile) completed(op *disk.Operation) {
	if op == &f.flush.operation {
		f.flush.inFlight = false
		f.durable = f.flushing
		return
	}
	for _, w := range f.writes {
		if &w.operation == op {
			w.done = true
			if w.partial {
				f.tailBlockFlying = false
			}
		}
	}
	count := 0
	for count < len(f.writes) && f.writes[count].done {
		f.written = f.writes[count].end
		f.spare = append(f.spare, f.writes[count])
		count++
	}
	f.writes = append(f.writes[:0], f.writes[count:]...)
}
