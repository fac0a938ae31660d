//go:build !race

// The race detector makes sync.Pool forget at random.

package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"runtime/debug"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
	"ringlog/buffer"
	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/portable"
	"ringlog/frontend"
	"ringlog/record"
)

// waitedConn tells its test when a reply came, and allocates nothing.
type waitedConn struct {
	address net.TCPAddr
	replied chan struct{} // capacity 1: one request is in flight
	reply   []byte
	closed  error
}

func (c *waitedConn) Turn(func()) frontend.Turn { return c }

func (c *waitedConn) Complete(reply frontend.Reply) {
	if len(reply.Parts) == 0 {
		return // acks=0
	}
	c.reply = c.reply[:0]
	for _, part := range reply.Parts {
		c.reply = append(c.reply, part...)
	}
	reply.Release()
	c.replied <- struct{}{}
}

func (c *waitedConn) Pending() int         { return 0 }
func (c *waitedConn) RemoteAddr() net.Addr { return &c.address }
func (c *waitedConn) LocalAddr() net.Addr  { return &c.address }
func (c *waitedConn) Close(err error)      { c.closed = err }

// preparedProduce is a Produce frame that is sent again and again.
type preparedProduce struct {
	frame []byte
	batch record.Batch // a part of frame
}

func prepareProduce(t *testing.T, c *client, id [16]byte, acks int16, codec record.Codec, valueBytes, producerID int) *preparedProduce {
	t.Helper()
	var b record.Builder
	b.Reset(record.BuilderOptions{Codec: codec, Idempotent: producerID > 0, ProducerID: int64(producerID)})
	for i := range 10 {
		b.Append(time.Now().UnixMilli(), nil, bytes.Repeat([]byte{byte(i), 'v'}, valueBytes/2))
	}
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	request := produceRequest(13, "", id, built)
	request.Acks = acks
	frame := c.frame(request)
	at := bytes.Index(frame, built)
	return &preparedProduce{frame: frame, batch: record.Batch(frame[at : at+len(built)])}
}

// number gives the batch of an idempotent producer its sequence number.
func (p *preparedProduce) number(sequence int32) {
	const baseSequenceAt = 53
	binary.BigEndian.PutUint32(p.batch[baseSequenceAt:], uint32(sequence))
	p.batch.UpdateCRC()
}

// Architecture, hot paths: from the frame to the reply, through session, broker, replica
// and the real engine with its threads, its journal and a directory under it, nothing is
// allocated for a request: for no codec, for batches that are checked in place and for
// those that a checker finishes, idempotent or not, for every acks. (What the engine does
// once for some 256 KiB and more, space, indexes and trims of the journal, is below one for a request.)
func TestProduceAllocatesNothingFromFrameToReply(t *testing.T) {
	root := t.TempDir()
	store, err := engine.New(engine.Options{
		OpenDisk:     func() (disk.Disk, error) { return portable.New(root, portable.Options{Workers: 2}) },
		Tail:         buffer.NewPool("tail", 64<<20),
		Cold:         buffer.NewPool("cold", 4<<20),
		JournalBytes: 32 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := brokertest.Start(t, store, brokertest.Options{})
	topic := brokertest.CreateTopic(t, b, "orders", 1, nil)
	protocol := New(Options{Broker: b})
	pool := buffer.NewPool("frames", 8<<20)
	builder := newClient(t, protocol)
	conn := &waitedConn{replied: make(chan struct{}, 1), reply: make([]byte, 0, 1<<10)}
	session := protocol.NewSession(conn)
	send := func(p *preparedProduce) {
		held := pool.TryGet(len(p.frame))
		if err := session.Receive(held, held.Bytes()[:copy(held.Bytes(), p.frame)]); err != nil {
			t.Fatal(err)
		}
	}
	producers := 0
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	for _, codec := range []record.Codec{record.CodecNone, record.CodecGzip, record.CodecSnappy, record.CodecLZ4, record.CodecZstd} {
		large := 20_000 // more than is decompressed in place
		if codec == record.CodecNone {
			large = 2000
		}
		for _, valueBytes := range []int{100, large} {
			for _, idempotent := range []bool{false, true} {
				t.Run(fmt.Sprintf("codec=%v/bytes=%d/idempotent=%t", codec, 10*valueBytes, idempotent), func(t *testing.T) {
					if idempotent {
						producers++
					}
					var requests []*preparedProduce
					for _, acks := range []int16{0, 1, -1} {
						id := producers
						if !idempotent {
							id = 0
						}
						requests = append(requests, prepareProduce(t, builder, topic.ID, acks, codec, valueBytes, id))
					}
					sequence := int32(0)
					round := func() {
						for i, p := range requests {
							if idempotent {
								p.number(sequence)
								sequence += p.batch.RecordCount()
							}
							send(p)
							if i > 0 { // acks=0 has no reply
								<-conn.replied
							}
						}
					}
					for range 20 {
						round()
					}
					if got := testing.AllocsPerRun(100, round); got >= 1 {
						t.Errorf("%v allocations for three requests", got)
					}
					checkProduced(t, requests[2].frame, conn.reply)
				})
			}
		}
	}
	if conn.closed != nil || pool.InUseBytes() != 0 {
		t.Errorf("closed by %v, %d bytes of frames in use", conn.closed, pool.InUseBytes())
	}
	t.Cleanup(func() { session.Closed(net.ErrClosed) })
}

// checkProduced fails the test unless the reply says that the batch was stored.
func checkProduced(t *testing.T, frame, reply []byte) {
	t.Helper()
	response := kmsg.NewPtrProduceResponse()
	response.SetVersion(int16(binary.BigEndian.Uint16(frame[6:])))
	if err := response.ReadFrom(reply[9:]); err != nil {
		t.Fatal(err)
	}
	if got := response.Topics[0].Partitions[0]; got.ErrorCode != 0 || got.BaseOffset < 0 {
		t.Errorf("answered code %d, offset %d", got.ErrorCode, got.BaseOffset)
	}
}
