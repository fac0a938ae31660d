package perf

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	// readBufferBytes holds many replies to small requests.
	readBufferBytes = 64 << 10
	// writeBytesMax bounds what one writev is given, so that a window that
	// opened wide does not put its whole content behind one time stamp.
	writeBytesMax = 1 << 20
	// requestsTogether bounds the requests of one writev, each of at most so many parts.
	requestsTogether = 48
	partsOfRequest   = 5
	// openLoopPatience is how long after its end an open loop still sends what was due in it. A
	// stall at the end would else take with it the requests that it delayed.
	openLoopPatience = 10 * time.Second
	// drainTimeout is how long replies may take after the last send.
	drainTimeout = 60 * time.Second
)

// producer is one raw connection: a writer and a reader goroutine and the
// window between them.
type producer struct {
	socket    net.Conn
	templates []*produceTemplate // sent round robin
	records   int64              // per request
	depth     int
	acks      int16
	budget    *budget
	pace      *pace // nil: closed loop
	// unsent is how many requests were due in the run and were not sent when the patience
	// with the broker was over; the writer's.
	unsent int64

	// slots are the requests in flight, at sequence modulo len(slots). The
	// writer fills a slot before it raises sent, the reader empties it before it
	// raises received.
	slots []slot
	// sent and received count requests. Invariant: received ≤ sent ≤ received + depth.
	sent, received atomic.Int64
	// writerWaits is set by the writer before it waits for received to rise.
	writerWaits atomic.Bool
	writerWake  chan struct{} // capacity 1
	finished    atomic.Bool   // the writer sends no more

	latency *hdrhistogram.Histogram // owned by the reader
	errors  map[string]int64        // owned by the reader
	// lastReply is when the last reply came; owned by the reader.
	lastReply time.Time
	bytes     int64  // of batches acknowledged (acks=0: sent)
	tally     *tally // of the present window; nil without windows
}

// slot is one request in flight.
type slot struct {
	header   [frameHeaderBytes]byte
	template *produceTemplate
	since    time.Time // when it was sent or, in an open loop, due
	prefix   []byte    // space for the stamped beginning of the batch; nil without stamps
}

// budget is what all connections of a run may still send.
type budget struct {
	deadline  time.Time    // zero: none
	remaining atomic.Int64 // requests; meaningful only when counted
	counted   bool
	ended     atomic.Bool // for consumers: somebody wants no more
}

// take takes up to want requests from the budget.
func (b *budget) take(want int, now time.Time) int {
	if !b.deadline.IsZero() && !now.Before(b.deadline) {
		return 0
	}
	if !b.counted {
		return want
	}
	left := b.remaining.Add(-int64(want))
	if left >= 0 {
		return want
	}
	return max(0, want+int(left))
}

// pace is the schedule of one connection in an open loop.
type pace struct {
	start    time.Time
	interval time.Duration
	offset   time.Duration // of this connection's first request, so that they do not send in step
	count    int64         // requests that are due in the run; math.MaxInt64 when nobody ends it
}

// newPace is the schedule of connection number of connections, for duration (0: without end).
func newPace(start time.Time, interval time.Duration, number, connections int, duration time.Duration) *pace {
	p := &pace{start: start, interval: interval, offset: interval * time.Duration(number) / time.Duration(connections), count: math.MaxInt64}
	if duration > 0 {
		p.count = int64(max(0, (duration-p.offset+interval-1)/interval))
	}
	return p
}

// due returns when request number sequence is to be sent.
func (p *pace) due(sequence int64) time.Time {
	return p.start.Add(p.offset + time.Duration(sequence)*p.interval)
}

func newProducer(ctx context.Context, address string, templates []*produceTemplate, records int, load *Load) (*producer, error) {
	var dialer net.Dialer
	dialer.SetMultipathTCP(false)
	socket, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("perf: connect: %w", err)
	}
	p := &producer{
		socket:     socket,
		templates:  templates,
		records:    int64(records),
		depth:      load.Depth,
		acks:       load.Acks,
		slots:      make([]slot, load.Depth),
		writerWake: make(chan struct{}, 1),
		latency:    NewHistogram(),
		errors:     make(map[string]int64),
	}
	if load.Stamp {
		for i := range p.slots {
			p.slots[i].prefix = make([]byte, stampEndMax)
		}
	}
	return p, nil
}

