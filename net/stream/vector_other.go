//go:build !linux

package stream

import "net"

// vector is the list of slices that net.Buffers consumes.
type vector struct {
	parts   [][]byte
	buffers net.Buffers
}

// send writes until the reply is out, a part has to be waited for, or the connection is over. The
// standard library waits for the peer inside of a write, so batchBytesMax, or one larger
// part, is held meanwhile.
func (l *lentWrite) send(c *connection) error {
	if bytes := 0; l.part == 0 && l.end == len(l.reply.Parts) {
		for _, part := range l.reply.Parts {
			bytes += len(part)
		}
		if bytes > batchBytesMax {
			l.giveBack()
		}
	}
	for l.lend() {
		l.parts = append(l.parts[:0], l.reply.Parts[l.part:l.end]...)
		l.parts[0] = l.parts[0][l.skip:]
		l.buffers = l.parts
		n, err := l.buffers.WriteTo(c.socket)
		clear(l.parts)
		l.wrote(int(n))
		if err != nil {
			return err
		}
	}
	return nil
}

// attempt is for systems whose sockets are written without waiting.
func (l *lentWrite) attempt(uintptr) bool { return true }
