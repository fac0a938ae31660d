package kafka

// Produce (key 0): versions 3 to 13; 0 to 2 are advertised and refused on use.
//
//	0-2  named in ApiVersions only because librdkafka before 2.11.1 takes their
//	     absence for "no compression" (KAFKA-18659). Kafka 4 drops the
//	     connection when one is used; here it is answered UNSUPPORTED_VERSION for
//	     each partition, in that version's own layout, so that a client pinned to an
//	     old version says what is wrong instead of "EOF".
//	3    transactional id; record batches of format 2 only (KIP-98)
//	4    may answer KAFKA_STORAGE_ERROR
//	5    log start offset in the answer (KIP-207)
//	7    zstd (KIP-110); before, a zstd batch is UNSUPPORTED_COMPRESSION_TYPE
//	8    record errors and an error message (KIP-467)
//	9    flexible (KIP-482)
//	10   current leader in the answer (KIP-951)
//	12   as 11: both are about transactions
//	13   topics by id (KIP-516), UNKNOWN_TOPIC_ID
//
// Each partition carries exactly one batch. acks other than -1, 0 and 1 are
// INVALID_REQUIRED_ACKS. acks=0 gets no answer at all; when one of its
// partitions fails, the connection is closed, as in Kafka, so that the
// client learns of it. A transactional id is refused: transactions are not served.

import (
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/buffer"
	"ringlog/frontend"
	"ringlog/meta"
	"ringlog/record"
)

// produceVersionMin is the first version that is more than refused.
const produceVersionMin = 3

// ErrUnacknowledged closes the connection of a produce with acks=0 that failed.
var ErrUnacknowledged = errors.New("kafka: a produce with acks=0 failed")

// produceCall is one Produce request between its frame and its answer. Owner: the
// connection's owner until Start, then the shard's callbacks.
type produceCall struct {
	session       *session
	produce       *broker.Produce
	topics        []topicSpan
	version       int16
	correlationID int32
	flexible      bool
	frame         *buffer.Buffer
	turn          frontend.Turn
	clientID      string

	consumed func() // the method values, bound once
	done     func(*broker.Produce)
}

// topicSpan is one topic of a request and its partitions, a range of parts.
type topicSpan struct {
	name       string // "" from the version on that names topics by id
	id         meta.TopicID
	start, end int
}

// topicsPooledMax bounds what a call keeps for the next one.
const topicsPooledMax = 4096

var produceCalls sync.Pool

func newProduceCall() *produceCall {
	c, pooled := produceCalls.Get().(*produceCall)
	if !pooled {
		c = new(produceCall)
		c.consumed, c.done = c.onConsumed, c.onDone
	}
	return c
}

// receiveProduce decodes a Produce and starts it.
func receiveProduce(s *session, r *request) error {
	c := newProduceCall()
	c.session, c.version, c.correlationID, c.flexible = s, r.version, r.correlationID, r.flexible()
	c.produce = s.protocol.broker.NewProduce()
	c.frame, c.clientID = r.frame, s.clientID
	if err := c.decode(r.body); err != nil {
		r.frame.Release()
		c.release()
		return err
	}
	c.turn = s.conn.Turn(nil)
	c.produce.ZstdRefused = c.version < 7
	c.produce.Sequence = &s.produces
	c.produce.Consumed, c.produce.Done = c.consumed, c.done
	c.produce.Start()
	return nil
}

// A topic and a partition with a batch take more bytes than this together; what has no batch
// has to be accounted for by others that have one, so that a body of so many bytes makes
// structures of five times as many at most.
const (
	produceElementBytesMin = 32
	produceElementsFree    = 16
)

// elementsMax is how many topics and partitions a body of so many bytes may have.
func elementsMax(bodyBytes int) int { return produceElementsFree + bodyBytes/produceElementBytesMin }

