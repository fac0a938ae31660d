package hostiletest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// patience is how long anything may take that must happen by itself, on a busy machine.
const patience = 60 * time.Second

// dial connects to the broker from a loopback address of its own: 127.0.0.source.
func dial(address string, source byte) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, source)}}
	socket, err := dialer.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return socket.(*net.TCPConn), socket.SetDeadline(time.Now().Add(patience))
}

// mustDial is dial for a test that needs the connection.
func mustDial(t *testing.T, address string, source byte) *net.TCPConn {
	t.Helper()
	socket, err := dial(address, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return socket
}

// frameOf is a request as a client sends it.
func frameOf(request kmsg.Request, correlationID int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("hostile")).AppendRequest(nil, request, correlationID)
}

// at gives a request or a reply its version.
func at[R interface{ SetVersion(int16) }](version int16, request R) R {
	request.SetVersion(version)
	return request
}

// send writes bytes that the test needs to arrive.
func send(t *testing.T, socket net.Conn, bytes []byte) {
	t.Helper()
	if _, err := socket.Write(bytes); err != nil {
		t.Fatal(err)
	}
}

// receive reads the next reply, without its length.
func receive(socket net.Conn) ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(socket, prefix[:]); err != nil {
		return nil, err
	}
	reply := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	_, err := io.ReadFull(socket, reply)
	return reply, err
}

// ask sends a request and decodes its reply.
func ask[R kmsg.Response](t *testing.T, socket net.Conn, request kmsg.Request) R {
	t.Helper()
	send(t, socket, frameOf(request, 1))
	reply, err := receive(socket)
	if err != nil {
		t.Fatalf("%T: %v", request, err)
	}
	response := request.ResponseKind()
	reply = reply[4:]
	if response.IsFlexible() && request.Key() != int16(kmsg.ApiVersions) {
		reply = reply[1:]
	}
	if err := response.ReadFrom(reply); err != nil {
		t.Fatalf("%T: %v", response, err)
	}
	return response.(R)
}

// served returns what the broker names in ApiVersions.
func served(t *testing.T, address string) []kmsg.ApiVersionsResponseApiKey {
	t.Helper()
	socket := mustDial(t, address, 1)
	return ask[*kmsg.ApiVersionsResponse](t, socket, at(0, kmsg.NewPtrApiVersionsRequest())).ApiKeys
}

// ended reports whether an error says that the other side hung up.
func ended(err error) bool {
	var network net.Error
	return err != nil && !(errors.As(err, &network) && network.Timeout())
}

// await waits until condition holds and fails the test when it never does.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for began := time.Now(); !condition(); <-again.C {
		if time.Since(began) > patience {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
