package cuttest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"ringlog/record"
)

// Batch is one batch that a log's user made. No two are alike.
type Batch struct {
	number   int
	bytes    record.Batch // as it was submitted
	records  int32
	producer int64
	sequence int32 // of its first record
}

// Bytes returns a copy that an engine may patch.
func (b *Batch) Bytes() record.Batch { return bytes.Clone(b.bytes) }

// keptFrom is where a batch's bytes stay what the producer sent: the engine
// sets base offset and leader epoch before it.
const keptFrom = 16

// valueBytesMax makes some batches span several blocks of 4 KiB.
const valueBytesMax = 20_000

// newBatch builds the batch of a number, with content that follows from log and number.
func newBatch(log [16]byte, number int, producer int64, sequence int32, nowMillis int64) *Batch {
	dice := rand.New(rand.NewPCG(binary.BigEndian.Uint64(log[8:]), uint64(number)))
	records := 1 + dice.Int32N(4)
	valueBytes := dice.IntN(600)
	if dice.IntN(3) == 0 {
		valueBytes = dice.IntN(valueBytesMax) / int(records)
	}
	var builder record.Builder
	builder.Reset(record.BuilderOptions{Idempotent: true, ProducerID: producer, BaseSequence: sequence})
	var key [12]byte
	binary.BigEndian.PutUint64(key[:], uint64(number))
	value := make([]byte, valueBytes)
	for i := range records {
		binary.BigEndian.PutUint32(key[8:], uint32(i))
		for j := range value {
			value[j] = byte(dice.Uint32())
		}
		builder.Append(nowMillis, key[:], value)
	}
	built, err := builder.Build()
	if err != nil {
		panic("cuttest: build a batch: " + err.Error())
	}
	return &Batch{number: number, bytes: bytes.Clone(built), records: records, producer: producer, sequence: sequence}
}
