package blackbox

import (
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/record"
)

const (
	outOfOrderSequence   = 45
	invalidProducerEpoch = 47
)

// Row 16.
func aRepeatedBatchIsAnsweredWithItsOffset(s *stage) {
	s.create(1)
	c := s.dial()
	id := c.producerID(4)
	batch := func(n int32) record.Batch { return batchOf(sequenced(id, 0, 2*n), 2) }
	for n := range int32(7) {
		c.mustProduce(9, batch(n))
	}
	for n := int32(2); n < 7; n++ {
		if p := c.produce(9, batch(n)); p.ErrorCode != 0 || p.BaseOffset != int64(2*n) {
			s.Errorf("batch %d again: code %d, offset %d, want %d", n, p.ErrorCode, p.BaseOffset, 2*n)
		}
	}
	if p := c.mustProduce(9, batch(7)); p.BaseOffset != 14 {
		s.Errorf("the next batch is at offset %d, so something was stored twice", p.BaseOffset)
	}
}

// Row 17. sarama asks with InitProducerID v0 and Produce v3 when it is told that brokers are 0.11, v1
// and v7 by its default, v4 and v10 at most; with one request in flight, its batches of
// several records count their sequences per partition.
func saramasIdempotentProducer(s *stage) {
	s.create(2)
	for _, versions := range []struct{ initialize, produce int16 }{{0, 3}, {1, 7}, {4, 10}} {
		c := s.dial()
		id := c.producerID(versions.initialize)
		var next [2]int32
		for n := range 20 {
			partition, count := int32(n%2), 1+n%5
			batch := batchOf(sequenced(id, 0, next[partition]), count)
			p := ask[*kmsg.ProduceResponse](c, versions.produce, produceRequest(s.topic, [16]byte{}, partition, batch)).Topics[0].Partitions[0]
			if p.ErrorCode != 0 {
				s.Fatalf("Produce v%d, batch %d: code %d", versions.produce, n, p.ErrorCode)
			}
			next[partition] += int32(count)
		}
	}
}

// Row 18.
func aProducerOutlivesItsRecords(s *stage) {
	s.create(1)
	c := s.dial()
	id := c.producerID(4)
	for n := range int32(3) {
		c.mustProduce(9, batchOf(sequenced(id, 0, n), 1))
	}
	var all kadm.Offsets
	all.Add(kadm.Offset{Topic: s.topic, At: -1})
	if _, err := s.admin().DeleteRecords(s.context(), all); err != nil {
		s.Fatal(err)
	}
	if start, _ := s.offset(earliest); start != 3 {
		s.Fatalf("the log starts at %d, so nothing is shown", start)
	}
	if p := c.produce(9, batchOf(sequenced(id, 0, 3), 1)); p.ErrorCode != 0 || p.BaseOffset != 3 {
		s.Errorf("after its records went: code %d, offset %d", p.ErrorCode, p.BaseOffset)
	}
	// A gap is refused as long as the producer is remembered, and refusals do not keep it so.
	gap := batchOf(sequenced(id, 0, 77), 1)
	refused := 0
	s.await("a producer that expired is taken with any sequence", func() bool {
		p := c.produce(9, gap)
		if p.ErrorCode == outOfOrderSequence {
			refused++
			return false
		}
		if p.ErrorCode != 0 || p.BaseOffset != 4 {
			s.Fatalf("code %d, offset %d", p.ErrorCode, p.BaseOffset)
		}
		return true
	})
	s.Logf("%d tries were refused before the producer expired", refused)
	c.mustProduce(9, batchOf(sequenced(id, 0, 78), 1))
}

// Row 19.
func aNewEpochBeginsAtSequenceZero(s *stage) {
	s.create(1)
	c := s.dial()
	id := c.producerID(4)
	for n := range int32(3) {
		c.mustProduce(9, batchOf(sequenced(id, 0, n), 1))
	}
	for _, step := range []struct {
		what     string
		epoch    int16
		sequence int32
		code     int16
		offset   int64
	}{
		{"a new epoch in the middle", 1, 3, outOfOrderSequence, -1},
		{"a new epoch from 0 on", 1, 0, 0, 3},
		{"and on", 1, 1, 0, 4},
		{"the old epoch", 0, 3, invalidProducerEpoch, -1},
		{"a retry under the new one", 1, 0, 0, 3},
		{"an epoch left out", 5, 0, 0, 5},
	} {
		if p := c.produce(9, batchOf(sequenced(id, step.epoch, step.sequence), 1)); p.ErrorCode != step.code || p.BaseOffset != step.offset {
			s.Errorf("%s: code %d, offset %d; want %d, %d", step.what, p.ErrorCode, p.BaseOffset, step.code, step.offset)
		}
	}
}
