package record

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// largeRecords are records that do not fit into the window, each large in another
// field, encoded with their length.
func largeRecords(t testing.TB) map[string][]byte {
	t.Helper()
	const size = 3*windowBytes + 17
	long := bytes.Repeat([]byte("long "), size/5)
	many := make([]Header, size/4)
	for i := range many {
		many[i] = Header{Key: []byte{byte(i)}, Value: []byte("v")}
	}
	records := make(map[string][]byte)
	for name, add := range map[string]func(*Builder){
		"key":          func(b *Builder) { b.Append(noon, long, []byte("v")) },
		"value":        func(b *Builder) { b.Append(noon, nil, long) },
		"header key":   func(b *Builder) { b.Append(noon, []byte("k"), nil, Header{Key: long}) },
		"header value": func(b *Builder) { b.Append(noon, []byte("k"), nil, Header{Key: []byte("h"), Value: long}) },
		"headers":      func(b *Builder) { b.Append(noon, nil, []byte("v"), many...) },
	} {
		var b Builder
		b.Reset(BuilderOptions{})
		add(&b)
		records[name] = bytes.Clone(finish(t, &b).Payload())
	}
	return records
}

// A large compressed record is checked on its way through the window; it must be
// taken or refused exactly when it is as plain bytes.
func TestLargeRecordsAreCheckedAsSmallOnes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, good := range largeRecords(t) {
		variants := [][]byte{good, append(bytes.Clone(good), 0), nil}
		for range 60 {
			bad := bytes.Clone(good)
			switch at := random.IntN(16); random.IntN(4) {
			case 0:
				bad[at] = byte(random.Uint32())
			case 1:
				bad[len(bad)-1-at] = byte(random.Uint32())
			case 2:
				bad[random.IntN(len(bad))] ^= 0x80
			case 3:
				bad = bad[:random.IntN(len(bad))]
			}
			variants = append(variants, bad)
		}
		refused := 0
		for i, payload := range variants {
			plain := validate(wrap(CodecNone, 1, payload))
			codec := allCodecs[1+i%len(allCodecs[1:])]
			compressed, err := Compress(nil, codec, payload)
			if err != nil {
				t.Fatal(err)
			}
			got := validate(wrap(codec, 1, compressed))
			if (got == nil) != (plain == nil) || errors.Is(got, ErrInvalidTimestamp) != errors.Is(plain, ErrInvalidTimestamp) {
				t.Errorf("large %s, variant %d, %v: got %v, as plain bytes %v", name, i, codec, got, plain)
			}
			if plain != nil {
				refused++
			}
		}
		if refused < 10 || refused == len(variants) {
			t.Errorf("large %s: %d of %d variants are refused", name, refused, len(variants))
		}
	}
}

// A compacted topic refuses a large record without a key, and only that.
func TestLargeRecordsHaveKeysOrNone(t *testing.T) {
	rules := DefaultRules(noon)
	rules.KeysRequired = true
	for name, payload := range largeRecords(t) {
		compressed, err := Compress(nil, CodecZstd, payload)
		if err != nil {
			t.Fatal(err)
		}
		var want error
		if name == "value" || name == "headers" {
			want = ErrKeyMissing
		}
		if err := validateWith(wrap(CodecZstd, 1, compressed), &rules); !errors.Is(err, want) {
			t.Errorf("large %s: %v, want %v", name, err, want)
		}
	}
}

// Reliability section 4, item 4: a bomb that is one record, larger than all that may
// come out, costs no more than its decompressor does; it once cost its size
// three times over for each producer.
func TestABombInOneRecordStaysInTheWindow(t *testing.T) {
	rules := DefaultRules(noon)
	rules.DecompressedBytesMax = 16 << 20
	payload := appendVarint(nil, 100<<20) // the length, believed by nobody
	payload = append(payload, 0, 0, 0, 1)
	payload = appendVarint(payload, 90<<20)
	payload = append(payload, make([]byte, rules.DecompressedBytesMax)...)
	for _, codec := range []Codec{CodecGzip, CodecLZ4, CodecZstd} {
		compressed, err := Compress(nil, codec, payload)
		if err != nil {
			t.Fatal(err)
		}
		bomb := wrap(codec, 1, compressed)
		_ = validateWith(bomb, &rules) // fills the pools
		if allocated := allocatedBy(func() {
			if err := validateWith(bomb, &rules); !errors.Is(err, ErrDecompressedTooLarge) {
				t.Errorf("%v: %v, want %v", codec, err, ErrDecompressedTooLarge)
			}
		}); allocated > decompressorBytesMax {
			t.Errorf("%v: took %d bytes of memory", codec, allocated)
		}
	}
}

// What a validation will cost is known before it is started.
func TestCostIsKnownAhead(t *testing.T) {
	block := func(size int) Batch {
		compressed, err := Compress(nil, CodecSnappy, make([]byte, size))
		if err != nil {
			t.Fatal(err)
		}
		return wrap(CodecSnappy, 1, compressed)
	}
	for name, c := range map[string]struct {
		records []byte
		want    Cost
	}{
		"null":                   {nil, CostNothing},
		"no batch":               {[]byte("no batch"), CostNothing},
		"plain":                  {build(t, BuilderOptions{}, 1), CostNothing},
		"codec 5":                {changed(build(t, BuilderOptions{}, 1), put16(attributesAt, 5)), CostNothing},
		"gzip":                   {build(t, BuilderOptions{Codec: CodecGzip}, 1), CostDecompressor},
		"zstd":                   {build(t, BuilderOptions{Codec: CodecZstd}, 1), CostDecompressor},
		"snappy":                 {build(t, BuilderOptions{Codec: CodecSnappy}, 1), CostDecompressor},
		"a block that is kept":   {block(snappyKeepBytes), CostDecompressor},
		"a block that is larger": {block(snappyKeepBytes + 1), CostBlock},
	} {
		if got := CostOf(c.records); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if got := largestSnappyBlock(xerial([]byte("a"), make([]byte, 5000), []byte("b"))); got != 5000 {
		t.Errorf("the largest framed block has %d bytes, want 5000", got)
	}
}
