package broker

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

const (
	// inPlaceBytesMax is how much of a request is decompressed in the goroutine that
	// starts it: some 50 µs of work. An event loop has other connections to serve; and
	// what is handed over costs a wake-up, which is as dear as those 64 KiB.
	inPlaceBytesMax = 64 << 10
	// checkersMin is how many checkers there are at least on one processor, so that one
	// large batch does not keep all others waiting.
	checkersMin = 2
	// inPlaceMin is how many decompressions may be under way in place at least.
	inPlaceMin = 4
)

// checkers are the goroutines that go on with what was too much to check in place. They
// take one produce of one sequence in turn, so that a connection with a hundred bombs
// has as much of them as one with a single large batch. A goroutine ends when nothing is
// queued, and is started by the next.
//
// What decompressors take is bounded: a batch is begun in place only while fewer than
// inPlaceMax are under way there, so many that were moved keep theirs while they wait, and a
// checker has at most one more; and blocks of any size (record.CostBlock) are made one at a time, and
// never in place. What is moved when there are enough begins anew, which costs 64 KiB at most: else a few bombs
// would keep the small batches of everybody else from being checked in place, and they would wait for them.
type checkers struct {
	broker     *Broker
	most       int
	inPlaceMax int
	run        func() // the method value of work, bound once: a go statement with it allocates nothing

	mu struct {
		sync.Mutex
		head, tail *Sequence // queued, linked by Sequence.next
		running    int       // goroutines
		inPlace    int       // batches that are being decompressed in place
		moved      int       // batches that were begun in place and wait, or are at a checker, with their decompressor
	}
	idle  sync.Cond  // running fell to 0
	block sync.Mutex // held while a block of any size is made
}

func (c *checkers) init(b *Broker) {
	processors := runtime.GOMAXPROCS(0)
	c.broker, c.most, c.inPlaceMax = b, max(processors, checkersMin), max(processors, inPlaceMin)
	c.run = c.work
	c.idle.L = &c.mu
}

// enter asks whether a decompression may begin in place; leave says that it is over.
func (c *checkers) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.inPlace == c.inPlaceMax {
		return false
	}
	c.mu.inPlace++
	return true
}

func (c *checkers) leave() {
	c.mu.Lock()
	c.mu.inPlace--
	c.mu.Unlock()
}

// move says that what was begun in place goes to a checker, and asks whether it may keep its
// decompressor; arrive says that it is done with.
func (c *checkers) move() (keep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.inPlace--
	if c.mu.moved == c.inPlaceMax {
		return false
	}
	c.mu.moved++
	return true
}

func (c *checkers) arrive() {
	c.mu.Lock()
	c.mu.moved--
	c.mu.Unlock()
}

// submit queues a sequence that was lent, and sees to it that somebody works.
func (c *checkers) submit(s *Sequence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pushLocked(s)
	if c.mu.running < c.most {
		c.mu.running++
		go c.run()
	}
}

func (c *checkers) pushLocked(s *Sequence) {
	s.next = nil
	if c.mu.tail == nil {
		c.mu.head = s
	} else {
		c.mu.tail.next = s
	}
	c.mu.tail = s
}

// take returns the first sequence that is queued; nil ends the caller.
func (c *checkers) take() *Sequence {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.mu.head
	if s == nil {
		if c.mu.running--; c.mu.running == 0 {
			c.idle.Broadcast()
		}
		return nil
	}
	if c.mu.head = s.next; c.mu.head == nil {
		c.mu.tail = nil
	}
	s.next = nil
	return s
}

// work is a checker.
func (c *checkers) work() {
	for s := c.take(); s != nil; s = c.take() {
		p := s.pop()
		c.check(p)
		p.launch() // p may be somebody else's from here on
		if !s.giveBack() {
			c.mu.Lock()
			c.pushLocked(s)
			c.mu.Unlock()
		}
	}
}

// check goes on with p to the end. What a client sent may hit a fault of ours, or of a
// codec: that costs the request and not the process.
func (c *checkers) check(p *Produce) {
	defer func() {
		if cause := recover(); cause != nil {
			c.broker.limitedLogger.Error("checking a produce panicked", "cause", cause, "stack", string(debug.Stack()))
			p.abandon(fmt.Errorf("%w: %v", ErrCheckFailed, cause))
		}
	}()
	p.check(false)
}

// wait returns when nothing is queued and nobody works.
func (c *checkers) wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.mu.running > 0 {
		c.idle.Wait()
	}
}
