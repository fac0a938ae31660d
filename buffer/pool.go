package buffer

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
)

var (
	// ErrTooLarge is returned when a buffer is asked for that is larger than
	// Pool.MaxBytes: waiting would never end.
	ErrTooLarge = errors.New("buffer: larger than the pool can ever hold in one piece")

	// ErrClosed is returned to those who wait for memory of a closed pool.
	ErrClosed = errors.New("buffer: pool is closed")

	// ErrInUse is returned by Pool.Close when buffers are still held.
	ErrInUse = errors.New("buffer: pool has buffers in use")
)

// headerSlabCount is how many headers are allocated at a time.
const headerSlabCount = 64

// Pool is a bounded arena of off-heap memory. Its methods may be called from
// any goroutine. The critical section is a few word operations: bytes are
// filled, checked and discarded outside of it.
type Pool struct {
	name       string
	limitBytes int
	orderLimit int // largest order that the arena can hold
	arena      arena
	poison     *poison // nil when the pool is not checked
	quarantine int     // released headers held back from reuse

	inUseBytes atomic.Int64

	// trimming is held while Trim works on blocks that InUseBytes does not
	// count, so that Close cannot unmap them. Taken before mu.
	trimming sync.Mutex

	mu struct {
		sync.Mutex
		buddy   *buddy
		touched bitset // 2 MiB chunks of the arena handed out, or warmed, since they were last discarded
		warmth  warmth
		// touchedCount is the number of chunks in touched.
		touchedCount int
		closed       bool

		// refused says that TryGet sent somebody away since the last call
		// of the notify functions.
		refused bool
		notify  []func()

		waiters waiterQueue // those in Get, first come first served
		sparing waiterQueue // those in GetSparing, first come first served, after all in waiters
		headers headerQueue // idle headers, oldest first
	}
}

// NewPool reserves an arena of limitBytes, rounded up to a multiple of 4 KiB,
// or of 2 MiB from 2 MiB on. The name goes into messages and metrics. It
// panics when the limit is not positive or the address space cannot be had.
func NewPool(name string, limitBytes int64) *Pool {
	return newPool(name, limitBytes, checksOn)
}

func newPool(name string, limitBytes int64, checked bool) *Pool {
	if limitBytes <= 0 {
		panic(fmt.Sprintf("buffer: pool %s: limit of %d bytes", name, limitBytes))
	}
	granule := int64(pageBytes)
	if limitBytes > hugePageBytes-pageBytes {
		granule = hugePageBytes
	}
	limit := int((limitBytes + granule - 1) &^ (granule - 1))
	pages := limit >> pageShift
	p := &Pool{
		name:       name,
		limitBytes: limit,
		orderLimit: min(orderMax, bits.Len(uint(pages))-1),
		arena:      newArena(limit),
	}
	if checked {
		p.poison = &poison{pages: make([]bool, pages)}
		p.quarantine = quarantineCount
	}
	p.mu.buddy = newBuddy(pages)
	p.mu.touched = newBitset((limit + hugePageBytes - 1) / hugePageBytes)
	p.mu.headers.grow(p, p.quarantine+headerSlabCount)
	return p
}

// Name returns the name that the pool was made with.
func (p *Pool) Name() string { return p.name }

// LimitBytes returns the budget: the size of the arena.
func (p *Pool) LimitBytes() int64 { return int64(p.limitBytes) }

// MaxBytes returns the size of the largest buffer that the pool can give: the
// largest power of two in its arena, at most 128 MiB.
func (p *Pool) MaxBytes() int { return pageBytes << p.orderLimit }

// InUseBytes returns the bytes of all blocks held now, rounding included.
func (p *Pool) InUseBytes() int64 { return p.inUseBytes.Load() }

// TryGet returns a buffer of at least sizeBytes, or nil when the budget is
// spent, no free piece is large enough, or somebody in Get was there first.
// Functions given to Notify are called when it is worth trying again; a size
// above MaxBytes never is. Release the buffer when done.
func (p *Pool) TryGet(sizeBytes int) *Buffer {
	order := orderFor(sizeBytes)
	if order > p.orderLimit {
		return nil
	}
	p.mu.Lock()
	if p.mu.waiters.head != nil {
		p.mu.refused = true
		p.mu.Unlock()
		return nil
	}
	b := p.takeLocked(order)
	if b == nil {
		p.mu.refused = true
	}
	p.mu.Unlock()
	return p.handOut(b)
}

// Get returns a buffer of at least sizeBytes, waiting until the budget allows
// it. Those who wait are served strictly in the order in which they came: a
// large request is not overtaken by small ones, so it is reached as soon as
// those before it release. The error is ErrTooLarge, ErrClosed, or that of the
// context (which is looked at only when there is something to wait for).
func (p *Pool) Get(ctx context.Context, sizeBytes int) (*Buffer, error) {
	order := orderFor(sizeBytes)
	if order > p.orderLimit {
		return nil, fmt.Errorf("%w: %d bytes of pool %s, which gives at most %d", ErrTooLarge, sizeBytes, p.name, p.MaxBytes())
	}
	p.mu.Lock()
	if p.mu.waiters.head == nil {
		if b := p.takeLocked(order); b != nil {
			p.mu.Unlock()
			return p.handOut(b), nil
		}
	}
	return p.waitLocked(ctx, &p.mu.waiters, order, 0)
}

