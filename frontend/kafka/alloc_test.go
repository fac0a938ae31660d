//go:build !race

// The race detector makes sync.Pool forget at random.

package kafka

import (
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
	"ringlog/buffer"
	"ringlog/engine"
	"ringlog/frontend"
	"ringlog/record"
)

// readyEngine answers appends at once and reads with one batch that is always
// the same, without allocating: what is left is what the layers above cost.
type readyEngine struct {
	*brokertest.Engine
	batch []byte
}

func (e *readyEngine) Append(group *engine.AppendGroup) {
	for i := range group.Appends {
		group.Appends[i].BaseOffset, group.Appends[i].StartOffset = 17, 0
	}
	group.Owner.Consumed(group)
	group.Owner.Answered(group)
}

func (e *readyEngine) Read(read *engine.Read) {
	for i := range read.Parts {
		p := &read.Parts[i]
		p.Batches, p.Bytes, p.Err = append(p.Batches[:0], e.batch), len(e.batch), nil
		p.Frontiers = engine.Frontiers{HighWatermark: 18, Durable: 18, Written: 18, Next: 18}
	}
	read.Done(read)
}

// idleEngine answers reads at once with no records, without allocating.
type idleEngine struct{ *brokertest.Engine }

func (e *idleEngine) Read(read *engine.Read) {
	for i := range read.Parts {
		p := &read.Parts[i]
		p.Batches, p.Bytes, p.Err = p.Batches[:0], 0, nil
		p.Frontiers = engine.Frontiers{HighWatermark: 18, Durable: 18, Written: 18, Next: 18}
	}
	read.Done(read)
}

// readyConn writes a reply as soon as it comes, and allocates nothing.
type readyConn struct {
	address net.TCPAddr
	bytes   int
}

func (c *readyConn) Turn(onTurn func()) frontend.Turn {
	if onTurn != nil {
		onTurn()
	}
	return c
}

func (c *readyConn) Complete(reply frontend.Reply) {
	for _, part := range reply.Parts {
		c.bytes += len(part)
	}
	reply.Release()
}

func (c *readyConn) Pending() int         { return 0 }
func (c *readyConn) RemoteAddr() net.Addr { return &c.address }
func (c *readyConn) LocalAddr() net.Addr  { return &c.address }
func (c *readyConn) Close(error)          {}

// Architecture, hot paths: a produce and a fetch allocate nothing from the frame to the
// reply, in the versions that clients use.
func TestProduceAndFetchAllocateNothing(t *testing.T) {
	sent := batch(record.CodecNone, "a", "b", "c")
	store := &readyEngine{Engine: brokertest.NewEngine(), batch: sent}
	b, _ := brokertest.Start(t, store, brokertest.Options{})
	topic := brokertest.CreateTopic(t, b, "orders", 1, nil)
	p := New(Options{Broker: b})
	pool := buffer.NewPool("test", 1<<20)
	conn := new(readyConn)
	session := p.NewSession(conn)
	builder := newClient(t, p)
	for name, frame := range map[string][]byte{
		"Produce v7":  builder.frame(produceRequest(7, "orders", [16]byte{}, sent)),
		"Produce v13": builder.frame(produceRequest(13, "", topic.ID, sent)),
		"Fetch v11":   builder.frame(fetchRequest(11, "orders", [16]byte{}, 0)),
		"Fetch v18":   builder.frame(fetchRequest(18, "", topic.ID, 0)),
	} {
		receive := func() {
			held := pool.TryGet(len(frame))
			if err := session.Receive(held, held.Bytes()[:copy(held.Bytes(), frame)]); err != nil {
				t.Fatal(err)
			}
		}
		conn.bytes = 0
		if got := testing.AllocsPerRun(1000, receive); got >= 1 {
			t.Errorf("%s: %v allocations", name, got)
		}
		if conn.bytes == 0 {
			t.Errorf("%s: nothing was answered", name)
		}
	}
}

// The same for a consumer in a session (KIP-227), request after request.
func TestAFetchInASessionAllocatesNothing(t *testing.T) {
	b, _ := brokertest.Start(t, &idleEngine{brokertest.NewEngine()}, brokertest.Options{})
	topic := brokertest.CreateTopic(t, b, "orders", 4, nil)
	p := New(Options{Broker: b})
	pool := buffer.NewPool("test", 1<<20)
	conn := new(readyConn)
	session := p.NewSession(conn)
	builder := newClient(t, p)
	for _, version := range []int16{11, 18} {
		offsets := map[int32]int64{0: 0, 1: 0, 2: 0, 3: 0}
		first := ask[*kmsg.FetchResponse](builder, sessionRequest(version, 0, 0, "orders", topic.ID, offsets))
		const runs = 500
		var frames [][]byte
		for epoch := range int32(runs + 1) {
			frames = append(frames, builder.frame(sessionRequest(version, first.SessionID, epoch+1, "orders", topic.ID, map[int32]int64{1: int64(epoch)})))
		}
		conn.bytes = 0
		got := testing.AllocsPerRun(runs, func() {
			frame := frames[0]
			frames = frames[1:]
			held := pool.TryGet(len(frame))
			if err := session.Receive(held, held.Bytes()[:copy(held.Bytes(), frame)]); err != nil {
				t.Fatal(err)
			}
		})
		if got >= 1 {
			t.Errorf("version %d: %v allocations", version, got)
		}
		if perRequest := conn.bytes / (runs + 1); perRequest < 20 || perRequest > 60 {
			t.Errorf("version %d: %d bytes are answered", version, perRequest)
		}
	}
}
