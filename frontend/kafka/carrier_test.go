package kafka

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"ringlog/broker"
	"ringlog/broker/brokertest"
	"ringlog/buffer"
	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/portable"
	"ringlog/frontend"
	"ringlog/meta"
)

// carrier is the smallest network that keeps frontend.Conn's promises: package
// net/stream stands on the other side of the seam and cannot be imported here.
type carrier struct {
	listener net.Listener
	protocol *Protocol
	pool     *buffer.Pool
	done     sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

func newCarrier(p *Protocol, listener net.Listener) *carrier {
	c := &carrier{listener: listener, protocol: p, pool: buffer.NewPool("frames", 64<<20), open: make(map[net.Conn]bool)}
	c.done.Go(func() {
		for {
			socket, err := listener.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			if c.closed {
				_ = socket.Close()
			}
			c.open[socket] = true
			c.mu.Unlock()
			c.done.Go(func() { c.serve(socket) })
		}
	})
	return c
}

func (c *carrier) close() {
	_ = c.listener.Close()
	c.mu.Lock()
	c.closed = true
	for socket := range c.open {
		_ = socket.Close()
	}
	c.mu.Unlock()
	c.done.Wait()
}

// serve is the owner of one connection.
func (c *carrier) serve(socket net.Conn) {
	conn := &carried{socket: socket}
	session := c.protocol.NewSession(conn)
	err := func() error {
		var prefix [4]byte
		for {
			if _, err := io.ReadFull(socket, prefix[:]); err != nil {
				return err
			}
			size, err := session.FrameBytes(prefix[:])
			if err != nil {
				return err
			}
			frame, err := c.pool.Get(context.Background(), size)
			if err != nil {
				return err
			}
			data := frame.Bytes()[:size]
			copy(data, prefix[:])
			if _, err := io.ReadFull(socket, data[4:]); err != nil {
				frame.Release()
				return err
			}
			if err := session.Receive(frame, data); err != nil {
				return err
			}
		}
	}()
	_ = socket.Close()
	session.Closed(err)
	c.mu.Lock()
	delete(c.open, socket)
	c.mu.Unlock()
}

// carried is one connection of a carrier.
type carried struct {
	socket net.Conn

	mu    sync.Mutex
	turns []*carriedTurn
}

type carriedTurn struct {
	conn   *carried
	onTurn func()
	called bool
	reply  *frontend.Reply
}

// Turn implements frontend.Conn.
func (c *carried) Turn(onTurn func()) frontend.Turn {
	turn := &carriedTurn{conn: c, onTurn: onTurn}
	c.mu.Lock()
	c.turns = append(c.turns, turn)
	c.mu.Unlock()
	c.write()
	return turn
}

// Complete implements frontend.Turn.
func (turn *carriedTurn) Complete(reply frontend.Reply) {
	turn.conn.mu.Lock()
	turn.reply = &reply
	turn.conn.mu.Unlock()
	go turn.conn.write() // Complete does not block, and a socket may
}

func (c *carried) write() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.turns) > 0 && c.turns[0].reply != nil {
		reply := c.turns[0].reply
		c.turns = c.turns[1:]
		parts := make(net.Buffers, len(reply.Parts))
		copy(parts, reply.Parts)
		_, _ = parts.WriteTo(c.socket) // a socket that fails ends its reader
		if reply.Release != nil {
			reply.Release()
		}
	}
	if len(c.turns) > 0 && c.turns[0].onTurn != nil && !c.turns[0].called {
		c.turns[0].called = true
		go c.turns[0].onTurn()
	}
}

func (c *carried) Pending() int         { return 0 }
func (c *carried) RemoteAddr() net.Addr { return c.socket.RemoteAddr() }
func (c *carried) LocalAddr() net.Addr  { return c.socket.LocalAddr() }
func (c *carried) Close(error)          { _ = c.socket.Close() }

// house is a broker on a real engine in a directory, served to real clients at
// one address over all its lives.
type house struct {
	t          testing.TB
	directory  string
	address    string
	controller *brokertest.Controller

	broker   *broker.Broker
	protocol *Protocol
	stop     func() // ends the present life
}

// startHouse starts one in a new directory.
func startHouse(t testing.TB) *house {
	t.Helper()
	h := &house{t: t, directory: t.TempDir(), address: "127.0.0.1:0", controller: brokertest.NewController()}
	h.start()
	t.Cleanup(func() { h.stop() })
	return h
}

// start begins a life.
func (h *house) start() {
	h.t.Helper()
	listener, err := net.Listen("tcp", h.address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.address = listener.Addr().String()
	store, err := engine.New(engine.Options{
		OpenDisk: func() (disk.Disk, error) { return portable.New(h.directory, portable.Options{}) },
		Tail:     buffer.NewPool("tail", 64<<20),
		Cold:     buffer.NewPool("cold", 64<<20),

		JournalBytes: 1 << 20,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	var stopBroker func()
	h.broker, stopBroker = brokertest.Start(h.t, store, brokertest.Options{
		Controller: h.controller, Port: int32(listener.Addr().(*net.TCPAddr).Port)})
	h.protocol = New(Options{Broker: h.broker, AutoCreateTopics: true})
	network := newCarrier(h.protocol, listener)
	h.stop = func() {
		network.close()
		stopBroker()
		if got := h.protocol.metrics.Panics.Load(); got != 0 {
			h.t.Errorf("%d handlers panicked", got)
		}
	}
}

// restart ends the present life and begins another on the same directory.
func (h *house) restart() {
	h.t.Helper()
	h.stop()
	h.start()
}

// client connects franz-go.
func (h *house) client(options ...kgo.Opt) *kgo.Client {
	h.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(h.address),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, options...)...)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(c.Close)
	return c
}

// admin connects franz-go's admin client.
func (h *house) admin() *kadm.Client { return kadm.NewClient(h.client()) }

// topic creates a topic by the admin client.
func (h *house) topic(name string, partitions int32, configs map[string]*string) meta.TopicID {
	h.t.Helper()
	created, err := h.admin().CreateTopic(h.context(), partitions, 1, configs, name)
	if err := errors.Join(err, created.Err); err != nil {
		h.t.Fatal(err)
	}
	return meta.TopicID(created.ID)
}

// context bounds a call.
func (h *house) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	h.t.Cleanup(cancel)
	return ctx
}
