package frontendtest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"ringlog/buffer"
	"ringlog/frontend"
)

// Lines is the plainest frontend.Protocol, for tests of a carrier's own features and for its
// measurements: it costs next to nothing and allocates nothing. Frames are a u32 length
// and as many bytes. Each is answered at once with LineReply, unless OnLine is set.
type Lines struct {
	// OnLine takes the place of the answer: Session.Receive with the connection.
	OnLine func(conn frontend.Conn, frame *buffer.Buffer, data []byte) error
}

// LineReply is how Lines answers.
const LineReply = "ok\n"

// lineReply is the same as a reply; never changed.
var lineReply = frontend.Reply{Parts: [][]byte{[]byte(LineReply)}}

// AnswerLine completes turn as Lines does.
func AnswerLine(turn frontend.Turn) { turn.Complete(lineReply) }

// Name implements frontend.Protocol.
func (p *Lines) Name() string { return "lines" }

// PrefixBytes implements frontend.Protocol.
func (p *Lines) PrefixBytes() int { return prefixBytes }

// NewSession implements frontend.Protocol.
func (p *Lines) NewSession(conn frontend.Conn) frontend.Session {
	return &lineSession{protocol: p, conn: conn}
}

type lineSession struct {
	protocol *Lines
	conn     frontend.Conn
}

// FrameBytes implements frontend.Session.
func (s *lineSession) FrameBytes(prefix []byte) (int, error) {
	return prefixBytes + int(binary.BigEndian.Uint32(prefix)), nil
}

// Receive implements frontend.Session.
func (s *lineSession) Receive(frame *buffer.Buffer, data []byte) error {
	if s.protocol.OnLine != nil {
		return s.protocol.OnLine(s.conn, frame, data)
	}
	frame.Release()
	AnswerLine(s.conn.Turn(nil))
	return nil
}

// Closed implements frontend.Session.
func (s *lineSession) Closed(error) {}

// Line returns a frame of Lines with a payload of size zero bytes.
func Line(size int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(size)), make([]byte, size)...)
}

// DialLines connects to a server of Lines. The connection ends with the test.
func DialLines(t testing.TB, address net.Addr) *net.TCPConn {
	t.Helper()
	return DialSilently(t, address).Socket
}

// SendLines writes bytes, which may be any piece of frames.
func SendLines(t testing.TB, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

// ExpectLineReplies reads count times LineReply.
func ExpectLineReplies(t testing.TB, c net.Conn, count int) {
	t.Helper()
	if _, err := io.ReadFull(c, make([]byte, len(LineReply)*count)); err != nil {
		t.Fatal(err)
	}
}

// ExpectEnd checks that the server hangs up without another byte.
func ExpectEnd(t testing.TB, c net.Conn) {
	t.Helper()
	var network net.Error
	if n, err := c.Read(make([]byte, 1)); n > 0 || errors.As(err, &network) && network.Timeout() {
		t.Fatalf("the connection is not closed: %d bytes, %v", n, err)
	}
}

// RoundTripper returns a function that sends depth small frames at once and reads the replies,
// without allocations of its own.
func RoundTripper(t testing.TB, c net.Conn, depth int) func() {
	var requests []byte
	for range depth {
		requests = append(requests, Line(100)...)
	}
	replies := make([]byte, len(LineReply)*depth)
	return func() {
		if _, err := c.Write(requests); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, replies); err != nil {
			t.Fatal(err)
		}
	}
}

// Await waits until condition holds and fails the test when it never does.
func Await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	await(t, what, condition)
}
