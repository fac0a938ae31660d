package record

import (
	"errors"
	"math"
	"testing"
)

func TestWalkOverABuffer(t *testing.T) {
	var buffer []byte
	for i, codec := range allCodecs {
		buffer = append(buffer, build(t, BuilderOptions{Codec: codec, BaseOffset: int64(10 * i)}, 10)...)
	}
	whole := len(buffer)
	buffer = append(buffer, build(t, BuilderOptions{}, 10)[:40]...) // cut off by a crash, or by a fetch limit

	rest := buffer
	for i := range allCodecs {
		var batch Batch
		var err error
		if batch, rest, err = Next(rest); err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
		if batch.BaseOffset() != int64(10*i) || cap(batch) != len(batch) {
			t.Errorf("batch %d begins at offset %d, has capacity %d for %d", i, batch.BaseOffset(), cap(batch), len(batch))
		}
	}
	if _, left, err := Next(rest); !errors.Is(err, ErrShort) || len(left) != len(buffer)-whole {
		t.Errorf("behind the last whole batch: %v with %d bytes left, want ErrShort with %d", err, len(left), len(buffer)-whole)
	}
}

// Every beginning of a batch is incomplete, never corrupt: recovery must not
// take a torn tail for damage.
func TestEveryBeginningOfABatchIsShort(t *testing.T) {
	b := build(t, BuilderOptions{Codec: CodecSnappy}, 20)
	for n := range len(b) {
		if _, _, err := Next(b[:n]); err != ErrShort {
			t.Fatalf("the first %d bytes: %v, want ErrShort", n, err)
		}
		if err := Check(b[:n]); !errors.Is(err, ErrCorrupt) || !errors.Is(err, ErrLength) {
			t.Fatalf("Check of the first %d bytes: %v, want a corrupt length", n, err)
		}
	}
}

func TestCorruptionNamesPositionAndCause(t *testing.T) {
	good := build(t, BuilderOptions{}, 3)
	for name, c := range map[string]struct {
		bytes    Batch
		position int
		cause    error
	}{
		"negative length":           {changed(good, put32(lengthAt, -1)), lengthAt, ErrLength},
		"length of less than empty": {changed(good, put32(lengthAt, HeaderBytes-PrefixBytes-1)), lengthAt, ErrLength},
		"bytes behind":              {append(append(Batch(nil), good...), 0), len(good), ErrLength},
		"magic 1":                   {changed(good, func(b Batch) { b[magicAt] = 1 }), magicAt, ErrUnsupportedMagic},
		"flipped bit in a record":   {func() Batch { b := changed(good, func(Batch) {}); b[70] ^= 4; return b }(), crcAt, ErrChecksum},
		"flipped bit in the CRC":    {func() Batch { b := changed(good, func(Batch) {}); b[crcAt] ^= 4; return b }(), crcAt, ErrChecksum},
		"negative last delta":       {changed(good, put32(lastOffsetDeltaAt, -1)), lastOffsetDeltaAt, ErrHeader},
		"negative count":            {changed(good, put32(recordCountAt, -1)), recordCountAt, ErrHeader},
		"more records than offsets": {changed(good, put32(recordCountAt, 4)), recordCountAt, ErrHeader},
		"offsets past the end":      {changed(good, put64(baseOffsetAt, math.MaxInt64-1)), baseOffsetAt, ErrHeader},
	} {
		err := Check(c.bytes)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || !errors.Is(err, ErrCorrupt) || !errors.Is(err, c.cause) || corrupt.Position != c.position {
			t.Errorf("%s: got %v, want %v at byte %d", name, err, c.cause, c.position)
		}
	}
}

// A long length in front of something that is no batch must not read as a batch
// that is still coming.
func TestForeignBytesAreNotAnIncompleteBatch(t *testing.T) {
	b := changed(build(t, BuilderOptions{}, 1), put32(lengthAt, 1<<30))
	b[magicAt] = 'x'
	if _, _, err := Next(b); !errors.Is(err, ErrUnsupportedMagic) {
		t.Errorf("got %v, want ErrUnsupportedMagic", err)
	}
}

// Black-box case 26 (KAFKA-7467): compaction leaves batches without records.
func TestABatchEmptiedByCompactionIsValidInALogAndNotFromAClient(t *testing.T) {
	var b Builder
	b.Reset(BuilderOptions{Codec: CodecGzip, BaseOffset: 100, Idempotent: true, ProducerID: 5, BaseSequence: 40, DeleteHorizonMillis: noon})
	b.SetLastOffsetDelta(9)
	batch := finish(t, &b)
	if err := Check(batch); err != nil {
		t.Fatal(err)
	}
	if len(batch) != HeaderBytes || batch.LastOffset() != 109 || batch.LastSequence() != 49 {
		t.Errorf("%d bytes up to offset %d, sequence %d", len(batch), batch.LastOffset(), batch.LastSequence())
	}
	if horizon, ok := batch.DeleteHorizon(); !ok || horizon != noon {
		t.Errorf("delete horizon %d, %v", horizon, ok)
	}
	var r Reader
	r.Reset(batch)
	if r.Next() || r.Err() != nil {
		t.Errorf("reading it: %v", r.Err())
	}
	r.Close()
	empty := changed(batch, put16(attributesAt, 0))
	if err := validate(empty); !errors.Is(err, ErrRecordCount) {
		t.Errorf("from a client: got %v, want ErrRecordCount", err)
	}
}
