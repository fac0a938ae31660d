package stream

import (
	"net"
)

// Bounds of one batch of replies. A single reply may exceed the bytes and has
// as many parts as it likes: net.Buffers splits what is too much for one writev.
const (
	batchTurnsMax = 128
	batchBytesMax = 1 << 20
)

// partsKept is how large the list of parts may stay between batches.
const partsKept = 1024

// writer is the write side of a connection: one goroutine that owns the head
// of the turn queue and alone writes to the socket.
type writer struct {
	connection *connection
	done       chan struct{} // closed when the goroutine ended; nil until it starts

	// sentBytes of the replies at the head were sent by the loop that drove the
	// connection before.
	sentBytes int

	// parts is the memory for the list of byte slices of a batch; buffers is
	// the view of it that net.Buffers consumes. Fields, so that neither escapes anew.
	parts   [][]byte
	buffers net.Buffers
	// lent writes a reply that can do without its memory while the peer does not read.
	lent lentWrite
}

// run writes replies in order until the connection closes.
func (w *writer) run() {
	defer close(w.done)
	c := w.connection
	for !c.closed.Load() {
		if count := w.gather(); count > 0 {
			if err := w.write(count); err != nil {
				c.Close(err)
			}
			continue
		}
		head := c.turns.first()
		if head == nil {
			w.sleepIdle()
			continue
		}
		if head.state.Load() == turnDone {
			if head.reply.Loan != nil { // gather left it alone
				err := w.lent.write(w, head)
				w.finish(1, err)
				if err != nil {
					c.Close(err)
				}
			}
			continue
		}
		if onTurn := head.onTurn; onTurn != nil {
			// Everything before was written: gather found head not done.
			head.onTurn = nil
			onTurn()
			continue
		}
		if head.state.CompareAndSwap(turnOpen, turnAwaited) || head.state.Load() == turnAwaited {
			<-c.writerWake
		}
	}
}

// sleepIdle waits for a turn in an empty queue.
func (w *writer) sleepIdle() {
	c := w.connection
	c.writerIdle.Store(true)
	// The reader pushes before it looks at writerIdle, so one of us sees the other.
	if c.turns.first() != nil && c.writerIdle.CompareAndSwap(true, false) {
		return
	}
	if c.closed.Load() {
		return
	}
	<-c.writerWake
}

// gather lists the parts of the replies that are ready at the head, in order, up to one
// with a loan, and returns the number of turns that they belong to. The turns stay queued.
func (w *writer) gather() (count int) {
	w.parts, count = w.list(w.parts[:0], false)
	return count
}

// list is gather into a list of the caller's. A loop takes replies with loans as they
// are: what its socket does not take at once makes the connection heavy.
func (w *writer) list(parts [][]byte, lent bool) (list [][]byte, count int) {
	bytes, sent := 0, w.sentBytes
	for t := w.connection.turns.first(); t != nil; t = t.next.Load() {
		if count == batchTurnsMax || bytes >= batchBytesMax || t.state.Load() != turnDone || t.reply.Loan != nil && !lent {
			break
		}
		for _, part := range t.reply.Parts {
			skipped := min(sent, len(part))
			sent -= skipped
			if part = part[skipped:]; len(part) > 0 {
				parts = append(parts, part)
				bytes += len(part)
			}
		}
		count++
	}
	return parts, count
}

// write writes what gather listed and finishes the count turns.
func (w *writer) write(count int) error {
	c := w.connection
	metrics := c.listener.options.Metrics
	c.progress.writes.Add(1) // odd: a batch is under way
	var err error
	if len(w.parts) > 0 {
		var n int64
		w.buffers = w.parts
		n, err = w.buffers.WriteTo(c.socket)
		metrics.BytesOut.Add(n)
		clear(w.parts) // hold no reply's memory
		if cap(w.parts) > partsKept {
			w.parts = nil
		}
	}
	c.progress.writes.Add(1) // even: done
	w.finish(count, err)
	return err
}

// finish counts the first count replies, whether their write succeeded or not, and settles them.
func (w *writer) finish(count int, err error) {
	c := w.connection
	metrics := c.listener.options.Metrics
	metrics.Writes.Add(1)
	if err == nil {
		metrics.Replies.Add(int64(count))
	}
	w.settle(count)
}

// settle gives the memory of the first count replies back and takes their turns from
// the queue.
func (w *writer) settle(count int) {
	c := w.connection
	var requestBytes int64
	for range count {
		t := c.turns.take()
		if w.sentBytes > 0 {
			for _, part := range t.reply.Parts {
				w.sentBytes -= min(w.sentBytes, len(part))
			}
		}
		requestBytes += t.requestBytes
		t.onTurn = nil // completed before its turn came
		t.releaseReply()
	}
	c.pendingBytes.Add(-requestBytes)
	c.pending.Add(int64(-count))
	if c.readerWaits.Load() && c.readerWaits.Swap(false) {
		c.wakeReader()
	}
}
