package stream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ringlog/frontend"
)

// Reasons for which this package ends a connection. They are what
// Session.Closed and Events.Closed receive, wrapped.
var (
	// ErrIdle is the reason when nothing came for IdleTimeout.
	ErrIdle = errors.New("stream: idle for too long")
	// ErrSilent is the reason when a connection never sent a whole frame, for
	// FirstFrameTimeout or until its place was needed.
	ErrSilent = errors.New("stream: nothing was ever asked on it")
	// ErrUnfinishedFrame is the reason when a frame did not arrive within FrameTimeout.
	ErrUnfinishedFrame = errors.New("stream: frame not finished in time")
	// ErrSlowReader is the reason when replies could not be written within WriteTimeout.
	ErrSlowReader = errors.New("stream: peer reads too slowly")
	// ErrMemoryTimeout is the reason when memory for the rest of a frame was
	// not to be had within MemoryTimeout.
	ErrMemoryTimeout = errors.New("stream: no memory for the rest of the frame")
	// ErrShutdown is the reason when the listener shuts down.
	ErrShutdown = errors.New("stream: listener shuts down")
	// ErrConnectionsMax and ErrConnectionsPerAddressMax are given to
	// Events.Refused when that limit turns a connection away.
	ErrConnectionsMax           = errors.New("stream: too many connections")
	ErrConnectionsPerAddressMax = errors.New("stream: too many connections from this address")
)

// connection is one peer. It implements frontend.Conn for its Session, for as
// long as it lives, whoever drives it: an event loop while it is light (see
// Light), goroutines of its own from then on. Its owner is that loop, or its reader goroutine.
type connection struct {
	listener      *Listener
	remote, local net.Addr
	address       netip.Addr // remote IP, the key of the per-address limit
	session       frontend.Session

	// reader is the part that only the owner touches.
	reader reader
	// writer is the part that only the writer goroutine touches once it runs;
	// before, the loop.
	writer writer
	turns  turnQueue
	light  Light

	// pending counts turns taken and not yet written; pendingBytes their requests.
	pending      atomic.Int64
	pendingBytes atomic.Int64
	// readerWaits is set by the reader before it waits for pending to fall. The
	// writer looks after each batch: one of the two sees the other.
	readerWaits atomic.Bool

	// writerIdle is set by the writer before it sleeps on an empty queue.
	// Whoever moves it back to false owns the decision to wake it.
	writerIdle atomic.Bool

	// heavy says that the connection has goroutines, and what they need: the fields
	// of heavyParts, which are set before and never change after.
	heavy atomic.Bool
	heavyParts

	// draining says that no further frame is to be received; replies still leave.
	draining atomic.Bool
	// closed says that the connection ends now. closing guards the reason, which is
	// set before closed and never changes after, and the moment of becoming heavy.
	closed  atomic.Bool
	closing struct {
		sync.Mutex
		reason error
	}

	// progress is what the sweep goroutine watches.
	progress progress

	// silent is the connection's place among those that never sent a whole frame.
	silent silentPlace
}

// heavyParts are what a connection with goroutines has and a light one does
// without: it may be one of thousands that do nothing.
type heavyParts struct {
	socket     *net.TCPConn
	raw        syscall.RawConn
	readerWake chan struct{} // capacity 1
	writerWake chan struct{} // capacity 1
	// memoryContext ends waits for pool memory when the connection drains or closes.
	memoryContext context.Context
	memoryCancel  context.CancelFunc
}

// newConnection makes a connection that nobody drives yet.
func newConnection(l *Listener, socket *net.TCPConn, address netip.Addr) *connection {
	c := &connection{
		listener: l,
		remote:   socket.RemoteAddr(),
		local:    socket.LocalAddr(),
		address:  address,
	}
	c.light.connection = c
	c.writer.connection = c
	c.turns.init()
	c.reader.init(c)
	return c
}

