package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"syscall"

	"ringlog/buffer"
	"ringlog/frontend"
)

const (
	// readAheadBytesMin and readAheadBytesMax bound the block into which small
	// frames are read ahead. A connection starts small and quadruples whenever one read
	// filled the block.
	readAheadBytesMin = 4 << 10
	readAheadBytesMax = 128 << 10

	// smallFrameBytesMax is the largest frame that is read ahead of. Moving the
	// cut-off last frame of a block costs at most this in copies per
	// readAheadBytesMax; larger frames are read exactly instead.
	smallFrameBytesMax = 32 << 10

	// A large frame gets firstBytes at most for the asking, then secondBytes,
	// then stepFactor times what it has filled. A connection that has sent a
	// whole large frame gets as much as that, up to secondBytes, at once.
	firstBytes  = 128 << 10
	secondBytes = 1 << 20
	stepFactor  = 4

	// reserveShare is the part of the pool that is left to blocks of at most
	// smallFrameBytesMax: a larger one is given only while that much stays free. Else
	// large frames, which may be slow to come, or are never finished by a peer that
	// means harm, would keep everybody from being served.
	reserveShare = 8

	// spaceBytesMin is the least room behind what was read that is worth
	// another read into the same block.
	spaceBytesMin = 1 << 10
)

const (
	_ = uint(readAheadBytesMax - smallFrameBytesMax)
	_ = uint(firstBytes - readAheadBytesMax)
)

// reader is the read side of a connection, owned by its reader goroutine.
//
// Invariant: block.Bytes()[start:end] are bytes that came and were not yet
// given to the session; block may be nil only when start == end. frameBytes is the length of the
// frame that begins at start, 0 while its prefix is incomplete.
type reader struct {
	connection *connection

	block      *buffer.Buffer
	start, end int
	limit      int // how far the next read may fill the block
	frameBytes int

	readAhead int // size of the next block for small frames
	trusted   int // size of the largest frame that came whole, up to secondBytes

	// early are bytes that a loop has read and found no memory for. They come
	// before those in the socket.
	early []byte
	// ending is why nothing more is to be read: found by the loop, carried out
	// by run; nil while there is nothing.
	ending error

	// charge is the size of the frame being received until a Turn takes it.
	charge int64

	// partial mirrors progress.partial.
	partial bool

	// attempt is readOnce as a func value, made once; its results follow.
	attempt func(descriptor uintptr) bool
	count   int
	err     error
	starved bool // the pool had nothing
}

func (r *reader) init(c *connection) {
	r.connection = c
	r.readAhead = readAheadBytesMin
}

// run receives frames until the connection ends and returns the reason, and
// whether the replies that are owed should still be written: to a peer that
// broke the protocol or is shut out yes, to one that is gone no.
func (r *reader) run() (reason error, polite bool) {
	r.attempt = r.readOnce
	if r.ending != nil {
		return r.connection.ended(r.ending), true
	}
	for {
		if err := r.deliver(); err != nil {
			return r.connection.ended(err), true
		}
		if err := r.fill(); err != nil {
			reason = r.connection.ended(err)
			return reason, errors.Is(reason, ErrShutdown)
		}
	}
}

// deliver gives all whole frames in the block to the session.
func (r *reader) deliver() error {
	c := r.connection
	delivered := int64(0)
	defer func() {
		if delivered > 0 {
			c.listener.options.Metrics.Requests.Add(delivered)
			c.progress.frames.Add(1)
		}
	}()
	for {
		whole, err := r.measure()
		if err != nil || !whole {
			return err
		}
		if err := r.admit(); err != nil {
			return err
		}
		n := r.frameBytes
		frame := r.block
		data := frame.Bytes()[r.start : r.start+n : r.start+n]
		r.start += n
		r.frameBytes = 0
		large := n > smallFrameBytesMax
		if large {
			r.trusted = max(r.trusted, min(n, secondBytes))
		}
		if n >= readAheadBytesMax {
			r.readAhead = readAheadBytesMin // what is read ahead of such a frame is copied
		}
		if r.start == r.end && (large || len(frame.Bytes())-r.end < spaceBytesMin) {
			r.block, r.start, r.end = nil, 0, 0 // our reference is the session's now
		} else {
			frame.Retain()
		}
		delivered++
		if !c.progress.spoke.Load() {
			c.listener.spoke(c)
		}
		r.charge = int64(n)
		err = c.session.Receive(frame, data)
		r.charge = 0
		if err != nil {
			return err
		}
	}
}

