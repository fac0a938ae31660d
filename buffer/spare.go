package buffer

import (
	"context"
	"fmt"
)

// A pool that is first come first served belongs to whoever asks for most: those
// who take large blocks and keep them for long leave nothing to those who need a
// page for a moment. So they can be made to ask for what the pool can spare: they
// are given a block only while a reserve stays free behind it, and wait in a
// queue of their own, which those who call TryGet and Get pass by.

// TryGetSparing is TryGet for those who have to leave something: it returns nil
// also when less than reserveBytes would stay free, or somebody in GetSparing
// was there first. It is not made up for by Notify: the caller makes do with
// less, or waits in GetSparing.
func (p *Pool) TryGetSparing(sizeBytes int, reserveBytes int64) *Buffer {
	order := orderFor(sizeBytes)
	if order > p.orderLimit {
		return nil
	}
	p.mu.Lock()
	b := p.takeSparingLocked(order, reserveBytes)
	p.mu.Unlock()
	return p.handOut(b)
}

// GetSparing is Get for those who have to leave something: it waits until
// reserveBytes stay free behind the buffer that it returns. Those who wait are
// served in the order in which they came, after everybody in Get, and keep
// nobody in TryGet and Get waiting. The error is ErrTooLarge also when buffer and
// reserve together are more than the pool.
func (p *Pool) GetSparing(ctx context.Context, sizeBytes int, reserveBytes int64) (*Buffer, error) {
	order := orderFor(sizeBytes)
	if order > p.orderLimit || !p.spares(order, reserveBytes, 0) {
		return nil, fmt.Errorf("%w: %d bytes of pool %s, of whose %d bytes %d have to stay free",
			ErrTooLarge, sizeBytes, p.name, p.limitBytes, reserveBytes)
	}
	p.mu.Lock()
	if b := p.takeSparingLocked(order, reserveBytes); b != nil {
		p.mu.Unlock()
		return p.handOut(b), nil
	}
	return p.waitLocked(ctx, &p.mu.sparing, order, reserveBytes)
}

// takeSparingLocked is takeLocked for those in no queue.
func (p *Pool) takeSparingLocked(order int, reserveBytes int64) *Buffer {
	if p.mu.waiters.head != nil || p.mu.sparing.head != nil || !p.spares(order, reserveBytes, p.inUseBytes.Load()) {
		return nil
	}
	return p.takeLocked(order)
}

// serveSparingLocked hands what the pool can spare to those in GetSparing.
func (p *Pool) serveSparingLocked() {
	for w := p.mu.sparing.head; w != nil && p.spares(w.order, w.reserveBytes, p.inUseBytes.Load()); w = p.mu.sparing.head {
		b := p.takeLocked(w.order)
		if b == nil {
			return
		}
		p.mu.sparing.remove(w)
		w.served <- b
	}
}

// spares says whether, with so much in use, a block of the order leaves the reserve.
func (p *Pool) spares(order int, reserveBytes, inUseBytes int64) bool {
	return int64(p.limitBytes)-inUseBytes-pageBytes<<order >= reserveBytes
}
