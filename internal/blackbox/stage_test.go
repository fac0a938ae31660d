package blackbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/internal/ringlogtest"
	"ringlog/record"
)

// patience bounds every wait: it is reached only when something hangs.
const patience = 60 * time.Second

// stage is what one row plays on: a broker, and a topic's name that is nobody else's.
type stage struct {
	*testing.T
	broker *ringlogtest.Broker
	topic  string
}

// context bounds a call.
func (s *stage) context() context.Context {
	ctx, cancel := context.WithTimeout(s.T.Context(), patience)
	s.Cleanup(cancel)
	return ctx
}

// client connects franz-go.
func (s *stage) client(options ...kgo.Opt) *kgo.Client {
	s.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(s.broker.Address),
		kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, options...)...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(c.Close)
	return c
}

// consumer connects franz-go to partition 0 of the topic, from an offset on.
func (s *stage) consumer(from kgo.Offset, options ...kgo.Opt) *kgo.Client {
	s.Helper()
	return s.client(append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: {0: from}}))...)
}

// admin connects franz-go's admin client.
func (s *stage) admin() *kadm.Client { return kadm.NewClient(s.client()) }

// create makes the topic, with configurations as "name=value", and returns its id.
func (s *stage) create(partitions int32, configs ...string) [16]byte {
	s.Helper()
	return s.createNamed(s.topic, partitions, configs...)
}

func (s *stage) createNamed(name string, partitions int32, configs ...string) [16]byte {
	s.Helper()
	set := make(map[string]*string)
	for _, config := range configs {
		key, value, _ := strings.Cut(config, "=")
		set[key] = &value
	}
	created, err := s.admin().CreateTopic(s.context(), partitions, 1, set, name)
	if err := errors.Join(err, created.Err); err != nil {
		s.Fatal(err)
	}
	return created.ID
}

// produceRecords produces records of franz-go to the topic.
func (s *stage) produceRecords(c *kgo.Client, records ...*kgo.Record) {
	s.Helper()
	for _, r := range records {
		r.Topic = s.topic
	}
	if err := c.ProduceSync(s.context(), records...).FirstErr(); err != nil {
		s.Fatal(err)
	}
}

// consume polls until count records are there.
func (s *stage) consume(c *kgo.Client, count int) (records []*kgo.Record) {
	s.Helper()
	ctx := s.context()
	for len(records) < count {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			s.Fatalf("after %d of %d records: %v", len(records), count, err)
		}
		fetches.EachError(func(topic string, partition int32, err error) { s.Errorf("%s-%d: %v", topic, partition, err) })
		records = append(records, fetches.Records()...)
	}
	return records
}

// await calls done again and again until it returns true.
func (s *stage) await(what string, done func() bool) {
	s.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			s.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// offset asks by ListOffsets v7 and returns offset and timestamp.
func (s *stage) offset(timestamp int64) (offset, at int64) {
	s.Helper()
	p := s.dial().listOffset(7, s.topic, timestamp)
	if p.ErrorCode != 0 {
		s.Fatal(kerr.ErrorForCode(p.ErrorCode))
	}
	return p.Offset, p.Timestamp
}

// Timestamps with a meaning of their own in ListOffsets.
const (
	latest       = -1
	earliest     = -2
	maxTimestamp = -3
)

// connection is a bare connection that says exactly what it is told.
type connection struct {
	s        *stage
	socket   net.Conn
	correlID int32
}

// dial connects to the broker.
func (s *stage) dial() *connection {
	s.Helper()
	socket, err := net.Dial("tcp", s.broker.Address)
	if err != nil {
		s.Fatal(err)
	}
	if err := socket.SetDeadline(time.Now().Add(patience)); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { socket.Close() })
	return &connection{s: s, socket: socket}
}

// frame is a request as it goes over the wire.
func (c *connection) frame(version int16, request kmsg.Request) []byte {
	request.SetVersion(version)
	c.correlID++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("black box")).AppendRequest(nil, request, c.correlID)
}

// write sends bytes.
func (c *connection) write(frame []byte) {
	c.s.Helper()
	if _, err := c.socket.Write(frame); err != nil {
		c.s.Fatal(err)
	}
}

// send sends a request without waiting for its answer.
func (c *connection) send(version int16, request kmsg.Request) {
	c.s.Helper()
	c.write(c.frame(version, request))
}

