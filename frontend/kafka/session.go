package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/buffer"
	"ringlog/frontend"
)

// Bounds on what a body may cost; see the package comment.
const (
	// controlBodyBytesMax bounds the bodies that kmsg decodes. An element of a
	// collection takes two bytes at least, so no collection holds more than
	// the 1,000,000 elements to which Kafka 4.4 caps them.
	controlBodyBytesMax = 2_000_000
	// decodedFactor is how many bytes of kmsg's structs come of one byte of a body at most: a
	// field that nobody knows takes three bytes and makes a map.
	decodedFactor = 128
	// fetchFactor is the same for a Fetch, whose smallest topic takes four bytes and partition 16.
	fetchFactor = 24
	// partitionCountMax bounds the partitions of one Produce or Fetch.
	partitionCountMax = 200_000
)

// ErrUnsupported is returned by Receive for an API key or version that is not
// served: there is no layout in which the client could read an answer.
var ErrUnsupported = errors.New("kafka: unsupported API key or version")

// request is a frame whose header was read. It lives during Receive.
type request struct {
	requestHeader
	api   *api
	body  []byte
	frame *buffer.Buffer // one reference, to be released by who takes the request
}

// flexible reports whether the request's version is flexible.
func (r *request) flexible() bool { return r.version >= r.api.flexibleMin }

// session is the Kafka protocol on one connection: frontend.Session.
type session struct {
	protocol *Protocol
	conn     frontend.Conn
	ctx      context.Context // ends with the connection
	cancel   context.CancelCauseFunc

	// request is the frame that Receive is working on: a field because it is
	// handed to functions that the compiler cannot see through, and would be
	// allocated for each frame. Owner: Receive.
	request request
	// clientID is the last one seen; kept because it hardly ever changes and
	// every request carries it. Owner: Receive.
	clientID string
	// software is what ApiVersions v3+ said of the client; nil before.
	software atomic.Pointer[software]

	// produces keeps produces in order, also when some of them take longer to check.
	produces broker.Sequence
	// waiting are the requests that are not decoded yet.
	waiting waitingRequests

	// fetching is the fetch that is being served, for Closed to cancel: at most one,
	// because a fetch starts on its turn.
	fetching struct {
		sync.Mutex
		fetch  *broker.Fetch
		closed bool
	}
}

// software names a client's library (KIP-511).
type software struct{ name, version string }

// FrameBytes implements frontend.Session.
func (s *session) FrameBytes(prefix []byte) (int, error) {
	size := int32(binary.BigEndian.Uint32(prefix))
	if size < requestHeaderBytesMin {
		s.protocol.metrics.Malformed.Add(1)
		return 0, fmt.Errorf("%w: frame of %d bytes", frontend.ErrMalformed, size)
	}
	if int64(size) > int64(s.protocol.frameBytesMax) {
		s.protocol.metrics.Malformed.Add(1)
		return 0, fmt.Errorf("%w: %d bytes, the limit (socket.request.max.bytes) is %d",
			frontend.ErrFrameTooLarge, size, s.protocol.frameBytesMax)
	}
	return int(size) + lengthBytes, nil
}

// Receive implements frontend.Session.
func (s *session) Receive(frame *buffer.Buffer, data []byte) (err error) {
	r := &s.request
	*r = request{frame: frame}
	defer func() {
		if cause := recover(); cause != nil {
			err = s.protocol.panicked(r.key, r.version, cause)
		}
		if err != nil {
			s.protocol.refused(s, r, s.clientID, err)
		}
	}()
	r.requestHeader, r.body, err = parseHeader(data, flexible)
	if err != nil {
		frame.Release()
		return err
	}
	if string(r.clientID) != s.clientID {
		s.clientID = string(r.clientID)
	}
	if r.api = lookup(r.key); r.api == nil {
		frame.Release()
		return fmt.Errorf("%w: API key %d", ErrUnsupported, r.key)
	}
	s.protocol.metrics.Requests[r.key].Add(1)
	if r.version < r.api.min || r.version > r.api.max {
		return s.receiveUnsupported(r)
	}
	if r.api.receive != nil {
		return r.api.receive(s, r)
	}
	return s.receiveControl(r)
}

// receiveUnsupported answers a version that is not served, if the client can
// read an answer, which is for ApiVersions only (KIP-511). As in Kafka all others
// cost the connection.
func (s *session) receiveUnsupported(r *request) error {
	r.frame.Release()
	if r.key == int16(kmsg.ApiVersions) {
		s.start(r, kmsg.NewPtrApiVersionsRequest(), fmt.Errorf("%w: ApiVersions version %d", errUnsupportedVersion, r.version))
		return nil
	}
	return fmt.Errorf("%w: %s version %d, served are %d to %d", ErrUnsupported,
		kmsg.NameForKey(r.key), r.version, r.api.min, r.api.max)
}

// receiveControl queues a request's handler. What is small and need not wait is decoded at once,
// so that a fault in it is found before anything follows.
func (s *session) receiveControl(r *request) error {
	if len(r.body) > controlBodyBytesMax {
		r.frame.Release()
		return fmt.Errorf("%w: %s request of %d bytes, the limit for all but Produce and Fetch is %d",
			frontend.ErrMalformed, kmsg.NameForKey(r.key), len(r.body), controlBodyBytesMax)
	}
	if len(r.body)*decodedFactor > smallRequestBytes || s.conn.Pending() > 0 {
		s.start(r, nil, nil)
		return nil
	}
	body, err := decodeBody(r)
	r.frame.Release()
	if err != nil {
		return err
	}
	s.start(r, body, nil)
	return nil
}

// decodeBody reads a body by kmsg. The result holds no reference to the frame: strings are copied, and where there
// are fields of bytes, which kmsg leaves where they lie, the body is.
func decodeBody(r *request) (kmsg.Request, error) {
	body := kmsg.RequestForKey(r.key)
	body.SetVersion(r.version)
	from := r.body
	if r.api.hasBytes {
		from = bytes.Clone(from)
	}
	if err := body.ReadFrom(from); err != nil {
		return nil, fmt.Errorf("%w: %s version %d: %w", frontend.ErrMalformed, kmsg.NameForKey(r.key), r.version, err)
	}
	return body, nil
}

// Closed implements frontend.Session.
func (s *session) Closed(reason error) {
	s.cancel(fmt.Errorf("%w: %w", context.Canceled, reason)) // what it ends is no fault
	s.waiting.close()
	s.fetching.Lock()
	s.fetching.closed = true
	if s.fetching.fetch != nil {
		// Under the lock: as soon as it is answered the fetch may be somebody else's.
		s.fetching.fetch.Cancel()
	}
	s.fetching.Unlock()
	s.protocol.metrics.Sessions.Add(-1)
}
