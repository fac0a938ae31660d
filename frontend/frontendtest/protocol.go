package frontendtest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"ringlog/buffer"
	"ringlog/frontend"
)

// poisonByte fills the memory of a reply when its Release is called: a carrier that
// releases before it has written sends it.
const poisonByte = 0xDB

// Protocol is a frontend.Protocol whose sessions check their carrier. Make one
// with NewProtocol, per server; Verify reports what was found.
type Protocol struct {
	frameBytesMax int

	// Counters of all sessions together.
	sessionsOpened, sessionsClosed atomic.Int64
	framesClaimed, framesReceived  atomic.Int64
	turnsTaken, turnsCompleted     atomic.Int64
	repliesReleased                atomic.Int64
	pendingMax                     atomic.Int64 // largest Conn.Pending seen inside Receive

	later chan func() // work for the random completer
	stop  sync.WaitGroup

	mu struct {
		sync.Mutex
		held       []func()
		reasons    []error
		violations []string
	}
}

// NewProtocol returns a protocol with frames of at most frameBytesMax bytes.
// It stops with the test.
func NewProtocol(t testing.TB, frameBytesMax int) *Protocol {
	p := &Protocol{frameBytesMax: frameBytesMax, later: make(chan func(), 1<<16)}
	stop := make(chan struct{})
	for seed := range uint64(2) {
		p.stop.Go(func() { p.completeInRandomOrder(seed, stop) })
	}
	t.Cleanup(func() {
		close(stop)
		p.stop.Wait()
	})
	return p
}

// completeInRandomOrder gathers what waits and runs it shuffled.
func (p *Protocol) completeInRandomOrder(seed uint64, stop chan struct{}) {
	random := rand.New(rand.NewPCG(seed, 1))
	var batch []func()
	for {
		select {
		case work := <-p.later:
			batch = append(batch, work)
		case <-stop:
			return
		}
		for more := true; more && len(batch) < 1+random.IntN(48); {
			select {
			case work := <-p.later:
				batch = append(batch, work)
			default:
				more = false
			}
		}
		random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
		for _, work := range batch {
			work()
		}
		batch = batch[:0]
	}
}

// Name implements frontend.Protocol.
func (p *Protocol) Name() string { return "conformance" }

// PrefixBytes implements frontend.Protocol.
func (p *Protocol) PrefixBytes() int { return prefixBytes }

// NewSession implements frontend.Protocol.
func (p *Protocol) NewSession(conn frontend.Conn) frontend.Session {
	p.sessionsOpened.Add(1)
	return &session{protocol: p, conn: conn}
}

// ReleaseHeld completes the oldest count requests that are held, from this goroutine.
func (p *Protocol) ReleaseHeld(count int) {
	p.mu.Lock()
	held := p.mu.held[:min(count, len(p.mu.held))]
	p.mu.held = p.mu.held[len(held):]
	p.mu.Unlock()
	for _, complete := range held {
		complete()
	}
}

// Held returns how many requests are held.
func (p *Protocol) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.held)
}

// Reasons returns the reasons with which sessions were closed so far.
func (p *Protocol) Reasons() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]error(nil), p.mu.reasons...)
}

func (p *Protocol) violated(format string, arguments ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.violations) < 20 {
		p.mu.violations = append(p.mu.violations, fmt.Sprintf(format, arguments...))
	}
}

// Verify fails the test for every rule of the seam that was broken, and waits until
// every session was closed, every turn was completed, every reply released once and the
// pool has its memory back. Call it when the server is closed and nothing is held.
func (p *Protocol) Verify(t testing.TB, pool *buffer.Pool) {
	t.Helper()
	await(t, "every session is closed", func() bool { return p.sessionsOpened.Load() == p.sessionsClosed.Load() })
	await(t, "every turn is completed", func() bool { return p.turnsTaken.Load() == p.turnsCompleted.Load() })
	await(t, "every reply is released", func() bool { return p.turnsCompleted.Load() == p.repliesReleased.Load() })
	await(t, "the pool has its memory back", func() bool { return pool.InUseBytes() == 0 })
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, violation := range p.mu.violations {
		t.Error(violation)
	}
}