// decode reads the request into broker parts; their records slice the frame.
func (c *produceCall) decode(body []byte) error {
	b := wire{Reader: kbin.Reader{Src: body}, flexible: c.flexible}
	elements := elementsMax(len(body))
	var refused error
	if c.version < produceVersionMin {
		refused = fmt.Errorf("%w: Produce version %d, use %d or above", errUnsupportedVersion, c.version, produceVersionMin)
	} else if b.hasNullableString() {
		refused = broker.ErrTransactional
	}
	c.produce.Acks = broker.Acks(b.Int16())
	b.Int32() // timeout: nothing waits for other replicas
	if acks := c.produce.Acks; acks != broker.AcksAll && acks != broker.AcksNone && acks != broker.AcksLeader && refused == nil {
		refused = fmt.Errorf("%w, not %d", errInvalidRequiredAcks, acks)
	}
	for count := b.arrayLen(); count > 0 && b.Ok(); count-- {
		c.decodeTopic(&b, refused, elements)
	}
	b.tags()
	return b.finish("Produce")
}

func (c *produceCall) decodeTopic(b *wire, refused error, elements int) {
	tooMany := func() bool {
		if len(c.topics)+len(c.produce.Parts) < elements {
			return false
		}
		b.fail(fmt.Errorf("%w: %d topics and partitions without records in a request", frontend.ErrMalformed, elements))
		return true
	}
	if tooMany() {
		return
	}
	span := topicSpan{start: len(c.produce.Parts)}
	topic, err := c.session.readTopic(b, c.version >= 13, &span)
	if refused != nil {
		err = refused
	}
	for count := b.arrayLen(); count > 0 && b.Ok(); count-- {
		if tooMany() {
			return
		}
		if len(c.produce.Parts) == partitionCountMax {
			b.fail(fmt.Errorf("%w: more than %d partitions in a request", frontend.ErrMalformed, partitionCountMax))
			return
		}
		part := c.produce.Add()
		part.Topic, part.Err = topic, err
		part.Partition = b.Int32()
		part.Records = b.nullableBytes()
		b.tags()
	}
	b.tags()
	span.end = len(c.produce.Parts)
	c.topics = append(c.topics, span)
}

// readTopic reads the topic of a Produce or Fetch, by name or by id, into span
// and finds it. The name is copied only when there is no such topic.
func (s *session) readTopic(b *wire, byID bool, span *topicSpan) (*broker.Topic, error) {
	if byID {
		span.id = b.Uuid()
		return s.protocol.broker.TopicByID(span.id)
	}
	name := b.string()
	topic, err := s.protocol.broker.Topic(name)
	if err != nil {
		span.name = string(name)
		return nil, err
	}
	span.name = topic.Name
	return topic, nil
}

// onConsumed gives the frame back as soon as the engine has its own copy. A request
// without an answer has had a turn until here so that what one connection has in
// flight is bounded for it too.
func (c *produceCall) onConsumed() {
	c.frame.Release()
	c.frame = nil
	if c.produce.Acks == broker.AcksNone {
		c.turn.Complete(frontend.Reply{})
	}
}

// onDone answers the request, on the shard's thread if that takes no time.
func (c *produceCall) onDone(p *broker.Produce) {
	if len(p.Parts) > partsInPlace {
		go c.answer(p)
		return
	}
	c.answer(p)
}

func (c *produceCall) answer(p *broker.Produce) {
	defer c.session.contain(int16(kmsg.Produce), c.version)
	failed := c.countErrors(p)
	c.noticeSkew(p)
	if p.Acks == broker.AcksNone {
		if failed != nil {
			m := &c.session.protocol.metrics
			m.UnacknowledgedFailures.Add(1)
			c.session.conn.Close(fmt.Errorf("%w: %w", ErrUnacknowledged, failed))
		}
		c.release()
		return
	}
	out := newReply(int16(kmsg.Produce), c.correlationID, c.flexible)
	out.buf = c.appendResponse(out.buf)
	out.send(c.turn, nil)
	c.release()
}

// countErrors counts failed partitions and returns one of their errors.
func (c *produceCall) countErrors(p *broker.Produce) (failed error) {
	for i := range p.Parts {
		if err := p.Parts[i].Err; err != nil {
			failed = err
			c.session.protocol.countError(int16(kmsg.Produce), code(err), err)
		}
	}
	return failed
}

