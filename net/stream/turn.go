package stream

import (
	"sync/atomic"

	"ringlog/frontend"
)

// States of a turn.
//
//	open ──Complete──▶ done ──writer──▶ written (recycled)
//	  │                 ▲ │
//	  │ writer sleeps   │ └──connection gone: reply released──▶ abandoned
//	  ▼                 │
//	awaited ──Complete──┘ and the writer is woken
//
//	open, awaited ──connection gone──▶ abandoned ──Complete──▶ reply released at once
const (
	turnOpen uint32 = iota
	turnAwaited
	turnDone
	turnAbandoned
)

// turn is one place in a connection's order of replies: frontend.Turn.
//
// No wake-up is lost: the writer sleeps only after it moved the head from open
// to awaited, which fails when Complete was first; and the Swap in Complete sees
// awaited when the writer was first. So of every pair exactly one notices the
// other, and turns behind the head wake nobody.
type turn struct {
	connection *connection
	// onTurn is set by the reader before the turn is published; the writer
	// calls it, and nils it, when the turn is at the head.
	onTurn func()
	// requestBytes is what the request counts for in the connection's budget.
	requestBytes int64
	// reply is written by Complete before state becomes done, read after that
	// by whoever took the turn from the queue.
	reply frontend.Reply
	state atomic.Uint32
	// next is the link toward the tail; also the link in the freed list.
	next atomic.Pointer[turn]
}

// Complete implements frontend.Turn.
func (t *turn) Complete(reply frontend.Reply) {
	c := t.connection // after the Swap the turn may already be somebody else's
	t.reply = reply
	switch t.state.Swap(turnDone) {
	case turnAwaited:
		c.wakeWriter()
	case turnAbandoned:
		t.releaseReply()
	case turnDone:
		panic("stream: turn completed twice")
	}
}

// releaseReply gives the reply's memory back and forgets it.
func (t *turn) releaseReply() {
	release := t.reply.Release
	t.reply = frontend.Reply{}
	if release != nil {
		release()
	}
}

// turnQueue is the order of a connection's replies: a linked list with one
// goroutine at each end. The reader pushes at the tail, the writer takes from the
// head. It is bounded by InFlightRequestsMax, which the reader checks first.
type turnQueue struct {
	// head is the last turn that was taken (at first a dummy), so that the two
	// ends never touch the same pointer except for next. Owner: the writer.
	head *turn
	// tail is the last turn pushed. Owner: the reader.
	tail *turn
	// spare are turns for reuse. Owner: the reader.
	spare *turn
	// freed are turns that the writer is done with; the reader takes them all at once.
	freed atomic.Pointer[turn]
}

func (q *turnQueue) init() {
	q.head = new(turn)
	q.tail = q.head
}

// obtain returns a blank turn. REQUIRES: called by the reader.
func (q *turnQueue) obtain() *turn {
	if q.spare == nil {
		q.spare = q.freed.Swap(nil)
	}
	t := q.spare
	if t == nil {
		return new(turn)
	}
	q.spare = t.next.Load()
	t.next.Store(nil)
	t.state.Store(turnOpen)
	return t
}

// push publishes t at the tail. REQUIRES: called by the reader.
func (q *turnQueue) push(t *turn) {
	last := q.tail
	q.tail = t
	last.next.Store(t) // publication: the writer may see t from here on
}

// first returns the oldest turn not yet taken, or nil. REQUIRES: called by the writer.
func (q *turnQueue) first() *turn { return q.head.next.Load() }

// take removes and returns the turn that first returned. It stays valid until
// the next take. REQUIRES: called by the writer.
func (q *turnQueue) take() *turn {
	old := q.head
	t := old.next.Load()
	q.head = t
	if reuseTurns {
		q.free(old)
	}
	return t
}

func (q *turnQueue) free(t *turn) {
	for {
		list := q.freed.Load()
		t.next.Store(list)
		if q.freed.CompareAndSwap(list, t) {
			return
		}
	}
}

// lend gives the queue turns for reuse, and reclaim takes back what is left of them with all
// that was freed meanwhile: a loop has one stock for all its connections, so that an idle
// one keeps none. REQUIRES: called by the loop, which is reader and writer.
func (q *turnQueue) lend(spare *turn) { q.spare = spare }

func (q *turnQueue) reclaim() (spare *turn) {
	spare = q.spare
	q.spare = nil
	for t := q.freed.Swap(nil); t != nil; {
		next := t.next.Load()
		t.next.Store(spare)
		spare, t = t, next
	}
	return spare
}

// abandon ends all turns that are left: replies that are there are released
// here, later ones by their Complete. REQUIRES: reader and writer are done.
func (q *turnQueue) abandon() {
	for t := q.first(); t != nil; t = q.first() {
		q.head = t // not take: an abandoned turn may still be completed and is not reused
		t.onTurn = nil
		if t.state.Swap(turnAbandoned) == turnDone {
			t.releaseReply()
		}
	}
}
