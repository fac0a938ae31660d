package stream_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringlog/buffer"
	"ringlog/frontend"
	"ringlog/frontend/frontendtest"
	"ringlog/net/stream"
)

// library lends the parts of one reply. What was returned is overwritten, so that a
// connection that looks at it sends nonsense; every other part of it has to be fetched.
type library struct {
	content  []byte
	partSize int
	parts    [][]byte

	mu      sync.Mutex
	held    int // bytes that are lent
	heldMax int // after the first return
	fetched map[int]bool
	lends   int
	broken  error // what Lend answers

	returned atomic.Int64 // times
	released chan struct{}
}

func newLibrary(size, partSize int) *library {
	b := &library{content: make([]byte, size), partSize: partSize, fetched: make(map[int]bool), released: make(chan struct{})}
	for i := range b.content {
		b.content[i] = byte(i*7 + i>>9)
	}
	for at := 0; at < size; at += partSize {
		b.parts = append(b.parts, bytes.Clone(b.content[at:min(at+partSize, size)]))
		b.held += len(b.parts[len(b.parts)-1])
	}
	return b
}

func (b *library) reply() frontend.Reply {
	return frontend.Reply{Parts: b.parts, Release: func() { close(b.released) }, Loan: b}
}

func (b *library) Return(int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, part := range b.parts {
		clear(part)
	}
	b.held = 0
	b.returned.Add(1)
}

func (b *library) Lend(first, bytesMax int, ready func()) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lends++; b.broken != nil {
		return 0, b.broken
	}
	count, bytes := 0, 0
	for i := first; i < len(b.parts) && (count == 0 || bytes+len(b.parts[i]) <= bytesMax); i++ {
		if i%2 == 1 && !b.fetched[i] {
			if count == 0 {
				b.fetched[i] = true
				go ready()
			}
			break
		}
		b.parts[i] = append([]byte(nil), b.content[i*b.partSize:][:len(b.parts[i])]...)
		bytes += len(b.parts[i])
		count++
	}
	b.held += bytes
	b.heldMax = max(b.heldMax, b.held)
	return count, nil
}

func (b *library) holds() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// lending serves each frame with the reply of one library.
func lending(b *library) *frontendtest.Lines {
	return &frontendtest.Lines{OnLine: func(conn frontend.Conn, frame *buffer.Buffer, data []byte) error {
		frame.Release()
		conn.Turn(nil).Complete(b.reply())
		return nil
	}}
}

// Rule 15: while the peer does not read, a reply holds none of its memory; when it reads again
// it gets every byte, from memory that was lent again.
func TestReplyHoldsNoMemoryWhileThePeerDoesNotRead(t *testing.T) {
	b := newLibrary(24<<20, 100_000)
	c := dial(t, listen(t, lending(b), stream.Options{}))
	if err := c.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(frontendtest.Line(10)); err != nil {
		t.Fatal(err)
	}
	frontendtest.Await(t, "the socket is full", func() bool { return b.returned.Load() > 0 })
	if held := b.holds(); held != 0 {
		t.Fatalf("a reply that waits holds %d bytes", held)
	}
	got := make([]byte, len(b.content))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.content) {
		t.Fatal("the peer got other bytes than were sent")
	}
	<-b.released
	if b.heldMax > 1<<20+b.partSize {
		t.Errorf("%d bytes were lent at once", b.heldMax)
	}
	t.Logf("lent %d times, at most %d bytes at once", b.lends, b.heldMax)
}

// A reply that fits into the socket is written from the memory that it came with.
func TestReplyThatIsTakenAtOnceIsNotLentAgain(t *testing.T) {
	b := newLibrary(30_000, 10_000)
	c := dial(t, listen(t, lending(b), stream.Options{}))
	if _, err := c.Write(frontendtest.Line(10)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(b.content))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, b.content) {
		t.Fatalf("other bytes than were sent (%v)", err)
	}
	<-b.released
	if b.lends > 0 || b.returned.Load() > 0 {
		t.Errorf("lent %d times, returned %d times", b.lends, b.returned.Load())
	}
}

// What cannot be lent again ends the connection, with the reason.
func TestReplyThatCannotBeFinishedEndsTheConnection(t *testing.T) {
	errGone := errors.New("gone")
	b := newLibrary(24<<20, 100_000)
	reason := make(chan error, 1)
	l := listen(t, lending(b), stream.Options{Events: stream.Events{Closed: func(_ net.Addr, err error) { reason <- err }}})
	c := dial(t, l)
	if err := c.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(frontendtest.Line(10)); err != nil {
		t.Fatal(err)
	}
	frontendtest.Await(t, "the socket is full", func() bool { return b.returned.Load() > 0 })
	b.mu.Lock()
	b.broken = errGone
	b.mu.Unlock()
	if n, err := io.Copy(io.Discard, c); n >= int64(len(b.content)) {
		t.Errorf("%d bytes, %v", n, err)
	}
	<-b.released
	if err := <-reason; !errors.Is(err, errGone) {
		t.Errorf("closed because of %v", err)
	}
}

// A peer that takes less than a megabyte in WriteTimeout is slow, however large its reply; one that takes
// more is not, however long the whole takes.
func TestSlowReaderOfALentReplyIsClosed(t *testing.T) {
	b := newLibrary(24<<20, 100_000)
	reason := make(chan error, 1)
	l := listen(t, lending(b), stream.Options{
		WriteTimeout: 50 * time.Millisecond,
		Events:       stream.Events{Closed: func(_ net.Addr, err error) { reason <- err }},
	})
	c := dial(t, l)
	if _, err := c.Write(frontendtest.Line(10)); err != nil {
		t.Fatal(err)
	}
	if err := <-reason; !errors.Is(err, stream.ErrSlowReader) {
		t.Errorf("closed because of %v", err)
	}
	<-b.released
}
