package loop

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"ringlog/net/stream"
)

// member is a connection at its loop: stream.Descriptor. All but Signal belongs to
// the loop's goroutine, once open was called.
type member struct {
	light *stream.Light
	loops *loops
	loop  *loop
	conn  gnet.Conn
	// descriptor is gnet's, valid until gone.
	descriptor int
	// opened says that gnet watches the socket; gone, that this is over.
	opened, gone bool
	// more says that the socket may have more than what gnet has read.
	more bool

	// isSignalled says that the member is on the loop's list, or on its way there, by next.
	isSignalled atomic.Bool
	next        *member
}

func (m *member) open(c gnet.Conn) gnet.Action {
	m.loop = m.loops.byLoop[c.EventLoop()]
	m.conn, m.descriptor, m.opened = c, c.Fd(), true
	return m.act(m.light.Open(m))
}

func (m *member) received() gnet.Action {
	m.more = m.conn.InboundBuffered() == readBytes
	return m.act(m.light.Received(&m.loop.scratch))
}

// signalledNow looks at a member that had called Signal.
func (m *member) signalledNow() {
	if m.act(m.light.Signalled(&m.loop.scratch)) == gnet.Close {
		_ = m.loop.events.Close(m.conn) // what it says of the descriptor changes nothing
	}
}

// act carries a verdict out as far as gnet does not: the action is its part.
func (m *member) act(verdict stream.Verdict) gnet.Action {
	switch verdict {
	case stream.Stay:
		return gnet.None
	case stream.Move:
		socket, err := m.duplicate()
		m.gone = true
		if err != nil {
			m.light.Gone(fmt.Errorf("loop: moving a connection to goroutines: %w", err))
		} else {
			m.light.Start(socket)
		}
	}
	return gnet.Close
}

// duplicate returns the socket under another descriptor, for goroutines. gnet closes its own
// afterwards, which ends nothing: it is a close without a shutdown.
func (m *member) duplicate() (*net.TCPConn, error) {
	descriptor, err := m.conn.Dup()
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	file := os.NewFile(uintptr(descriptor), "connection")
	socket, err := net.FileConn(file)
	_ = file.Close() // FileConn has a descriptor of its own
	if err != nil {
		return nil, err
	}
	return socket.(*net.TCPConn), nil
}

// closed is gnet's last word about a connection.
func (m *member) closed(err error) {
	if m.gone {
		return // to net/stream, or already ended
	}
	m.gone = true
	m.light.Gone(err)
}

// Buffered implements stream.Descriptor.
func (m *member) Buffered() int { return m.conn.InboundBuffered() }

// Read implements stream.Descriptor.
func (m *member) Read(p []byte) (int, error) {
	if m.conn.InboundBuffered() > 0 {
		return m.conn.Read(p)
	}
	for m.more {
		n, err := unix.Read(m.descriptor, p)
		if err == unix.EINTR {
			continue
		}
		m.more = err == nil && n == len(p)
		return max(n, 0), err
	}
	return 0, unix.EAGAIN
}

// partsMax is how many parts one system call gets (IOV_MAX).
const partsMax = 1024

// Writev implements stream.Descriptor.
func (m *member) Writev(parts [][]byte) (sent int, err error) {
	for len(parts) > 0 {
		some, bytes := parts[:min(len(parts), partsMax)], 0
		for _, part := range some {
			bytes += len(part)
		}
		n, err := m.loop.vector.Write(uintptr(m.descriptor), some, 0)
		if err == unix.EINTR {
			continue
		}
		if sent += n; err != nil || n < bytes {
			return sent, err
		}
		parts = parts[len(some):]
	}
	return sent, nil
}

// Signal implements stream.Descriptor.
func (m *member) Signal() {
	if !m.isSignalled.Swap(true) {
		m.loop.push(m)
	}
}
