package frontendtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"
)

// patience bounds every wait of the suite: it is reached only by a carrier that hangs.
const patience = 20 * time.Second

// Client is one raw connection to a server that serves a Protocol. Not safe for
// concurrent use, except that one goroutine may send while another receives.
type Client struct {
	t      testing.TB
	Socket *net.TCPConn
	token  uint64
}

// Dial connects and introduces itself with a token, which must be unique.
func Dial(t testing.TB, address net.Addr, token uint64) *Client {
	t.Helper()
	c := DialSilently(t, address)
	c.token = token
	c.Send(AppendRequest(nil, Hello, token, binary.BigEndian.AppendUint64(nil, token)))
	c.Expect(token, binary.BigEndian.AppendUint64(nil, token))
	return c
}

// DialSilently connects and says nothing.
func DialSilently(t testing.TB, address net.Addr) *Client {
	t.Helper()
	socket, err := net.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{t: t, Socket: socket.(*net.TCPConn)}
	t.Cleanup(func() { _ = socket.Close() }) // most tests have closed it
	if err := socket.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Send writes bytes, which may be any piece of frames.
func (c *Client) Send(b []byte) {
	c.t.Helper()
	if _, err := c.Socket.Write(b); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// Expect reads one reply and checks that it is the answer to request id with this payload.
func (c *Client) Expect(id uint64, payload []byte) {
	c.t.Helper()
	if err := c.Receive(id, payload); err != nil {
		c.t.Fatal(err)
	}
}

// Receive is Expect for goroutines that must not end the test.
func (c *Client) Receive(id uint64, payload []byte) error {
	var header [replyHeaderBytes]byte
	if _, err := io.ReadFull(c.Socket, header[:]); err != nil {
		return fmt.Errorf("reply to request %d: %w", id, err)
	}
	length := binary.BigEndian.Uint32(header[:])
	gotID := binary.BigEndian.Uint64(header[prefixBytes:])
	gotToken := binary.BigEndian.Uint64(header[prefixBytes+8:])
	sum := binary.BigEndian.Uint32(header[prefixBytes+16:])
	switch want := uint32(replyHeaderBytes - prefixBytes + len(payload)); {
	case gotToken != c.token:
		return fmt.Errorf("reply to request %d carries token %#x of another connection, not %#x", id, gotToken, c.token)
	case gotID != id:
		return fmt.Errorf("reply to request %d where that to %d is due", gotID, id)
	case length != want:
		return fmt.Errorf("reply to request %d has length %d, not %d", id, length, want)
	}
	hash := crc32.New(castagnoli)
	if _, err := io.CopyN(hash, c.Socket, int64(len(payload))); err != nil {
		return fmt.Errorf("reply to request %d: %w", id, err)
	}
	if got, want := hash.Sum32(), crc32.Checksum(payload, castagnoli); got != want || sum != want {
		return fmt.Errorf("reply to request %d has checksum %#x and says %#x, not %#x", id, got, sum, want)
	}
	return nil
}

// ExpectEnd checks that the server hangs up without another byte.
func (c *Client) ExpectEnd() {
	c.t.Helper()
	var one [1]byte
	n, err := c.Socket.Read(one[:])
	var network net.Error
	switch {
	case n > 0:
		c.t.Fatalf("a byte %#x where the connection should end", one[0])
	case errors.As(err, &network) && network.Timeout():
		c.t.Fatal("the connection is still open")
	}
}

// Close hangs up.
func (c *Client) Close() { _ = c.Socket.Close() } // closing twice is fine

// fill writes a pattern that differs by seed and position.
func fill(b []byte, seed uint64) {
	x := seed*0x9E3779B97F4A7C15 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
}

// pattern returns size bytes of fill.
func pattern(size int, seed uint64) []byte {
	b := make([]byte, size)
	fill(b, seed)
	return b
}

// await waits until condition holds and fails the test when it never does.
func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if condition() {
		return
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case <-tick.C:
			if condition() {
				return
			}
		case <-deadline.C:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
