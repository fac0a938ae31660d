package engine

import "time"

// timer is one deadline of a shard. It belongs to whatever embeds it.
type timer struct {
	at     time.Duration // on the shard's monotonic clock
	order  uint64        // breaks ties, so that a run replays
	index  int           // in the heap, plus one; 0 is not set
	target expirer
}

// expirer is told that its deadline has passed.
type expirer interface{ expire(s *shard) }

// timers is a binary heap, the earliest first. It allocates only to grow.
type timers struct {
	heap  []*timer
	order uint64
}

// set arms t, or moves it.
func (h *timers) set(t *timer, at time.Duration, target expirer) {
	h.clear(t)
	h.order++
	t.at, t.order, t.target = at, h.order, target
	h.heap = append(h.heap, t)
	h.up(len(h.heap) - 1)
}

// clear disarms t; harmless when it is not armed.
func (h *timers) clear(t *timer) {
	if t.index == 0 {
		return
	}
	i, last := t.index-1, len(h.heap)-1
	h.heap[i] = h.heap[last]
	h.heap[last] = nil
	h.heap = h.heap[:last]
	t.index, t.target = 0, nil
	if i < last {
		h.heap[i].index = i + 1
		h.down(i)
		h.up(i)
	}
}

// expired returns the earliest timer if its time has come, disarmed, and its target.
func (h *timers) expired(now time.Duration) expirer {
	if len(h.heap) == 0 || h.heap[0].at > now {
		return nil
	}
	t := h.heap[0]
	target := t.target
	h.clear(t)
	return target
}

// next returns when the earliest timer is due.
func (h *timers) next() (at time.Duration, ok bool) {
	if len(h.heap) == 0 {
		return 0, false
	}
	return h.heap[0].at, true
}

func (h *timers) less(i, j int) bool {
	a, b := h.heap[i], h.heap[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (h *timers) place(i, j int) {
	h.heap[i], h.heap[j] = h.heap[j], h.heap[i]
	h.heap[i].index, h.heap[j].index = i+1, j+1
}

func (h *timers) up(i int) {
	h.heap[i].index = i + 1
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(i, parent) {
			return
		}
		h.place(i, parent)
		i = parent
	}
}

func (h *timers) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.heap) {
			return
		}
		if child+1 < len(h.heap) && h.less(child+1, child) {
			child++
		}
		if !h.less(child, i) {
			return
		}
		h.place(i, child)
		i = child
	}
}
