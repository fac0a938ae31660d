package buffer

// waiter is somebody in Get or GetSparing. served has room for the one buffer (nil: the pool
// was closed) that it ever gets, so that serving never blocks.
type waiter struct {
	order        int
	reserveBytes int64 // what has to stay free beside the block: 0 in Get
	served       chan *Buffer
	queued       bool
	prev, next   *waiter
}

// waiterQueue is a doubly linked list: the context of any waiter may end.
type waiterQueue struct {
	head, tail *waiter
}

func (q *waiterQueue) push(w *waiter) {
	w.queued = true
	w.prev = q.tail
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
}

func (q *waiterQueue) remove(w *waiter) {
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
}

// headerQueue holds idle headers, oldest first, so that Get allocates only
// when more buffers are held at once than ever before.
type headerQueue struct {
	head, tail *Buffer
	count      int
}

func (q *headerQueue) push(b *Buffer) {
	b.next = nil
	if q.tail == nil {
		q.head = b
	} else {
		q.tail.next = b
	}
	q.tail = b
	q.count++
}

// pop returns the oldest header, leaving those in quarantine alone.
func (q *headerQueue) pop(p *Pool) *Buffer {
	if q.count <= p.quarantine {
		q.grow(p, headerSlabCount)
	}
	b := q.head
	q.head = b.next
	if q.head == nil {
		q.tail = nil
	}
	b.next = nil
	q.count--
	return b
}

func (q *headerQueue) grow(p *Pool, count int) {
	slab := make([]Buffer, count)
	for i := range slab {
		slab[i].pool = p
		q.push(&slab[i])
	}
}
