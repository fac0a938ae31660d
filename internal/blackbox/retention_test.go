package blackbox

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/record"
)

// deleteRecords asks by kadm that the topic begins at an offset.
func (s *stage) deleteRecords(offset int64) (start int64, err error) {
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: s.topic, At: offset})
	deleted, err := s.admin().DeleteRecords(s.context(), offsets)
	got, _ := deleted.Lookup(s.topic, 0)
	return got.LowWatermark, errors.Join(err, got.Err)
}

// Row 35. A producer whose clock is ahead, or that repeats what a sensor with a broken clock says, pins nothing; one
// whose clock is behind loses nothing: retention counts from the append.
func clocksOfProducersAndRetention(s *stage) {
	const day = 24 * time.Hour
	ahead := &stage{T: s.T, broker: s.broker, topic: s.topic + "-ahead"}
	behind := &stage{T: s.T, broker: s.broker, topic: s.topic + "-behind"}
	behind.create(1, "retention.ms="+fmt.Sprint(day.Milliseconds()), "segment.ms=100")
	ahead.create(1, "retention.ms=500", "segment.ms=100", "message.timestamp.after.max.ms=9223372036854775807")
	strict := &stage{T: s.T, broker: s.broker, topic: s.topic + "-strict"}
	strict.create(1, "message.timestamp.before.max.ms="+fmt.Sprint(day.Milliseconds()))

	late := time.Now().Add(-2 * day).UnixMilli()
	behind.dial().mustProduce(9, batchAt(record.BuilderOptions{}, late, late+1))
	in2100 := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	c := ahead.dial()
	c.mustProduce(9, batchAt(record.BuilderOptions{}, in2100))
	c.mustProduce(9, batchOf(record.BuilderOptions{}, 1))
	ahead.await("records of the year 2100 go", func() bool {
		start, _ := ahead.offset(earliest)
		return start == 2
	})
	// Its segment was ended and looked at more than once by now, as those of the other topic were.
	if start, _ := behind.offset(earliest); start != 0 {
		s.Errorf("records of two days ago are gone after moments, although retention.ms is a day: the log starts at %d", start)
	}
	for n, r := range s.consume(behind.consumer(kgo.NewOffset().AtStart()), 2) {
		if r.Timestamp.UnixMilli() != late+int64(n) {
			s.Errorf("record %d has timestamp %v", n, r.Timestamp)
		}
	}
	// Who wants neither says so, per topic (KIP-937); an hour ahead is the most by default.
	const invalidTimestamp = 32
	c = strict.dial()
	for what, at := range map[string]int64{"two days behind": late, "the year 2100": in2100} {
		if p := c.produce(9, batchAt(record.BuilderOptions{}, at)); p.ErrorCode != invalidTimestamp {
			s.Errorf("%s where it is not allowed: code %d, want INVALID_TIMESTAMP", what, p.ErrorCode)
		}
	}
}

// Row 36.
func theBoundsOfDeleteRecords(s *stage) {
	s.create(1)
	c := s.dial()
	c.mustProduce(9, batchOf(record.BuilderOptions{}, 10))
	for version := int16(0); version <= 2; version++ {
		remove := func(offset int64) (int64, int16) {
			request := kmsg.NewPtrDeleteRecordsRequest()
			request.TimeoutMillis = int32(patience.Milliseconds())
			asked := kmsg.NewDeleteRecordsRequestTopic()
			asked.Topic = s.topic
			partition := kmsg.NewDeleteRecordsRequestTopicPartition()
			partition.Offset = offset
			asked.Partitions = append(asked.Partitions, partition)
			request.Topics = append(request.Topics, asked)
			p := ask[*kmsg.DeleteRecordsResponse](c, version, request).Topics[0].Partitions[0]
			return p.LowWatermark, p.ErrorCode
		}
		start := 10 * int64(version)
		for _, step := range []struct {
			what          string
			offset, start int64
			code          int16
		}{
			{"the start", start, start, 0},
			{"inside a batch", start + 4, start + 4, 0},
			{"below the start", start + 2, start + 4, 0},
			{"0", 0, start + 4, 0},
			{"above the high watermark", start + 11, -1, offsetOutOfRange},
			{"below -1", -2, -1, offsetOutOfRange},
			{"-1", -1, start + 10, 0},
			{"-1 of an empty log", -1, start + 10, 0},
			{"the high watermark", start + 10, start + 10, 0},
		} {
			if got, code := remove(step.offset); got != step.start || code != step.code {
				s.Errorf("v%d, %s: start %d, code %d; want %d, %d", version, step.what, got, code, step.start, step.code)
			}
		}
		c.mustProduce(9, batchOf(record.BuilderOptions{}, 10))
	}
	if start, err := s.deleteRecords(-1); start != 40 || err != nil {
		s.Errorf("by kadm: start %d, %v", start, err)
	}
}

