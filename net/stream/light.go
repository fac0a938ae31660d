package stream

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// Loops are event loops that carry connections as long as these are light. It is
// the seam to package loop.
type Loops interface {
	// Carry has one loop serve an admitted connection from now on, and
	// reports false, leaving the socket as it is, when it cannot be. It may block until the
	// loop has looked, and runs on a goroutine of its own.
	Carry(light *Light, socket *net.TCPConn) bool
}

// Descriptor is a socket as an event loop has it: nothing waits. Its methods, but for
// Signal, are called from within those of Light.
type Descriptor interface {
	// Buffered is how many bytes the loop has read itself. Read gives them first; what is
	// left of them when the loop goes on is lost.
	Buffered() int
	// Read is read(2): EAGAIN when there is nothing, 0 bytes at the end of the stream.
	Read(p []byte) (n int, err error)
	// Writev writes what the socket takes at once of the parts, in order, and does not
	// keep them. It returns fewer bytes, or EAGAIN, when that is not everything.
	Writev(parts [][]byte) (n int, err error)
	// Signal makes the loop call Light.Signalled soon, once for any number of
	// signals until then. Any goroutine calls it; it does not block.
	Signal()
}

// Verdict is what a loop has to do with a connection after one of its events.
type Verdict int

const (
	// Stay: nothing.
	Stay Verdict = iota
	// End: close the socket and call Gone.
	End
	// Move: call Start with another descriptor of the socket, and forget this one
	// without a call of Gone.
	Move
)

// Light is a connection that an event loop drives: small frames in, replies that the
// socket takes at once out. Whatever would have to wait makes it heavy: it then gets
// goroutines (Verdict Move), for good, and goes on where it was, with what is half
// read, the replies that are owed, and the Session, which notices nothing.
// It becomes heavy with
//
//   - a frame of more than 32 KiB, which wants a block of its own,
//   - a reply that the socket does not take whole,
//   - more requests or bytes in flight than one connection may have,
//   - bytes for which the pool has no memory,
//   - its end, when replies are owed before it: a broken protocol, a shutdown.
//
// The owner of a light connection is the loop's goroutine: it calls all methods.
type Light struct {
	connection *connection
	// descriptor is set once, by Open, under connection.closing. Who completes a turn sees
	// it, because only the loop marks turns as awaited.
	descriptor Descriptor
	// scratch is the loop's, lent for the time of a call.
	scratch *Scratch
}

// Scratch is memory that the connections of one loop share, since it serves one at a time.
type Scratch struct {
	parts [][]byte
	// spare are turns for reuse: as many as were once in use at the same time.
	spare *turn
}

// errHeavy says that the connection has to move before its next frame can be received.
var errHeavy = errors.New("stream: connection is heavy")

// Open begins the connection's life at a loop.
func (l *Light) Open(descriptor Descriptor) Verdict {
	c := l.connection
	c.closing.Lock()
	l.descriptor = descriptor
	c.closing.Unlock()
	c.listener.options.Metrics.ConnectionsLight.Add(1)
	return l.verdict(false)
}

// Received is called when bytes have come. It takes all that the loop has read, and more if
// there is more, serves the frames that are whole, and writes the replies that are
// ready with one system call.
func (l *Light) Received(scratch *Scratch) Verdict {
	l.borrow(scratch)
	failure, heavy := l.receive()
	if !heavy { // else the writer goroutine writes, and the reader meets the failure
		heavy = l.flush()
		if failure != nil {
			l.connection.end(failure)
		}
	}
	l.giveBack()
	return l.verdict(heavy)
}

// Signalled is called after Descriptor.Signal: replies are ready, or the
// connection is to end.
func (l *Light) Signalled(scratch *Scratch) Verdict {
	l.borrow(scratch)
	heavy := l.flush()
	l.giveBack()
	return l.verdict(heavy)
}

func (l *Light) borrow(scratch *Scratch) {
	l.scratch = scratch
	l.connection.turns.lend(scratch.spare)
	scratch.spare = nil
}

func (l *Light) giveBack() {
	l.scratch.spare = l.connection.turns.reclaim()
	l.scratch = nil
}

// Gone takes the connection down when the loop has closed its socket: after the
// verdict End, or because of err, which may also be why there was no Open.
func (l *Light) Gone(err error) {
	c := l.connection
	if l.descriptor == nil {
		c.listener.options.Metrics.AcceptErrors.Add(1)
		c.listener.log.Warn("cannot serve a connection", "remote", c.remote, "error", err)
	}
	l.leave()
	c.end(err)
	c.finish()
}

// Start makes the connection heavy, which owns socket from then on. The loop must not
// call it again.
func (l *Light) Start(socket *net.TCPConn) {
	l.leave()
	l.connection.listener.options.Metrics.ConnectionsMoved.Add(1)
	l.connection.start(socket)
}

// leave ends the connection's life at a loop, if it has begun.
func (l *Light) leave() {
	if l.descriptor != nil {
		l.connection.listener.options.Metrics.ConnectionsLight.Add(-1)
	}
}

