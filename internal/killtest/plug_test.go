package killtest

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
)

// errUnplugged answers who dials while the plug is out, as the kernel does for a
// broker that is dead: clients try that again.
var errUnplugged = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

// plug is what the connections of clients go through. While it is out there are
// none: what a client was told, it was told before.
type plug struct {
	mu          sync.Mutex
	out         bool
	connections map[*pluggedConn]struct{}
}

type pluggedConn struct {
	net.Conn
	plug *plug
}

func newPlug() *plug { return &plug{connections: map[*pluggedConn]struct{}{}} }

// dial is a client's dialer.
func (p *plug) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if p.isOut() {
		return nil, errUnplugged
	}
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out {
		raw.Close()
		return nil, errUnplugged
	}
	connection := &pluggedConn{raw, p}
	p.connections[connection] = struct{}{}
	return connection, nil
}

// Close implements net.Conn.
func (c *pluggedConn) Close() error {
	c.plug.mu.Lock()
	defer c.plug.mu.Unlock()
	delete(c.plug.connections, c)
	return c.Conn.Close()
}

// pull closes every connection. When it returns no read of one is under way.
func (p *plug) pull() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = true
	for connection := range p.connections {
		connection.Conn.Close()
	}
	clear(p.connections)
}

// put lets clients connect again.
func (p *plug) put() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = false
}

func (p *plug) isOut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out
}
