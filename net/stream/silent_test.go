package stream_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"ringlog/frontend/frontendtest"
	"ringlog/net/stream"
)

// dialFrom connects from a loopback address of its own: 127.0.0.source.
func dialFrom(t *testing.T, l *stream.Listener, source byte) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, source)}}
	c, err := dialer.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// isServed sends one frame and reports whether it is answered.
func isServed(c net.Conn) bool {
	if _, err := c.Write(frontendtest.Line(10)); err != nil {
		return false
	}
	_, err := io.ReadFull(c, make([]byte, len(frontendtest.LineReply)))
	return err == nil
}

// Who connects and says nothing is sent away; who has asked something may be idle for as long as that is allowed.
func TestSilentConnectionsAreClosed(t *testing.T) {
	closed := make(chan error, 10)
	l := listen(t, &frontendtest.Lines{}, stream.Options{
		FirstFrameTimeout: 100 * time.Millisecond,
		Events:            stream.Events{Closed: func(_ net.Addr, reason error) { closed <- reason }},
	})
	speaking := dial(t, l)
	roundTrip(t, speaking)
	for range 3 {
		frontendtest.ExpectEnd(t, dial(t, l))
		if reason := <-closed; !errors.Is(reason, stream.ErrSilent) {
			t.Errorf("closed for %v, not %v", reason, stream.ErrSilent)
		}
	}
	roundTrip(t, speaking)
	if got := l.Metrics().SilentClosed.Load(); got != 3 {
		t.Errorf("%d silent connections are counted", got)
	}
}

// When all connections are in use, a newcomer takes the place of one that never asked anything, not
// of one that has.
func TestSilentConnectionsMakePlace(t *testing.T) {
	closed := make(chan error, 10)
	l := listen(t, &frontendtest.Lines{}, stream.Options{
		ConnectionsMax: 4,
		Events:         stream.Events{Closed: func(_ net.Addr, reason error) { closed <- reason }},
	})
	speaking := dial(t, l)
	roundTrip(t, speaking)
	silent := []net.Conn{dial(t, l), dial(t, l), dial(t, l)}
	frontendtest.Await(t, "all connections are in use", func() bool { return l.Metrics().ConnectionsOpen.Load() == 4 })
	var newcomer net.Conn
	frontendtest.Await(t, "a newcomer is served", func() bool { // the silent ones have a second to speak
		newcomer = dialFrom(t, l, 2)
		return isServed(newcomer)
	})
	frontendtest.ExpectEnd(t, silent[0])
	for reason := range closed {
		if errors.Is(reason, stream.ErrSilent) {
			break
		}
	}
	roundTrip(t, speaking)
	roundTrip(t, newcomer)
}

// The last connections are for addresses that have few: one that takes all it can get keeps nobody out.
func TestTheLastConnectionsAreForOthers(t *testing.T) {
	const most, reserved = 64, 4
	l := listen(t, &frontendtest.Lines{}, stream.Options{ConnectionsMax: most})
	for n := range most - reserved {
		if !isServed(dialFrom(t, l, 1)) {
			t.Fatalf("connection %d is not served", n)
		}
	}
	if isServed(dialFrom(t, l, 1)) {
		t.Error("the address that has all gets one more")
	}
	for source := byte(2); source < 2+reserved; source++ {
		if !isServed(dialFrom(t, l, source)) {
			t.Errorf("127.0.0.%d is not served", source)
		}
	}
	if isServed(dialFrom(t, l, 9)) {
		t.Error("there are more connections than may be")
	}
	if got := l.Metrics().ConnectionsRefused.Load(); got != 2 {
		t.Errorf("%d refused connections are counted", got)
	}
}