// read returns the next answer without its length and correlation id, io.EOF or a reset
// when there is none any more.
func (c *connection) read() ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(c.socket, prefix[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	if _, err := io.ReadFull(c.socket, body); err != nil {
		return nil, fmt.Errorf("an answer that ends early: %w", err)
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != c.correlID {
		return nil, fmt.Errorf("the answer belongs to request %d, not to %d", got, c.correlID)
	}
	return body[4:], nil
}

// receive reads the answer to a request and wants it to be read to its last byte.
func receive[R kmsg.Response](c *connection, request kmsg.Request) R {
	c.s.Helper()
	body, err := c.read()
	if err != nil {
		c.s.Fatalf("%T version %d: %v", request, request.GetVersion(), err)
	}
	if request.IsFlexible() && request.Key() != int16(kmsg.ApiVersions) {
		body = body[1:] // the empty tags of the header
	}
	response := request.ResponseKind()
	if err := response.ReadFrom(body); err != nil {
		c.s.Fatalf("%T version %d: %v", response, request.GetVersion(), err)
	}
	if again := response.AppendTo(nil); !bytes.Equal(again, body) {
		c.s.Fatalf("%T version %d has other bytes than were read from it", response, request.GetVersion())
	}
	return response.(R)
}

// ask sends a request of a version and returns its answer.
func ask[R kmsg.Response](c *connection, version int16, request kmsg.Request) R {
	c.s.Helper()
	c.send(version, request)
	return receive[R](c, request)
}

// listOffset asks for one offset of partition 0.
func (c *connection) listOffset(version int16, topic string, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	c.s.Helper()
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	partition := kmsg.NewListOffsetsRequestTopicPartition()
	partition.Timestamp = timestamp
	asked.Partitions = append(asked.Partitions, partition)
	request.Topics = append(request.Topics, asked)
	return ask[*kmsg.ListOffsetsResponse](c, version, request).Topics[0].Partitions[0]
}

// produceRequest appends a batch to a partition, with acks=all. Up to version 12 the topic is
// known by its name, then by its id; whoever needs only one leaves the other zero.
func produceRequest(topic string, id [16]byte, partition int32, batch []byte) *kmsg.ProduceRequest {
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, int32(patience.Milliseconds())
	asked := kmsg.NewProduceRequestTopic()
	asked.Topic, asked.TopicID = topic, id
	one := kmsg.NewProduceRequestTopicPartition()
	one.Partition, one.Records = partition, batch
	asked.Partitions = append(asked.Partitions, one)
	request.Topics = append(request.Topics, asked)
	return request
}

// produce appends a batch to partition 0 of the topic by name, and returns the answer.
func (c *connection) produce(version int16, batch []byte) kmsg.ProduceResponseTopicPartition {
	c.s.Helper()
	return ask[*kmsg.ProduceResponse](c, version, produceRequest(c.s.topic, [16]byte{}, 0, batch)).Topics[0].Partitions[0]
}

// mustProduce is produce for what must be taken.
func (c *connection) mustProduce(version int16, batch []byte) kmsg.ProduceResponseTopicPartition {
	c.s.Helper()
	p := c.produce(version, batch)
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		c.s.Fatalf("produce: %v", err)
	}
	return p
}

// fetchRequest asks for partitions 0, 1, ... of a topic, from these offsets on, and does not wait.
func fetchRequest(topic string, id [16]byte, offsets ...int64) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.ReplicaID, request.MaxBytes, request.SessionEpoch = -1, 100<<20, -1
	asked := kmsg.NewFetchRequestTopic()
	asked.Topic, asked.TopicID = topic, id
	for number, offset := range offsets {
		partition := kmsg.NewFetchRequestTopicPartition()
		partition.Partition, partition.FetchOffset, partition.PartitionMaxBytes = int32(number), offset, 100<<20
		asked.Partitions = append(asked.Partitions, partition)
	}
	request.Topics = append(request.Topics, asked)
	return request
}

// fetch reads partition 0 of the topic by name.
func (c *connection) fetch(version int16, offset int64) kmsg.FetchResponseTopicPartition {
	c.s.Helper()
	return ask[*kmsg.FetchResponse](c, version, fetchRequest(c.s.topic, [16]byte{}, offset)).Topics[0].Partitions[0]
}

// producerID draws one for an idempotent producer.
func (c *connection) producerID(version int16) int64 {
	c.s.Helper()
	request := kmsg.NewPtrInitProducerIDRequest()
	request.TransactionTimeoutMillis, request.ProducerID, request.ProducerEpoch = 60_000, -1, -1
	answer := ask[*kmsg.InitProducerIDResponse](c, version, request)
	if answer.ErrorCode != 0 || answer.ProducerEpoch != 0 {
		c.s.Fatalf("producer id: code %d, epoch %d", answer.ErrorCode, answer.ProducerEpoch)
	}
	return answer.ProducerID
}

// batchAt builds a batch of one record for each timestamp.
func batchAt(options record.BuilderOptions, timestamps ...int64) record.Batch {
	var b record.Builder
	b.Reset(options)
	for n, at := range timestamps {
		b.Append(at, nil, fmt.Appendf(nil, "record %d", n))
	}
	return built(&b)
}

// batchOf builds a batch of so many records of now.
func batchOf(options record.BuilderOptions, count int) record.Batch {
	now := time.Now().UnixMilli()
	timestamps := make([]int64, count)
	for n := range timestamps {
		timestamps[n] = now
	}
	return batchAt(options, timestamps...)
}

// batchSized builds a batch of one record with a value of so many bytes.
func batchSized(bytes int) record.Batch {
	var b record.Builder
	b.Reset(record.BuilderOptions{})
	b.Append(time.Now().UnixMilli(), nil, make([]byte, bytes))
	return built(&b)
}

func built(b *record.Builder) record.Batch {
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	return bytes.Clone(batch)
}

// sequenced are the options of an idempotent producer's batch.
func sequenced(id int64, epoch int16, sequence int32) record.BuilderOptions {
	return record.BuilderOptions{Idempotent: true, ProducerID: id, ProducerEpoch: epoch, BaseSequence: sequence}
}

// Where fields of a batch lie (docs/format/record-batch.md).
const (
	lengthAt     = 8
	checksumAt   = 17
	attributesAt = 21
	recordsAt    = 61
)

// seal makes length and checksum of changed bytes right again.
func seal(batch []byte) []byte {
	binary.BigEndian.PutUint32(batch[lengthAt:], uint32(len(batch)-lengthAt-4))
	binary.BigEndian.PutUint32(batch[checksumAt:], crc32.Checksum(batch[attributesAt:], crc32.MakeTable(crc32.Castagnoli)))
	return batch
}

// batches cuts what was fetched into whole batches; a part of one at the end is left out, as
// clients do.
func batches(fetched []byte) (all []record.Batch) {
	for {
		batch, rest, err := record.Next(fetched)
		if err != nil {
			return all
		}
		all, fetched = append(all, batch), rest
	}
}
