package loop_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"ringlog/buffer"
	"ringlog/frontend"
	"ringlog/frontend/frontendtest"
	"ringlog/net/loop"
	"ringlog/net/stream"
)

// Small requests keep a connection at its loop, one by one or in a pipeline, cut anywhere.
func TestSmallRequestsStayLight(t *testing.T) {
	l := listen(t, &frontendtest.Lines{}, stream.Options{})
	c := dial(t, l)
	for range 10 {
		frontendtest.SendLines(t, c, frontendtest.Line(100))
		frontendtest.ExpectLineReplies(t, c, 1)
	}
	frontendtest.SendLines(t, c, bytes.Repeat(frontendtest.Line(1000), 500))
	frontendtest.ExpectLineReplies(t, c, 500)
	half := frontendtest.Line(30 << 10)
	frontendtest.SendLines(t, c, half[:20<<10])
	frontendtest.SendLines(t, c, half[20<<10:])
	frontendtest.ExpectLineReplies(t, c, 1)
	if light, moved := l.Metrics().ConnectionsLight.Load(), l.Metrics().ConnectionsMoved.Load(); light != 1 || moved != 0 {
		t.Errorf("%d connections are light, %d moved", light, moved)
	}
}

// Whatever would have to wait moves its connection to goroutines, which go on where the
// loop was.
func TestWhatWaitsMoves(t *testing.T) {
	type stage struct {
		*loop.Listener
		client *net.TCPConn
		held   chan frontend.Turn
		pool   *buffer.Pool
	}
	for name, story := range map[string]struct {
		options stream.Options
		tell    func(*testing.T, *stage)
	}{
		"a large frame": {tell: func(t *testing.T, s *stage) {
			frontendtest.SendLines(t, s.client, frontendtest.Line(200<<10))
			frontendtest.ExpectLineReplies(t, s.client, 1)
		}},
		"the beginning of a large frame": {tell: func(t *testing.T, s *stage) {
			frame := frontendtest.Line(200 << 10)
			frontendtest.SendLines(t, s.client, frame[:100])
			frontendtest.Await(t, "the connection moves", func() bool { return s.Metrics().ConnectionsMoved.Load() == 1 })
			frontendtest.SendLines(t, s.client, frame[100:])
			frontendtest.ExpectLineReplies(t, s.client, 1)
		}},
		"a reply that the socket does not take": {tell: func(t *testing.T, s *stage) {
			large := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
			frontendtest.SendLines(t, s.client, append([]byte{0, 0, 0, 4}, "hold"...))
			(<-s.held).Complete(frontend.Reply{Parts: [][]byte{large[:1], large[1 : 5<<20], large[5<<20:]}})
			frontendtest.Await(t, "the connection moves", func() bool { return s.Metrics().ConnectionsMoved.Load() == 1 })
			got := make([]byte, len(large))
			if _, err := io.ReadFull(s.client, got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, large) {
				t.Error("the reply was cut wrongly")
			}
		}},
		"a reply with a loan that the socket does not take": {tell: func(t *testing.T, s *stage) {
			b := &library{content: bytes.Repeat([]byte("0123456789abcdef"), 1<<20)}
			parts := make([][]byte, 16)
			b.lend(parts)
			frontendtest.SendLines(t, s.client, append([]byte{0, 0, 0, 4}, "hold"...))
			(<-s.held).Complete(frontend.Reply{Parts: parts, Loan: loan{b, parts}})
			frontendtest.Await(t, "the connection moves", func() bool { return s.Metrics().ConnectionsMoved.Load() == 1 })
			got := make([]byte, len(b.content))
			if _, err := io.ReadFull(s.client, got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, b.content) {
				t.Error("the reply was cut wrongly")
			}
		}},
		"more requests than may be in flight": {options: stream.Options{InFlightRequestsMax: 2}, tell: func(t *testing.T, s *stage) {
			hold := append([]byte{0, 0, 0, 4}, "hold"...)
			frontendtest.SendLines(t, s.client, bytes.Repeat(hold, 3))
			frontendtest.Await(t, "the connection moves", func() bool { return s.Metrics().ConnectionsMoved.Load() == 1 })
			for range 3 {
				frontendtest.AnswerLine(<-s.held)
			}
			frontendtest.ExpectLineReplies(t, s.client, 3)
		}},
		"a pool without memory": {tell: func(t *testing.T, s *stage) {
			var all []*buffer.Buffer
			for b := s.pool.TryGet(4 << 10); b != nil; b = s.pool.TryGet(4 << 10) {
				all = append(all, b)
			}
			frontendtest.SendLines(t, s.client, frontendtest.Line(3000))
			frontendtest.Await(t, "the connection moves", func() bool { return s.Metrics().ConnectionsMoved.Load() == 1 })
			frontendtest.SendLines(t, s.client, frontendtest.Line(3000))
			for _, b := range all {
				b.Release()
			}
			frontendtest.ExpectLineReplies(t, s.client, 2)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stage{held: make(chan frontend.Turn, 10), pool: buffer.NewPool(t.Name(), 4<<20)}
			protocol := &frontendtest.Lines{OnLine: func(conn frontend.Conn, frame *buffer.Buffer, data []byte) error {
				hold := bytes.HasSuffix(data, []byte("hold"))
				frame.Release()
				if turn := conn.Turn(nil); hold {
					s.held <- turn
				} else {
					frontendtest.AnswerLine(turn)
				}
				return nil
			}}
			options := story.options
			options.Pool = s.pool
			s.Listener = listen(t, protocol, options)
			s.client = dial(t, s.Listener)
			frontendtest.SendLines(t, s.client, frontendtest.Line(10))
			frontendtest.ExpectLineReplies(t, s.client, 1)
			if light := s.Metrics().ConnectionsLight.Load(); light != 1 {
				t.Fatalf("%d connections are light", light)
			}
			story.tell(t, s)
			if light, moved := s.Metrics().ConnectionsLight.Load(), s.Metrics().ConnectionsMoved.Load(); light != 0 || moved != 1 {
				t.Errorf("%d connections are light, %d moved", light, moved)
			}
			frontendtest.SendLines(t, s.client, frontendtest.Line(10))
			frontendtest.ExpectLineReplies(t, s.client, 1)
		})
	}
}

