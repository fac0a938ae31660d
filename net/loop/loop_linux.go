package loop

import (
	"fmt"
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"

	"ringlog/buffer"
	"ringlog/net/stream"
)

// loop is one event loop: what its connections share, and the list of those that have to
// be looked at. Its goroutine is gnet's.
type loop struct {
	events gnet.EventLoop

	// signalled is the list of members that called Signal, last first. Anybody pushes;
	// the loop takes all at once.
	signalled atomic.Pointer[member]
	// answering says that the loop has been rung for, or is at the list: who pushes then need not
	// ring. Whoever moves it to true rings; the loop moves it back, and looks once more.
	answering atomic.Bool
	bell      *bell

	// scratch and vector belong to the loop's goroutine.
	scratch stream.Scratch
	vector  buffer.Vector
}

// newLoop makes the loop's part of one of client's loops.
func newLoop(client *gnet.Client) (*loop, error) {
	l := new(loop)
	bell, ear, err := newBell()
	if err != nil {
		return nil, fmt.Errorf("bell: %w", err)
	}
	c, err := client.EnrollContext(ear, l) // it closes ear, in favour of a descriptor of its own
	if err != nil {
		bell.close()
		return nil, fmt.Errorf("bell: %w", err)
	}
	l.bell, l.events = bell, c.EventLoop()
	return l, nil
}

// push puts m on the list. Any goroutine calls it, for a member that is not on it.
func (l *loop) push(m *member) {
	for {
		first := l.signalled.Load()
		m.next = first
		if l.signalled.CompareAndSwap(first, m) { // publication: the loop may take m from here on
			break
		}
	}
	if !l.answering.Load() && !l.answering.Swap(true) {
		l.bell.ring()
	}
}

// answersMax is how often the loop goes through its list before it looks at its sockets again.
const answersMax = 8

// answer looks at all members on the list, and at those that are put there meanwhile. REQUIRES:
// called by the loop's goroutine, after a ring.
func (l *loop) answer() {
	for range answersMax {
		if l.signalled.Load() == nil {
			l.answering.Store(false)
			// Who pushed before this saw us answering: so look, and take the duty back.
			if l.signalled.Load() == nil || l.answering.Swap(true) {
				return
			}
		}
		for m := l.signalled.Swap(nil); m != nil; {
			next := m.next
			m.next = nil
			m.isSignalled.Store(false) // before looking: what comes now signals again
			if !m.gone {
				m.signalledNow()
			}
			m = next
		}
	}
	l.bell.ring()
}
