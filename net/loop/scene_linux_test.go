package loop_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringlog/buffer"
	"ringlog/frontend"
	"ringlog/net/loop"
	"ringlog/net/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits that only a fault makes long.
const patience = 20 * time.Second

// lineProtocol has frames of a u32 length and as many bytes. By default it
// answers each with a fixed reply; receive overrides that.
type lineProtocol struct {
	receive func(conn frontend.Conn, frame *buffer.Buffer, data []byte) error
}

func (p *lineProtocol) Name() string     { return "line" }
func (p *lineProtocol) PrefixBytes() int { return 4 }
func (p *lineProtocol) NewSession(conn frontend.Conn) frontend.Session {
	return &lineSession{protocol: p, conn: conn, reply: [][]byte{[]byte("ok\n")}}
}

type lineSession struct {
	protocol *lineProtocol
	conn     frontend.Conn
	reply    [][]byte
}

func (s *lineSession) FrameBytes(prefix []byte) (int, error) {
	return 4 + int(binary.BigEndian.Uint32(prefix)), nil
}

func (s *lineSession) Receive(frame *buffer.Buffer, data []byte) error {
	if s.protocol.receive != nil {
		return s.protocol.receive(s.conn, frame, data)
	}
	frame.Release()
	s.conn.Turn(nil).Complete(frontend.Reply{Parts: s.reply})
	return nil
}

func (s *lineSession) Closed(error) {}

func line(size int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(size)), make([]byte, size)...)
}

// listen starts a listener with two loops that ends with the test.
func listen(t testing.TB, protocol frontend.Protocol, options stream.Options) *loop.Listener {
	t.Helper()
	options.Protocol = protocol
	if options.Pool == nil {
		options.Pool = buffer.NewPool(t.Name(), 16<<20)
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	l, err := loop.Listen(context.Background(), "127.0.0.1:0", loop.Options{Options: options, LoopCount: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if open, light := l.Metrics().ConnectionsOpen.Load(), l.Metrics().ConnectionsLight.Load(); open != 0 || light != 0 {
			t.Errorf("after the end %d connections are open, %d of them light", open, light)
		}
		if err := options.Pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func dial(t testing.TB, l *loop.Listener) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func send(t testing.TB, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

// receive reads count fixed replies.
func receive(t testing.TB, c net.Conn, count int) {
	t.Helper()
	if _, err := io.ReadFull(c, make([]byte, 3*count)); err != nil {
		t.Fatal(err)
	}
}

func expectEnd(t testing.TB, c net.Conn) {
	t.Helper()
	var network net.Error
	if n, err := c.Read(make([]byte, 1)); n > 0 || errors.As(err, &network) && network.Timeout() {
		t.Fatalf("the connection is not closed: %d bytes, %v", n, err)
	}
}

// await waits until condition holds and fails the test when it never does.
func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
