package engine

// deque is a queue in a ring that doubles when it is full. It allocates only to
// grow, and what was taken out is cleared, so that it keeps nothing alive.
type deque[T any] struct {
	ring  []T // its length is a power of two, or 0
	head  int
	count int
}

// dequeMin is the size of the first ring.
const dequeMin = 4

func (d *deque[T]) push(v T) {
	if d.count == len(d.ring) {
		ring := make([]T, max(dequeMin, 2*len(d.ring)))
		n := copy(ring, d.ring[d.head:])
		copy(ring[n:], d.ring[:d.head])
		d.ring, d.head = ring, 0
	}
	d.count++
	*d.at(d.count - 1) = v
}

// at returns the i-th, oldest first. REQUIRES: i < count.
func (d *deque[T]) at(i int) *T { return &d.ring[(d.head+i)&(len(d.ring)-1)] }

func (d *deque[T]) front() *T { return d.at(0) }

func (d *deque[T]) pop() T {
	var none T
	v := *d.front()
	*d.front() = none
	d.head = (d.head + 1) & (len(d.ring) - 1)
	d.count--
	return v
}
