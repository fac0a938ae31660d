package crashtest

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"ringlog/engine"
	"ringlog/record"
)

// submission is one batch that was handed to an engine. No two are alike.
type submission struct {
	number   int
	log      engine.LogID
	bytes    record.Batch // as it was submitted
	records  int32
	producer int64 // -1 when it has no sequence
	sequence int32

	// gone: it was cut away, or a recovery did not find it, or it was refused
	// for good. It must never be seen (again).
	gone bool

	// anew: it was sent again in a later life than its first, so a cut in between may
	// have let it in once more.
	anew bool

	outstanding int // appends of it that are not answered
}

// lastSequence is the sequence of its last record.
func (s *submission) lastSequence() int32 { return s.sequence + s.records - 1 }

// submissions is all that was handed to an engine in one run.
type submissions struct {
	all     []*submission
	byCRC   map[uint32][]*submission
	builder record.Builder
	value   []byte
}

func newSubmissions() *submissions {
	return &submissions{byCRC: make(map[uint32][]*submission)}
}

// make builds a batch of some records with valueBytes of value each. producer
// is -1 for none.
func (s *submissions) make(log engine.LogID, producer int64, sequence, records int32, valueBytes int, nowMillis int64) *submission {
	b := &submission{number: len(s.all), log: log, records: records, producer: producer, sequence: sequence}
	options := record.BuilderOptions{BaseOffset: 0}
	if producer >= 0 {
		options.Idempotent, options.ProducerID, options.BaseSequence = true, producer, sequence
	}
	s.builder.Reset(options)
	if cap(s.value) < valueBytes {
		s.value = make([]byte, valueBytes)
	}
	value := s.value[:valueBytes]
	for i := range value {
		value[i] = byte(b.number + i) // a block of one batch differs from the same block of another
	}
	var key [12]byte
	binary.BigEndian.PutUint64(key[:], uint64(b.number))
	for i := range records {
		binary.BigEndian.PutUint32(key[8:], uint32(i))
		s.builder.Append(nowMillis, key[:], value)
	}
	built, err := s.builder.Build()
	if err != nil {
		panic(fmt.Sprintf("crashtest: build a batch: %v", err))
	}
	b.bytes = bytes.Clone(built)
	s.all = append(s.all, b)
	s.byCRC[b.bytes.CRC()] = append(s.byCRC[b.bytes.CRC()], b)
	return b
}

// forget drops those from the n-th on: a branch that was looked at is over.
func (s *submissions) forget(n int) {
	for _, b := range s.all[n:] {
		crc := b.bytes.CRC()
		if s.byCRC[crc] = s.byCRC[crc][:len(s.byCRC[crc])-1]; len(s.byCRC[crc]) == 0 {
			delete(s.byCRC, crc)
		}
	}
	clear(s.all[n:])
	s.all = s.all[:n]
}

// keptFrom is where a batch's bytes stay what the producer sent: the engine
// sets the base offset and the leader epoch before it.
const keptFrom = 16

// identify says which submission batch is, which was read at the end of a log.
func (s *submissions) identify(batch record.Batch) (*submission, error) {
	if err := batch.Check(); err != nil {
		return nil, fmt.Errorf("a batch at offset %d was served that is not whole: %s", batch.BaseOffset(), err)
	}
	for _, b := range s.byCRC[batch.CRC()] {
		if bytes.Equal(b.bytes[keptFrom:], batch[keptFrom:]) {
			return b, nil
		}
	}
	return nil, fmt.Errorf("a batch at offset %d was served that nobody submitted", batch.BaseOffset())
}
