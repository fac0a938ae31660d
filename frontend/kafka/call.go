package kafka

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/frontend"
)

// errPanicked closes a connection whose request hit a fault of ours.
var errPanicked = errors.New("kafka: internal error")

// gate lets the second of two arrivals through. A turn may come on the
// connection's writer while Receive is still storing the Turn it was given:
// whoever comes last starts the work, and nobody waits.
type gate struct{ arrivals atomic.Int32 }

// arrive reports whether the caller is the second one, and readies the gate for
// its next use if so.
func (g *gate) arrive() bool {
	if g.arrivals.Add(1) < 2 {
		return false
	}
	g.arrivals.Store(0)
	return true
}

// call is one request on its way through a handler.
type call struct {
	session       *session
	api           *api
	version       int16
	correlationID int32
	clientID      string
	// body is nil until it is decoded, from waiting.
	body    kmsg.Request
	waiting waiting
	holding holding
	// refused is why the request is answered with an error whatever it asks; only
	// ApiVersions knows it.
	refused error

	turn frontend.Turn
	gate gate
}

// start takes the request's place in the order of replies; the handler runs
// when all earlier replies were written. Without a body it decodes that of r first, whose frame
// it takes over.
func (s *session) start(r *request, body kmsg.Request, refused error) {
	c := &call{session: s, api: r.api, version: r.version, correlationID: r.correlationID, clientID: s.clientID, body: body, refused: refused}
	if body == nil {
		s.waiting.add(&c.waiting, r)
	}
	c.turn = s.conn.Turn(c.onTurn)
	c.onTurn()
}

// onTurn is called when the turn comes and when Receive has stored it. The
// handler gets a goroutine of its own because it may wait (for the metadata
// quorum, for a disk) and the connection's writer must not.
func (c *call) onTurn() {
	if c.gate.arrive() {
		go c.run()
	}
}

func (c *call) run() {
	key := int16(c.api.key)
	memory := &c.session.protocol.memory
	returned := false
	defer func() {
		if !returned { // before contain ends the connection
			memory.give(&c.holding)
		}
	}()
	defer c.session.contain(key, c.version)
	if !c.decode() {
		return
	}
	if c.api.answerBytes != nil {
		if bytes := c.api.answerBytes(c); bytes > max(c.holding.bytes, smallRequestBytes) {
			memory.give(&c.holding) // all at once, or two that hold some could wait for each other
			if memory.take(c.session.ctx, &c.holding, bytes) != nil {
				return // the connection is gone
			}
		}
	}
	if c.api.waitsForOthers {
		memory.give(&c.holding) // else those that it waits for might wait for this memory
	}
	response := c.api.handle(c.session.ctx, c)
	out := newReply(key, c.correlationID, response.IsFlexible())
	out.buf = response.AppendTo(out.buf)
	returned = true
	if out.bytes() <= smallRequestBytes {
		memory.give(&c.holding)
		out.send(c.turn, nil)
		return
	}
	memory.answered(&c.holding, c.session, int64(out.bytes()))
	out.send(c.turn, c.onSent)
}

// onSent is called when a large answer is sent, or never will be.
func (c *call) onSent() { c.session.protocol.memory.give(&c.holding) }

// decode decodes a body that waited; false ends the call. What is wrong with the body ends the
// connection, after the replies before it.
func (c *call) decode() bool {
	s := c.session
	if c.body != nil {
		return true
	}
	if !s.waiting.take(&c.waiting) {
		return false
	}
	defer s.waiting.release(&c.waiting)
	if bytes := int64(len(c.waiting.body)) * decodedFactor; bytes > smallRequestBytes {
		if s.protocol.memory.take(s.ctx, &c.holding, bytes) != nil {
			return false
		}
	}
	r := request{requestHeader: requestHeader{key: int16(c.api.key), version: c.version}, api: c.api, body: c.waiting.body}
	body, err := decodeBody(&r)
	if err != nil {
		s.protocol.refused(s, &r, c.clientID, err)
		s.conn.Close(err)
		return false
	}
	c.body = body
	return true
}

// contain is deferred by whatever runs on behalf of one connection outside of
// Receive: a panic there ends that connection and nothing else.
func (s *session) contain(key, version int16) {
	if cause := recover(); cause != nil {
		s.conn.Close(s.protocol.panicked(key, version, cause))
	}
}

// panicked counts and logs a panic and returns the reason for closing the one
// connection that it costs.
func (p *Protocol) panicked(key, version int16, cause any) error {
	p.metrics.Panics.Add(1)
	p.log.Error("request handler panicked", "api", kmsg.NameForKey(key), "key", key, "version", version,
		"cause", cause, "stack", string(debug.Stack()))
	return fmt.Errorf("%w in %s version %d", errPanicked, kmsg.NameForKey(key), version)
}

// refused counts and logs a request that closes its connection.
func (p *Protocol) refused(s *session, r *request, clientID string, err error) {
	switch {
	case errors.Is(err, errPanicked): // counted already
	case errors.Is(err, ErrUnsupported):
		p.metrics.Unsupported.Add(1)
	default:
		p.metrics.Malformed.Add(1)
	}
	library := ""
	if known := s.software.Load(); known != nil {
		library = known.name + " " + known.version
	}
	p.log.Warn("request refused, closing its connection", "peer", s.conn.RemoteAddr(), "client_id", clip(clientID), "software", library,
		"key", r.key, "version", r.version, "bytes", len(r.body), "error", err)
}
