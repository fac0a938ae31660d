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
	"ringlog/net/loop"
	"ringlog/net/stream"
)

// Small requests keep a connection at its loop, one by one or in a pipeline, cut anywhere.
func TestSmallRequestsStayLight(t *testing.T) {
	l := listen(t, &lineProtocol{}, stream.Options{})
	c := dial(t, l)
	for range 10 {
		send(t, c, line(100))
		receive(t, c, 1)
	}
	send(t, c, bytes.Repeat(line(1000), 500))
	receive(t, c, 500)
	half := line(30 << 10)
	send(t, c, half[:20<<10])
	send(t, c, half[20<<10:])
	receive(t, c, 1)
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
			send(t, s.client, line(200<<10))
			receive(t, s.client, 1)
		}},
		"the beginning of a large frame": {tell: func(t *testing.T, s *stage) {
			frame := line(200 << 10)
			send(t, s.client, frame[:100])
			await(t, "the connection moves", func() bool { return s.Metrics().ConnectionsMoved.Load() == 1 })
			send(t, s.client, frame[100:])
			receive(t, s.client, 1)
		}},
		"a reply that the socket does not take": {tell: func(t *testing.T, s *stage) {
			large := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
			send(t, s.client, append([]byte{0, 0, 0, 4}, "hold"...))
			(<-s.held).Complete(frontend.Reply{Parts: [][]byte{large[:1], large[1 : 5<<20], large[5<<20:]}})
			await(t, "the connection moves", func() bool { return s.Metrics().ConnectionsMoved.Load() == 1 })
			got := make([]byte, len(large))
			if _, err := io.ReadFull(s.client, got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, large) {
				t.Error("the reply was cut wrongly")
			}
		}},
		"more requests than may be in flight": {options: stream.Options{InFlightRequestsMax: 2}, tell: func(t *testing.T, s *stage) {
			hold := append([]byte{0, 0, 0, 4}, "hold"...)
			send(t, s.client, bytes.Repeat(hold, 3))
			await(t, "the connection moves", func() bool { return s.Metrics().ConnectionsMoved.Load() == 1 })
			for range 3 {
				(<-s.held).Complete(frontend.Reply{Parts: [][]byte{[]byte("ok\n")}})
			}
			receive(t, s.client, 3)
		}},
		"a pool without memory": {tell: func(t *testing.T, s *stage) {
			var all []*buffer.Buffer
			for b := s.pool.TryGet(4 << 10); b != nil; b = s.pool.TryGet(4 << 10) {
				all = append(all, b)
			}
			send(t, s.client, line(3000))
			await(t, "the connection moves", func() bool { return s.Metrics().ConnectionsMoved.Load() == 1 })
			send(t, s.client, line(3000))
			for _, b := range all {
				b.Release()
			}
			receive(t, s.client, 2)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stage{held: make(chan frontend.Turn, 10), pool: buffer.NewPool(t.Name(), 4<<20)}
			protocol := &lineProtocol{receive: func(conn frontend.Conn, frame *buffer.Buffer, data []byte) error {
				hold := bytes.HasSuffix(data, []byte("hold"))
				frame.Release()
				if turn := conn.Turn(nil); hold {
					s.held <- turn
				} else {
					turn.Complete(frontend.Reply{Parts: [][]byte{[]byte("ok\n")}})
				}
				return nil
			}}
			options := story.options
			options.Pool = s.pool
			s.Listener = listen(t, protocol, options)
			s.client = dial(t, s.Listener)
			send(t, s.client, line(10))
			receive(t, s.client, 1)
			if light := s.Metrics().ConnectionsLight.Load(); light != 1 {
				t.Fatalf("%d connections are light", light)
			}
			story.tell(t, s)
			if light, moved := s.Metrics().ConnectionsLight.Load(), s.Metrics().ConnectionsMoved.Load(); light != 0 || moved != 1 {
				t.Errorf("%d connections are light, %d moved", light, moved)
			}
			send(t, s.client, line(10))
			receive(t, s.client, 1)
		})
	}
}

// Connections that wait for something cost neither goroutines nor memory of the pool, and all
// of them are answered by one wake-up or a few.
func TestWaitingConnectionsAreCheap(t *testing.T) {
	const clients = 1000
	var mu sync.Mutex
	var turns []frontend.Turn
	protocol := &lineProtocol{receive: func(conn frontend.Conn, frame *buffer.Buffer, _ []byte) error {
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
		send(t, c, line(100))
		connections = append(connections, c)
	}
	await(t, "all wait", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(turns) == clients && pool.InUseBytes() == 0
	})
	await(t, "those who enrolled them are gone", func() bool { return runtime.NumGoroutine() < before+clients/10 })
	for _, turn := range turns {
		turn.Complete(frontend.Reply{Parts: [][]byte{[]byte("ok\n")}})
	}
	for _, c := range connections {
		receive(t, c, 1)
	}
	if light := l.Metrics().ConnectionsLight.Load(); light != clients {
		t.Errorf("%d connections are light", light)
	}
}

// What is ready together leaves together, also from a loop.
func TestRepliesOfABurstShareAWrite(t *testing.T) {
	const frames = 500
	var turns []frontend.Turn
	protocol := &lineProtocol{receive: func(conn frontend.Conn, frame *buffer.Buffer, _ []byte) error {
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
	send(t, c, bytes.Repeat(line(40), frames))
	receive(t, c, frames)
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
	protocol := &lineProtocol{receive: func(_ frontend.Conn, frame *buffer.Buffer, data []byte) error {
		frame.Release()
		received <- len(data)
		return nil
	}}
	l := listen(t, protocol, stream.Options{Events: stream.Events{Closed: func(_ net.Addr, reason error) { closed <- reason }}})
	c := dial(t, l)
	send(t, c, append(line(10), line(5000)...))
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