// start gives the connection its goroutines, and the socket. When it was closed
// before, it ends here. REQUIRES: session is set; called by the owner, which does nothing with it after.
func (c *connection) start(socket *net.TCPConn) {
	raw, err := socket.SyscallConn()
	if err != nil {
		c.end(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.closing.Lock()
	if c.closing.reason != nil {
		c.closing.Unlock()
		cancel()
		_ = socket.Close() // nobody is left to tell
		c.finish()
		return
	}
	c.heavyParts = heavyParts{
		socket: socket, raw: raw,
		readerWake: make(chan struct{}, 1), writerWake: make(chan struct{}, 1),
		memoryContext: ctx, memoryCancel: cancel,
	}
	c.heavy.Store(true) // whoever completes a turn from here on wakes the writer
	c.closing.Unlock()
	if c.draining.Load() {
		c.interruptReading() // drain may have come when there was nothing to interrupt
	}
	if c.turns.first() != nil {
		c.startWriter()
	}
	go c.serve()
}

// serve is the reader goroutine: it receives frames until the connection ends
// and then takes it down.
func (c *connection) serve() {
	reason, polite := c.reader.run()
	c.reader.releaseBlock()
	if polite {
		c.finishReplies(reason)
	}
	c.Close(reason)
	if c.writer.done != nil {
		<-c.writer.done
	}
	c.finish()
}

// finish takes down what is left of a connection that was closed. REQUIRES: called by
// the owner, last of all.
func (c *connection) finish() {
	c.reader.releaseBlock()
	c.session.Closed(c.reason())
	c.turns.abandon()
	c.listener.forget(c)
	c.listener.serving.Done()
}

// finishReplies waits until every reply that is owed was written, at most
// WriteTimeout unless the listener shuts down (then its context is the bound),
// and hangs up so that the peer can read them.
func (c *connection) finishReplies(reason error) {
	timer := time.NewTimer(c.listener.options.WriteTimeout)
	defer timer.Stop()
	expired := timer.C
	if errors.Is(reason, ErrShutdown) {
		expired = nil
	}
	if !c.waitFor(func() bool { return c.pending.Load() == 0 }, expired) {
		return
	}
	// Closing a socket with unread input sends a reset, which may overtake
	// replies that the peer has not read. So say good-bye and read to the end.
	if c.socket.CloseWrite() != nil ||
		c.socket.SetReadDeadline(time.Now().Add(c.listener.options.LingerTimeout)) != nil {
		return
	}
	scratch := make([]byte, 4096)
	for {
		if _, err := c.socket.Read(scratch); err != nil {
			return
		}
	}
}

// waitFor blocks the reader until the writer's progress makes ready true. It is
// false when the connection closed first or expired (nil: never) fired.
// REQUIRES: called by the reader goroutine.
func (c *connection) waitFor(ready func() bool, expired <-chan time.Time) bool {
	for {
		c.readerWaits.Store(true)
		if c.closed.Load() {
			return false
		}
		if ready() {
			c.readerWaits.Store(false)
			return true
		}
		select {
		case <-c.readerWake:
		case <-expired:
			return false
		}
	}
}

func (c *connection) wakeReader() {
	select {
	case c.readerWake <- struct{}{}:
	default:
	}
}

// wakeWriter wakes the writer, or the loop while the connection is light. A turn
// completed while it becomes heavy may still wake the loop: the writer has yet to start then, and sees it.
func (c *connection) wakeWriter() {
	if !c.heavy.Load() {
		c.light.descriptor.Signal()
		return
	}
	select {
	case c.writerWake <- struct{}{}:
	default:
	}
}

// Turn implements frontend.Conn. REQUIRES: called inside Session.Receive.
func (c *connection) Turn(onTurn func()) frontend.Turn {
	heavy := c.heavy.Load()
	if heavy && c.writer.done == nil {
		c.startWriter()
	}
	t := c.turns.obtain()
	t.connection = c
	t.onTurn = onTurn
	t.requestBytes = c.reader.takeCharge()
	c.pending.Add(1)
	c.pendingBytes.Add(t.requestBytes)
	c.turns.push(t)
	if !heavy {
		return t // the loop, which called Receive, looks at the queue when it is done with what came
	}
	if c.writerIdle.CompareAndSwap(true, false) {
		// The writer sleeps before an empty queue. There is nothing to write
		// yet, so it sleeps on: t is marked in its name, and Complete wakes it.
		// Nobody else knows t, so it is still open.
		if onTurn == nil {
			t.state.Store(turnAwaited)
		} else {
			c.wakeWriter()
		}
	}
	return t
}

func (c *connection) startWriter() {
	c.writer.done = make(chan struct{})
	go c.writer.run()
}

// Pending implements frontend.Conn.
func (c *connection) Pending() int { return int(c.pending.Load()) }

// RemoteAddr implements frontend.Conn.
func (c *connection) RemoteAddr() net.Addr { return c.remote }

// LocalAddr implements frontend.Conn.
func (c *connection) LocalAddr() net.Addr { return c.local }

// Close implements frontend.Conn. The first reason counts. Both goroutines end
// soon after; the descriptor is freed when neither uses it (net.TCPConn counts).
// A light connection is closed by its loop.
func (c *connection) Close(reason error) {
	first, heavy, descriptor := c.end(reason)
	switch {
	case !first:
	case heavy:
		c.memoryCancel()
		_ = c.socket.Close() // nobody is left to tell
		c.wakeReader()
		c.wakeWriter()
	case descriptor != nil:
		descriptor.Signal()
	}
}

// end marks the connection as closed and says whether this was the first time,
// and who has to be told: the goroutines, a loop, or nobody yet.
func (c *connection) end(reason error) (first, heavy bool, descriptor Descriptor) {
	if reason == nil {
		reason = net.ErrClosed
	}
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closing.reason != nil {
		return false, false, nil
	}
	c.closing.reason = reason
	c.closed.Store(true)
	return true, c.heavy.Load(), c.light.descriptor
}

// reason returns why the connection was closed.
func (c *connection) reason() error {
	c.closing.Lock()
	defer c.closing.Unlock()
	return c.closing.reason
}

// drain makes the reader stop after the frame that it is at.
func (c *connection) drain() {
	c.draining.Store(true)
	c.closing.Lock()
	heavy, descriptor := c.heavy.Load(), c.light.descriptor
	c.closing.Unlock()
	switch {
	case heavy:
		c.interruptReading()
	case descriptor != nil:
		descriptor.Signal()
	}
}

// interruptReading ends whatever the reader waits for.
func (c *connection) interruptReading() {
	c.memoryCancel()
	_ = c.socket.SetReadDeadline(time.Unix(1, 0)) // fails only when it is closed already
	c.wakeReader()
}

// ended translates an error of the socket or a wait into the reason for which
// the reader stops.
func (c *connection) ended(err error) error {
	switch {
	case c.closed.Load():
		return net.ErrClosed
	case c.draining.Load():
		return ErrShutdown
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrShutdown // the only deadline before the end is that of drain
	}
	return err
}