// waitLocked waits in queue until it is served. It releases mu, which the caller
// holds, having found nothing to take.
func (p *Pool) waitLocked(ctx context.Context, queue *waiterQueue, order int, reserveBytes int64) (*Buffer, error) {
	if p.mu.closed {
		p.mu.Unlock()
		return nil, fmt.Errorf("%w: %s", ErrClosed, p.name)
	}
	w := &waiter{order: order, reserveBytes: reserveBytes, served: make(chan *Buffer, 1)}
	queue.push(w)
	p.mu.Unlock()

	select {
	case b := <-w.served:
		if b == nil {
			return nil, fmt.Errorf("%w: %s", ErrClosed, p.name)
		}
		return p.handOut(b), nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	if w.queued {
		queue.remove(w)
		notify := p.serveLocked() // who stood behind may fit where w did not
		p.mu.Unlock()
		call(notify)
	} else {
		p.mu.Unlock()
		if b := <-w.served; b != nil { // served between the two: pass it on
			p.handOut(b).Release()
		}
	}
	return nil, fmt.Errorf("waiting for %d bytes of buffer pool %s: %w", pageBytes<<w.order, p.name, context.Cause(ctx))
}

// Notify adds a function that is called after memory came back while somebody
// had been refused by TryGet. It is called once for any number of refusals,
// from any goroutine (often the one that released), and must not block and not
// call the pool: it wakes somebody who then tries again.
func (p *Pool) Notify(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Copied, because call runs over the old slice without the lock.
	p.mu.notify = append(p.mu.notify[:len(p.mu.notify):len(p.mu.notify)], f)
}

// Close frees the arena. It returns ErrInUse, and does nothing, while buffers
// are held; those who wait get ErrClosed, TryGet returns nil from then on. It
// is for tests: a broker keeps its pools for life, because a mapping that goes
// away under the kernel or under a stale slice is a crash far from its cause.
func (p *Pool) Close() error {
	p.trimming.Lock()
	defer p.trimming.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil
	}
	if inUse := p.inUseBytes.Load(); inUse != 0 {
		return fmt.Errorf("%w: %d bytes of %s", ErrInUse, inUse, p.name)
	}
	p.mu.closed = true
	for _, queue := range []*waiterQueue{&p.mu.waiters, &p.mu.sparing} {
		for w := queue.head; w != nil; w = queue.head {
			queue.remove(w)
			w.served <- nil
		}
	}
	return p.arena.close()
}

// takeLocked returns a buffer with one reference whose memory is not looked at
// yet, or nil.
func (p *Pool) takeLocked(order int) *Buffer {
	if p.mu.closed {
		return nil
	}
	page, ok := p.mu.buddy.take(order)
	if !ok {
		return nil
	}
	for chunk := page >> orderHuge; chunk <= (page+1<<order-1)>>orderHuge; chunk++ {
		p.touchLocked(chunk)
	}
	b := p.mu.headers.pop(p)
	size := pageBytes << order
	b.page, b.order = page, order
	b.memory = p.arena.bytes[page<<pageShift:][:size:size]
	b.begin()
	p.inUseBytes.Add(int64(size))
	return b
}

func (p *Pool) touchLocked(chunk int) {
	if !p.mu.touched.has(chunk) {
		p.mu.touched.add(chunk)
		p.mu.touchedCount++
	}
}

// handOut checks the memory of a buffer that takeLocked returned.
func (p *Pool) handOut(b *Buffer) *Buffer {
	if b != nil && p.poison != nil {
		p.poison.taken(p.name, b.memory, b.page)
	}
	return b
}

// giveBack takes the block of a buffer without references.
func (p *Pool) giveBack(b *Buffer) {
	if p.poison != nil {
		p.poison.freed(b.memory, b.page)
	}
	p.mu.Lock()
	p.mu.buddy.give(b.page, b.order)
	p.inUseBytes.Add(-int64(len(b.memory)))
	b.memory = nil
	p.mu.headers.push(b)
	notify := p.serveLocked()
	p.mu.Unlock()
	call(notify)
}

// serveLocked hands free memory to those who wait, in order, and returns the
// functions to call once the lock is released.
func (p *Pool) serveLocked() []func() {
	for w := p.mu.waiters.head; w != nil; w = p.mu.waiters.head {
		b := p.takeLocked(w.order)
		if b == nil {
			return nil // TryGet would be refused again
		}
		p.mu.waiters.remove(w)
		w.served <- b
	}
	p.serveSparingLocked()
	if !p.mu.refused {
		return nil
	}
	p.mu.refused = false
	return p.mu.notify
}

func call(functions []func()) {
	for _, f := range functions {
		f()
	}
}
