package blackbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/record"
)

const (
	offsetOutOfRange           = 1
	unknownTopicOrPartition    = 3
	unsupportedVersion         = 35
	unsupportedCompressionType = 76
	unknownTopicID             = 100
)

// Row 28.
func aBatchAboveTheLimits(s *stage) {
	s.create(2)
	c := s.dial()
	sizes := make([]int, 3)
	for n := range sizes {
		batch := batchSized(200_000 + n)
		sizes[n] = len(batch)
		for partition := range int32(2) {
			ask[*kmsg.ProduceResponse](c, 9, produceRequest(s.topic, [16]byte{}, partition, batch))
		}
	}
	for _, limits := range []struct {
		what                   string
		response, partition    int32
		wantFirst, wantsSecond int // batches
	}{
		{"nothing at all", 0, 0, 1, 0},
		{"one byte", 1, 1, 1, 0},
		{"a byte less than the first", int32(sizes[0]) - 1, 100 << 20, 1, 0},
		{"the first and a byte", 100 << 20, int32(sizes[0]) + 1, 1, 1},
		{"two", 100 << 20, int32(sizes[0] + sizes[1]), 2, 2},
		{"the answer has room for three", int32(sizes[0] + sizes[1] + sizes[2]), int32(sizes[0] + sizes[1]), 2, 1},
	} {
		for _, version := range []int16{4, 7, 11, 12} {
			request := fetchRequest(s.topic, [16]byte{}, 0, 0)
			request.MaxBytes = limits.response
			for n := range request.Topics[0].Partitions {
				request.Topics[0].Partitions[n].PartitionMaxBytes = limits.partition
			}
			answer := ask[*kmsg.FetchResponse](c, version, request)
			for n, want := range []int{limits.wantFirst, limits.wantsSecond} {
				p := answer.Topics[0].Partitions[n]
				if got := batches(p.RecordBatches); p.ErrorCode != 0 || len(got) != want {
					s.Errorf("%s, v%d: partition %d has %d batches in %d bytes, code %d; want %d", limits.what, version, n, len(got), len(p.RecordBatches), p.ErrorCode, want)
				}
			}
		}
	}
	consumer := s.consumer(kgo.NewOffset().AtStart(), kgo.FetchMaxPartitionBytes(1), kgo.FetchMaxBytes(1))
	for n, r := range s.consume(consumer, 3) {
		if r.Offset != int64(n) || len(r.Value) != 200_000+n {
			s.Errorf("record %d: offset %d, %d bytes", n, r.Offset, len(r.Value))
		}
	}
}

// Row 29. kmsg reads a null field of bytes as nil and an empty one as an empty slice.
func recordsAreNeverNull(s *stage) {
	id := s.create(1)
	c := s.dial()
	c.mustProduce(9, batchOf(record.BuilderOptions{}, 1))
	for version := int16(4); version <= 18; version++ {
		unknown := fetchRequest("no-such-topic", [16]byte{29}, 0)
		unknownPartition := fetchRequest(s.topic, id, 0)
		unknownPartition.Topics[0].Partitions[0].Partition = 7
		for _, f := range []struct {
			what    string
			request *kmsg.FetchRequest
			code    int16
		}{
			{"at the end", fetchRequest(s.topic, id, 1), 0},
			{"out of range", fetchRequest(s.topic, id, 99), offsetOutOfRange},
			{"unknown partition", unknownPartition, unknownTopicOrPartition},
			{"unknown topic", unknown, map[bool]int16{false: unknownTopicOrPartition, true: unknownTopicID}[version >= 13]},
		} {
			p := ask[*kmsg.FetchResponse](c, version, f.request).Topics[0].Partitions[0]
			if p.ErrorCode != f.code || p.RecordBatches == nil || len(p.RecordBatches) != 0 {
				s.Errorf("v%d %s: code %d, records %v", version, f.what, p.ErrorCode, p.RecordBatches)
			}
		}
	}
	said := s.kcat("-C", "-e", "-d", "protocol,fetch", "-t", s.topic, "-o", "end")
	for _, complaint := range []string{"PROTOUFLOW", "BADMSG", "Protocol read"} {
		if strings.Contains(said, complaint) {
			s.Errorf("librdkafka cannot read an answer:\n%s", said)
		}
	}
}

