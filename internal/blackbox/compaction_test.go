package blackbox

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"ringlog/record"
)

// keyed builds a batch of one record with a key.
func keyed(options record.BuilderOptions, key, value string) record.Batch {
	var b record.Builder
	b.Reset(options)
	b.Append(time.Now().UnixMilli(), []byte(key), []byte(value))
	return built(&b)
}

// Row 26. The last batch of an idempotent producer stays when compaction has taken all of its records, for its
// sequence. Consumers must go on behind it: sarama (Fetch v4 to 11) and kafka-go (v5, v10) once stopped there.
func batchesThatCompactionEmptied(s *stage) {
	s.create(1, "cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01", "segment.ms=50", "segment.bytes=1048576", "delete.retention.ms=0")
	c := s.dial()
	first, second := c.producerID(4), c.producerID(4)
	const count = 10
	for n := range int32(count) {
		c.mustProduce(9, keyed(sequenced(first, 0, n), "key", fmt.Sprint(n)))
	}
	c.mustProduce(9, keyed(sequenced(second, 0, 0), "key", "newest"))
	empty := func() (found record.Batch) {
		for _, batch := range batches(c.fetch(12, 0).RecordBatches) {
			if batch.RecordCount() == 0 && batch.ProducerID() == first {
				found = batch
			}
		}
		return found
	}
	s.await("the last batch of the first producer is empty", func() bool {
		c.mustProduce(9, keyed(record.BuilderOptions{}, "filler", "x")) // ends the active segment, which is not compacted
		return empty() != nil
	})
	if batch := empty(); batch.BaseOffset() != count-1 || batch.LastSequence() != count-1 {
		s.Errorf("the empty batch has offset %d and sequence %d, want %d", batch.BaseOffset(), batch.LastSequence(), count-1)
	}
	c.mustProduce(9, keyed(record.BuilderOptions{}, "end", "end"))
	end, _ := s.offset(latest)
	for version := int16(4); version <= 12; version++ {
		next := int64(0)
		for before := int64(-1); next != before; { // each answer brings a client on
			before = next
			for _, batch := range batches(c.fetch(version, next).RecordBatches) {
				next = batch.LastOffset() + 1
			}
		}
		if next != end {
			s.Errorf("Fetch v%d comes to offset %d of %d", version, next, end)
		}
	}
	for _, from := range []int64{0, count / 2, count - 1} {
		consumer := s.consumer(kgo.NewOffset().At(from), kgo.FetchMaxPartitionBytes(1))
		var values []string
		for len(values) == 0 || values[len(values)-1] != "end" {
			for _, r := range s.consume(consumer, 1) {
				values = append(values, string(r.Value))
			}
		}
		if values[0] != "newest" {
			s.Errorf("from %d on: %q", from, values)
		}
	}
	// What it was kept for: a retry is one, and the next batch is the next.
	if p := c.mustProduce(9, keyed(sequenced(first, 0, count-1), "key", fmt.Sprint(count-1))); p.BaseOffset != count-1 {
		s.Errorf("the retry of the emptied batch is at offset %d, want %d", p.BaseOffset, count-1)
	}
	if p := c.mustProduce(9, keyed(sequenced(first, 0, count), "key", "more")); p.BaseOffset != end {
		s.Errorf("the next batch is at offset %d, want %d", p.BaseOffset, end)
	}
	// By now the newest record of the key is another, and the one before it may be gone.
	if said := s.kcat("-C", "-e", "-q", "-t", s.topic, "-o", "beginning", "-f", "%o "); !strings.HasSuffix(said, fmt.Sprintf("%d %d ", end-1, end)) {
		s.Errorf("librdkafka reads %q", said)
	}
}
