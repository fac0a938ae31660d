package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"ringlog/internal/ratelog"
)

// Pauses of the accept loop when the process or the system lacks something to
// accept with (descriptors, memory): doubling from the first to the last.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// Listener accepts connections of one protocol at one address.
type Listener struct {
	options     Options
	prefixBytes int
	socket      *net.TCPListener
	log         *ratelog.Logger

	// stopped is closed when accept and sweep are to end.
	stopped chan struct{}
	// serving counts the connections, running the accept and sweep goroutines.
	serving, running sync.WaitGroup

	mu struct {
		sync.Mutex
		stopping    bool // no further connection is served
		connections map[*connection]struct{}
		byAddress   map[netip.Addr]int
		silent      silentConnections
		// connectionsMax and perAddressMax are those of Options until SetLimits.
		connectionsMax, perAddressMax int
	}
}

// Listen starts to serve addr ("host:port"). ctx bounds only the listening
// itself (name resolution). Stop the listener with Shutdown or Close.
func Listen(ctx context.Context, addr string, options Options) (*Listener, error) {
	options.EnsureDefaults()
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("stream: options of listener %s: %w", addr, err)
	}
	config := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 60 * time.Second, Interval: 15 * time.Second, Count: 4,
	}}
	// Go makes MPTCP sockets by default, which refuse zero-copy sends and cost
	// more per call; brokers gain nothing from a second path.
	config.SetMultipathTCP(false)
	socket, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("stream: listen: %w", err)
	}
	l := &Listener{
		options:     options,
		prefixBytes: options.Protocol.PrefixBytes(),
		socket:      socket.(*net.TCPListener),
		log:         ratelog.New(options.Logger.With("listener", socket.Addr().String(), "protocol", options.Protocol.Name()), ratelog.Interval),
		stopped:     make(chan struct{}),
	}
	l.mu.connections = make(map[*connection]struct{})
	l.mu.byAddress = make(map[netip.Addr]int)
	l.mu.connectionsMax, l.mu.perAddressMax = options.ConnectionsMax, options.ConnectionsPerAddressMax
	l.running.Go(l.accept)
	l.running.Go(l.sweep)
	return l, nil
}

// Addr returns the address that the listener listens at.
func (l *Listener) Addr() net.Addr { return l.socket.Addr() }

// SetLimits replaces Options.ConnectionsMax and ConnectionsPerAddressMax for connections that
// come from now on; those that are open stay. Both have to be above 0.
func (l *Listener) SetLimits(connectionsMax, perAddressMax int) {
	if connectionsMax <= 0 || perAddressMax <= 0 {
		panic("stream: a limit of connections is not above 0")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.connectionsMax, l.mu.perAddressMax = connectionsMax, perAddressMax
}

// Metrics returns the counters, also after Close.
func (l *Listener) Metrics() *Metrics { return l.options.Metrics }

// Shutdown stops accepting and reading, lets the replies that are owed be
// completed and written until ctx ends, and then closes what is left. It
// returns when all goroutines have ended: nil, or the context's error when
// replies were cut off.
func (l *Listener) Shutdown(ctx context.Context) error {
	for _, c := range l.stop() {
		c.drain()
	}
	drained := make(chan struct{})
	go func() {
		l.serving.Wait()
		close(drained)
	}()
	var err error
	select {
	case <-drained:
	case <-ctx.Done():
		l.closeConnections()
		<-drained
		err = context.Cause(ctx)
	}
	l.stopSweeping()
	return err
}

// Close ends everything at once and returns when all goroutines have ended.
func (l *Listener) Close() error {
	l.stop()
	l.closeConnections()
	l.serving.Wait()
	l.stopSweeping()
	return nil
}

// stop ends the accepting and returns the connections there are.
func (l *Listener) stop() []*connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.stopping = true
	_ = l.socket.Close() // fails only when it is closed already
	open := make([]*connection, 0, len(l.mu.connections))
	for c := range l.mu.connections {
		open = append(open, c)
	}
	return open
}

func (l *Listener) closeConnections() {
	for _, c := range l.stop() {
		c.Close(ErrShutdown)
	}
}

// stopSweeping comes after the last connection: slow readers are closed during
// a shutdown too.
func (l *Listener) stopSweeping() {
	l.mu.Lock()
	select {
	case <-l.stopped:
	default:
		close(l.stopped)
	}
	l.mu.Unlock()
	l.running.Wait()
}

