package kafka

// Fetch (key 1): versions 4 to 18.
//
//	4    isolation level, last stable offset, aborted transactions (KIP-98)
//	5    log start offset (KIP-107)
//	7    fetch sessions (KIP-227)
//	9    current leader epoch: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (KIP-320)
//	10   zstd (KIP-110); before, a zstd batch is UNSUPPORTED_COMPRESSION_TYPE
//	11   rack of the consumer, preferred read replica (KIP-392)
//	12   flexible; last fetched epoch, diverging epoch, current leader (KIP-595)
//	13   topics by id (KIP-516): UNKNOWN_TOPIC_ID
//	15   the replica's state as a tagged field (KIP-903)
//	16   endpoints of current leaders (KIP-951)
//	17   directory ids and 18 high watermarks: fields of replicas only
//
// A full fetch begins a session if there is place for one (fetch_session.go); after that a
// request names, and its answer tells, only what has changed. Records are never
// null, also beside an error (an empty field is what librdkafka and ShareFetch's
// clients can read). A replica id is refused: replicas have links of their own, and
// a forged one once lost data in Kafka (CVE-2018-1288).
//
// The answer is written from the engine's memory: the encoder's own bytes with
// slices of batches cut in between, none of them copied. The request starts when
// its turn in the order of replies has come, so that memory is taken only when
// it can leave; a client that does not read it costs none (loan.go).

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/frontend"
	"ringlog/frontend/kafka/fetchsession"
	"ringlog/record"
)

const (
	fetchSessionEpochFull  = 0  // begins a session, or is without one
	fetchSessionEpochFinal = -1 // ends a session
	fetchReplicaStateTag   = 1
	isolationReadCommitted = 1
)

// fetchCall is one Fetch request between its frame and the end of its reply.
type fetchCall struct {
	session       *session
	fetch         *broker.Fetch
	topics        []topicSpan
	version       int16
	correlationID int32
	flexible      bool
	committedOnly bool
	compareEpochs bool // a partition asks where its log runs apart: Start may wait
	replicaID     int32
	refused       error // of the whole request
	inSession     fetchSession
	clientID      string
	undecoded     bool // it waits for its turn in waiting
	waiting       waiting
	holding       holding
	turn          frontend.Turn
	gate          gate

	begin   func() // the method values, bound once
	done    func(*broker.Fetch)
	written func()
}

var fetchCalls sync.Pool

func newFetchCall() *fetchCall {
	c, pooled := fetchCalls.Get().(*fetchCall)
	if !pooled {
		c = new(fetchCall)
		c.inSession.reset()
		c.begin, c.done, c.written = c.onTurn, c.onDone, c.onWritten
	}
	return c
}

// receiveFetch takes a Fetch's turn. One that is small and need not wait is decoded before.
func receiveFetch(s *session, r *request) error {
	c := newFetchCall()
	c.session, c.version, c.correlationID, c.flexible, c.clientID = s, r.version, r.correlationID, r.flexible(), s.clientID
	c.fetch = s.protocol.broker.NewFetch()
	c.fetch.Done = c.done
	if c.undecoded = len(r.body)*fetchFactor > smallRequestBytes || s.conn.Pending() > 0; c.undecoded {
		s.waiting.add(&c.waiting, r)
	} else {
		err := c.decode(r.body)
		r.frame.Release()
		if err != nil {
			c.onWritten()
			return err
		}
	}
	c.turn = s.conn.Turn(c.begin)
	c.onTurn()
	return nil
}

// decode reads the request into broker parts. Nothing of it slices the frame
// when it returns.
func (c *fetchCall) decode(body []byte) error {
	b := wire{Reader: kbin.Reader{Src: body}, flexible: c.flexible}
	c.replicaID = -1
	if c.version <= 14 {
		c.replicaID = b.Int32()
	}
	c.fetch.Wait = time.Duration(max(b.Int32(), 0)) * time.Millisecond
	c.fetch.BytesMin = int(max(b.Int32(), 0))
	c.fetch.BytesMax = int(max(b.Int32(), 0))
	c.committedOnly = b.Int8() == isolationReadCommitted
	if c.version >= 7 {
		c.inSession.id, c.inSession.epoch = b.Int32(), b.Int32()
	}
	for count := b.arrayLen(); count > 0 && b.Ok(); count-- {
		c.decodeTopic(&b)
	}
	c.decodeEnd(&b)
	if err := b.finish("Fetch"); err != nil {
		return err
	}
	if c.replicaID >= 0 {
		for i := range c.fetch.Parts {
			c.fetch.Parts[i].Err = errReplicaFetch
		}
	}
	return nil
}

