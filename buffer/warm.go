package buffer

import "time"

// A page that is touched for the first time costs its zeroing there and then:
// measured here, 2 ms for a huge page, which holds up whoever appends and
// makes a pool that grows with its load three times slower than one that was
// touched before. So a pool can be kept warm: a goroutine touches free memory
// ahead of those who will need it, and those who have another choice than cold
// memory, such as giving up the oldest page of a cache, ask by TryGetWarm first.

const (
	// warmPieceBytes is touched at a time, and warmPause between two pieces keeps the
	// warmer at a quarter of a core while a load grows into the pool.
	warmPieceBytes = hugePageBytes
	warmPause      = 6 * time.Millisecond
)

// warmth is the state of a pool that is kept warm; guarded by Pool.mu.
type warmth struct {
	aheadBytes int64         // touched and free memory to keep ready; 0 is a pool that is not kept warm
	wanted     chan struct{} // has one element when there is less
}

// KeepWarm touches free memory of the pool ahead of its use until stop is closed:
// aheadBytes at once, and as much again whenever TryGetWarm finds less. Trim
// leaves that much. A pool is kept warm by at most one goroutine, this one.
func (p *Pool) KeepWarm(stop <-chan struct{}, aheadBytes int64) {
	wanted := make(chan struct{}, 1)
	wanted <- struct{}{}
	p.mu.Lock()
	p.mu.warmth = warmth{aheadBytes: aheadBytes, wanted: wanted}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.mu.warmth = warmth{}
		p.mu.Unlock()
	}()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-stop:
			return
		case <-wanted:
		}
		for p.warmFreeBytes() < aheadBytes && p.warm() {
			pause.Reset(warmPause)
			select {
			case <-stop:
				return
			case <-pause.C:
			}
		}
	}
}

// TryGetWarm is TryGet for those who can do without cold memory: it returns nil
// also when the block at hand was never touched. In a pool that is not kept
// warm it is TryGet.
func (p *Pool) TryGetWarm(sizeBytes int) *Buffer {
	order := orderFor(sizeBytes)
	if order > p.orderLimit {
		return nil
	}
	p.mu.Lock()
	kept := p.mu.warmth.aheadBytes > 0
	if kept && p.warmFreeLocked() < p.mu.warmth.aheadBytes {
		select {
		case p.mu.warmth.wanted <- struct{}{}:
		default: // it knows
		}
	}
	if p.mu.waiters.head != nil || kept && !p.nextIsWarmLocked(order) {
		// Not noted as refused: the caller has another choice, and takes
		// TryGet, which notes it, when that fails too.
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

// nextIsWarmLocked says whether the block that would be taken was touched before. No block
// at all counts as warm: taking it fails as usual.
func (p *Pool) nextIsWarmLocked(order int) bool {
	page, ok := p.mu.buddy.peek(order)
	if !ok {
		return true
	}
	for chunk := page >> orderHuge; chunk <= (page+1<<order-1)>>orderHuge; chunk++ {
		if !p.mu.touched.has(chunk) {
			return false
		}
	}
	return true
}

// warmFreeLocked is how much free memory has been touched: all that is held has.
func (p *Pool) warmFreeLocked() int64 {
	return int64(p.mu.touchedCount)*hugePageBytes - p.inUseBytes.Load()
}

func (p *Pool) warmFreeBytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.warmFreeLocked()
}

// warm touches the lowest free piece that never was, and returns false when there is none.
func (p *Pool) warm() bool {
	p.trimming.Lock()
	defer p.trimming.Unlock()
	page, found := p.takeToWarm()
	if !found {
		return false
	}
	p.arena.touch(p.arena.bytes[page<<pageShift:][:warmPieceBytes])
	p.mu.Lock()
	p.touchLocked(page >> orderHuge)
	p.mu.buddy.give(page, orderHuge)
	notify := p.serveLocked()
	p.mu.Unlock()
	call(notify)
	return true
}

// takeToWarm takes the lowest free block of a huge page that was not touched. It is
// held, unseen by InUseBytes, while its memory is touched without the lock.
func (p *Pool) takeToWarm() (page int, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed || p.orderLimit < orderHuge {
		return 0, false
	}
	for order := orderHuge; order <= orderMax; order++ {
		for block := p.mu.buddy.free[order].first(); block >= 0; block = p.mu.buddy.free[order].next(block + 1) {
			first := block << order >> orderHuge
			for chunk := first; chunk < first+1<<(order-orderHuge); chunk++ {
				if !p.mu.touched.has(chunk) {
					return chunk << orderHuge, p.mu.buddy.split(block<<order, order, chunk<<orderHuge, orderHuge)
				}
			}
		}
	}
	return 0, false
}
