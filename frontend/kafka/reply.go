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
	release func() // the method value of done, bound once
	after   func() // called when the bytes are no longer needed
	loan    loan   // of the memory of the cuts, when they have an owner that can do without it
}

// cut says that slice stands at position at of the encode buffer.
type cut struct {
	at          int
	slice       []byte
	part, piece int // which slice it is, to its owner
}

var replies sync.Pool

// newReply starts a reply with its response header.
func newReply(key int16, correlationID int32, flexible bool) *reply {
	r, pooled := replies.Get().(*reply)
	if !pooled {
		r = &reply{buf: make([]byte, 0, 512)}
		r.release, r.loan.restored = r.done, r.onRestored
	}
	r.buf = appendResponseHeader(r.buf[:0], key, correlationID, flexible)
	return r
}

// cut puts slice number piece of a part at the present end of the reply; its memory must stay
// until the reply is released, unless its owner lends it (sendLent).
func (r *reply) cut(slice []byte, part, piece int) {
	if len(slice) == 0 {
		return
	}
	r.cuts = append(r.cuts, cut{at: len(r.buf), slice: slice, part: part, piece: piece})
	r.size += len(slice)
}

// bytes is the size of the whole reply, length prefix included.
func (r *reply) bytes() int { return len(r.buf) + r.size }

// send completes turn with the reply. after, when not nil, is called when the
// connection needs none of its bytes any more.
func (r *reply) send(turn frontend.Turn, after func()) {
	r.layOut()
	r.after = after
	turn.Complete(frontend.Reply{Parts: r.parts, Release: r.release})
}

// sendLent is send for a reply whose cuts belong to an owner that can do without
// their memory while the client does not read.
func (r *reply) sendLent(turn frontend.Turn, owner lender, after func()) {
	r.layOut()
	r.after = after
	if len(r.cuts) == 0 {
		turn.Complete(frontend.Reply{Parts: r.parts, Release: r.release})
		return
	}
	r.loan.owner = owner
	turn.Complete(frontend.Reply{Parts: r.parts, Release: r.release, Loan: r})
}

// layOut lists the parts of the finished reply.
func (r *reply) layOut() {
	binary.BigEndian.PutUint32(r.buf, uint32(r.bytes()-lengthBytes))
	from := 0
	for i, c := range r.cuts {
		if c.at > from {
			r.addPart(r.buf[from:c.at], -1)
			from = c.at
		}
		r.addPart(c.slice, i)
	}
	if from < len(r.buf) {
		r.addPart(r.buf[from:], -1)
	}
}

func (r *reply) addPart(part []byte, cut int) {
	r.parts = append(r.parts, part)
	r.loan.cutOf = append(r.loan.cutOf, cut)
}

// done is called when the connection needs the reply no more.
func (r *reply) done() {
	if r.loan.abandon() {
		return // what is being restored gives it back
	}
	r.put()
}

// put gives the reply back to the pool.
func (r *reply) put() {
	after := r.after
	r.loan.reset()
	clear(r.cuts)
	clear(r.parts)
	r.cuts, r.parts, r.size, r.after = r.cuts[:0], r.parts[:0], 0, nil
	if cap(r.buf) > replyBytesPooledMax {
		r.buf = make([]byte, 0, 512)
	}
	if cap(r.parts) > replyPartsPooledMax {
		r.parts, r.cuts, r.loan.cutOf = nil, nil, nil
	}
	replies.Put(r)
	if after != nil {
		after()
	}
}