// write is the writer goroutine: it sends until the budget is spent or the
// connection breaks.
func (p *producer) write(ctx context.Context) error {
	defer p.finish()
	var storage [partsOfRequest * requestsTogether][]byte
	parts := make(net.Buffers, 0, len(storage))
	for {
		if p.pace != nil && p.sent.Load() == p.pace.count {
			return nil
		}
		room, err := p.room(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		count, err := p.ready(ctx, room, now)
		if err != nil {
			return err
		}
		if count = p.budget.take(count, time.Now()); count == 0 {
			if p.pace != nil && !p.budget.counted {
				p.unsent = p.pace.count - p.sent.Load()
			}
			return nil
		}
		if p.pace == nil {
			now = time.Now()
		}
		parts = storage[:0]
		bytes := 0
		first := p.sent.Load()
		for i := range count {
			sequence := first + int64(i)
			s := &p.slots[sequence%int64(len(p.slots))]
			t := p.templates[sequence%int64(len(p.templates))]
			s.template, s.header, s.since = t, t.header, now
			if p.pace != nil {
				s.since = p.pace.due(sequence)
			}
			binary.BigEndian.PutUint32(s.header[correlationOffset:], uint32(sequence))
			batch := t.batch
			if parts = append(parts, s.header[:], t.before); t.stamps != nil {
				prefix := t.stamps.stamp(s.prefix, s.since)
				parts, batch = append(parts, prefix), batch[len(prefix):]
			}
			parts = append(parts, batch, t.after)
			bytes += len(t.batch)
		}
		p.sent.Add(int64(count)) // the reader may look at the slots from here on
		if _, err := parts.WriteTo(p.socket); err != nil {
			return fmt.Errorf("perf: send: %w", err)
		}
		if p.acks == 0 {
			p.received.Add(int64(count))
			p.bytes += int64(bytes)
			p.tally.sent(count, bytes)
			p.lastReply = time.Now()
		}
	}
}

// finish tells the reader that nothing more will be sent.
func (p *producer) finish() {
	p.finished.Store(true)
	if p.acks == 0 || p.received.Load() == p.sent.Load() {
		_ = p.socket.Close() // the reader, if any, waits for nothing
		return
	}
	_ = p.socket.SetReadDeadline(time.Now().Add(drainTimeout)) // fails only when it is closed
}

// room waits until the window is open and returns by how much.
func (p *producer) room(ctx context.Context) (int, error) {
	for {
		p.writerWaits.Store(true)
		if room := p.depth - int(p.sent.Load()-p.received.Load()); room > 0 {
			p.writerWaits.Store(false)
			return room, nil
		}
		select {
		case <-p.writerWake:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// ready returns how many requests to send now, at most room. In an open loop it
// waits until one is due.
func (p *producer) ready(ctx context.Context, room int, now time.Time) (int, error) {
	count := min(room, requestsTogether, max(1, writeBytesMax/p.templates[0].bytes))
	if p.pace == nil {
		return count, nil
	}
	sequence := p.sent.Load()
	if wait := p.pace.due(sequence).Sub(now); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		now = time.Now()
	}
	due, count := 1, int(min(int64(count), p.pace.count-sequence))
	for due < count && !p.pace.due(sequence+int64(due)).After(now) {
		due++
	}
	return due, nil
}

// read is the reader goroutine: it matches replies to requests, in order.
func (p *producer) read() error {
	buffer := make([]byte, readBufferBytes)
	filled := 0
	for !p.finished.Load() || p.received.Load() < p.sent.Load() {
		n, err := p.socket.Read(buffer[filled:])
		if err != nil {
			if p.finished.Load() && p.received.Load() == p.sent.Load() {
				return nil // finish closed it
			}
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("perf: %d replies are missing: %w", p.sent.Load()-p.received.Load(), err)
		}
		filled += n
		p.lastReply = time.Now()
		used, err := p.match(buffer[:filled])
		if err != nil {
			return err
		}
		filled = copy(buffer, buffer[used:filled])
		if filled == len(buffer) {
			return fmt.Errorf("%w: a reply longer than %d bytes", ErrProtocol, len(buffer))
		}
	}
	return nil
}

// match takes whole replies from the front of b and returns how many bytes they were.
func (p *producer) match(b []byte) (used int, err error) {
	received := p.received.Load()
	first := received
	p.tally.lock()
	defer p.tally.unlock()
	for len(b)-used >= replyPrefixBytes {
		size := 4 + int64(binary.BigEndian.Uint32(b[used:]))
		if size < replyPrefixBytes || size > readBufferBytes {
			return used, fmt.Errorf("%w: a reply of %d bytes", ErrProtocol, size)
		}
		if int64(len(b)-used) < size {
			break
		}
		frame := b[used : used+int(size)]
		if received == p.sent.Load() {
			return used, fmt.Errorf("%w: a reply to nothing", ErrProtocol)
		}
		if correlation := binary.BigEndian.Uint32(frame[4:]); correlation != uint32(received) {
			return used, fmt.Errorf("%w: correlation id %d where %d is due", ErrProtocol, correlation, uint32(received))
		}
		s := &p.slots[received%int64(len(p.slots))]
		code, ok := s.template.reply.check(frame)
		if !ok {
			if code, err = s.template.reply.decode(frame); err != nil {
				return used, err
			}
		}
		refusal, latency := "", p.lastReply.Sub(s.since)
		if code != 0 {
			refusal = errorName(code)
			p.errors[refusal]++
		} else {
			p.bytes += int64(len(s.template.batch))
		}
		RecordLatency(p.latency, latency, 1)
		p.tally.replyLocked(latency, refusal, len(s.template.batch))
		received++
		used += int(size)
	}
	if received != first {
		p.received.Store(received) // the slots are the writer's again
		if p.writerWaits.Load() && p.writerWaits.Swap(false) {
			select {
			case p.writerWake <- struct{}{}:
			default:
			}
		}
		if p.finished.Load() && received == p.sent.Load() {
			_ = p.socket.Close()
		}
	}
	return used, nil
}

// errorName is the protocol's name of an error code.
func errorName(code int16) string {
	if err := kerr.TypedErrorForCode(code); err != nil {
		return err.Message
	}
	return fmt.Sprintf("ERROR_%d", code)
}
