package record

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// shapes are batches of about 64 KiB as producers fill them.
var shapes = []struct {
	name string
	add  func(b *Builder, r *rand.Rand, i int)
}{
	{"value=100", func(b *Builder, _ *rand.Rand, i int) { b.Append(noon, nil, filler[:100]) }},
	{"value=10", func(b *Builder, _ *rand.Rand, i int) { b.Append(noon, nil, filler[:10]) }},
	{"value=1000", func(b *Builder, _ *rand.Rand, i int) { b.Append(noon, nil, filler[:1000]) }},
	{"mixed", func(b *Builder, r *rand.Rand, i int) {
		at := r.IntN(len(filler) / 2)
		b.Append(noon+r.Int64N(50_000), filler[at:at+r.IntN(40)], filler[at:at+r.IntN(300)])
	}},
	{"headers", func(b *Builder, r *rand.Rand, i int) {
		b.Append(noon+int64(i), filler[:16], filler[:100], Header{Key: []byte("traceparent"), Value: filler[:55]}, Header{Key: []byte("source"), Value: filler[:8]})
	}},
}

var filler = func() []byte {
	b := make([]byte, 4096)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(b)
	for i := range b {
		if i%3 != 0 {
			b[i] = "the log is the truth "[i%21]
		}
	}
	return b
}()

// shaped builds a batch of about 64 KiB before compression.
func shaped(t testing.TB, codec Codec, add func(*Builder, *rand.Rand, int)) Batch {
	t.Helper()
	var b Builder
	b.Reset(BuilderOptions{Codec: codec})
	random := rand.New(rand.NewPCG(5, 6))
	for i := 0; b.PlainBytes() < 64<<10; i++ {
		add(&b, random, i)
	}
	return finish(t, &b)
}

// What the checks of a produced batch cost: per record, and as a rate over the
// uncompressed bytes.
func BenchmarkValidate(b *testing.B) {
	for _, codec := range allCodecs {
		for _, shape := range shapes {
			b.Run(fmt.Sprintf("codec=%v/%s", codec, shape.name), func(b *testing.B) {
				batch := shaped(b, codec, shape.add)
				var v Validator
				rules := DefaultRules(noon)
				result, err := v.Validate(batch, &rules)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(result.DecompressedBytes)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := v.Validate(batch, &rules); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch.RecordCount()), "ns/record")
			})
		}
	}
}

// The checksum alone, which nothing can do without.
func BenchmarkChecksum(b *testing.B) {
	batch := shaped(b, CodecNone, shapes[0].add)
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		if batch.ComputeCRC() != batch.CRC() {
			b.Fatal("checksum")
		}
	}
}
