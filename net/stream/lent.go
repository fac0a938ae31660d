package stream

import (
	"net"

	"ringlog/frontend"
)

// lentWrite writes one reply whose memory is lent (frontend.Loan): it holds memory while
// the socket takes bytes, and none while the peer is waited for. So one who never reads costs
// the list of parts and what the kernel buffers for its socket, however large the reply.
//
// Such a reply goes alone: batching it with others saved nothing, because clients have one
// fetch under way, and it would have had to be taken apart again at its first short write.
type lentWrite struct {
	writer *writer
	reply  *frontend.Reply
	part   int   // the first one that is not written whole
	skip   int   // bytes of it that are written
	end    int   // of the parts that are in memory
	since  int   // bytes written since the peer was last seen to make progress
	err    error // why it cannot be finished

	try   func(descriptor uintptr) bool // the method value of attempt, bound once
	ready func()                        // that of connection.wakeWriter
	vector
}

// progressBytes is what a peer has to take within WriteTimeout, or the whole rest of its
// reply if that is less.
const progressBytes = batchBytesMax

// write writes the reply of t.
func (l *lentWrite) write(w *writer, t *turn) error {
	c := w.connection
	if l.try == nil {
		l.writer, l.try, l.ready = w, l.attempt, c.wakeWriter
	}
	l.reply, l.part, l.skip, l.end, l.since, l.err = &t.reply, 0, 0, len(t.reply.Parts), 0, nil
	l.advance(w.sentBytes)
	defer func() { l.reply = nil }()
	c.progress.writes.Add(1) // odd: a batch is under way
	defer c.progress.writes.Add(1)
	for {
		if err := l.send(c); err != nil {
			return err
		}
		if l.err != nil || l.part == len(l.reply.Parts) {
			return l.err
		}
		// The next part comes from the disk, and the peer is not to blame for the time.
		c.progress.writes.Add(1)
		if !c.closed.Load() {
			<-c.writerWake // at least once after ready, and after Close
		}
		c.progress.writes.Add(1)
		if c.closed.Load() {
			return net.ErrClosed
		}
	}
}

// lend makes sure that the next part is in memory; false when there is nothing to write now.
func (l *lentWrite) lend() bool {
	parts := l.reply.Parts
	for l.part < len(parts) && l.skip == len(parts[l.part]) {
		l.part, l.skip = l.part+1, 0
	}
	if l.part == len(parts) {
		return false
	}
	if l.part < l.end {
		return true
	}
	l.reply.Loan.Return(l.part)
	var count int
	count, l.err = l.reply.Loan.Lend(l.part, batchBytesMax, l.ready)
	l.end = l.part + count
	return l.err == nil && count > 0
}

// giveBack returns the memory: the peer has to be waited for.
func (l *lentWrite) giveBack() {
	l.reply.Loan.Return(l.part)
	l.end = l.part
}

// wrote takes note of n bytes.
func (l *lentWrite) wrote(n int) {
	c := l.writer.connection
	c.listener.options.Metrics.BytesOut.Add(int64(n))
	if l.since += n; l.since >= progressBytes {
		l.since = 0
		c.progress.writes.Add(2) // still odd
	}
	l.advance(n)
}

// advance goes n bytes on.
func (l *lentWrite) advance(n int) {
	parts := l.reply.Parts
	for n > 0 {
		step := min(n, len(parts[l.part])-l.skip)
		n -= step
		if l.skip += step; l.skip == len(parts[l.part]) {
			l.part, l.skip = l.part+1, 0
		}
	}
}
