package kafka

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/broker/brokertest"
	"ringlog/buffer"
	"ringlog/frontend"
	"ringlog/record"
)

// patience bounds every wait: it is reached only by a session that hangs.
const patience = 10 * time.Second

// client is a session with a connection around it that keeps frontend.Conn's
// promises: replies in order, onTurn when all earlier ones were written, Release
// exactly once. The test's goroutine is the connection's owner.
type client struct {
	t        testing.TB
	session  frontend.Session
	pool     *buffer.Pool
	replies  chan []byte // nil when nobody reads them
	closed   chan error  // the reason given to Conn.Close; capacity 1
	correlID int32
	written  func(parts [][]byte) // sees each reply before it is joined; may be nil

	mu    sync.Mutex
	turns []*testTurn // not yet written
}

type testTurn struct {
	client *client
	onTurn func()
	called bool
	reply  *frontend.Reply
}

// newClient connects to a protocol.
func newClient(t testing.TB, p *Protocol) *client {
	c := &client{t: t, pool: buffer.NewPool("test", 8<<20), replies: make(chan []byte, 1000), closed: make(chan error, 1)}
	c.session = p.NewSession(c)
	return c
}

// Turn implements frontend.Conn.
func (c *client) Turn(onTurn func()) frontend.Turn {
	turn := &testTurn{client: c, onTurn: onTurn}
	c.mu.Lock()
	c.turns = append(c.turns, turn)
	c.mu.Unlock()
	c.write()
	return turn
}

// Complete implements frontend.Turn.
func (turn *testTurn) Complete(reply frontend.Reply) {
	turn.client.mu.Lock()
	if turn.reply != nil {
		panic("a turn is completed twice")
	}
	turn.reply = &reply
	turn.client.mu.Unlock()
	turn.client.write()
}

// write writes what can be written and calls onTurn of the head, on a goroutine
// of its own as a connection's writer would.
func (c *client) write() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.turns) > 0 && c.turns[0].reply != nil {
		reply := c.turns[0].reply
		c.turns = c.turns[1:]
		if c.written != nil {
			c.written(reply.Parts)
		}
		if c.replies != nil && len(reply.Parts) > 0 {
			c.replies <- bytes.Join(reply.Parts, nil)
		}
		if reply.Release != nil {
			reply.Release()
		}
	}
	if len(c.turns) > 0 && c.turns[0].onTurn != nil && !c.turns[0].called {
		c.turns[0].called = true
		go c.turns[0].onTurn()
	}
}

// Pending implements frontend.Conn.
func (c *client) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.turns)
}

// RemoteAddr implements frontend.Conn.
func (c *client) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711} }

// LocalAddr implements frontend.Conn.
func (c *client) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092} }

// Close implements frontend.Conn.
func (c *client) Close(reason error) {
	select {
	case c.closed <- reason:
	default:
	}
}

// frame appends a request as a client sends it.
func (c *client) frame(request kmsg.Request) []byte {
	c.correlID++
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("tester"))
	return formatter.AppendRequest(nil, request, c.correlID)
}

// receive hands a frame to the session in pool memory.
func (c *client) receive(frame []byte) error {
	c.t.Helper()
	size, err := c.session.FrameBytes(frame[:4])
	if err != nil {
		return err
	}
	b := c.pool.TryGet(size)
	if b == nil {
		c.t.Fatalf("the pool is spent: %d bytes are in use", c.pool.InUseBytes())
	}
	return c.session.Receive(b, b.Bytes()[:copy(b.Bytes(), frame[:size])])
}

// send sends a request and does not wait for its answer.
func (c *client) send(request kmsg.Request) {
	c.t.Helper()
	if err := c.receive(c.frame(request)); err != nil {
		c.t.Fatalf("%T version %d: %v", request, request.GetVersion(), err)
	}
}

