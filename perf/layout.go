package perf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/record"
)

// Versions of Produce that the generator speaks: from 3 on a request carries
// batches of format 2, up to 12 it names its topic (13 has the id, KIP-516).
const (
	produceVersionMin = 3
	produceVersionMax = 12
)

const (
	clientID = "ringlog-perf"
	// frameHeaderBytes is the part of a request frame that differs from send to
	// send: u32 length, i16 key, i16 version, i32 correlation id.
	frameHeaderBytes  = 12
	correlationOffset = 8
	// replyPrefixBytes are u32 length and i32 correlation id of a reply.
	replyPrefixBytes = 8
)

// produceTemplate is a Produce request for one partition, encoded once. Its bytes are
// shared by all connections and never change.
type produceTemplate struct {
	header [frameHeaderBytes]byte // to be copied; the correlation id is patched in the copy
	before []byte                 // what follows the header, up to the batch
	batch  []byte
	after  []byte   // what follows the batch
	bytes  int      // of the whole frame
	stamps *stamper // nil: the batch is sent as it is
	reply  produceReply
}

// newProduceRequest is the request with one batch for one partition.
func newProduceRequest(version int16, topic string, partition int32, acks int16, batch []byte) *kmsg.ProduceRequest {
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(version)
	request.Acks = acks
	request.TimeoutMillis = 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition = partition
	p.Records = batch
	t.Partitions = append(t.Partitions, p)
	request.Topics = append(request.Topics, t)
	return request
}

func newProduceTemplate(version int16, topic string, partition int32, acks int16, batch []byte) *produceTemplate {
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).
		AppendRequest(nil, newProduceRequest(version, topic, partition, acks, batch), 0)
	at := bytes.LastIndex(frame, batch) // the batch comes last, and is longer than what else there is
	t := &produceTemplate{
		before: frame[frameHeaderBytes:at:at],
		batch:  batch,
		after:  frame[at+len(batch):],
		bytes:  len(frame),
		reply:  newProduceReply(version, topic, partition),
	}
	copy(t.header[:], frame)
	return t
}

// produceReply is the reply that a template's request gets when all is well,
// and where in it the fields are that differ from reply to reply.
type produceReply struct {
	version    int16
	frame      []byte // whole, correlation id 0, offset 0
	errorCode  int    // position of an i16
	baseOffset int    // position of an i64
}

func newProduceReply(version int16, topic string, partition int32) produceReply {
	encode := func(errorCode int16, baseOffset int64) []byte {
		reply := kmsg.NewPtrProduceResponse()
		reply.SetVersion(version)
		t := kmsg.NewProduceResponseTopic()
		t.Topic = topic
		p := kmsg.NewProduceResponseTopicPartition()
		p.Partition = partition
		p.ErrorCode = errorCode
		p.BaseOffset = baseOffset
		p.LogAppendTime = -1
		p.LogStartOffset = 0
		t.Partitions = append(t.Partitions, p)
		reply.Topics = append(reply.Topics, t)
		frame := make([]byte, replyPrefixBytes)
		if reply.IsFlexible() {
			frame = append(frame, 0) // no tagged fields in the header
		}
		frame = reply.AppendTo(frame)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		return frame
	}
	plain := encode(0, 0)
	return produceReply{
		version:    version,
		frame:      plain,
		errorCode:  firstDifference(plain, encode(-1, 0)),
		baseOffset: firstDifference(plain, encode(0, -1)),
	}
}

// firstDifference is how positions in an encoding are found without knowing
// it: encode it twice with one field changed in every byte.
func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	panic("perf: two encodings do not differ")
}

// check returns the error code in a reply frame, or ok = false when the frame
// has another shape and must be decoded in full.
func (r *produceReply) check(frame []byte) (errorCode int16, ok bool) {
	if len(frame) != len(r.frame) {
		return 0, false
	}
	return int16(binary.BigEndian.Uint16(frame[r.errorCode:])), true
}

// decode reads a reply frame of any shape and returns its first error code.
func (r *produceReply) decode(frame []byte) (int16, error) {
	reply := kmsg.NewPtrProduceResponse()
	reply.SetVersion(r.version)
	body := frame[replyPrefixBytes:]
	if reply.IsFlexible() {
		if len(body) == 0 || body[0] != 0 {
			return 0, fmt.Errorf("%w: produce reply has tagged header fields", ErrProtocol)
		}
		body = body[1:]
	}
	if err := reply.ReadFrom(body); err != nil {
		return 0, fmt.Errorf("%w: produce reply: %w", ErrProtocol, err)
	}
	if len(reply.Topics) != 1 || len(reply.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("%w: produce reply is not about the one partition that was sent", ErrProtocol)
	}
	return reply.Topics[0].Partitions[0].ErrorCode, nil
}

// buildBatch builds the record batch of a load and returns how many records it
// has. The values are half noise, half text, so that a codec has the work that
// it has with real data.
func buildBatch(load *Load, nowMillis int64) (batch []byte, records int, err error) {
	codec, ok := record.ParseCodec(load.Codec)
	if !ok {
		return nil, 0, fmt.Errorf("perf: codec %q is unknown", load.Codec)
	}
	random := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, load.RecordBytes)
	var builder record.Builder
	builder.Reset(record.BuilderOptions{Codec: codec})
	for {
		for i := range value {
			if i < len(value)/2 {
				value[i] = byte(random.Uint32())
			} else {
				value[i] = "the log is the truth, the rest is cache; "[i%41]
			}
		}
		if load.Stamp && records == 0 {
			copy(value, stampMark)
			clear(value[len(stampMark):stampBytes])
		}
		before := builder.PlainBytes()
		builder.Append(nowMillis, nil, value)
		size := builder.PlainBytes()
		if records++; size+(size-before) > load.BatchBytes {
			break
		}
	}
	batch, err = builder.Build()
	return bytes.Clone(batch), records, err
}