// verdict decides what follows from an event.
func (l *Light) verdict(heavy bool) Verdict {
	c := l.connection
	if c.draining.Load() && c.reader.ending == nil {
		c.reader.ending = ErrShutdown
	}
	switch {
	case c.closed.Load():
		return End
	case heavy, c.reader.ending != nil:
		return Move
	}
	return Stay
}

// receive takes in what came and gives whole frames to the session. A failure is that of
// the socket; heavy says that the connection has to move.
func (l *Light) receive() (failure error, heavy bool) {
	c := l.connection
	r := &c.reader
	if c.closed.Load() || c.draining.Load() {
		return nil, false
	}
	if !l.makeRoom() {
		return nil, true
	}
	if failure = l.fill(); r.end == r.start {
		r.releaseBlock()
		return failure, false
	}
	switch err := r.deliver(); {
	case errors.Is(err, errHeavy):
		heavy = true
	case err != nil:
		r.ending = err
	}
	if r.start == r.end {
		r.releaseBlock()
	}
	r.notePartial()
	// A large frame has begun, or has come.
	heavy = heavy || r.frameBytes > smallFrameBytesMax || r.trusted > 0
	return failure, heavy
}

// makeRoom sees to it that the block has room for what the loop has read, and for the
// frame that it begins or continues. When the pool has no memory it puts the
// bytes aside, on the Go heap, and returns false: the connection moves, and stops to
// be read. So one connection does this once, with as much as a loop reads at most.
func (l *Light) makeRoom() bool {
	r := &l.connection.reader
	buffered := max(l.descriptor.Buffered(), 1)
	have := r.end - r.start
	if r.block != nil && len(r.block.Bytes())-r.end >= buffered && len(r.block.Bytes())-r.start >= r.frameBytes {
		r.limit = len(r.block.Bytes())
		return true
	}
	need := max(have+buffered, r.frameBytes)
	block := r.tryBlock(need, max(need, r.readAhead))
	if block == nil {
		early := make([]byte, l.descriptor.Buffered())
		n, _ := l.descriptor.Read(early) // they are there
		r.early = early[:n]
		return false
	}
	if have > 0 {
		copy(block.Bytes(), r.block.Bytes()[r.start:r.end])
	}
	r.releaseBlock()
	r.block, r.end, r.limit = block, have, len(block.Bytes())
	return true
}

// fill reads until the socket has nothing more or the block is full: the rest is the
// next event, after those of other connections.
func (l *Light) fill() error {
	c := l.connection
	r := &c.reader
	r.count = 0
	var failure error
	for r.end < r.limit {
		n, err := l.descriptor.Read(r.block.Bytes()[r.end:r.limit])
		if err == syscall.EAGAIN {
			break
		}
		if err != nil {
			failure = os.NewSyscallError("read", err)
			break
		}
		if n == 0 {
			failure = io.EOF
			break
		}
		r.end += n
		r.count += n
	}
	if r.count > 0 {
		r.adaptReadAhead()
		c.progress.reads.Add(1)
		c.listener.options.Metrics.BytesIn.Add(int64(r.count))
	}
	return failure
}

// admit is reader.admit for a connection whose budget is spent: what is ready is
// written first, and if that makes no room the connection moves.
func (l *Light) admit() error {
	heavy := l.flush()
	switch c := l.connection; {
	case c.closed.Load():
		return ErrShutdown
	case heavy, !c.reader.withinBudget():
		return errHeavy
	}
	return nil
}

// flush writes the replies that are ready and begins what was bound late. It is true when
// the socket did not take everything: the writer goroutine goes on from there.
func (l *Light) flush() (heavy bool) {
	c := l.connection
	for !c.closed.Load() {
		parts, count := c.writer.list(l.scratch.parts[:0], true)
		l.scratch.parts = parts
		if count > 0 {
			if !l.write(parts, count) {
				return true
			}
			continue
		}
		head := c.turns.first()
		if head == nil {
			return false
		}
		if onTurn := head.onTurn; onTurn != nil {
			// Everything before was written: list found head not done.
			head.onTurn = nil
			onTurn()
			continue
		}
		if head.state.CompareAndSwap(turnOpen, turnAwaited) || head.state.Load() == turnAwaited {
			return false
		}
	}
	return false
}

// write writes the parts of count replies and settles them. It is false when the socket did
// not take everything.
func (l *Light) write(parts [][]byte, count int) bool {
	c := l.connection
	metrics := c.listener.options.Metrics
	bytes, sent := 0, 0
	for _, part := range parts {
		bytes += len(part)
	}
	var err error
	if bytes > 0 {
		sent, err = l.descriptor.Writev(parts)
		metrics.BytesOut.Add(int64(sent))
		clear(parts) // hold no reply's memory
		if cap(parts) > partsKept {
			l.scratch.parts = nil
		}
	}
	metrics.Writes.Add(1)
	switch {
	case err != nil && err != syscall.EAGAIN:
		c.end(os.NewSyscallError("writev", err))
	case sent < bytes:
		c.writer.sentBytes = sent
		return false
	default:
		metrics.Replies.Add(int64(count))
		c.writer.settle(count)
	}
	return true
}
