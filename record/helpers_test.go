package record

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// noon is the broker's time in these tests.
const noon int64 = 1_750_000_000_000

var allCodecs = []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLZ4, CodecZstd}

// build returns a copy of a batch with count records, one every millisecond up
// to noon.
func build(t testing.TB, options BuilderOptions, count int) Batch {
	t.Helper()
	var b Builder
	b.Reset(options)
	for i := range count {
		b.Append(noon-int64(count)+1+int64(i), fmt.Appendf(nil, "key %d", i), []byte(strings.Repeat("value ", 5)),
			Header{Key: []byte("trace"), Value: []byte{byte(i)}}, Header{Key: []byte("empty")})
	}
	return finish(t, &b)
}

func finish(t testing.TB, b *Builder) Batch {
	t.Helper()
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return append(Batch(nil), batch...)
}

// wrap puts a header around records that a Builder would never write.
func wrap(codec Codec, count int32, payload []byte) Batch {
	var b Builder
	b.Reset(BuilderOptions{})
	b.SetLastOffsetDelta(max(0, count-1))
	batch, _ := b.Build()
	batch = append(batch, payload...)
	batch.setAttributes(int16(codec))
	binary.BigEndian.PutUint32(batch[lengthAt:], uint32(len(batch)-PrefixBytes))
	binary.BigEndian.PutUint32(batch[recordCountAt:], uint32(count))
	binary.BigEndian.PutUint64(batch[baseTimestampAt:], uint64(noon))
	batch.UpdateCRC()
	return batch
}

// changed returns a copy of b, changed by f, with a matching checksum.
func changed(b Batch, f func(Batch)) Batch {
	c := append(Batch(nil), b...)
	f(c)
	c.UpdateCRC()
	return c
}

func put16(at int, v int16) func(Batch) {
	return func(b Batch) { binary.BigEndian.PutUint16(b[at:], uint16(v)) }
}

func put32(at int, v int32) func(Batch) {
	return func(b Batch) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
}

func put64(at int, v int64) func(Batch) {
	return func(b Batch) { binary.BigEndian.PutUint64(b[at:], uint64(v)) }
}

func validate(b []byte) error {
	rules := DefaultRules(noon)
	return validateWith(b, &rules)
}

func validateWith(b []byte, rules *Rules) error {
	var v Validator
	_, err := v.Validate(b, rules)
	return err
}