// measure finds out how long the frame at start is and whether it is all there.
func (r *reader) measure() (whole bool, err error) {
	have := r.end - r.start
	options := &r.connection.listener.options
	if r.frameBytes == 0 {
		prefix := r.connection.listener.prefixBytes
		if have < prefix {
			return false, nil
		}
		n, err := r.connection.session.FrameBytes(r.block.Bytes()[r.start : r.start+prefix : r.start+prefix])
		if err != nil {
			return false, err
		}
		if n < prefix {
			return false, fmt.Errorf("%w: frame of %d bytes", frontend.ErrMalformed, n)
		}
		if n > options.FrameBytesMax {
			return false, fmt.Errorf("%w: %d of %d bytes", frontend.ErrFrameTooLarge, n, options.FrameBytesMax)
		}
		r.frameBytes = n
	}
	return have >= r.frameBytes, nil
}

// admit waits until the connection's own budget has room for one more request.
func (r *reader) admit() error {
	c := r.connection
	if c.closed.Load() || c.draining.Load() {
		return ErrShutdown // ended names the true reason
	}
	if r.withinBudget() {
		return nil
	}
	if !c.heavy.Load() {
		return c.light.admit()
	}
	c.listener.options.Metrics.BudgetWaits.Add(1)
	c.progress.stalled.Store(true)
	defer c.progress.stalled.Store(false)
	c.waitFor(func() bool { return r.withinBudget() || c.draining.Load() }, nil)
	if c.closed.Load() || c.draining.Load() {
		return ErrShutdown
	}
	return nil
}

func (r *reader) withinBudget() bool {
	c := r.connection
	options := &c.listener.options
	pending := c.pending.Load()
	if pending == 0 {
		return true // one request is always allowed, however large
	}
	return pending < int64(options.InFlightRequestsMax) &&
		c.pendingBytes.Load()+int64(r.frameBytes) <= options.InFlightBytesPerConnectionMax
}

// takeCharge returns what the frame being received counts for, once.
func (r *reader) takeCharge() int64 {
	charge := r.charge
	r.charge = 0
	return charge
}

// fill reads at least one more byte of what is not a whole frame yet.
func (r *reader) fill() error {
	if err := r.makeRoom(); err != nil {
		return err
	}
	r.notePartial()
	for {
		r.count, r.err, r.starved = 0, nil, false
		if err := r.connection.raw.Read(r.attempt); err != nil {
			return err
		}
		if r.starved {
			if err := r.waitForBlock(readAheadBytesMin); err != nil {
				return err
			}
			continue
		}
		break
	}
	if r.err != nil {
		return r.err
	}
	if r.count == 0 {
		return io.EOF
	}
	r.end += r.count
	r.adaptReadAhead()
	r.connection.progress.reads.Add(1)
	r.connection.listener.options.Metrics.BytesIn.Add(int64(r.count))
	return nil
}

// notePartial tells the sweep goroutine whether part of a frame is there.
func (r *reader) notePartial() {
	if partial := r.end > r.start; partial != r.partial {
		r.partial = partial
		r.connection.progress.partial.Store(partial)
	}
}

// adaptReadAhead follows how much small traffic one read brings.
func (r *reader) adaptReadAhead() {
	switch {
	case r.frameBytes > smallFrameBytesMax: // read exactly, says nothing
	case r.end == r.limit:
		r.readAhead = min(4*r.readAhead, readAheadBytesMax)
	case r.count < r.readAhead/4:
		r.readAhead = max(r.readAhead/2, readAheadBytesMin)
	}
}

// readOnce is the attempt that syscall.RawConn repeats until it returns true;
// in between, it sleeps until the socket is readable. A connection with nothing
// half read gives its block back before it sleeps.
func (r *reader) readOnce(descriptor uintptr) bool {
	if r.block == nil {
		r.block = r.tryBlock(readAheadBytesMin, r.readAhead)
		if r.block == nil {
			r.starved = true
			return true
		}
		r.limit = len(r.block.Bytes())
	}
	if len(r.early) > 0 {
		r.count = copy(r.block.Bytes()[r.end:r.limit], r.early)
		if r.early = r.early[r.count:]; len(r.early) == 0 {
			r.early = nil
		}
		return true
	}
	for {
		n, err := syscall.Read(int(descriptor), r.block.Bytes()[r.end:r.limit])
		switch err {
		case nil:
			r.count = n
			return true
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			if r.start == r.end {
				r.releaseBlock()
			}
			return false
		}
		r.err = os.NewSyscallError("read", err)
		return true
	}
}