// Row 38. A consumer reads on while the log goes away under it; one that comes too late is told, and goes where
// its auto.offset.reset sends it.
func retentionOvertakesConsumers(s *stage) {
	s.create(1, "retention.ms=200", "segment.ms=50", "segment.bytes=1048576", "file.delete.delay.ms=10")
	producer := s.client()
	reading := s.consumer(kgo.NewOffset().AtStart())
	var seen atomic.Int64 // offset of the last record that the reader got
	seen.Store(-1)
	ended := make(chan error, 1)
	go func() {
		for {
			fetches := reading.PollFetches(s.T.Context())
			if err := fetches.Err(); err != nil {
				ended <- err
				return
			}
			for _, r := range fetches.Records() {
				if r.Offset <= seen.Load() {
					ended <- fmt.Errorf("offset %d after %d", r.Offset, seen.Load())
					return
				}
				seen.Store(r.Offset)
				if string(r.Value) == "the end" {
					ended <- nil
					return
				}
			}
		}
	}()
	moves, start := 0, int64(0)
	s.await("the log moves on under its readers", func() bool {
		s.produceRecords(producer, &kgo.Record{Value: make([]byte, 1000)})
		if now, _ := s.offset(earliest); now > start {
			moves, start = moves+1, now
		}
		return moves == 3
	})

	// What has gone cannot be read, by any version.
	c := s.dial()
	for _, version := range []int16{4, 11, 12} {
		if p := c.fetch(version, 0); p.ErrorCode != offsetOutOfRange {
			s.Errorf("v%d from 0 on: code %d, want OFFSET_OUT_OF_RANGE", version, p.ErrorCode)
		}
	}
	// "none" is an error, "earliest" the first record that is left, "latest" what comes next, and so is a time
	// that lies ahead of all records.
	none := s.consumer(kgo.NoResetOffset().At(0), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err := s.errorOf(none); !errors.Is(err, kerr.OffsetOutOfRange) {
		s.Errorf("none: %v", err)
	}
	marked := make(chan struct{})
	resets := map[string]kgo.Offset{
		"earliest":         kgo.NewOffset().AtStart(),
		"latest":           kgo.NewOffset().AtEnd(),
		"the last minutes": kgo.NewOffset().AfterMilli(time.Now().Add(-5 * time.Minute).UnixMilli()),
	}
	first := make(chan string, len(resets))
	for name, reset := range resets {
		late := s.consumer(kgo.NewOffset().At(0), kgo.ConsumeResetOffset(reset))
		go func() {
			fetches := late.PollRecords(s.T.Context(), 1)
			if records := fetches.Records(); len(records) == 1 && records[0].Offset >= start {
				first <- ""
				return
			}
			first <- fmt.Sprintf("%s: %d records, %v", name, fetches.NumRecords(), fetches.Err())
		}()
	}
	go func() {
		defer close(marked)
		for range resets {
			if complaint := <-first; complaint != "" {
				s.Error(complaint)
			}
		}
	}()
	s.await("who came too late reads", func() bool {
		s.produceRecords(producer, &kgo.Record{Value: []byte("x")})
		select {
		case <-marked:
			return true
		default:
			return false
		}
	})
	s.produceRecords(producer, &kgo.Record{Value: []byte("the end")})
	select {
	case err := <-ended:
		if err != nil {
			s.Errorf("the reader: %v", err)
		}
	case <-time.After(patience):
		s.Errorf("the reader hangs behind offset %d", seen.Load())
	}
}
