package group

import (
	"container/heap"
	"math"
)

// timer calls back once its time has come. It is embedded in or pointed to by whatever waits: a member's
// session, a rebalance. The zero value with a fire is a timer that is not set.
type timer struct {
	// fire runs within Tick, after the timer was taken out; it may set the timer again.
	fire func(c call)

	atMillis int64
	// sequence breaks ties, so that equal times fire in the order in which they were set.
	sequence uint64
	// place is the timer's index in the heap plus one; 0: not set.
	place int
}

// isSet says whether the timer waits for its time.
func (t *timer) isSet() bool { return t.place != 0 }

// timers are a machine's timers, the next one first.
type timers struct {
	heap timerHeap
	set  uint64 // how many were ever set
}

// arm sets t to fire at a time, whether it was set or not.
func (s *timers) arm(t *timer, atMillis int64) {
	s.set++
	t.atMillis, t.sequence = atMillis, s.set
	if t.isSet() {
		heap.Fix(&s.heap, t.place-1)
		return
	}
	heap.Push(&s.heap, t)
}

// disarm takes t out; it may be unset.
func (s *timers) disarm(t *timer) {
	if t.isSet() {
		heap.Remove(&s.heap, t.place-1)
	}
}

// nextMillis is when the next timer fires, or math.MaxInt64.
func (s *timers) nextMillis() int64 {
	if len(s.heap) == 0 {
		return math.MaxInt64
	}
	return s.heap[0].atMillis
}

// run fires every timer whose time has come.
func (s *timers) run(c call) {
	for len(s.heap) > 0 && s.heap[0].atMillis <= c.nowMillis {
		t := heap.Pop(&s.heap).(*timer)
		t.fire(c)
	}
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	if h[i].atMillis != h[j].atMillis {
		return h[i].atMillis < h[j].atMillis
	}
	return h[i].sequence < h[j].sequence
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	*h = append(*h, t)
	t.place = len(*h)
}

func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.place = 0
	return t
}
