package perf

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"os"
	"sync"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/disk/backend"
)

// ringBytesAll is the memory in front of all files together (measured: huge
// pages and 64 MiB reach the device's rate); a file gets at least ringBytesMin.
const (
	ringBytesAll = 64 << 20
	ringBytesMin = 1 << 20
)

// BareServer is the smallest program that does what the bare ceiling asks for:
// it receives the generator's frames on one goroutine per connection, checks
// their batches, and one shard goroutine with a disk of its own copies, writes and
// flushes them and answers in order. It calls ready with its address once its
// files are prepared, and serves until ctx ends, which is not an error.
func BareServer(ctx context.Context, options BareServerOptions, ready func(net.Addr)) (err error) {
	options.EnsureDefaults()
	if err := options.Validate(); err != nil {
		return err
	}
	if err := os.MkdirAll(options.DataDir, 0o755); err != nil {
		return fmt.Errorf("perf: bare server: %w", err)
	}
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	listener, err := config.Listen(ctx, "tcp", options.Address)
	if err != nil {
		return fmt.Errorf("perf: bare server: %w", err)
	}
	s := &bareServer{
		options: &options,
		layout:  newBareLayout(options.Acks, options.Partitions),
		pool:    newBarePool(&options),
	}
	started := make(chan *bareShard, 1)
	shardEnded := make(chan error, 1)
	go func() { shardEnded <- s.runShard(started) }() // the disk has one owner from open to close
	if s.shard = <-started; s.shard == nil {
		return errors.Join(<-shardEnded, listener.Close())
	}
	ready(listener.Addr())
	serveContext, cancel := context.WithCancel(ctx)
	defer cancel()
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		s.accept(listener)
	}()
	select {
	case <-serveContext.Done():
	case err = <-shardEnded:
		shardEnded <- nil
	}
	err = errors.Join(err, listener.Close())
	<-accepted
	s.closeConnections()
	s.serving.Wait()
	s.shard.stop()
	return errors.Join(err, <-shardEnded, s.pool.Close())
}

type bareServer struct {
	options *BareServerOptions
	layout  *bareLayout
	pool    *buffer.Pool
	shard   *bareShard
	serving sync.WaitGroup

	mu struct {
		sync.Mutex
		sockets map[net.Conn]struct{}
	}
}

// newBarePool reserves the rings and the frames of all connections.
func newBarePool(o *BareServerOptions) *buffer.Pool {
	frame := int64(1) << bits.Len(uint(max(o.FrameBytesMax+4, 4096)-1))
	frames := frame * int64(o.Connections) * int64(o.Depth)
	return buffer.NewPool("perf bare", frames+int64(ringBytes(o))*int64(o.Partitions)+int64(o.ChunkBytes)+4096*int64(o.Partitions)+4<<20)
}

// ringBytes is the ring of one file: a power of two, a multiple of the chunk,
// with room for several frames.
func ringBytes(o *BareServerOptions) int {
	all := int(min(ringBytesAll, o.FileBytes))
	size := max(all/o.Partitions, ringBytesMin, 4*o.FrameBytesMax, 4*o.ChunkBytes)
	return 1 << bits.Len(uint(size-1))
}

// runShard opens the disk, prepares the files, sends the shard to started (nil
// when that failed) and runs it.
func (s *bareServer) runShard(started chan<- *bareShard) (err error) {
	o := s.options
	var memory []*buffer.Buffer
	take := func(size int) []byte {
		b := s.pool.TryGet(size)
		if b == nil {
			panic("perf: the pool was made for this")
		}
		memory = append(memory, b)
		return b.Bytes()[:size:size]
	}
	defer func() { // after the disk is closed: what is in flight uses it
		for _, b := range memory {
			b.Release()
		}
	}()
	d, err := backend.Open(o.DataDir, o.Disk, backend.Options{})
	if err != nil {
		started <- nil
		return fmt.Errorf("perf: bare server: %w", err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	shard := &bareShard{disk: d, durable: o.Durability == Durable}
	fileBytes := max(o.FileBytes/int64(o.Partitions)/int64(o.ChunkBytes), 1) * int64(o.ChunkBytes)
	p := &Preparer{Disk: d}
	files, err := p.Make(o.Partitions, fileBytes, o.History, take(o.ChunkBytes))
	defer func() { err = errors.Join(err, p.Remove(files)) }()
	if err != nil {
		started <- nil
		return err
	}
	for _, file := range files {
		ring := take(ringBytes(o))
		clear(ring) // touch the pages now, not during the measurement
		shard.files = append(shard.files, &bareFile{
			file: file, ring: ring, tailBlock: take(disk.BlockBytes),
			chunk: o.ChunkBytes, fileBytes: fileBytes,
			// No two writes in flight may meet in a small file.
			writesMax: int(min(int64(o.WritesMax), fileBytes/int64(o.ChunkBytes))),
		})
	}
	started <- shard
	return shard.run()
}

// accept serves connections until the listener closes. Those beyond
// Options.Connections are turned away.
func (s *bareServer) accept(listener net.Listener) {
	s.mu.Lock()
	s.mu.sockets = make(map[net.Conn]struct{})
	s.mu.Unlock()
	for {
		socket, err := listener.Accept()
		if err != nil {
			return
		}
		c, err := newBareConnection(socket, s.layout, s.shard, s.pool, s.options.Depth, s.options.FrameBytesMax)
		if err != nil {
			_ = socket.Close()
			continue
		}
		s.mu.Lock()
		s.mu.sockets[socket] = struct{}{}
		s.mu.Unlock()
		s.serving.Go(func() { s.serve(c) })
	}
}

// serve runs a connection to its end.
func (s *bareServer) serve(c *bareConnection) {
	var writing sync.WaitGroup
	writing.Go(c.write)
	_ = c.read() // the generator finds its replies missing and reports that
	c.release(cap(c.free))
	c.close()
	writing.Wait()
	_ = c.socket.Close()
	s.mu.Lock()
	delete(s.mu.sockets, c.socket)
	s.mu.Unlock()
}

func (s *bareServer) closeConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for socket := range s.mu.sockets {
		_ = socket.Close()
	}
}
