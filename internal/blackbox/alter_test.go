package blackbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"ringlog/internal/ringlogtest"
	"ringlog/record"
)

// KIP-226, and what docs/kafka.md says of it: configurations of a topic change under load, and each change holds when it
// is answered. Nothing that was acknowledged is lost, doubled or out of order but by retention, and nothing is refused but what
// max.message.bytes refuses.
func TestConfigurationsChangeUnderLoad(t *testing.T) {
	s := &stage{T: t, broker: ringlogtest.Start(t, ringlogtest.Options{Flags: []string{"--set", "log.retention.check.interval.ms=50"}}), topic: "busy"}
	s.create(1, "retention.ms=-1")

	const writers = 3
	var sent [writers]atomic.Int64 // acknowledged of each writer
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var work sync.WaitGroup
	for w := range writers {
		producer := s.client(kgo.ProducerBatchCompression([]kgo.CompressionCodec{kgo.NoCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}[w]))
		work.Go(func() {
			for n := int64(0); ctx.Err() == nil; n++ {
				r := &kgo.Record{Topic: s.topic, Key: fmt.Append(nil, w), Value: append(fmt.Appendf(nil, "%d ", n), make([]byte, 3000)...)}
				if err := producer.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					t.Errorf("writer %d, record %d: %v", w, n, err)
					return
				}
				sent[w].Add(1)
			}
		})
	}
	var seen [writers]int64 // how many came of each writer
	read := make(chan error, 1)
	consumer := s.consumer(kgo.NewOffset().AtStart())
	go func() { read <- s.readBusy(consumer, &seen) }()

	admin, large := s.admin(), s.dial()
	alter := func(name, value string) {
		t.Helper()
		change := kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value}
		altered, err := admin.AlterTopicConfigs(s.context(), []kadm.AlterConfig{change}, s.topic)
		if err == nil {
			err = altered[0].Err
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	progress := func() { // what is altered meets every writer
		t.Helper()
		var before [writers]int64
		for w := range writers {
			before[w] = sent[w].Load()
		}
		s.await("every writer goes on", func() bool {
			for w := range writers {
				if sent[w].Load() < before[w]+5 {
					return t.Failed()
				}
			}
			return true
		})
	}
	for round := range 2 {
		alter("max.message.bytes", "5000")
		if p := large.produce(9, batchSized(20_000)); p.ErrorCode != messageTooLarge {
			t.Errorf("max.message.bytes=5000: a batch of 20000 bytes has code %d", p.ErrorCode)
		}
		progress()
		alter("max.message.bytes", "1048588")
		for _, codec := range []string{"gzip", "uncompressed", "producer"} {
			alter("compression.type", codec)
			progress()
		}
		alter("segment.bytes", "1048576")
		alter("segment.ms", "20")
		progress()
		alter("segment.ms", "604800000")
		alter("flush.messages", "50")
		progress()
		alter("flush.messages", "1")
		alter("message.timestamp.type", []string{"LogAppendTime", "CreateTime"}[round])
		progress()
	}
	if start, _ := s.offset(earliest); start != 0 {
		t.Errorf("the log starts at %d although retention.ms is -1", start)
	}
	stop()
	work.Wait()
	s.mustEnd(read, &sent, &seen)

	// Retention, at last: what it takes goes from the oldest on, and the log takes more.
	alter("segment.ms", "20")
	alter("retention.bytes", "1")
	s.await("retention.bytes of 1", func() bool {
		large.mustProduce(9, batchOf(record.BuilderOptions{}, 1))
		start, _ := s.offset(earliest)
		return start > 0
	})
	alter("retention.bytes", "-1")
	alter("retention.ms", "100")
	s.await("retention.ms of 100", func() bool {
		start, _ := s.offset(earliest)
		end, _ := s.offset(latest)
		return start == end
	})
	large.mustProduce(9, batchOf(record.BuilderOptions{}, 1))
}

// endOfBusy is the key of the record behind which nothing is read.
const endOfBusy = "end"

// readBusy reads records of writers, each of which counts from 0, until the one that says that it is the end.
func (s *stage) readBusy(consumer *kgo.Client, seen *[3]int64) error {
	next := int64(0)
	for {
		fetches := consumer.PollFetches(s.T.Context())
		if err := fetches.Err(); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return err
		}
		for _, r := range fetches.Records() {
			if r.Offset != next {
				return fmt.Errorf("offset %d follows %d", r.Offset, next-1)
			}
			next++
			if string(r.Key) == endOfBusy {
				return nil
			}
			var writer int
			var number int64
			if _, err := fmt.Sscan(string(r.Key), &writer); err != nil {
				return err
			}
			if _, err := fmt.Sscan(string(r.Value[:20]), &number); err != nil {
				return err
			}
			if number != seen[writer] {
				return fmt.Errorf("writer %d: record %d follows %d", writer, number, seen[writer]-1)
			}
			seen[writer]++
		}
	}
}

// mustEnd ends the log and wants the reader to have had everything.
func (s *stage) mustEnd(read chan error, sent *[3]atomic.Int64, seen *[3]int64) {
	s.Helper()
	s.produceRecords(s.client(), &kgo.Record{Key: []byte(endOfBusy)})
	select {
	case err := <-read:
		if err != nil {
			s.Fatal(err)
		}
	case <-s.context().Done():
		s.Fatal("the reader hangs")
	}
	for w := range sent {
		if sent[w].Load() != seen[w] {
			s.Errorf("writer %d: %d records were acknowledged, %d came", w, sent[w].Load(), seen[w])
		}
	}
}
