package admin

import (
	"net"
	"sync"
)

// limitedListener accepts only while fewer than its limit of connections are
// open. The others wait in the kernel's backlog, which is bounded too.
type limitedListener struct {
	*net.TCPListener
	slots chan struct{}
	ended chan struct{}
	close sync.Once
}

func newLimitedListener(inner *net.TCPListener, limit int) *limitedListener {
	return &limitedListener{TCPListener: inner, slots: make(chan struct{}, limit), ended: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.ended:
		return nil, net.ErrClosed
	}
	conn, err := l.AcceptTCP()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{TCPConn: conn, listener: l}, nil
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.close.Do(func() { close(l.ended) })
	return l.TCPListener.Close()
}

// limitedConn gives its slot back when it is closed. It embeds the concrete
// type because net/http wants CloseWrite: without it, a reset overtakes the
// answer to a request that was not read to its end.
type limitedConn struct {
	*net.TCPConn
	listener *limitedListener
	closed   sync.Once
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.closed.Do(func() { <-c.listener.slots })
	return c.TCPConn.Close()
}
