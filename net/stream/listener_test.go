package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringlog/buffer"
	"ringlog/frontend"
	"ringlog/frontend/frontendtest"
	"ringlog/net/stream"
)

// patience bounds waits that only a fault makes long.
const patience = 20 * time.Second

// listen starts a listener that ends with the test.
func listen(t testing.TB, protocol frontend.Protocol, options stream.Options) *stream.Listener {
	t.Helper()
	options.Protocol = protocol
	if options.Pool == nil {
		options.Pool = buffer.NewPool(t.Name(), 16<<20)
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	l, err := stream.Listen(context.Background(), "127.0.0.1:0", options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if held := options.Pool.InUseBytes(); held != 0 {
			t.Errorf("%d bytes of the pool are still held", held)
		}
	})
	return l
}

func dial(t testing.TB, l *stream.Listener) net.Conn {
	t.Helper()
	return frontendtest.DialLines(t, l.Addr())
}

// roundTrip sends one frame and reads the fixed reply.
func roundTrip(t testing.TB, c net.Conn) {
	t.Helper()
	frontendtest.SendLines(t, c, frontendtest.Line(10))
	frontendtest.ExpectLineReplies(t, c, 1)
}

func TestConnectionLimitsRefuseAndRecover(t *testing.T) {
	for name, limit := range map[string]struct {
		set     func(*stream.Options)
		reason  error
		counter func(*stream.Metrics) int64
	}{
		"all": {func(o *stream.Options) { o.ConnectionsMax = 2 }, stream.ErrConnectionsMax,
			func(m *stream.Metrics) int64 { return m.ConnectionsRefused.Load() }},
		"one address": {func(o *stream.Options) { o.ConnectionsPerAddressMax = 2 }, stream.ErrConnectionsPerAddressMax,
			func(m *stream.Metrics) int64 { return m.ConnectionsRefusedByAddress.Load() }},
	} {
		t.Run(name, func(t *testing.T) {
			refused, closed := make(chan error, 10), make(chan error, 10)
			options := stream.Options{Events: stream.Events{
				Refused: func(_ net.Addr, reason error) { refused <- reason },
				Closed:  func(_ net.Addr, reason error) { closed <- reason },
			}}
			limit.set(&options)
			l := listen(t, &frontendtest.Lines{}, options)
			first, second := dial(t, l), dial(t, l)
			roundTrip(t, first)
			roundTrip(t, second)
			frontendtest.ExpectEnd(t, dial(t, l))
			if reason := <-refused; !errors.Is(reason, limit.reason) {
				t.Errorf("refused for %v, not %v", reason, limit.reason)
			}
			if got := limit.counter(l.Metrics()); got != 1 {
				t.Errorf("the counter says %d", got)
			}
			_ = first.Close()
			if reason := <-closed; !errors.Is(reason, io.EOF) {
				t.Errorf("closed for %v, not %v", reason, io.EOF)
			}
			roundTrip(t, dial(t, l))
			roundTrip(t, second)
		})
	}
}

func TestMetricsCountBytesRequestsAndReplies(t *testing.T) {
	l := listen(t, &frontendtest.Lines{}, stream.Options{})
	c := dial(t, l)
	for range 25 {
		roundTrip(t, c)
	}
	_ = c.Close()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	m := l.Metrics()
	got := fmt.Sprint(m.BytesIn.Load(), m.BytesOut.Load(), m.Requests.Load(), m.Replies.Load(), m.ConnectionsAccepted.Load(), m.ConnectionsOpen.Load())
	if want := fmt.Sprint(25*14, 25*3, 25, 25, 1, 0); got != want {
		t.Errorf("bytes in, bytes out, requests, replies, accepted, open: %s, want %s", got, want)
	}
}

