package blackbox

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/record"
)

// Row 1. kadm answers with the end of the log when the broker knows no such record, so
// each version is asked by itself.
func noRecordIsLateEnough(s *stage) {
	s.create(1)
	c := s.dial()
	c.mustProduce(9, batchOf(record.BuilderOptions{}, 3))
	later := time.Now().Add(time.Hour)
	for version := int16(1); version <= 11; version++ {
		if p := c.listOffset(version, s.topic, later.UnixMilli()); p.ErrorCode != 0 || p.Offset != -1 || p.Timestamp != -1 {
			s.Errorf("version %d: code %d, offset %d, timestamp %d", version, p.ErrorCode, p.Offset, p.Timestamp)
		}
	}
	// What a client makes of it: a consumer from there on gets what comes next.
	listed, err := s.admin().ListOffsetsAfterMilli(s.context(), later.UnixMilli(), s.topic)
	if err != nil {
		s.Fatal(err)
	}
	if got, _ := listed.Lookup(s.topic, 0); got.Err != nil || got.Offset != 3 {
		s.Errorf("kadm: offset %d, %v; want the end, 3", got.Offset, got.Err)
	}
}

// Row 2.
func aTimeIsFoundInsideABatch(s *stage) {
	for codecName, codec := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		name := s.topic + "-" + codecName
		of := &stage{T: s.T, broker: s.broker, topic: name}
		of.create(1)
		producer := of.client(kgo.ManualFlushing(), kgo.ProducerBatchCompression(codec))
		send := func(from, to int64) {
			s.Helper()
			for at := from; at <= to; at++ {
				producer.Produce(of.context(), &kgo.Record{Topic: name, Timestamp: time.UnixMilli(at), Value: []byte("x")}, func(_ *kgo.Record, err error) {
					if err != nil {
						of.Error(err)
					}
				})
			}
			if err := producer.Flush(of.context()); err != nil {
				of.Fatal(err)
			}
		}
		const count = 100
		send(0, 0) // from now on it knows the topic, and puts all records of a flush into one batch
		send(1, count)
		c := of.dial()
		if all := batches(c.fetch(12, 0).RecordBatches); len(all) != 2 || all[1].RecordCount() != count {
			of.Fatalf("%s: the records came in %d batches, so nothing is shown", name, len(all))
		}
		for at := range int64(count + 1) {
			if p := c.listOffset(7, name, at); p.ErrorCode != 0 || p.Offset != at || p.Timestamp != at {
				of.Errorf("%s: timestamp %d is found at offset %d (%d)", name, at, p.Offset, p.Timestamp)
			}
		}
	}
}

// Row 3.
func aTimeBetweenTwoRecords(s *stage) {
	s.create(1)
	s.produceRecords(s.client(), &kgo.Record{Timestamp: time.UnixMilli(2)}, &kgo.Record{Timestamp: time.UnixMilli(4)}, &kgo.Record{Timestamp: time.UnixMilli(6)})
	for at, want := range map[int64]int64{1: 0, 2: 0, 3: 1, 4: 1, 5: 2, 6: 2} {
		listed, err := s.admin().ListOffsetsAfterMilli(s.context(), at, s.topic)
		if err != nil {
			s.Fatal(err)
		}
		if got, _ := listed.Lookup(s.topic, 0); got.Err != nil || got.Offset != want || got.Timestamp != 2*want+2 {
			s.Errorf("from %d ms on: offset %d of %d ms, %v; want offset %d", at, got.Offset, got.Timestamp, got.Err, want)
		}
	}
}

// Row 4. What clients wrote counts no more, in the header (base timestamp) or in the records.
func aTimeWithLogAppendTime(s *stage) {
	s.create(1, "message.timestamp.type=LogAppendTime")
	c := s.dial()
	first := c.mustProduce(9, batchAt(record.BuilderOptions{}, 1, 2, 3)).LogAppendTime
	s.await("a later millisecond", func() bool { return time.Now().UnixMilli() > first })
	second := c.mustProduce(9, batchAt(record.BuilderOptions{Codec: record.CodecLZ4}, 4, 5, 6)).LogAppendTime
	for _, ask := range []struct{ at, offset, timestamp int64 }{
		{0, 0, first}, {2, 0, first}, {first, 0, first}, {first + 1, 3, second}, {second, 3, second}, {second + 1, -1, -1},
	} {
		if p := c.listOffset(7, s.topic, ask.at); p.Offset != ask.offset || p.Timestamp != ask.timestamp {
			s.Errorf("timestamp %d finds offset %d at %d, want %d at %d", ask.at, p.Offset, p.Timestamp, ask.offset, ask.timestamp)
		}
	}
}

