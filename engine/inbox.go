package engine

import "sync"

// message is one thing that another goroutine asks of a shard: exactly one of
// the fields is set, or none when memory came back.
type message struct {
	group  *AppendGroup
	read   *Read
	cancel *Read
	call   *call
	leg    *leg // or its recall, that comes back to the lead
	recall *leg
	moving *moving // is about to come
	moved  *moving // is here, or does not come
	begged int64   // bytes of cache that another shard asks for
}

// inbox is the one way into a shard: many senders, one receiver, first in
// first out. A mutex around two slices that swap is all it takes: a sender
// holds it for an append, the receiver once a turn for a swap.
type inbox struct {
	wake func() // ends the receiver's sleep; called with mu held, so never after close

	mu struct {
		sync.Mutex
		messages []message
		sleeping bool // the receiver waits: the next sender wakes it, once per burst
		closed   bool
	}
}

// send queues m and wakes the receiver if it sleeps; false when it is gone.
func (b *inbox) send(m message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return false
	}
	b.mu.messages = append(b.mu.messages, m)
	if b.mu.sleeping {
		b.mu.sleeping = false
		b.wake()
	}
	return true
}

// take returns all that is queued and keeps spare for what comes next.
func (b *inbox) take(spare []message) []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.sleeping = false
	taken := b.mu.messages
	b.mu.messages = spare[:0]
	return taken
}

// sleep marks the receiver asleep; false when there is something to do instead.
func (b *inbox) sleep() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.sleeping = len(b.mu.messages) == 0
	return b.mu.sleeping
}

// empty says that nothing is queued.
func (b *inbox) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.messages) == 0
}

// close refuses what is sent from now on and returns what was not taken.
func (b *inbox) close() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = true
	left := b.mu.messages
	b.mu.messages = nil
	return left
}
