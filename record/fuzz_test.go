package record

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

// fuzzLimit bounds decompression in the fuzz targets, so that a bomb that gets
// through shows as memory or time.
const fuzzLimit = 1 << 20

// FuzzBatch feeds arbitrary bytes to everything that reads a batch. Nothing may
// panic or run away; what is accepted must hold what acceptance promises.
func FuzzBatch(f *testing.F) {
	for _, codec := range allCodecs {
		f.Add([]byte(build(f, BuilderOptions{Codec: codec}, 3)), true)
	}
	f.Add([]byte(build(f, BuilderOptions{Idempotent: true, Transactional: true, Control: true}, 1)), true)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal && len(data) >= HeaderBytes {
			Batch(data).UpdateCRC() // or hardly anything would get past it
		}
		sent := bytes.Clone(data)
		for rest := data; ; {
			batch, next, err := Next(rest)
			if err != nil {
				if !errors.Is(err, ErrShort) && !errors.Is(err, ErrCorrupt) {
					t.Fatalf("Next: %v is neither short nor corrupt", err)
				}
				break
			}
			if len(batch)+len(next) != len(rest) || len(batch) < HeaderBytes {
				t.Fatalf("a batch of %d bytes and %d more in %d", len(batch), len(next), len(rest))
			}
			if err := batch.Check(); err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatalf("Check: %v is not corrupt", err)
			}
			readBounded(batch)
			rest = next
		}

		rules := DefaultRules(noon)
		rules.DecompressedBytesMax = fuzzLimit
		rules.TimestampAfterMaxMillis = math.MaxInt64
		var v Validator
		result, err := v.Validate(data, &rules)
		agree(t, data, &rules)
		inSteps := validateInSteps(data, &rules)
		if (err == nil) != (inSteps == nil) {
			t.Fatalf("in one go: %v; in steps: %v", err, inSteps)
		}
		if !bytes.Equal(data, sent) {
			t.Fatal("reading changed the bytes")
		}
		if err == nil {
			checkAccepted(t, data, result)
		}
	})
}

// readBounded reads all records, whatever they are.
func readBounded(batch Batch) {
	r := Reader{DecompressedBytesMax: fuzzLimit}
	r.Reset(batch)
	defer r.Close()
	for r.Next() {
		headers := r.Record().Headers()
		for _, ok := headers.Next(); ok; _, ok = headers.Next() {
		}
		r.Record().ControlType()
		r.Record().CoordinatorEpoch()
	}
}

func validateInSteps(data []byte, rules *Rules) error {
	var v Validator
	if err := v.Start(data, rules); err != nil {
		return err
	}
	for range fuzzLimit {
		if done, err := v.Resume(997); done || err != nil {
			return err
		}
	}
	return errors.New("a validation that does not end")
}

// checkAccepted verifies that an accepted batch is one that can be stored and
// read for ever after.
func checkAccepted(t *testing.T, data []byte, result Result) {
	if err := Check(data); err != nil {
		t.Fatalf("accepted, and not a valid batch: %v", err)
	}
	records, err := readAll(data)
	if err != nil || len(records) != int(result.Batch.RecordCount()) {
		t.Fatalf("accepted, and reading gives %d records, %v", len(records), err)
	}
	maxTimestamp := NoTimestamp
	for i, r := range records {
		if r.Offset != result.Batch.BaseOffset()+int64(i) {
			t.Fatalf("record %d has offset %d", i, r.Offset)
		}
		maxTimestamp = max(maxTimestamp, r.Timestamp)
	}
	if maxTimestamp != result.MaxTimestamp {
		t.Fatalf("the largest timestamp is %d, and the result says %d", maxTimestamp, result.MaxTimestamp)
	}
}

func fuzzDecompress(f *testing.F, codec Codec, seeds ...[]byte) {
	for _, plain := range [][]byte{{}, []byte("a"), bytes.Repeat([]byte("repeated "), 100)} {
		compressed, err := Compress(nil, codec, plain)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(compressed)
	}
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		out, err := Decompress(nil, codec, src, fuzzLimit)
		if err != nil {
			if !errors.Is(err, ErrDecompress) && !errors.Is(err, ErrDecompressedTooLarge) {
				t.Fatalf("%v has no sentinel", err)
			}
			return
		}
		if len(out) > fuzzLimit {
			t.Fatalf("%d bytes came out", len(out))
		}
		again, err := Compress(nil, codec, out)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decompress(nil, codec, again, fuzzLimit)
		if err != nil || !bytes.Equal(back, out) {
			t.Fatalf("%d bytes do not survive a round trip: %v", len(out), err)
		}
	})
}

func FuzzDecompressGzip(f *testing.F)   { fuzzDecompress(f, CodecGzip) }
func FuzzDecompressSnappy(f *testing.F) { fuzzDecompress(f, CodecSnappy, xerial([]byte("framed"))) }
func FuzzDecompressLZ4(f *testing.F)    { fuzzDecompress(f, CodecLZ4) }
func FuzzDecompressZstd(f *testing.F) {
	fuzzDecompress(f, CodecZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 1, 0, 0})
}

// FuzzBuilderRoundTrip: what is appended is what is read, and a client could
// have sent it.
func FuzzBuilderRoundTrip(f *testing.F) {
	f.Add(uint8(0), noon, []byte("key"), []byte("value"), []byte("header"), uint8(3))
	f.Add(uint8(4), int64(-1), []byte(nil), []byte{}, []byte{}, uint8(200))
	f.Fuzz(func(t *testing.T, codec uint8, timestamp int64, key, value, header []byte, count uint8) {
		timestamp = min(max(timestamp, math.MinInt64+1000), math.MaxInt64-1000) // the deltas must not overflow
		var b Builder
		b.Reset(BuilderOptions{Codec: Codec(codec % codecCount), BaseOffset: 1000})
		for i := range int(count) + 1 {
			b.Append(timestamp+int64(i%7), key, value, Header{Key: header, Value: value})
		}
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		rules := Rules{NowMillis: noon, LogAppendTime: true}
		var v Validator
		result, err := v.Validate(batch, &rules)
		if err != nil {
			t.Fatal(err)
		}
		checkAccepted(t, batch, result)
		records, err := readAll(batch)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range records {
			if r.Timestamp != timestamp+int64(i%7) || !bytes.Equal(r.Key, key) || !bytes.Equal(r.Value, value) ||
				(r.Key == nil) != (key == nil) || len(r.Headers) != 1 || !bytes.Equal(r.Headers[0].Key, header) {
				t.Fatalf("record %d came back as %+v", i, r)
			}
		}
	})
}
