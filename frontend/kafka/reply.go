package kafka

import (
	"encoding/binary"
	"sync"

	"ringlog/frontend"
)

// replyBytesPooledMax is the largest encode buffer that is kept for reuse: a
// rare reply of megabytes must not pin its memory for ever.
const replyBytesPooledMax = 256 << 10

// replyPartsPooledMax does the same for the list of parts.
const replyPartsPooledMax = 4096

// reply is one answer being encoded: what the encoder appends itself, with
// slices of other memory (the engine's batches) cut in between. The bytes of
// those slices are counted, never copied.
//
// A reply belongs to who encodes it until send, then to the connection until
// release.
type reply struct {
	buf  []byte
	cuts []cut // where foreign slices stand, by position in buf
	size int   // bytes of all foreign slices

	parts   [][]byte
	release func() // the method value of put, bound once
	after   func() // called when the bytes are no longer needed
}

// cut says that slice stands at position at of the encode buffer.
type cut struct {
	at    int
	slice []byte
}

var replies sync.Pool

// newReply starts a reply with its response header.
func newReply(key int16, correlationID int32, flexible bool) *reply {
	r, pooled := replies.Get().(*reply)
	if !pooled {
		r = &reply{buf: make([]byte, 0, 512)}
		r.release = r.put
	}
	r.buf = appendResponseHeader(r.buf[:0], key, correlationID, flexible)
	return r
}

// cut puts slice at the present end of the reply; its memory must stay until
// the reply is released.
func (r *reply) cut(slice []byte) {
	if len(slice) == 0 {
		return
	}
	r.cuts = append(r.cuts, cut{at: len(r.buf), slice: slice})
	r.size += len(slice)
}

// bytes is the size of the whole reply, length prefix included.
func (r *reply) bytes() int { return len(r.buf) + r.size }

// send completes turn with the reply. after, when not nil, is called when the
// connection needs none of its bytes any more.
func (r *reply) send(turn frontend.Turn, after func()) {
	binary.BigEndian.PutUint32(r.buf, uint32(r.bytes()-lengthBytes))
	from := 0
	for _, c := range r.cuts {
		if c.at > from {
			r.parts = append(r.parts, r.buf[from:c.at])
			from = c.at
		}
		r.parts = append(r.parts, c.slice)
	}
	if from < len(r.buf) {
		r.parts = append(r.parts, r.buf[from:])
	}
	r.after = after
	turn.Complete(frontend.Reply{Parts: r.parts, Release: r.release})
}

// put gives the reply back to the pool.
func (r *reply) put() {
	after := r.after
	clear(r.cuts)
	clear(r.parts)
	r.cuts, r.parts, r.size, r.after = r.cuts[:0], r.parts[:0], 0, nil
	if cap(r.buf) > replyBytesPooledMax {
		r.buf = make([]byte, 0, 512)
	}
	if cap(r.parts) > replyPartsPooledMax {
		r.parts, r.cuts = nil, nil
	}
	replies.Put(r)
	if after != nil {
		after()
	}
}