// makeRoom sees to it that the block has room for what is to be read next and
// sets limit. Without a partial frame, readOnce takes the block instead.
func (r *reader) makeRoom() error {
	have := r.end - r.start
	if have == 0 {
		if r.block != nil && len(r.block.Bytes())-r.end < spaceBytesMin {
			r.releaseBlock()
		}
		if r.block != nil {
			r.limit = len(r.block.Bytes())
		}
		return nil
	}
	block := len(r.block.Bytes())
	switch {
	case r.frameBytes == 0 && block-r.end >= spaceBytesMin:
		r.limit = block
		return nil
	case r.frameBytes == 0:
		return r.replace(readAheadBytesMin, r.readAhead)
	case r.frameBytes > smallFrameBytesMax:
		return r.makeRoomForLarge(have, block)
	case block-r.start >= r.frameBytes:
		r.limit = block
		return nil
	}
	return r.replace(r.frameBytes, max(r.readAhead, r.frameBytes))
}

// makeRoomForLarge does it for a large frame: exactly the frame, and the
// prefix of the next one so that its length is known before its block is chosen.
func (r *reader) makeRoomForLarge(have, block int) error {
	want := r.frameBytes + r.connection.listener.prefixBytes
	step := min(r.frameBytes, max(firstBytes, r.trusted))
	if have >= step {
		// The step is filled: the peer has earned the next.
		step = secondBytes
		for step <= have {
			step *= stepFactor
		}
		step = min(step, r.frameBytes)
	}
	if block-r.start < step {
		if err := r.replace(step, step); err != nil {
			return err
		}
		block = len(r.block.Bytes())
	}
	r.limit = min(block, r.start+want)
	return nil
}

// replace moves what is half read to a new block of wantBytes, or, when the pool
// cannot spare that much, of needBytes, which it waits for.
func (r *reader) replace(needBytes, wantBytes int) error {
	have := r.end - r.start
	if have <= prefixBytesMax {
		// So little is kept aside, and the connection waits for memory without
		// holding any: it can then wait as long as it takes.
		var aside [prefixBytesMax]byte
		copy(aside[:], r.block.Bytes()[r.start:r.end])
		r.releaseBlock()
		if r.block = r.tryBlock(needBytes, wantBytes); r.block == nil {
			if err := r.waitForBlock(needBytes); err != nil {
				return err
			}
		}
		r.end = copy(r.block.Bytes(), aside[:have])
	} else {
		larger := r.tryBlock(needBytes, wantBytes)
		if larger == nil {
			var err error
			if larger, err = r.waitForMemory(needBytes, true); err != nil {
				return err
			}
		}
		copy(larger.Bytes(), r.block.Bytes()[r.start:r.end])
		r.block.Release()
		r.block, r.start, r.end = larger, 0, have
	}
	r.limit = len(r.block.Bytes())
	r.connection.progress.frames.Add(1)
	return nil
}

// tryBlock takes a block of wantBytes from the pool, or of needBytes at least when
// it can give no more; nil when not even that.
func (r *reader) tryBlock(needBytes, wantBytes int) *buffer.Buffer {
	pool := r.connection.listener.options.Pool
	if wantBytes > smallFrameBytesMax {
		block := pool.TryGetSparing(wantBytes, reserveBytes(pool))
		if block != nil || needBytes > smallFrameBytesMax {
			return block
		}
		r.readAhead, wantBytes = readAheadBytesMin, needBytes
	}
	return pool.TryGet(wantBytes)
}

// reserveBytes is what blocks for large frames leave free.
func reserveBytes(pool *buffer.Pool) int64 { return pool.LimitBytes() / reserveShare }

// waitForBlock takes a block from the pool when it has one again.
func (r *reader) waitForBlock(size int) error {
	block, err := r.waitForMemory(size, false)
	if err != nil {
		return err
	}
	r.block, r.limit = block, len(block.Bytes())
	return nil
}

// waitForMemory waits for size bytes of the pool; holding says that the
// connection keeps a partial frame meanwhile and so may not wait for ever.
func (r *reader) waitForMemory(size int, holding bool) (*buffer.Buffer, error) {
	c := r.connection
	options := &c.listener.options
	options.Metrics.MemoryWaits.Add(1)
	c.progress.stalled.Store(true)
	defer c.progress.stalled.Store(false)
	ctx := c.memoryContext
	if holding {
		// Spread, so that those who wait for each other do not give up together:
		// what the first ones leave is enough for the others.
		timeout := options.MemoryTimeout + rand.N(options.MemoryTimeout)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, ErrMemoryTimeout)
		defer cancel()
	}
	if size > smallFrameBytesMax {
		return options.Pool.GetSparing(ctx, size, reserveBytes(options.Pool))
	}
	return options.Pool.Get(ctx, size)
}

// releaseBlock gives the block back, and with it whatever was half read.
func (r *reader) releaseBlock() {
	if r.block != nil {
		r.block.Release()
	}
	r.block, r.start, r.end = nil, 0, 0
}