func (c *fetchCall) decodeTopic(b *wire) {
	span := topicSpan{start: len(c.fetch.Parts)}
	if len(c.topics) == partitionCountMax { // which may be without partitions
		b.fail(fmt.Errorf("%w: more than %d topics in a request", frontend.ErrMalformed, partitionCountMax))
		return
	}
	topic, err := c.session.readTopic(b, c.version >= 13, &span)
	for count := b.arrayLen(); count > 0 && b.Ok(); count-- {
		if len(c.fetch.Parts) == partitionCountMax {
			b.fail(fmt.Errorf("%w: more than %d partitions in a request", frontend.ErrMalformed, partitionCountMax))
			return
		}
		part := c.fetch.Add()
		part.Topic, part.Err = topic, err
		part.Partition = b.Int32()
		if c.version >= 9 {
			part.LeaderEpoch = b.Int32()
		}
		part.Offset = b.Int64()
		if c.version >= 12 {
			part.LastFetchedEpoch = b.Int32()
			c.compareEpochs = c.compareEpochs || part.LastFetchedEpoch >= 0
		}
		if c.version >= 5 {
			b.Int64() // log start offset of a replica
		}
		part.BytesMax = int(max(b.Int32(), 0))
		b.tags()
	}
	b.tags()
	span.end = len(c.fetch.Parts)
	c.topics = append(c.topics, span)
}

// decodeEnd reads what follows the topics.
func (c *fetchCall) decodeEnd(b *wire) {
	if c.version >= 7 {
		for count := b.arrayLen(); count > 0 && b.Ok(); count-- {
			c.decodeForgotten(b)
		}
	}
	if c.version >= 11 {
		b.string() // rack
	}
	if !c.flexible || !b.Ok() {
		return
	}
	err := eachTag(&b.Reader, func(tag uint32, value []byte) {
		if tag == fetchReplicaStateTag && c.version >= 15 && len(value) >= 4 {
			c.replicaID = int32(binary.BigEndian.Uint32(value))
		}
	})
	if err != nil {
		b.fail(err)
	}
}

// decodeForgotten reads a topic of partitions that leave the session.
func (c *fetchCall) decodeForgotten(b *wire) {
	var gone fetchsession.Partition
	if c.version >= 13 {
		gone.TopicID = b.Uuid()
	} else {
		gone.Topic = string(b.string())
	}
	for count := b.arrayLen(); count > 0 && b.Ok(); count-- {
		if len(c.inSession.forgotten) == partitionCountMax {
			b.fail(fmt.Errorf("%w: more than %d partitions to forget", frontend.ErrMalformed, partitionCountMax))
			return
		}
		gone.Number = b.Int32()
		c.inSession.forgotten = append(c.inSession.forgotten, gone)
	}
	b.tags()
}

// onTurn is called when the turn comes and when Receive has stored it.
func (c *fetchCall) onTurn() {
	if !c.gate.arrive() {
		return
	}
	if c.undecoded && int64(len(c.waiting.body))*fetchFactor > smallRequestBytes {
		go c.startLarge() // may wait for memory, and the connection's writer must not
		return
	}
	if !c.decodeWaiting() {
		return
	}
	if c.sessionBytes() > smallRequestBytes {
		go c.startLarge()
		return
	}
	c.refused = c.openSession()
	if c.compareEpochs && c.refused == nil {
		go c.start() // asks the shard first
		return
	}
	c.start()
}