// What came together is read together, and what is ready together leaves together.
func TestSmallFramesShareSystemCalls(t *testing.T) {
	const frames = 1000
	var turns []frontend.Turn
	protocol := &frontendtest.Lines{OnLine: func(conn frontend.Conn, frame *buffer.Buffer, _ []byte) error {
		frame.Release()
		turns = append(turns, conn.Turn(nil))
		if len(turns) == frames {
			for i := len(turns) - 1; i >= 0; i-- { // the head last: only then can anything leave
				frontendtest.AnswerLine(turns[i])
			}
		}
		return nil
	}}
	l := listen(t, protocol, stream.Options{InFlightRequestsMax: frames})
	c := dial(t, l)
	if _, err := c.Write(bytes.Repeat(frontendtest.Line(40), frames)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 3*frames)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil { // so that the last batch is counted
		t.Fatal(err)
	}
	if writes := l.Metrics().Writes.Load(); writes > frames/64 {
		t.Errorf("%d replies left in %d writes", frames, writes)
	}
}

// Six connections fill what large frames may have of a pool of 1 MiB with a first
// step of 128 KiB each, and each needs 512 KiB more: some give up so that the rest can go on.
func TestWaitingForMemoryWithAHalfFrameEnds(t *testing.T) {
	const clients, poolBytes, frameBytes = 6, 1 << 20, 400 << 10
	closed, received := make(chan error, clients), make(chan int, clients)
	protocol := &frontendtest.Lines{OnLine: func(_ frontend.Conn, frame *buffer.Buffer, data []byte) error {
		frame.Release()
		received <- len(data)
		return nil
	}}
	pool := buffer.NewPool(t.Name(), poolBytes)
	l := listen(t, protocol, stream.Options{
		Pool:          pool,
		FrameBytesMax: poolBytes,
		MemoryTimeout: 500 * time.Millisecond,
		Events:        stream.Events{Closed: func(_ net.Addr, reason error) { closed <- reason }},
	})
	frame := frontendtest.Line(frameBytes)
	var connections []net.Conn
	for range clients {
		c := dial(t, l)
		if _, err := c.Write(frame[:100<<10]); err != nil {
			t.Fatal(err)
		}
		connections = append(connections, c)
	}
	deadline := time.Now().Add(patience)
	for pool.InUseBytes() < clients*(128<<10) && time.Now().Before(deadline) {
		_, _ = unix.Poll(nil, 1)
	}
	var senders sync.WaitGroup
	for _, c := range connections {
		senders.Go(func() { _, _ = c.Write(frame[100<<10:]) }) // fails at those that are closed
	}
	if reason := <-closed; !errors.Is(reason, stream.ErrMemoryTimeout) {
		t.Errorf("closed for %v, not %v", reason, stream.ErrMemoryTimeout)
	}
	if size := <-received; size != frameBytes+4 {
		t.Errorf("received %d bytes", size)
	}
	if l.Metrics().MemoryWaits.Load() == 0 || l.Metrics().MemoryTimeoutsClosed.Load() == 0 {
		t.Error("the waits were not counted")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	senders.Wait()
}

// Scenario 51: without descriptors the accept loop waits instead of spinning, and goes on.
func TestAcceptWaitsForDescriptors(t *testing.T) {
	l := listen(t, &frontendtest.Lines{}, stream.Options{})
	roundTrip(t, dial(t, l))
	waiting := dial(t, l) // reaches the backlog or the accept loop; sends later

	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(client) }()
	tight := before
	tight.Cur = uint64(client) + 1 // every lower number may be free, so use them up
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &tight); err != nil {
		t.Fatal(err)
	}
	var spent []int
	for {
		descriptor, err := unix.Dup(client)
		if err != nil {
			break
		}
		spent = append(spent, descriptor)
	}
	address := l.Addr().(*net.TCPAddr)
	connectErr := unix.Connect(client, &unix.SockaddrInet4{Port: address.Port, Addr: [4]byte(address.IP.To4())})
	deadline := time.Now().Add(patience)
	for l.Metrics().AcceptErrors.Load() < 2 && time.Now().Before(deadline) {
		_, _ = unix.Poll(nil, 5)
	}
	failures := l.Metrics().AcceptErrors.Load()
	for _, descriptor := range spent {
		_ = unix.Close(descriptor)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if connectErr != nil {
		t.Fatal(connectErr)
	}
	if failures < 2 || failures > 20 {
		t.Errorf("accept failed %d times: either it never did, or the loop does not back off", failures)
	}
	roundTrip(t, waiting)
	roundTrip(t, dial(t, l))
}