// next returns the body of the next answer, which must belong to request, and
// checks its header.
func (c *client) next(request kmsg.Request) []byte {
	c.t.Helper()
	var reply []byte
	select {
	case reply = <-c.replies:
	case reason := <-c.closed:
		c.t.Fatalf("the connection was closed: %v", reason)
	case <-time.After(patience):
		c.t.Fatalf("no answer to %T", request)
	}
	if size := binary.BigEndian.Uint32(reply); int(size) != len(reply)-4 {
		c.t.Fatalf("the length prefix says %d, the answer has %d bytes", size, len(reply)-4)
	}
	body := reply[8:]
	if request.IsFlexible() && request.Key() != int16(kmsg.ApiVersions) {
		if body[0] != 0 {
			c.t.Fatalf("response header v1 ends with %d, want an empty tag section", body[0])
		}
		body = body[1:]
	}
	return body
}

// decode reads an answer with kmsg, and wants kmsg to write the same bytes: so none
// is left over, and no field stands in another's place.
func decode(t testing.TB, request kmsg.Request, body []byte) kmsg.Response {
	t.Helper()
	response := request.ResponseKind()
	if err := response.ReadFrom(body); err != nil {
		t.Fatalf("%T version %d does not decode: %v\n%x", response, response.GetVersion(), err, body)
	}
	if again := response.AppendTo(nil); !bytes.Equal(again, body) {
		t.Fatalf("%T version %d does not come out the same:\n got %x\nwant %x", response, response.GetVersion(), body, again)
	}
	return response
}

// ask sends a request and returns its answer.
func ask[R kmsg.Response](c *client, request kmsg.Request) R {
	c.t.Helper()
	c.send(request)
	return decode(c.t, request, c.next(request)).(R)
}

// at sets a request's version.
func at[Q kmsg.Request](version int16, request Q) Q {
	request.SetVersion(version)
	return request
}

// scene is a broker with an engine in memory, the protocol on it and a client.
type scene struct {
	*client
	broker     *broker.Broker
	engine     *brokertest.Engine
	controller *brokertest.Controller
	protocol   *Protocol
}

func newScene(t testing.TB, options Options) *scene {
	t.Helper()
	s := &scene{engine: brokertest.NewEngine()}
	s.controller = brokertest.NewController()
	s.broker, _ = brokertest.Start(t, s.engine, brokertest.Options{Controller: s.controller})
	options.Broker = s.broker
	s.protocol = New(options)
	s.client = newClient(t, s.protocol)
	t.Cleanup(func() {
		s.session.Closed(net.ErrClosed)
		if s.protocol.metrics.Panics.Load() != 0 {
			t.Error("a handler panicked")
		}
	})
	return s
}

// batch builds a batch with one record for each value.
func batch(codec record.Codec, values ...string) []byte {
	var b record.Builder
	b.Reset(record.BuilderOptions{Codec: codec})
	now := time.Now().UnixMilli()
	for _, value := range values {
		b.Append(now, nil, []byte(value))
	}
	built, err := b.Build()
	if err != nil {
		panic(err)
	}
	return bytes.Clone(built)
}

// produceRequest asks to append records to partition 0 of a topic.
func produceRequest(version int16, topic string, id [16]byte, records []byte) *kmsg.ProduceRequest {
	request := at(version, kmsg.NewPtrProduceRequest())
	request.Acks = -1
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = records
	asked := kmsg.NewProduceRequestTopic()
	asked.Topic, asked.TopicID = topic, id
	asked.Partitions = append(asked.Partitions, partition)
	request.Topics = append(request.Topics, asked)
	return request
}

// fetchRequest asks for partition 0 of a topic from an offset on, without waiting.
func fetchRequest(version int16, topic string, id [16]byte, offset int64) *kmsg.FetchRequest {
	request := at(version, kmsg.NewPtrFetchRequest())
	request.MaxBytes = 1 << 20
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.FetchOffset, partition.PartitionMaxBytes = offset, 1<<20
	asked := kmsg.NewFetchRequestTopic()
	asked.Topic, asked.TopicID = topic, id
	asked.Partitions = append(asked.Partitions, partition)
	request.Topics = append(request.Topics, asked)
	return request
}

// idempotentBatch builds a batch of one record from an idempotent producer.
func idempotentBatch(producerID int64, sequence int32, value string) []byte {
	var b record.Builder
	b.Reset(record.BuilderOptions{Idempotent: true, ProducerID: producerID, BaseSequence: sequence})
	b.Append(time.Now().UnixMilli(), nil, []byte(value))
	built, err := b.Build()
	if err != nil {
		panic(err)
	}
	return bytes.Clone(built)
}