// Row 5. Version 0 means "up to this time, the last offsets of so many segments". Who does not implement
// it must not name it; who asks all the same has no layout to read an answer in.
func listOffsetsZeroIsNotOffered(s *stage) {
	s.create(1)
	c := s.dial()
	for _, key := range ask[*kmsg.ApiVersionsResponse](c, 0, kmsg.NewPtrApiVersionsRequest()).ApiKeys {
		if key.ApiKey == int16(kmsg.ListOffsets) && key.MinVersion != 1 {
			s.Errorf("ListOffsets is offered from version %d on", key.MinVersion)
		}
	}
	request := kmsg.NewPtrListOffsetsRequest()
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = s.topic
	asked.Partitions = append(asked.Partitions, kmsg.NewListOffsetsRequestTopicPartition())
	request.Topics = append(request.Topics, asked)
	c.send(0, request)
	if body, err := c.read(); err == nil {
		s.Errorf("version 0 is answered by %x", body)
	}
}

// Row 7.
func theLargestTimestamp(s *stage) {
	s.create(1)
	c := s.dial()
	if p := c.listOffset(7, s.topic, maxTimestamp); p.ErrorCode != 0 || p.Offset != -1 || p.Timestamp != -1 {
		s.Errorf("of an empty log: code %d, offset %d, timestamp %d", p.ErrorCode, p.Offset, p.Timestamp)
	}
	c.mustProduce(9, batchAt(record.BuilderOptions{}, 3, 1, 2))
	c.mustProduce(9, batchAt(record.BuilderOptions{Codec: record.CodecZstd}, 5, 9, 7, 9, 8))
	c.mustProduce(9, batchAt(record.BuilderOptions{Codec: record.CodecGzip}, 4, 6))
	for version := int16(7); version <= 11; version++ {
		if p := c.listOffset(version, s.topic, maxTimestamp); p.ErrorCode != 0 || p.Offset != 4 || p.Timestamp != 9 {
			s.Errorf("version %d: code %d, offset %d, timestamp %d; want offset 4 at 9", version, p.ErrorCode, p.Offset, p.Timestamp)
		}
	}
	if p := c.listOffset(6, s.topic, maxTimestamp); p.ErrorCode != 35 {
		s.Errorf("version 6 does not know it: code %d, want UNSUPPORTED_VERSION", p.ErrorCode)
	}
}

// Row 33. librdkafka shows this field in its delivery reports.
func logAppendTimeIsInTheAnswer(s *stage) {
	s.create(1, "message.timestamp.type=LogAppendTime")
	plain := &stage{T: s.T, broker: s.broker, topic: s.topic + "-create-time"}
	id := plain.create(1)
	c, other := s.dial(), plain.dial()
	before := time.Now().UnixMilli()
	for version := int16(3); version <= 12; version++ {
		if p := c.mustProduce(version, batchAt(record.BuilderOptions{Codec: record.CodecSnappy}, 1, 2)); p.LogAppendTime < before || p.LogAppendTime > time.Now().UnixMilli() {
			s.Errorf("version %d: log append time %d, and now is %d", version, p.LogAppendTime, time.Now().UnixMilli())
		}
		if p := other.mustProduce(version, batchOf(record.BuilderOptions{}, 1)); p.LogAppendTime != -1 {
			s.Errorf("version %d: log append time %d with CreateTime, want -1", version, p.LogAppendTime)
		}
	}
	// A retry is answered with the time at which the batch was stored.
	retried := batchOf(sequenced(c.producerID(4), 0, 0), 1)
	first := c.mustProduce(9, retried)
	s.await("a later millisecond", func() bool { return time.Now().UnixMilli() > first.LogAppendTime })
	if again := c.mustProduce(9, retried); again.BaseOffset != first.BaseOffset || again.LogAppendTime != first.LogAppendTime {
		s.Errorf("a retry: offset %d at %d, and the original %d at %d", again.BaseOffset, again.LogAppendTime, first.BaseOffset, first.LogAppendTime)
	}
	request := produceRequest("", id, 0, batchOf(record.BuilderOptions{}, 1))
	if p := ask[*kmsg.ProduceResponse](other, 13, request).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.LogAppendTime != -1 {
		s.Errorf("version 13: code %d, log append time %d", p.ErrorCode, p.LogAppendTime)
	}
}

// Row 34.
func logAppendTimeIsThePresent(s *stage) {
	s.create(1, "message.timestamp.type=LogAppendTime")
	before := time.Now().Truncate(time.Millisecond)
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.ZstdCompression()} {
		producer := s.client(kgo.ProducerBatchCompression(codec))
		s.produceRecords(producer, &kgo.Record{Timestamp: time.UnixMilli(5), Value: make([]byte, 1000)}, &kgo.Record{Timestamp: time.UnixMilli(6)})
	}
	for _, r := range s.consume(s.consumer(kgo.NewOffset().AtStart()), 4) {
		if r.Attrs.TimestampType() != 1 || r.Timestamp.Before(before) || r.Timestamp.After(time.Now()) {
			s.Errorf("offset %d: type %d, %v", r.Offset, r.Attrs.TimestampType(), r.Timestamp)
		}
	}
}