// library lends equal parts of its content, and loan spoils those that are given back.
type library struct{ content []byte }

func (b *library) lend(parts [][]byte) {
	size := len(b.content) / len(parts)
	for i := range parts {
		parts[i] = bytes.Clone(b.content[i*size:][:size])
	}
}

type loan struct {
	library *library
	parts   [][]byte
}

// Return implements frontend.Loan.
func (l loan) Return(int) {
	for _, part := range l.parts {
		clear(part)
	}
}

// Lend implements frontend.Loan.
func (l loan) Lend(first, _ int, _ func()) (int, error) {
	l.library.lend(l.parts)
	return len(l.parts) - first, nil
}

// Connections that wait for something cost neither goroutines nor memory of the pool, and all
// of them are answered by one wake-up or a few.
func TestWaitingConnectionsAreCheap(t *testing.T) {
	const clients = 1000
	var mu sync.Mutex
	var turns []frontend.Turn
	protocol := &frontendtest.Lines{OnLine: func(conn frontend.Conn, frame *buffer.Buffer, _ []byte) error {
		frame.Release()
		mu.Lock()
		defer mu.Unlock()
		turns = append(turns, conn.Turn(nil))
		return nil
	}}
	pool := buffer.NewPool(t.Name(), 16<<20)
	l := listen(t, protocol, stream.Options{Pool: pool})
	before := runtime.NumGoroutine()
	var connections []net.Conn
	for range clients {
		c := dial(t, l)
		frontendtest.SendLines(t, c, frontendtest.Line(100))
		connections = append(connections, c)
	}
	frontendtest.Await(t, "all wait", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(turns) == clients && pool.InUseBytes() == 0
	})
	frontendtest.Await(t, "those who enrolled them are gone", func() bool { return runtime.NumGoroutine() < before+clients/10 })
	for _, turn := range turns {
		frontendtest.AnswerLine(turn)
	}
	for _, c := range connections {
		frontendtest.ExpectLineReplies(t, c, 1)
	}
	if light := l.Metrics().ConnectionsLight.Load(); light != clients {
		t.Errorf("%d connections are light", light)
	}
}

// What is ready together leaves together, also from a loop.
func TestRepliesOfABurstShareAWrite(t *testing.T) {
	const frames = 500
	var turns []frontend.Turn
	protocol := &frontendtest.Lines{OnLine: func(conn frontend.Conn, frame *buffer.Buffer, _ []byte) error {
		frame.Release()
		if turns = append(turns, conn.Turn(nil)); len(turns) == frames {
			go func() { // the head last: only then can anything leave
				for i := len(turns) - 1; i >= 0; i-- {
					turns[i].Complete(frontend.Reply{Parts: [][]byte{[]byte("o"), []byte("k\n")}})
				}
			}()
		}
		return nil
	}}
	l := listen(t, protocol, stream.Options{InFlightRequestsMax: frames})
	c := dial(t, l)
	frontendtest.SendLines(t, c, bytes.Repeat(frontendtest.Line(40), frames))
	frontendtest.ExpectLineReplies(t, c, frames)
	if err := l.Close(); err != nil { // so that the last batch is counted
		t.Fatal(err)
	}
	if writes := l.Metrics().Writes.Load(); writes > frames/64 {
		t.Errorf("%d replies left in %d writes", frames, writes)
	}
}

// A peer that hangs up is noticed with its reason, and what it sent before is served.
func TestPeerThatHangsUp(t *testing.T) {
	closed, received := make(chan error, 1), make(chan int, 2)
	protocol := &frontendtest.Lines{OnLine: func(_ frontend.Conn, frame *buffer.Buffer, data []byte) error {
		frame.Release()
		received <- len(data)
		return nil
	}}
	l := listen(t, protocol, stream.Options{Events: stream.Events{Closed: func(_ net.Addr, reason error) { closed <- reason }}})
	c := dial(t, l)
	frontendtest.SendLines(t, c, append(frontendtest.Line(10), frontendtest.Line(5000)...))
	_ = c.Close()
	if reason := <-closed; !errors.Is(reason, io.EOF) {
		t.Errorf("closed for %v, not %v", reason, io.EOF)
	}
	if first, second := <-received, <-received; first != 14 || second != 5004 {
		t.Errorf("received %d and %d bytes", first, second)
	}
}

func TestOptionsReportEveryFault(t *testing.T) {
	_, err := loop.Listen(context.Background(), "127.0.0.1:0", loop.Options{LoopCount: -1, Options: stream.Options{FrameBytesMax: -1}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, fault := range []string{"LoopCount", "Protocol is missing", "FrameBytesMax"} {
		if !strings.Contains(err.Error(), fault) {
			t.Errorf("%q does not say %q", err, fault)
		}
	}
}