// session is one connection of the test protocol.
type session struct {
	protocol *Protocol
	conn     frontend.Conn
	token    uint64
	inside   atomic.Int32 // calls in progress: the rule is one at a time
	closed   atomic.Bool
	taken    atomic.Int64 // turns, each counted before it is taken

	// parked are requests whose turn has not come. Owner: the session.
	parked []*request
}

// enter checks the rule "one at a time, in order, and never after Closed".
func (s *session) enter(method string) (leave func()) {
	if s.inside.Add(1) != 1 {
		s.protocol.violated("%s was called during another call of the same session", method)
	}
	if s.closed.Load() {
		s.protocol.violated("%s was called after Closed", method)
	}
	return func() { s.inside.Add(-1) }
}

// FrameBytes implements frontend.Session.
func (s *session) FrameBytes(prefix []byte) (int, error) {
	defer s.enter("FrameBytes")()
	if len(prefix) != prefixBytes {
		s.protocol.violated("FrameBytes got %d bytes, not %d", len(prefix), prefixBytes)
	}
	s.protocol.framesClaimed.Add(1)
	claimed := int64(binary.BigEndian.Uint32(prefix)) + prefixBytes
	if claimed > int64(s.protocol.frameBytesMax) {
		return 0, fmt.Errorf("%w: %d bytes", frontend.ErrFrameTooLarge, claimed)
	}
	return int(claimed), nil
}

// Receive implements frontend.Session.
func (s *session) Receive(frame *buffer.Buffer, data []byte) error {
	defer s.enter("Receive")()
	p := s.protocol
	if got := len(data); got < requestHeaderBytes || got != int(binary.BigEndian.Uint32(data))+prefixBytes {
		p.violated("Receive got %d bytes for a frame that says %d", len(data), binary.BigEndian.Uint32(data)+prefixBytes)
		frame.Release()
		return frontend.ErrMalformed
	}
	for pending := int64(s.conn.Pending()); ; {
		most := p.pendingMax.Load()
		if pending <= most || p.pendingMax.CompareAndSwap(most, pending) {
			break
		}
	}
	request := &request{session: s, frame: frame, data: data, id: binary.BigEndian.Uint64(data[prefixBytes+1:]), payload: data[requestHeaderBytes:]}
	err := s.handle(Operation(data[prefixBytes]), request)
	p.framesReceived.Add(1)
	return err
}

func (s *session) handle(operation Operation, r *request) error {
	p := s.protocol
	switch operation {
	case Hello:
		s.token = binary.BigEndian.Uint64(r.payload)
		r.turn = s.take(nil)
		r.complete()
	case Echo:
		r.turn = s.take(nil)
		r.complete()
	case Later:
		r.turn = s.take(nil)
		p.later <- r.complete
	case Hold:
		r.turn = s.take(nil)
		p.mu.Lock()
		p.mu.held = append(p.mu.held, r.complete)
		p.mu.Unlock()
	case AtTurn, AtTurnInline:
		s.receiveAtTurn(r, operation == AtTurnInline)
	case Silent:
		if r.id%2 == 0 {
			r.releaseFrame()
			break
		}
		turn := s.take(nil)
		p.later <- func() {
			r.releaseFrame()
			p.turnsCompleted.Add(1)
			turn.Complete(frontend.Reply{Release: func() { p.repliesReleased.Add(1) }})
		}
	case Large:
		r.payload = make([]byte, binary.BigEndian.Uint32(r.payload))
		fill(r.payload, r.id)
		r.turn = s.take(nil)
		r.complete()
	case Fail:
		r.releaseFrame()
		return fmt.Errorf("%w: as the request asked", frontend.ErrMalformed)
	case Hangup:
		r.releaseFrame()
		s.conn.Close(fmt.Errorf("%w: as the request asked", frontend.ErrMalformed))
	default:
		p.violated("operation %d was never sent", operation)
		r.releaseFrame()
	}
	return nil
}
