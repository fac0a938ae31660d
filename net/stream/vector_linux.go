package stream

import (
	"os"

	"golang.org/x/sys/unix"

	"ringlog/buffer"
)

// vector is the memory for the list that writev reads.
type vector struct{ list buffer.Vector }

// send writes until the reply is out, a part has to be waited for, or the connection is over. While
// the socket is full it holds no memory.
func (l *lentWrite) send(c *connection) error { return c.raw.Write(l.try) }

// attempt writes what the socket takes; false waits until it takes more.
func (l *lentWrite) attempt(descriptor uintptr) bool {
	for l.lend() {
		n, err := l.list.Write(descriptor, l.reply.Parts[l.part:l.end], l.skip)
		switch err {
		case nil:
			l.wrote(n)
		case unix.EINTR:
		case unix.EAGAIN:
			l.giveBack()
			return false
		default:
			l.err = os.NewSyscallError("writev", err)
			return true
		}
	}
	return true
}
