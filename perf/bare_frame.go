package perf

import (
	"encoding/binary"
	"fmt"

	"ringlog/record"
)

// bareLayout is all that the bare server knows of Kafka: where in a frame of
// the generator the partition and the batch are, and the fixed reply.
type bareLayout struct {
	partition int // position of an i32
	records   int // position of the batch's length, a uvarint of length + 1 (compact bytes)
	prefix    []byte
	reply     produceReply
	// replyPartition is the position of the partition, an i32, in the reply.
	replyPartition int
	partitions     int
}

func newBareLayout(acks int16, partitions int) *bareLayout {
	marker := []byte("marker of the batch")
	first := newProduceTemplate(bareVersion, bareTopic, 0, acks, marker)
	other := newProduceTemplate(bareVersion, bareTopic, -1, acks, marker)
	l := &bareLayout{
		partition:  frameHeaderBytes + firstDifference(first.before, other.before),
		reply:      first.reply,
		partitions: partitions,
	}
	l.records = l.partition + 4
	l.prefix = append(append([]byte(nil), first.header[4:correlationOffset]...), first.before[:l.partition-frameHeaderBytes]...)
	l.replyPartition = firstDifference(first.reply.frame, other.reply.frame)
	return l
}

// parse finds the correlation id, the partition and the batch of a frame.
func (l *bareLayout) parse(frame []byte) (correlation uint32, partition int, batch record.Batch, err error) {
	wrong := func(what string) (uint32, int, record.Batch, error) {
		return 0, 0, nil, fmt.Errorf("%w: a frame of %d bytes is none of the generator's: %s", ErrProtocol, len(frame), what)
	}
	if len(frame) < l.records+record.HeaderBytes {
		return wrong("too short")
	}
	if string(frame[4:correlationOffset]) != string(l.prefix[:correlationOffset-4]) ||
		string(frame[frameHeaderBytes:l.partition]) != string(l.prefix[correlationOffset-4:]) {
		return wrong("other fields")
	}
	correlation = binary.BigEndian.Uint32(frame[correlationOffset:])
	partition = int(int32(binary.BigEndian.Uint32(frame[l.partition:])))
	if partition < 0 || partition >= l.partitions {
		return wrong("no such partition")
	}
	length, n := binary.Uvarint(frame[l.records:])
	at := l.records + n
	if n <= 0 || length == 0 || length-1 > uint64(len(frame)-at) {
		return wrong("length of the records")
	}
	batch, rest, err := record.Next(frame[at : at+int(length-1)])
	if err != nil {
		return 0, 0, nil, fmt.Errorf("perf: bare server: %w", err)
	}
	if len(rest) > 0 {
		return wrong("more than one batch")
	}
	return correlation, partition, batch, nil
}

// appendReply appends the fixed reply with the fields that differ.
func (l *bareLayout) appendReply(dst []byte, correlation uint32, partition int, baseOffset int64) []byte {
	at := len(dst)
	dst = append(dst, l.reply.frame...)
	binary.BigEndian.PutUint32(dst[at+4:], correlation)
	binary.BigEndian.PutUint32(dst[at+l.replyPartition:], uint32(partition))
	binary.BigEndian.PutUint64(dst[at+l.reply.baseOffset:], uint64(baseOffset))
	return dst
}
