package blackbox

import (
	"bytes"
	"compress/gzip"
	"maps"
	"math/rand/v2"

	"ringlog/record"
)

const (
	corruptMessage  = 2
	messageTooLarge = 10
	invalidRecord   = 87
)

// controlBit marks a batch of transaction markers.
const controlBit = 1 << 5

// Row 22.
func aClientsControlBatch(s *stage) {
	s.create(1)
	c := s.dial()
	for name, batch := range map[string][]byte{
		"by anybody":       batchOf(record.BuilderOptions{}, 1),
		"by a producer id": batchOf(sequenced(c.producerID(4), 0, 0), 1),
	} {
		batch[attributesAt+1] |= controlBit
		if p := c.produce(9, seal(batch)); p.ErrorCode != invalidRecord {
			s.Errorf("%s: code %d, want INVALID_RECORD", name, p.ErrorCode)
		}
	}
	if p := c.mustProduce(9, batchOf(record.BuilderOptions{}, 1)); p.BaseOffset != 0 {
		s.Errorf("one of them was stored: the next batch is at offset %d", p.BaseOffset)
	}
}

// Row 23. Each batch has a checksum that is right: whoever made it meant it.
func recordsThatDoNotFitTheirBatch(s *stage) {
	s.create(1)
	c := s.dial()
	// Two records of a few bytes: the length of the first is one byte, a zigzag varint.
	whole := batchOf(record.BuilderOptions{}, 2)
	changed := func(change func([]byte) []byte) []byte { return seal(change(bytes.Clone(whole))) }
	first := func(length byte) func([]byte) []byte {
		return func(b []byte) []byte { b[recordsAt] = length; return b }
	}
	const noGzipStream = "records that are no gzip stream"
	faults := map[string][]byte{
		"a record longer than the batch": changed(first(126)),
		"a record longer than it is":     changed(first(whole[recordsAt] + 2)),
		"a record shorter than it is":    changed(first(whole[recordsAt] - 2)),
		"a record of negative length":    changed(first(1)),
		"a record of nothing":            changed(first(0)),
		"a length that never ends":       changed(func(b []byte) []byte { return append(b[:recordsAt], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) }),
		"the last bytes cut off":         changed(func(b []byte) []byte { return b[:len(b)-2] }),
		"the last record cut off":        changed(func(b []byte) []byte { return b[:recordsAt+1+int(whole[recordsAt]/2)] }),
		"no records at all":              changed(func(b []byte) []byte { return b[:recordsAt] }),
		"bytes behind the last record":   changed(func(b []byte) []byte { return append(b, 0, 0, 0) }),
		"a key longer than its record":   changed(func(b []byte) []byte { b[recordsAt+4] = 100; return b }),
		noGzipStream:                     changed(func(b []byte) []byte { b[attributesAt+1] |= 1; return b }),
	}
	for name, fault := range maps.Clone(faults) {
		if name == noGzipStream {
			continue
		}
		var packed bytes.Buffer
		packed.Write(fault[:recordsAt])
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(fault[recordsAt:]); err != nil {
			s.Fatal(err)
		}
		if err := w.Close(); err != nil {
			s.Fatal(err)
		}
		batch := packed.Bytes()
		batch[attributesAt+1] |= 1
		faults[name+", by gzip"] = seal(batch)
	}
	for name, fault := range faults {
		// A stream that is none is CORRUPT_MESSAGE or INVALID_RECORD in Kafka, by codec; what
		// counts is that it is one of the two and never an unknown error.
		p := c.produce(9, fault)
		if p.ErrorCode != invalidRecord && (p.ErrorCode != corruptMessage || name != noGzipStream) {
			s.Errorf("%s: code %d, want INVALID_RECORD", name, p.ErrorCode)
		}
		if p.BaseOffset != -1 {
			s.Errorf("%s: offset %d beside the error", name, p.BaseOffset)
		}
	}
	if p := c.mustProduce(9, whole); p.BaseOffset != 0 {
		s.Errorf("one of them was stored: the next batch is at offset %d", p.BaseOffset)
	}
}

// Row 24.
func aChecksumThatIsWrong(s *stage) {
	s.create(1)
	c := s.dial()
	whole := batchOf(record.BuilderOptions{Codec: record.CodecLZ4}, 3)
	random := rand.New(rand.NewPCG(24, 24))
	for range 50 {
		damaged := bytes.Clone(whole)
		at := checksumAt + random.IntN(len(damaged)-checksumAt)
		damaged[at] ^= 1 << random.IntN(8)
		if p := c.produce(9, damaged); p.ErrorCode != corruptMessage || p.BaseOffset != -1 {
			s.Errorf("byte %d: code %d, offset %d; want CORRUPT_MESSAGE", at, p.ErrorCode, p.BaseOffset)
		}
	}
	if p := c.mustProduce(9, whole); p.BaseOffset != 0 {
		s.Errorf("one of them was stored: the next batch is at offset %d", p.BaseOffset)
	}
}

// Row 25. A client that goes away in the middle of its request, or before its answer, leaves no
// trace but perhaps its batch.
func aClientThatLeavesInTheMiddle(s *stage) {
	s.create(1, "max.message.bytes=8000000")
	large := batchSized(5_000_000)
	c := s.dial()
	for round := range 3 {
		for _, part := range []int{5, 100, 4_000_000, len(large)} {
			leaver := s.dial()
			frame := leaver.frame(9, produceRequest(s.topic, [16]byte{}, 0, large))
			leaver.write(frame[:min(part, len(frame)-1)])
			leaver.socket.Close()
		}
		whole := s.dial()
		whole.send(9, produceRequest(s.topic, [16]byte{}, 0, large))
		whole.socket.Close() // nobody reads the answer
		c.mustProduce(9, large)
		if p := c.mustProduce(9, batchOf(record.BuilderOptions{}, 1)); p.BaseOffset < int64(2*round+1) {
			s.Errorf("round %d: offset %d", round, p.BaseOffset)
		}
	}
	// What is there is whole: as many batches as offsets.
	end, _ := s.offset(latest)
	next := int64(0)
	for next < end {
		p := c.fetch(12, next)
		for _, batch := range batches(p.RecordBatches) {
			if err := record.Check(batch); err != nil || batch.BaseOffset() != next {
				s.Fatalf("at offset %d: a batch of offset %d, %v", next, batch.BaseOffset(), err)
			}
			next = batch.LastOffset() + 1
		}
		if p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
			s.Fatalf("at offset %d of %d: code %d, %d bytes", next, end, p.ErrorCode, len(p.RecordBatches))
		}
	}
	if end < 6 || end > 9 {
		s.Errorf("the log ends at %d: six batches were acknowledged, and three more may be there", end)
	}
	if p := c.produce(9, batchSized(8_000_001)); p.ErrorCode != messageTooLarge {
		s.Errorf("above max.message.bytes: code %d", p.ErrorCode)
	}
}
