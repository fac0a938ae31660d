package engine

import (
	"errors"
	"fmt"

	"ringlog/buffer"
	"ringlog/engine/plan"
	"ringlog/record"
)

// appendQueue is the appends of one log that wait for room, in order. It is
// bounded by what holds their frames, which is the back-pressure.
type appendQueue struct {
	head, tail *Append
}

func (q *appendQueue) push(a *Append) {
	if q.tail == nil {
		q.head = a
	} else {
		q.tail.next = a
	}
	q.tail = a
}

// putBack makes a the first again.
func (q *appendQueue) putBack(a *Append) {
	a.next = q.head
	q.head = a
	if q.tail == nil {
		q.tail = a
	}
}

func (q *appendQueue) pop() *Append {
	a := q.head
	q.head = a.next
	if q.head == nil {
		q.tail = nil
	}
	a.next = nil
	return a
}

// tryAppend hands a to the replica, or refuses it; false when it has to wait.
func (l *Log) tryAppend(a *Append) bool {
	if err := l.usable(); err != nil {
		l.refuse(a, err)
		return true
	}
	if l.sealed != nil {
		l.refuse(a, l.sealed)
		return true
	}
	room, err := l.room(a.Batch)
	if err != nil {
		l.refuse(a, err)
		return true
	}
	if !room {
		return false
	}
	group := a.group // a may have its answer after the step
	l.step(Event{Kind: EventProduce, Append: a})
	group.consumed()
	return true
}

// retryWaiting goes on with the appends that wait, until one has to wait longer.
func (l *Log) retryWaiting() {
	for l.waiting.head != nil {
		// Taken out first: once it is answered its memory is its owner's.
		a := l.popWaiting()
		if !l.tryAppend(a) {
			l.waiting.putBack(a)
			l.shard.counters.waiting.Add(1)
			return
		}
	}
}

// refuseWaiting answers all appends that wait with err.
func (l *Log) refuseWaiting(err error) {
	for l.waiting.head != nil {
		l.refuse(l.popWaiting(), err)
	}
}

// popWaiting takes the first append that waits.
func (l *Log) popWaiting() *Append {
	l.shard.counters.waiting.Add(-1)
	return l.waiting.pop()
}

// refuse answers an append that the replica has not seen.
func (l *Log) refuse(a *Append, err error) {
	if errors.Is(err, ErrNoSpace) {
		l.shard.counters.spaceRefusals.Add(1)
	}
	a.Err = err
	a.StartOffset = l.startDurable
	group := a.group
	l.answer(a)
	group.consumed()
}

// answer counts that a has its answer.
func (l *Log) answer(a *Append) {
	group := a.group
	a.group = nil
	if group == nil {
		panic(fmt.Sprintf("engine: an append to %s was answered twice", l.label))
	}
	l.shard.unanswered -= int64(a.size)
	group.answered()
}

// room says whether the batch could be appended now: the segment it goes to has
// reserved space for it and there is memory. It starts what makes room and
// returns an error when room cannot be made.
func (l *Log) room(batch record.Batch) (bool, error) {
	if l.cut.active || l.leaving {
		return false, nil
	}
	if l.side.unnamed != nil {
		return false, l.noSpace(l.side.unnamed)
	}
	if l.way != direct && l.shard.journal.full() {
		return false, l.starve() // until a trim has made room
	}
	size := int64(len(batch))
	if size+plan.BlockBytes > int64(l.shard.options.Tail.MaxBytes()) {
		return false, fmt.Errorf("%w: a batch of %d bytes for %s", buffer.ErrTooLarge, size, l.label)
	}
	roll := l.rolls(batch)
	if !l.reserve(size, roll) {
		return false, l.space.full
	}
	if roll {
		l.roll()
	}
	if !l.tail.room(l, size) {
		return false, l.starve()
	}
	return true, nil
}

// noSpace is the answer to an append that a lack of space keeps out.
func (l *Log) noSpace(cause error) error { return fmt.Errorf("%w: %s: %w", ErrNoSpace, l.label, cause) }

// rolls says whether the batch begins a new segment.
func (l *Log) rolls(batch record.Batch) bool {
	return plan.Roll{
		Position:       l.next.position,
		BatchBytes:     int64(len(batch)),
		SegmentBytes:   l.config.SegmentBytes,
		RelativeOffset: l.next.offset + int64(batch.LastOffsetDelta()) - l.active.BaseOffset,
		AgeMillis:      l.shard.nowMillis - l.active.CreatedMillis,
		SegmentMillis:  l.config.SegmentMillis,
	}.Due()
}

// append gives the batch of a its offset and copies it into the tail. Everything
// it needs was there when room said so.
func (l *Log) append(a *Append, epoch int32) {
	l.enterEpoch(epoch)
	batch := a.Batch
	batch.SetBaseOffset(l.next.offset)
	batch.SetLeaderEpoch(epoch)
	a.BaseOffset = l.next.offset
	l.place(batch)
	a.size = int32(len(batch))
	l.shard.unanswered += int64(len(batch))
	l.shard.appendedAt = l.shard.now
	l.shard.counters.appends.Add(1)
	l.shard.counters.appendBytes.Add(int64(len(batch)))
	if l.config.relaxed() {
		l.shard.counters.relaxedAppends.Add(1)
	}
}

// place copies a batch that has its offset to the end of the log.
func (l *Log) place(batch record.Batch) {
	s := l.shard
	size := int64(len(batch))
	nextOffset := batch.LastOffset() + 1
	if l.next.position == 0 {
		l.active.CreatedMillis = s.nowMillis
	}
	l.tail.put(l, batch, nextOffset)
	l.active.index.Add(batch.BaseOffset(), nextOffset, batch.MaxTimestamp(), len(batch), int64(l.config.IndexIntervalBytes))
	l.next.position += size
	l.next.total += size
	l.next.batches++
	l.next.offset = nextOffset
	l.active.AppendedMillis = s.nowMillis
	l.active.Bytes, l.active.NextOffset = l.next.position, nextOffset
	l.writes.push(l.next)
	l.noteDirty()
	l.side.bytes += size
	l.wantWrites()
	l.published.next.Store(nextOffset)
	l.reserveAhead()
}