func TestListenerDoesNotSpeakMultipathTCP(t *testing.T) {
	accepted := make(chan int, 1)
	protocol := &frontendtest.Lines{OnLine: func(conn frontend.Conn, frame *buffer.Buffer, _ []byte) error {
		frame.Release()
		frontendtest.AnswerLine(conn.Turn(nil))
		accepted <- conn.LocalAddr().(*net.TCPAddr).Port
		return nil
	}}
	l := listen(t, protocol, stream.Options{})
	c := dial(t, l)
	roundTrip(t, c)
	if port := <-accepted; port != l.Addr().(*net.TCPAddr).Port {
		t.Errorf("LocalAddr has port %d", port)
	}
	multipath, err := c.(*net.TCPConn).MultipathTCP()
	if err != nil || multipath {
		t.Errorf("the connection uses multipath TCP: %v, %v", multipath, err)
	}
}

func TestCompletingTwicePanics(t *testing.T) {
	panicked := make(chan any, 1)
	protocol := &frontendtest.Lines{OnLine: func(conn frontend.Conn, frame *buffer.Buffer, _ []byte) error {
		frame.Release()
		held, turn := conn.Turn(nil), conn.Turn(nil) // held keeps the other from being written and reused
		turn.Complete(frontend.Reply{})
		func() {
			defer func() { panicked <- recover() }()
			turn.Complete(frontend.Reply{})
		}()
		held.Complete(frontend.Reply{})
		return nil
	}}
	l := listen(t, protocol, stream.Options{})
	if _, err := dial(t, l).Write(frontendtest.Line(1)); err != nil {
		t.Fatal(err)
	}
	if <-panicked == nil {
		t.Error("no panic")
	}
}

func TestOptionsReportEveryFault(t *testing.T) {
	_, err := stream.Listen(context.Background(), "127.0.0.1:0", stream.Options{
		FrameBytesMax: -1, InFlightRequestsMax: -1, WriteTimeout: -1,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, fault := range []string{"Protocol is missing", "Pool is missing", "FrameBytesMax", "InFlightRequestsMax", "WriteTimeout"} {
		if !strings.Contains(err.Error(), fault) {
			t.Errorf("%q does not say %q", err, fault)
		}
	}
}

// A flood of bad connections leaves one line in the log, and the count of the rest.
func TestWarningsAreLimited(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	closed := make(chan struct{}, 100)
	l := listen(t, &frontendtest.Lines{}, stream.Options{
		FrameBytesMax: 100,
		Logger:        slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil)),
		Events:        stream.Events{Closed: func(net.Addr, error) { closed <- struct{}{} }},
	})
	for range 30 {
		c := dial(t, l)
		if _, err := c.Write(frontendtest.Line(1000)[:4]); err != nil {
			t.Fatal(err)
		}
		frontendtest.ExpectEnd(t, c)
		_ = c.Close()
		<-closed
	}
	mu.Lock()
	defer mu.Unlock()
	if lines := strings.Count(log.String(), "connection closed"); lines == 0 || lines > 15 {
		t.Errorf("30 bad connections left %d lines:\n%s", lines, log.String())
	}
	if got := l.Metrics().FramesTooLarge.Load(); got != 30 {
		t.Errorf("%d of 30 were counted", got)
	}
}

type lockedWriter struct {
	mu  *sync.Mutex
	log *bytes.Buffer
}

func (w lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(b)
}
