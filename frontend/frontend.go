// Package frontend is the seam between the network and the protocols. net/*
// brings bytes and takes replies and knows no protocol; frontend/kafka (and
// later native) knows the protocol and no sockets. Neither imports the other;
// server joins them.
//
// One Session belongs to one connection. Its owner, a goroutine of net/stream
// or a loop of net/loop, calls FrameBytes, Receive and Closed one at a time, in
// order, and never concurrently. Replies come back from any goroutine or shard
// thread through a Turn.
package frontend

import (
	"errors"
	"net"

	"ringlog/buffer"
)

// Errors by which a Session ends its connection. Both are logged with the
// peer's address, rate-limited, and counted.
var (
	// ErrFrameTooLarge is returned by FrameBytes when the peer announces more than
	// the listener's frame limit, before anything is allocated for it.
	ErrFrameTooLarge = errors.New("frontend: frame larger than the limit")
	// ErrMalformed is returned when what came is not this protocol.
	ErrMalformed = errors.New("frontend: malformed frame")
)

// Protocol makes the sessions of one listener. Safe for concurrent use.
type Protocol interface {
	// Name is how logs and metrics call the protocol: "kafka".
	Name() string
	// PrefixBytes is how many bytes FrameBytes needs to see: 4 for Kafka.
	PrefixBytes() int
	// NewSession starts the session of a connection that was just accepted.
	NewSession(conn Conn) Session
}

// Session decodes the frames of one connection and answers them.
type Session interface {
	// FrameBytes returns the length of the whole frame, prefix included, that
	// starts with prefix (PrefixBytes long). An error closes the connection.
	FrameBytes(prefix []byte) (int, error)

	// Receive takes one whole frame: data is a piece of frame.Bytes(), prefix
	// included, at any position in it: small frames that came together share one
	// buffer. One reference of frame passes to the Session, which releases
	// it when nothing slices it any more; until then the bytes of data, and no
	// others, are the Session's to read and to change. What is to live long (a
	// parked request's topic name) is copied out, because a small frame keeps a whole
	// shared buffer from the pool. Receive does not block: what must wait
	// (a flush, a long poll) answers through a Turn later. An error
	// closes the connection after the replies in order before it were written.
	Receive(frame *buffer.Buffer, data []byte) error

	// Closed is called once, when the connection is gone, after the last
	// Receive. What is parked for this connection is cancelled; Turns that are
	// still open may be completed or dropped, both are harmless.
	Closed(reason error)
}

// Conn is what a Session may do with its connection. Safe for concurrent use
// unless a method says otherwise.
type Conn interface {
	// Turn takes the next place in the connection's reply order. Each request
	// that is answered takes one, in Receive, before any other request is
	// decoded. One without an answer (acks=0) that is not done with when Receive
	// returns takes one as well and completes it with an empty Reply: until
	// then its frame counts in what the connection may have in flight.
	//
	// onTurn, when not nil, is called once when every earlier place has been
	// written: late binding, so that a fetch takes memory only when its
	// bytes can leave. It runs on the connection's writer, must not block, and
	// starts what will end in Complete, or calls Complete itself. It is not
	// called when the connection closes first, and may or may not be called when the
	// Turn was completed before its place came.
	// REQUIRES: called by the session's owner, inside Receive.
	Turn(onTurn func()) Turn

	// Pending is the number of places taken and not yet written.
	Pending() int

	// RemoteAddr and LocalAddr are the two ends.
	RemoteAddr() net.Addr
	LocalAddr() net.Addr

	// Close ends the connection at once, with a reason for the log.
	Close(reason error)
}

// Turn is one place in the order of a connection's replies.
type Turn interface {
	// Complete gives the reply; called exactly once per Turn, by any
	// goroutine, and never blocks. The connection writes it when its place comes and calls
	// reply.Release exactly once when the bytes are no longer needed, also when
	// the connection is already closed.
	Complete(reply Reply)
}

// Reply is the bytes of one answer, written in order with writev.
type Reply struct {
	// Parts are written one after another; the connection does not change
	// them. Their memory stays as it is until Release is called, or Loan.Return.
	Parts [][]byte
	// Release gives the memory back; nil when there is nothing to give back.
	Release func()
	// Loan, when not nil, lets the connection do without the memory of Parts while
	// its peer does not read. A connection that never waits may ignore it.
	Loan Loan
}

// Loan is memory that a reply can do without between two writes: what it says lies
// elsewhere too, so that a peer who does not read need not keep it from everybody else. Its
// methods are called by the one that writes the reply, one at a time, from
// Turn.Complete until Reply.Release.
//
//	lent (all) ──Return──▶ returned ──Lend──▶ lent (some) ──Return──▶ …
//	                        ▲     │
//	                        └──0──┘ wait for ready
type Loan interface {
	// Return gives the memory of Parts back. Those below first are written and will not be
	// asked for again; the others keep their lengths, but their bytes may not be looked at
	// until Lend has brought them again.
	Return(first int)
	// Lend puts parts from first on back into Reply.Parts, at other addresses
	// maybe, and returns how many: those that are in memory, up to bytesMax, or one
	// that is larger. 0 says that the first one has to be fetched; ready is called once, by any goroutine,
	// when it is worth to call Lend again. The error is that it cannot be had any
	// more: the reply cannot be finished, and the connection has to end.
	Lend(first, bytesMax int, ready func()) (count int, err error)
}
