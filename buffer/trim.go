package buffer

// Trim gives the free memory of the pool back to the system, in pieces of 2 MiB
// and more, and returns the bytes given back. The budget does not change: the
// pages come back, as zeros, when they are touched again. Call it from a timer
// when the broker is idle; a page that comes back costs a fault. A pool that
// is kept warm keeps what it has ready. Smaller free
// pieces stay, since giving up a part of a huge page would break it apart.
func (p *Pool) Trim() int64 {
	p.trimming.Lock()
	defer p.trimming.Unlock()
	var trimmedBytes int64
	for order := orderMax; order >= orderHuge; order-- {
		for from := 0; ; {
			page, found := p.takeToTrim(order, from)
			if !found {
				break
			}
			from = page>>order + 1
			trimmedBytes += p.discard(page, order)
		}
	}
	return trimmedBytes
}

// takeToTrim takes the first free block of the order, at or after block from,
// that has been touched. The block is held, unseen by InUseBytes, while the
// system call runs, so that nobody waits for the lock meanwhile.
func (p *Pool) takeToTrim(order, from int) (page int, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return 0, false
	}
	chunks := 1 << (order - orderHuge)
	for block := p.mu.buddy.free[order].next(from); block >= 0; block = p.mu.buddy.free[order].next(block + 1) {
		page := block << order
		chunk := p.mu.touched.next(max(page>>orderHuge, p.keptChunksLocked()))
		if chunk >= 0 && chunk < page>>orderHuge+chunks && p.mu.buddy.takeAt(page, order) {
			return page, true
		}
	}
	return 0, false
}

// discard gives back the touched chunks of a block taken by takeToTrim, then
// the block itself.
func (p *Pool) discard(page, order int) (discardedBytes int64) {
	first, last := page>>orderHuge, (page+1<<order)>>orderHuge
	first = max(first, p.keptChunks())
	for chunk := p.nextTouched(first); chunk >= 0 && chunk < last; chunk = p.nextTouched(chunk + 1) {
		memory := p.arena.bytes[chunk*hugePageBytes:][:hugePageBytes]
		if !p.arena.discard(memory) {
			continue
		}
		discardedBytes += hugePageBytes
		if p.poison != nil {
			p.poison.discarded(chunk<<orderHuge, 1<<orderHuge)
		}
		p.mu.Lock()
		p.mu.touched.remove(chunk)
		p.mu.touchedCount--
		p.mu.Unlock()
	}
	p.mu.Lock()
	p.mu.buddy.give(page, order)
	notify := p.serveLocked()
	p.mu.Unlock()
	call(notify)
	return discardedBytes
}

// keptChunks is how many chunks, the lowest, are left to a pool that is kept warm.
func (p *Pool) keptChunks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keptChunksLocked()
}

func (p *Pool) keptChunksLocked() int { return int(p.mu.warmth.aheadBytes / hugePageBytes) }

func (p *Pool) nextTouched(chunk int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.touched.next(chunk)
}