// noticeSkew reports a client whose records are stamped far from the broker's clock.
func (c *produceCall) noticeSkew(p *broker.Produce) {
	for i := range p.Parts {
		part := &p.Parts[i]
		if part.SkewMillis == 0 || part.Err != nil {
			continue
		}
		protocol := c.session.protocol
		protocol.metrics.SkewedBatches.Add(1)
		protocol.clockLogger.Warn("records are stamped far from the clock of the broker; they are kept by the time of their append",
			"topic", part.Topic.Name, "partition", part.Partition, "client_id", clip(c.clientID), "ahead_seconds", part.SkewMillis/1000)
	}
}

// appendResponse encodes the answer; see kmsg.ProduceResponse for the layout.
func (c *produceCall) appendResponse(dst []byte) []byte {
	dst = appendArrayLen(dst, len(c.topics), c.flexible)
	for i := range c.topics {
		span := &c.topics[i]
		if c.version >= 13 {
			dst = append(dst, span.id[:]...)
		} else {
			dst = appendString(dst, span.name, c.flexible)
		}
		dst = appendArrayLen(dst, span.end-span.start, c.flexible)
		for at := span.start; at < span.end; at++ {
			dst = c.appendPart(dst, &c.produce.Parts[at])
		}
		dst = appendNoTags(dst, c.flexible)
	}
	if c.version >= 1 {
		dst = kbin.AppendInt32(dst, 0) // throttle time
	}
	if !c.flexible {
		return dst
	}
	return c.appendBrokers(dst)
}

func (c *produceCall) appendPart(dst []byte, part *broker.ProducePart) []byte {
	number := code(part.Err)
	dst = kbin.AppendInt32(dst, part.Partition)
	dst = kbin.AppendInt16(dst, number)
	dst = kbin.AppendInt64(dst, part.BaseOffset)
	if c.version >= 2 {
		dst = kbin.AppendInt64(dst, part.AppendMillis)
	}
	if c.version >= 5 {
		dst = kbin.AppendInt64(dst, part.Start)
	}
	if c.version >= 8 {
		dst = c.appendRecordErrors(dst, part.Err)
	}
	if !c.flexible {
		return dst
	}
	if c.version < 10 || number != kerr.NotLeaderForPartition.Code {
		return append(dst, 0)
	}
	dst = kbin.AppendUvarint(dst, 1)
	return appendCurrentLeader(dst, 0, part.Topic, part.Partition)
}

// appendRecordErrors encodes the records at fault and the message (KIP-467).
func (c *produceCall) appendRecordErrors(dst []byte, err error) []byte {
	if err == nil {
		dst = appendArrayLen(dst, 0, c.flexible)
		return appendNullableString(dst, nil, c.flexible)
	}
	var offending []record.RecordError
	if invalid := new(record.InvalidError); errors.As(err, &invalid) {
		offending = invalid.Records
	}
	dst = appendArrayLen(dst, len(offending), c.flexible)
	for i := range offending {
		dst = kbin.AppendInt32(dst, int32(offending[i].Index))
		dst = appendNullableString(dst, &offending[i].Message, c.flexible)
		dst = appendNoTags(dst, c.flexible)
	}
	text := message(err)
	return appendNullableString(dst, &text, c.flexible)
}

// appendBrokers encodes the tagged fields of the whole answer: the brokers that
// lead the partitions sent to the wrong one (KIP-951).
func (c *produceCall) appendBrokers(dst []byte) []byte {
	moved := leadersNamed{image: c.session.protocol.broker.Image()}
	if c.version >= 10 {
		for i := range c.produce.Parts {
			part := &c.produce.Parts[i]
			if part.Err != nil && code(part.Err) == kerr.NotLeaderForPartition.Code {
				moved.add(part.Topic, part.Partition)
			}
		}
	}
	return moved.appendTags(dst)
}

// release gives the call and its produce back. REQUIRES: the frame was released.
func (c *produceCall) release() {
	c.produce.Release()
	clear(c.topics)
	if cap(c.topics) > topicsPooledMax {
		c.topics = nil
	}
	*c = produceCall{topics: c.topics[:0], consumed: c.consumed, done: c.done}
	produceCalls.Put(c)
}
