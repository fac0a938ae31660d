package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/pool/goroutine"

	"ringlog/net/stream"
)

// readBytes is what gnet reads by itself, once per event, into a buffer of its loop's. A small
// request fits; of a larger one the rest goes straight into our block. It is also what
// a connection may hold outside of the pool, once, when the pool is spent.
const readBytes = 4 << 10

// errNotRegistered is the reason when gnet could not watch a socket: it does not tell why.
var errNotRegistered = errors.New("loop: the socket cannot be watched")

func init() {
	// gnet's pool of workers, of which we use none, is two goroutines and a timer
	// that wakes the process twice a second.
	goroutine.DefaultWorkerPool.Release()
}

// loops are the event loops of a listener: gnet's handler of events, and stream.Loops.
type loops struct {
	gnet.BuiltinEventEngine
	client *gnet.Client
	// all does not change after the start; indexed by gnet's loops in byLoop.
	all    []*loop
	byLoop map[gnet.EventLoop]*loop
	logger *slog.Logger
	once   sync.Once
}

// startLoops starts count loops.
func startLoops(count int, logger *slog.Logger) (*loops, error) {
	l := &loops{byLoop: make(map[gnet.EventLoop]*loop), logger: logger}
	var err error
	l.client, err = gnet.NewClient(l, gnet.WithOptions(gnet.Options{
		NumEventLoop:  count,
		ReadBufferCap: readBytes,
		TCPNoDelay:    gnet.TCPDelay, // it is not to set what accepted sockets already have
		Logger:        gnetLogger{logger},
	}))
	if err != nil {
		return nil, err
	}
	if err := l.client.Start(); err != nil {
		return nil, err
	}
	for range count {
		// gnet gives each to the loop that has the fewest connections: one to every loop.
		one, err := newLoop(l.client)
		if err != nil {
			l.stop()
			return nil, err
		}
		l.all = append(l.all, one)
		l.byLoop[one.events] = one
	}
	if len(l.byLoop) != count {
		l.stop()
		return nil, fmt.Errorf("%d of %d loops have a bell", len(l.byLoop), count)
	}
	return l, nil
}

// stop ends the loops. No connection is left by then.
func (l *loops) stop() {
	l.once.Do(func() {
		if err := l.client.Stop(); err != nil {
			l.logger.Warn("event loops ended with an error", "error", err)
		}
		for _, one := range l.all {
			one.bell.close()
		}
	})
}

// Carry implements stream.Loops.
func (l *loops) Carry(light *stream.Light, socket *net.TCPConn) bool {
	for _, address := range []net.Addr{socket.LocalAddr(), socket.RemoteAddr()} {
		if tcp, ok := address.(*net.TCPAddr); ok && tcp.Zone != "" {
			// gnet puts the memory of a zone's name into its pool of bytes at the
			// close, but that is package net's. Link-local peers are few.
			return false
		}
	}
	m := &member{light: light, loops: l}
	_, err := l.client.EnrollContext(socket, m) // it closes socket, in favour of a descriptor of its own
	if err == nil && !m.opened {
		err = errNotRegistered
	}
	if err != nil {
		light.Gone(fmt.Errorf("loop: %w", err))
	}
	return true
}

// OnOpen implements gnet.EventHandler.
func (l *loops) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	if m, ok := c.Context().(*member); ok {
		return nil, m.open(c)
	}
	return nil, gnet.None
}

// OnTraffic implements gnet.EventHandler.
func (l *loops) OnTraffic(c gnet.Conn) gnet.Action {
	switch context := c.Context().(type) {
	case *member:
		return context.received()
	case *loop:
		_, _ = c.Discard(-1) // which bytes does not matter
		context.answer()
	}
	return gnet.None
}

// OnClose implements gnet.EventHandler.
func (l *loops) OnClose(c gnet.Conn, err error) gnet.Action {
	if m, ok := c.Context().(*member); ok {
		m.closed(err)
	}
	return gnet.None
}

// gnetLogger is what gnet has to say, for those who look into it. It reports stale
// events, which are usual, as warnings.
type gnetLogger struct{ logger *slog.Logger }

func (g gnetLogger) Debugf(format string, arguments ...any) {
	g.write(slog.LevelDebug, format, arguments)
}
func (g gnetLogger) Infof(format string, arguments ...any) {
	g.write(slog.LevelDebug, format, arguments)
}
func (g gnetLogger) Warnf(format string, arguments ...any) {
	g.write(slog.LevelDebug, format, arguments)
}
func (g gnetLogger) Errorf(format string, arguments ...any) {
	g.write(slog.LevelWarn, format, arguments)
}
func (g gnetLogger) Fatalf(format string, arguments ...any) {
	g.write(slog.LevelError, format, arguments)
}

func (g gnetLogger) write(level slog.Level, format string, arguments []any) {
	g.logger.Log(context.Background(), level, "gnet: "+fmt.Sprintf(format, arguments...))
}