// startLarge starts a fetch that has to wait for memory first: for what its body names, for
// what its session has, or for both.
func (c *fetchCall) startLarge() {
	memory, ctx := &c.session.protocol.memory, c.session.ctx
	returned := false
	defer func() {
		if !returned {
			memory.give(&c.holding) // the connection is gone, or will be
		}
	}()
	defer c.session.contain(int16(kmsg.Fetch), c.version)
	body := int64(len(c.waiting.body)) * fetchFactor // 0 when it is decoded
	if body > 0 && memory.take(ctx, &c.holding, body) != nil || !c.decodeWaiting() {
		return
	}
	if session := c.sessionBytes(); session > 0 {
		memory.give(&c.holding) // all at once, or two that hold some could wait for each other
		if memory.take(ctx, &c.holding, body+session) != nil {
			return
		}
	}
	c.refused = c.openSession()
	if memory.crowded() {
		c.fetch.Wait = 0 // what waits for records holds memory for nothing
	}
	returned = true
	c.start()
}

// decodeWaiting decodes a request that waited for its turn. False ends the call: the connection is
// gone, or about to be for what is wrong with the request.
func (c *fetchCall) decodeWaiting() bool {
	s := c.session
	if !c.undecoded {
		return true
	}
	if !s.waiting.take(&c.waiting) {
		return false
	}
	c.undecoded = false
	defer s.waiting.release(&c.waiting)
	if err := c.decode(c.waiting.body); err != nil {
		r := request{requestHeader: requestHeader{key: int16(kmsg.Fetch), version: c.version}, body: c.waiting.body}
		s.protocol.refused(s, &r, c.clientID, err)
		s.conn.Close(err)
		return false
	}
	return true
}

// sessionBytes is what the fetch will hold for what the session has that it goes on with.
func (c *fetchCall) sessionBytes() int64 {
	if c.version < 7 || !c.inSession.incremental() {
		return 0
	}
	return c.session.protocol.sessionBytes(c.inSession.id)
}

func (c *fetchCall) start() {
	s := c.session
	defer s.contain(int16(kmsg.Fetch), c.version)
	if c.refused != nil {
		c.onDone(c.fetch)
		return
	}
	fetch := c.fetch
	s.fetching.Lock()
	s.fetching.fetch = fetch
	s.fetching.Unlock()
	fetch.Start(s.ctx)
	// The call may be gone by now. If the connection closed while Start ran, what
	// Closed did may have come too early.
	s.fetching.Lock()
	if s.fetching.closed && s.fetching.fetch == fetch {
		fetch.Cancel()
	}
	s.fetching.Unlock()
}

// partsInPlace is how many partitions are answered on the shard's thread at once: some 50 bytes for each.
// The answer of more is made elsewhere.
const partsInPlace = 1000

// onDone answers the request.
func (c *fetchCall) onDone(f *broker.Fetch) {
	if len(f.Parts) > partsInPlace {
		go c.answer()
		return
	}
	c.answer()
}

func (c *fetchCall) answer() {
	s := c.session
	defer s.contain(int16(kmsg.Fetch), c.version)
	s.fetching.Lock()
	s.fetching.fetch = nil // from here on Closed must not cancel it
	s.fetching.Unlock()
	c.checkParts()
	if err := c.answerSession(); err != nil {
		c.refused = err
	}
	if c.refused != nil {
		s.protocol.countError(int16(kmsg.Fetch), code(c.refused), c.refused)
		c.topics = c.topics[:0]
	}
	out := newReply(int16(kmsg.Fetch), c.correlationID, c.flexible)
	c.encode(out)
	if c.holding.bytes > 0 {
		s.protocol.memory.answered(&c.holding, s, c.holding.bytes)
	}
	out.sendLent(c.turn, c.fetch, c.written)
}

// checkParts takes back what this version's client could not read, and counts errors.
func (c *fetchCall) checkParts() {
	for i := range c.fetch.Parts {
		part := &c.fetch.Parts[i]
		if c.version < 10 && part.Err == nil && holdsZstd(part.Batches) {
			part.Err = errZstdFetch
			part.HighWatermark, part.LastStable, part.Start = -1, -1, -1
		}
		if part.Err != nil {
			part.Batches, part.Bytes = nil, 0
			c.session.protocol.countError(int16(kmsg.Fetch), code(part.Err), part.Err)
		}
	}
}

// holdsZstd reports whether any batch is compressed with zstd.
func holdsZstd(batches [][]byte) bool {
	for _, bytes := range batches {
		for len(bytes) > 0 {
			batch, rest, err := record.Next(bytes)
			if err != nil {
				break
			}
			if batch.Codec() == record.CodecZstd {
				return true
			}
			bytes = rest
		}
	}
	return false
}

