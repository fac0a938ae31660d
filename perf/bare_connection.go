package perf

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"ringlog/buffer"
	"ringlog/record"
)

// bareRequest is one frame on its way through the bare server. It belongs to
// the reader, then to the shard, then waits in its connection's free list.
type bareRequest struct {
	connection  *bareConnection
	frame       *buffer.Buffer // ours for the life of the connection
	correlation uint32
	partition   int
	batch       record.Batch // inside frame; gone once the shard copied it

	// end is the position in the partition's log behind the batch; done says
	// that it is as durable as the rule asks. Both are the shard's.
	end  int64
	done bool
	base int64
}

// bareConnection reads frames, checks their batches and writes replies.
type bareConnection struct {
	socket net.Conn
	layout *bareLayout
	shard  *bareShard
	free   chan *bareRequest // bounds the frames inside the server

	// order are the requests given to the shard and not yet answered. Owned by the shard.
	order     []*bareRequest
	answering bool // whether the shard has this connection on its list; owned by it

	replies struct {
		sync.Mutex
		bytes  []byte
		closed bool
	}
	wake chan struct{} // capacity 1; for the writer
}

func newBareConnection(socket net.Conn, layout *bareLayout, shard *bareShard, pool *buffer.Pool, depth, frameBytesMax int) (*bareConnection, error) {
	c := &bareConnection{
		socket: socket, layout: layout, shard: shard,
		free: make(chan *bareRequest, depth),
		wake: make(chan struct{}, 1),
	}
	for range depth {
		// One prefix more: it is read together with the frame before it.
		frame := pool.TryGet(frameBytesMax + 4)
		if frame == nil {
			c.release(len(c.free))
			return nil, fmt.Errorf("perf: bare server: the memory is for %d frames in all", depth)
		}
		c.free <- &bareRequest{connection: c, frame: frame}
	}
	return c, nil
}

// release gives up the memory of count requests that are, or will be, free.
func (c *bareConnection) release(count int) {
	for range count {
		(<-c.free).frame.Release()
	}
}

// read is the reader: frames come in whole, each with the prefix of the next,
// so that a large frame costs one copy and few system calls.
func (c *bareConnection) read() error {
	var prefix [4]byte
	have := 0 // bytes of the next frame's prefix that are there
	for {
		for have < len(prefix) {
			n, err := c.socket.Read(prefix[have:])
			if have += n; err != nil {
				if err == io.EOF && have == 0 {
					return nil
				}
				return err
			}
		}
		r := <-c.free
		memory := r.frame.Bytes()
		size := 4 + int64(binary.BigEndian.Uint32(prefix[:]))
		if size > int64(len(memory)-4) {
			c.free <- r
			return fmt.Errorf("%w: a frame of %d bytes", ErrProtocol, size)
		}
		filled := copy(memory, prefix[:])
		for filled < int(size) {
			n, err := c.socket.Read(memory[filled : size+4])
			if filled += n; err != nil && filled < int(size) {
				c.free <- r
				return err
			}
		}
		have = copy(prefix[:], memory[size:filled])
		var err error
		if r.correlation, r.partition, r.batch, err = c.layout.parse(memory[:size]); err == nil {
			err = r.batch.Check()
		}
		if err != nil {
			c.free <- r
			return err
		}
		r.done = false
		c.shard.give(r)
	}
}

// answer takes the replies of everything that is done at the head of the order
// and wakes the writer once. REQUIRES: called by the shard.
func (c *bareConnection) answer() {
	count := 0
	for count < len(c.order) && c.order[count].done {
		count++
	}
	if count == 0 {
		return
	}
	c.replies.Lock()
	for _, r := range c.order[:count] {
		c.replies.bytes = c.layout.appendReply(c.replies.bytes, r.correlation, r.partition, r.base)
	}
	c.replies.Unlock()
	for _, r := range c.order[:count] {
		c.free <- r // never blocks: there is a place for each
	}
	c.order = append(c.order[:0], c.order[count:]...)
	c.signal()
}

func (c *bareConnection) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write is the writer: one write for all replies that are there.
func (c *bareConnection) write() {
	var spare []byte
	for {
		c.replies.Lock()
		bytes, closed := c.replies.bytes, c.replies.closed
		c.replies.bytes = spare[:0]
		c.replies.Unlock()
		if len(bytes) == 0 {
			if closed {
				return
			}
			spare = bytes
			<-c.wake
			continue
		}
		if _, err := c.socket.Write(bytes); err != nil {
			return // the reader sees it too
		}
		spare = bytes
	}
}

// close ends the writer once it has written what there is.
func (c *bareConnection) close() {
	c.replies.Lock()
	c.replies.closed = true
	c.replies.Unlock()
	c.signal()
}