// kcat runs kcat to its end and returns all that it says.
func (s *stage) kcat(arguments ...string) string {
	s.Helper()
	if _, err := exec.LookPath("kcat"); err != nil {
		s.Skip("kcat is not installed here, so librdkafka does not get to speak: scripts/install-test-tools.sh")
	}
	command := exec.CommandContext(s.context(), "kcat", append([]string{"-b", s.broker.Address, "-m", "30", "-X", "broker.address.family=v4"}, arguments...)...)
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Run(); err != nil {
		s.Fatalf("kcat %s: %v\n%s", strings.Join(arguments, " "), err, said.String())
	}
	return said.String()
}

// Row 30. kafka-go's Reader asks for the bounds by ListOffsets v1 and then fetches by v5 or v10 (it has
// no others that are served), with a byte at least and a wait of its own.
func kafkaGoReadsAnEmptyTopic(s *stage) {
	s.create(1)
	c := s.dial()
	for _, version := range []int16{5, 10} {
		for _, bound := range []int64{earliest, latest} {
			if p := c.listOffset(1, s.topic, bound); p.ErrorCode != 0 || p.Offset != 0 {
				s.Fatalf("bound %d: code %d, offset %d", bound, p.ErrorCode, p.Offset)
			}
		}
		for range 3 {
			request := fetchRequest(s.topic, [16]byte{}, 0)
			request.MinBytes, request.MaxWaitMillis = 1, 50
			if p := ask[*kmsg.FetchResponse](c, version, request).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.HighWatermark != 0 || len(p.RecordBatches) != 0 {
				s.Errorf("v%d: code %d, high watermark %d, %d bytes", version, p.ErrorCode, p.HighWatermark, len(p.RecordBatches))
			}
		}
	}
	waiting := fetchRequest(s.topic, [16]byte{}, 0)
	waiting.MinBytes, waiting.MaxWaitMillis = 1, int32(patience.Milliseconds())
	c.send(10, waiting)
	s.dial().mustProduce(7, batchOf(record.BuilderOptions{}, 1))
	if p := receive[*kmsg.FetchResponse](c, waiting).Topics[0].Partitions[0]; len(batches(p.RecordBatches)) != 1 {
		s.Errorf("the first record: code %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
}

// Row 31.
func zstdAndOldVersions(s *stage) {
	s.create(1)
	c := s.dial()
	zstd := batchOf(record.BuilderOptions{Codec: record.CodecZstd}, 3)
	for version := int16(3); version < 7; version++ {
		if p := c.produce(version, zstd); p.ErrorCode != unsupportedCompressionType {
			s.Errorf("Produce v%d: code %d", version, p.ErrorCode)
		}
	}
	for version := int16(7); version <= 12; version++ {
		c.mustProduce(version, zstd)
	}
	for version := int16(4); version < 10; version++ {
		if p := c.fetch(version, 0); p.ErrorCode != unsupportedCompressionType || len(p.RecordBatches) != 0 {
			s.Errorf("Fetch v%d: code %d, %d bytes", version, p.ErrorCode, len(p.RecordBatches))
		}
	}
	for version := int16(10); version <= 12; version++ {
		if p := c.fetch(version, 0); p.ErrorCode != 0 || len(batches(p.RecordBatches)) != 6 {
			s.Errorf("Fetch v%d: code %d, %d batches", version, p.ErrorCode, len(batches(p.RecordBatches)))
		}
	}
	// A topic that stores as zstd what came otherwise is the same to an old consumer.
	converted := &stage{T: s.T, broker: s.broker, topic: s.topic + "-converted"}
	converted.create(1, "compression.type=zstd")
	c = converted.dial()
	c.mustProduce(3, batchOf(record.BuilderOptions{Codec: record.CodecGzip}, 3))
	if p := c.fetch(9, 0); p.ErrorCode != unsupportedCompressionType {
		s.Errorf("Fetch v9 of a converted batch: code %d", p.ErrorCode)
	}
	if got := batches(c.fetch(10, 0).RecordBatches); len(got) != 1 || got[0].Codec() != record.CodecZstd || got[0].RecordCount() != 3 {
		s.Errorf("Fetch v10 of a converted batch: %d batches", len(got))
	}
}

// Row 32.
func aFetchWaitsAsLongAsItMay(s *stage) {
	s.create(1)
	c := s.dial()
	for _, wait := range []time.Duration{0, 100 * time.Millisecond} {
		request := fetchRequest(s.topic, [16]byte{}, 0)
		request.MinBytes, request.MaxWaitMillis = 1, int32(wait.Milliseconds())
		began := time.Now()
		if p := ask[*kmsg.FetchResponse](c, 12, request).Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) != 0 {
			s.Errorf("wait %s: code %d", wait, p.ErrorCode)
		}
		if took := time.Since(began); took < wait {
			s.Errorf("a fetch that may wait %s waits %s", wait, took)
		}
	}
	// With bytes in plenty the wait is not begun; short of MinBytes it is, and ends when they come.
	c.mustProduce(9, batchOf(record.BuilderOptions{}, 1))
	patient := func(bytesMin int32, offset int64) *kmsg.FetchRequest {
		request := fetchRequest(s.topic, [16]byte{}, offset)
		request.MinBytes, request.MaxWaitMillis = bytesMin, int32(patience.Milliseconds())
		return request
	}
	if p := ask[*kmsg.FetchResponse](c, 12, patient(1, 0)).Topics[0].Partitions[0]; len(p.RecordBatches) == 0 {
		s.Error("bytes that are there are not returned")
	}
	long := patient(10_000, 1)
	c.send(12, long)
	producer := s.dial()
	for range 4 {
		producer.mustProduce(9, batchSized(3000))
	}
	if p := receive[*kmsg.FetchResponse](c, long).Topics[0].Partitions[0]; len(p.RecordBatches) < 10_000 {
		s.Errorf("MinBytes of 10000: %d bytes", len(p.RecordBatches))
	}
	// A consumer that begins at the end gets what comes next.
	consumer := s.consumer(kgo.NewOffset().AtEnd(), kgo.FetchMaxWait(patience))
	received := make(chan int, 1)
	go func() { received <- len(consumer.PollFetches(s.T.Context()).Records()) }()
	s.await("a consumer at the end gets a record", func() bool {
		producer.mustProduce(9, batchOf(record.BuilderOptions{}, 1)) // until it has found its place
		select {
		case count := <-received:
			if count == 0 {
				s.Error("it got an answer without records")
			}
			return true
		default:
			return false
		}
	})
}

// Row 37.
func aFetchFromTheMiddleOfABatch(s *stage) {
	s.create(1)
	c := s.dial()
	for _, codec := range []record.Codec{record.CodecNone, record.CodecZstd} {
		c.mustProduce(9, batchOf(record.BuilderOptions{Codec: codec}, 10))
	}
	if start, err := s.deleteRecords(14); start != 14 || err != nil {
		s.Fatalf("start %d, %v", start, err)
	}
	for version := int16(4); version <= 12; version++ {
		if version == 4 || version >= 10 {
			for _, offset := range []int64{14, 17, 19} {
				p := c.fetch(version, offset)
				got := batches(p.RecordBatches)
				if p.ErrorCode != 0 || len(got) != 1 || got[0].BaseOffset() != 10 || got[0].RecordCount() != 10 {
					if version < 10 && p.ErrorCode == unsupportedCompressionType {
						continue
					}
					s.Errorf("v%d from %d: code %d, %d batches", version, offset, p.ErrorCode, len(got))
				}
			}
		}
		if p := c.fetch(version, 13); p.ErrorCode != offsetOutOfRange {
			s.Errorf("v%d below the start: code %d", version, p.ErrorCode)
		}
	}
	for _, from := range []int64{14, 17} {
		for n, r := range s.consume(s.consumer(kgo.NewOffset().At(from)), int(20-from)) {
			if r.Offset != from+int64(n) {
				s.Fatalf("from %d: record %d has offset %d", from, n, r.Offset)
			}
		}
	}
}

// errorOf polls a consumer until it reports an error of a partition.
func (s *stage) errorOf(c *kgo.Client) error {
	s.Helper()
	ctx := s.context()
	for {
		fetches := c.PollFetches(ctx)
		var found error
		fetches.EachError(func(_ string, _ int32, err error) { found = errors.Join(found, err) })
		if found != nil {
			if errors.Is(found, context.DeadlineExceeded) {
				s.Fatal("no error came")
			}
			return found
		}
		if records := fetches.Records(); len(records) > 0 {
			return fmt.Errorf("%d records from offset %d on and no error", len(records), records[0].Offset)
		}
	}
}