// encode writes the answer; see kmsg.FetchResponse for the layout.
func (c *fetchCall) encode(out *reply) {
	out.buf = kbin.AppendInt32(out.buf, 0) // throttle time
	if c.version >= 7 {
		out.buf = kbin.AppendInt16(out.buf, code(c.refused))
		out.buf = kbin.AppendInt32(out.buf, c.inSession.id)
	}
	out.buf = appendArrayLen(out.buf, c.topicsShown(), c.flexible)
	moved := leadersNamed{image: c.session.protocol.broker.Image()}
	for i := range c.topics {
		span := &c.topics[i]
		if c.omitsTopic(span) {
			continue
		}
		if c.version >= 13 {
			out.buf = append(out.buf, span.id[:]...)
		} else {
			out.buf = appendString(out.buf, span.name, c.flexible)
		}
		out.buf = appendArrayLen(out.buf, c.shown(span), c.flexible)
		for at := span.start; at < span.end; at++ {
			if c.omits(at) {
				continue
			}
			c.encodePart(out, at, &moved)
		}
		out.buf = appendNoTags(out.buf, c.flexible)
	}
	if c.flexible {
		out.buf = moved.appendTags(out.buf)
	}
}

func (c *fetchCall) encodePart(out *reply, at int, moved *leadersNamed) {
	part := &c.fetch.Parts[at]
	number := code(part.Err)
	dst := kbin.AppendInt32(out.buf, part.Partition)
	dst = kbin.AppendInt16(dst, number)
	dst = kbin.AppendInt64(dst, part.HighWatermark)
	dst = kbin.AppendInt64(dst, part.LastStable)
	if c.version >= 5 {
		dst = kbin.AppendInt64(dst, part.Start)
	}
	dst = c.appendAborted(dst)
	if c.version >= 11 {
		dst = kbin.AppendInt32(dst, -1) // preferred read replica: this one
	}
	dst = appendBytesLen(dst, part.Bytes, c.flexible)
	out.buf = dst
	for i, slice := range part.Batches {
		out.cut(slice, at, i)
	}
	if !c.flexible {
		return
	}
	lost := c.version >= 12 && (number == kerr.NotLeaderForPartition.Code || number == kerr.FencedLeaderEpoch.Code)
	switch {
	case part.Diverges:
		out.buf = kbin.AppendUvarint(out.buf, 1)
		out.buf = appendDivergingEpoch(out.buf, part)
	case lost:
		out.buf = kbin.AppendUvarint(out.buf, 1)
		out.buf = appendCurrentLeader(out.buf, 1, part.Topic, part.Partition)
		if c.version >= 16 {
			moved.add(part.Topic, part.Partition)
		}
	default:
		out.buf = append(out.buf, 0)
	}
}

// appendAborted appends the aborted transactions among the batches: none, which
// is null for a client that reads uncommitted records, as in Kafka.
func (c *fetchCall) appendAborted(dst []byte) []byte {
	if c.committedOnly {
		return appendArrayLen(dst, 0, c.flexible)
	}
	if c.flexible {
		return append(dst, 0)
	}
	return kbin.AppendInt32(dst, -1)
}

// appendDivergingEpoch appends tagged field 0 of a partition: epoch, end offset
// and an empty tag section.
func appendDivergingEpoch(dst []byte, part *broker.FetchPart) []byte {
	dst = kbin.AppendUvarint(dst, 0)
	dst = kbin.AppendUvarint(dst, 4+8+1)
	dst = kbin.AppendInt32(dst, part.DivergingEpoch)
	dst = kbin.AppendInt64(dst, part.DivergingEnd)
	return append(dst, 0)
}

// onWritten gives the batches and the call back once the reply needs neither.
func (c *fetchCall) onWritten() {
	c.session.protocol.memory.give(&c.holding)
	c.fetch.Release()
	clear(c.topics)
	if cap(c.topics) > topicsPooledMax {
		c.topics = nil
	}
	c.session, c.fetch, c.topics, c.turn, c.refused = nil, nil, c.topics[:0], nil, nil
	c.compareEpochs = false
	c.inSession.reset()
	fetchCalls.Put(c)
}