// accept makes connections until the listening socket closes.
func (l *Listener) accept() {
	pause := acceptPauseMin
	for {
		socket, err := l.socket.AcceptTCP()
		switch {
		case err == nil:
			pause = acceptPauseMin
			l.admit(socket)
		case errors.Is(err, net.ErrClosed):
			return
		case errors.Is(err, syscall.ECONNABORTED):
			l.options.Metrics.AcceptErrors.Add(1) // the peer left before we came
		default:
			l.options.Metrics.AcceptErrors.Add(1)
			l.log.Warn("cannot accept connections", "error", err, "pause", pause)
			if !l.sleep(pause) {
				return
			}
			pause = min(2*pause, acceptPauseMax)
		}
	}
}

// sleep reports false when the listener stopped meanwhile.
func (l *Listener) sleep(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.stopped:
		return false
	}
}

// admit serves an accepted socket or turns it away.
func (l *Listener) admit(socket *net.TCPConn) {
	remote := socket.RemoteAddr()
	address := socket.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	c := newConnection(l, socket, address)
	evicted, err := l.register(c, time.Now())
	if evicted != nil {
		evicted.Close(fmt.Errorf("%w: its place is needed", ErrSilent))
	}
	if err != nil {
		_ = socket.Close()
		if !errors.Is(err, ErrShutdown) {
			l.log.Warn("connection refused", "remote", remote, "reason", err)
			if l.options.Events.Refused != nil {
				l.options.Events.Refused(remote, err)
			}
		}
		return
	}
	if l.options.Events.Opened != nil {
		l.options.Events.Opened(remote)
	}
	c.session = l.options.Protocol.NewSession(c)
	if l.options.Loops == nil {
		c.start(socket)
		return
	}
	// Apart, since a loop takes its time to look, and others wait to be accepted.
	go func() {
		if !l.options.Loops.Carry(&c.light, socket) {
			c.start(socket)
		}
	}()
}

// reservedShare is the part of the connections that is left to addresses that have few of them, and
// fewConnections how many those are: one address that takes all it can get, by malice or for
// want of a pool, keeps nobody else out, operators least of all.
const (
	reservedShare  = 16
	fewConnections = 16
)

// register counts c as served, unless a limit forbids it. evicted has to make place for it.
func (l *Listener) register(c *connection, now time.Time) (evicted *connection, err error) {
	metrics := l.options.Metrics
	l.mu.Lock()
	defer l.mu.Unlock()
	open, ofAddress := len(l.mu.connections), l.mu.byAddress[c.address]
	most := l.mu.connectionsMax
	switch {
	case l.mu.stopping:
		return nil, ErrShutdown
	case open >= most, open >= most-most/reservedShare && ofAddress >= fewConnections:
		if ofAddress < l.mu.perAddressMax && open < most+evictedMax {
			evicted = l.mu.silent.evict(now)
		}
		if evicted == nil {
			metrics.ConnectionsRefused.Add(1)
			return nil, ErrConnectionsMax
		}
	case ofAddress >= l.mu.perAddressMax:
		metrics.ConnectionsRefusedByAddress.Add(1)
		return nil, ErrConnectionsPerAddressMax
	}
	l.mu.connections[c] = struct{}{}
	l.mu.byAddress[c.address]++
	l.mu.silent.add(c, now)
	l.serving.Add(1)
	metrics.ConnectionsAccepted.Add(1)
	metrics.ConnectionsOpen.Add(1)
	return evicted, nil
}

// forget ends the accounting of a connection that is gone.
func (l *Listener) forget(c *connection) {
	l.mu.Lock()
	delete(l.mu.connections, c)
	l.mu.silent.remove(c)
	if l.mu.byAddress[c.address]--; l.mu.byAddress[c.address] == 0 {
		delete(l.mu.byAddress, c.address)
	}
	l.mu.Unlock()
	l.options.Metrics.ConnectionsOpen.Add(-1)
	reason := c.reason()
	if l.options.Metrics.countClosed(reason) {
		l.log.Warn("connection closed", "remote", c.RemoteAddr(), "reason", reason)
	} else {
		l.options.Logger.Debug("connection closed", "remote", c.RemoteAddr(), "reason", reason)
	}
	if l.options.Events.Closed != nil {
		l.options.Events.Closed(c.RemoteAddr(), reason)
	}
}
