package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

const testLimit = 8 << 20

// samples are plain bytes of every kind that a codec treats in its own way.
func samples() map[string][]byte {
	random := make([]byte, 300_000)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(random)
	return map[string][]byte{
		"one byte":     {7},
		"text":         []byte(strings.Repeat("the quick brown fox jumps over the lazy dog, ", 50)),
		"long text":    []byte(strings.Repeat("the quick brown fox jumps over the lazy dog, ", 50_000)),
		"random":       random,
		"zeros":        make([]byte, 1<<20),
		"64 KiB":       random[:64<<10],
		"64 KiB and 1": random[:64<<10+1],
	}
}

func TestCompressedBytesComeBack(t *testing.T) {
	for name, plain := range samples() {
		for _, codec := range allCodecs {
			compressed, err := Compress([]byte("before"), codec, plain)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decompress([]byte("prefix"), codec, compressed[len("before"):], testLimit)
			if err != nil || !bytes.Equal(got, append([]byte("prefix"), plain...)) {
				t.Errorf("%s, %v: %d bytes came back of %d: %v", name, codec, len(got), len(plain), err)
			}
		}
	}
}

// franz-go reads what we compress, and we read what it compresses, in both
// shapes of snappy.
func TestCodecsAgreeWithFranzGo(t *testing.T) {
	theirs := []kgo.CompressionCodec{
		CodecGzip:   kgo.GzipCompression(),
		CodecSnappy: kgo.SnappyCompression(),
		CodecLZ4:    kgo.Lz4Compression(),
		CodecZstd:   kgo.ZstdCompression(),
	}
	decompressor := kgo.DefaultDecompressor()
	for name, plain := range samples() {
		for _, codec := range allCodecs[1:] {
			compressor, err := kgo.DefaultCompressor(theirs[codec])
			if err != nil {
				t.Fatal(err)
			}
			compressed, used := compressor.Compress(new(bytes.Buffer), plain)
			if Codec(used) != codec {
				t.Fatalf("franz-go used codec %d", used)
			}
			if got, err := Decompress(nil, codec, compressed, testLimit); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%s, %v from franz-go: %d of %d bytes, %v", name, codec, len(got), len(plain), err)
			}
			ours, err := Compress(nil, codec, plain)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := decompressor.Decompress(ours, kgo.CompressionCodecType(codec)); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%s, %v to franz-go: %d of %d bytes, %v", name, codec, len(got), len(plain), err)
			}
		}
	}
}

// xerial frames blocks as snappy-java does.
func xerial(blocks ...[]byte) []byte {
	out := append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for _, block := range blocks {
		compressed := s2.EncodeSnappy(nil, block)
		out = binary.BigEndian.AppendUint32(out, uint32(len(compressed)))
		out = append(out, compressed...)
	}
	return out
}

func TestSnappyAsJavaClientsFrameIt(t *testing.T) {
	text := samples()["text"]
	for name, c := range map[string]struct{ src, want []byte }{
		"no block":                 {xerial(), nil},
		"one block":                {xerial(text), text},
		"several blocks":           {xerial(text[:100], text[100:1000], text[1000:]), text},
		"an empty block":           {xerial(text, nil, text), append(bytes.Clone(text), text...)},
		"one stream after another": {append(xerial(text), xerial(text)...), append(bytes.Clone(text), text...)},
	} {
		got, err := Decompress(nil, CodecSnappy, c.src, testLimit)
		if err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(c.want), err)
		}
	}
	whole := xerial(text)
	for n := 1; n < len(whole); n++ {
		if n == xerialHeaderBytes {
			continue // a stream without blocks
		}
		if _, err := Decompress(nil, CodecSnappy, whole[:n], testLimit); !errors.Is(err, ErrDecompress) {
			t.Fatalf("the first %d of %d bytes: %v, want ErrDecompress", n, len(whole), err)
		}
	}
}

// S2 extends Snappy, and the library reads both. Nobody else does, so a block
// that uses the extension must not be stored as Snappy.
func TestS2BlocksAreNotSnappy(t *testing.T) {
	plain := bytes.Repeat([]byte("0123456789abcdef0123456789ABCDEF"), 4000)
	block := s2.EncodeBetter(nil, plain)
	if got, err := s2.Decode(nil, block); err != nil || !bytes.Equal(got, plain) {
		t.Fatal("the library does not read its own block")
	}
	if _, err := Decompress(nil, CodecSnappy, block, testLimit); !errors.Is(err, ErrDecompress) {
		t.Errorf("got %v, want ErrDecompress", err)
	}
}

func TestLZ4FrameOptions(t *testing.T) {
	plain := samples()["long text"]
	for _, size := range []lz4.BlockSize{lz4.Block64Kb, lz4.Block256Kb, lz4.Block1Mb, lz4.Block4Mb} {
		for _, options := range [][]lz4.Option{
			{lz4.ChecksumOption(false)},
			{lz4.ChecksumOption(true)},
			{lz4.BlockChecksumOption(true)},
			{lz4.SizeOption(uint64(len(plain))), lz4.BlockChecksumOption(true), lz4.ChecksumOption(true)},
			{lz4.CompressionLevelOption(lz4.Level9)},
		} {
			frame := lz4Frames(t, plain, append(options, lz4.BlockSizeOption(size))...)
			got, err := Decompress(nil, CodecLZ4, frame, testLimit)
			if err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%v %v: %d of %d bytes, %v", size, options, len(got), len(plain), err)
			}
		}
	}
}

func lz4Frames(t *testing.T, plain []byte, options ...lz4.Option) []byte {
	t.Helper()
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := w.Apply(options...); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// What a Java consumer cannot read must not be stored.
func TestLZ4FramesThatOtherClientsCannotReadAreRefused(t *testing.T) {
	plain := samples()["text"]
	good := lz4Frames(t, plain, lz4.ChecksumOption(true), lz4.BlockChecksumOption(true))
	with := func(at int, value byte) []byte {
		b := bytes.Clone(good)
		b[at] = value
		return b
	}
	for name, src := range map[string][]byte{
		"empty":                     {},
		"legacy format":             with(0, 0x02),
		"version 2":                 with(4, good[4]&^0xc0|0x80),
		"linked blocks":             with(4, good[4]&^lz4BlockIndependent),
		"dictionary":                with(4, good[4]|lz4DictionaryID),
		"reserved bit":              with(4, good[4]|lz4Reserved),
		"block size code 3":         with(5, 0x30),
		"wrong header checksum":     with(6, good[6]^1),
		"block larger than allowed": with(9, 0x7f),
		"wrong block checksum":      with(len(good)-9, good[len(good)-9]^1),
		"wrong content checksum":    with(len(good)-1, good[len(good)-1]^1),
		"second frame":              append(bytes.Clone(good), good...),
		"trailing byte":             append(bytes.Clone(good), 0),
	} {
		if _, err := Decompress(nil, CodecLZ4, src, testLimit); !errors.Is(err, ErrDecompress) {
			t.Errorf("%s: got %v, want ErrDecompress", name, err)
		}
	}
}

// The content size of an LZ4 frame is optional, but not a matter of taste.
func TestLZ4ContentSizeMustBeRight(t *testing.T) {
	plain := samples()["text"]
	for _, difference := range []int{-1, 0, 1} {
		frame := lz4Frames(t, plain, lz4.SizeOption(uint64(len(plain))))
		binary.LittleEndian.PutUint64(frame[6:], uint64(len(plain)+difference))
		read := 0
		for checksum := range 256 { // of the header: one of them is right
			frame[14] = byte(checksum)
			if _, err := Decompress(nil, CodecLZ4, frame, testLimit); err == nil {
				read++
			} else if !errors.Is(err, ErrDecompress) {
				t.Fatal(err)
			}
		}
		if want := 1 - difference*difference; read != want {
			t.Errorf("size off by %d: read with %d header checksums, want %d", difference, read, want)
		}
	}
}

func TestTruncatedStreamsAreRefused(t *testing.T) {
	plain := samples()["text"]
	for _, codec := range allCodecs[1:] {
		compressed, err := Compress(nil, codec, plain)
		if err != nil {
			t.Fatal(err)
		}
		for n := range len(compressed) {
			got, err := Decompress([]byte("dst"), codec, compressed[:n], testLimit)
			if !errors.Is(err, ErrDecompress) || !errors.Is(err, ErrInvalidRecord) {
				t.Fatalf("%v: the first %d of %d bytes: %v, want ErrDecompress", codec, n, len(compressed), err)
			}
			if string(got) != "dst" {
				t.Fatalf("%v: dst came back as %q", codec, got)
			}
		}
	}
}

func TestUnknownCodecs(t *testing.T) {
	for _, codec := range []Codec{5, 6, 7} {
		if _, err := Decompress(nil, codec, []byte{1}, 10); !errors.Is(err, ErrUnsupportedCompression) {
			t.Errorf("decompress %v: %v", codec, err)
		}
		if _, err := Compress(nil, codec, []byte{1}); !errors.Is(err, ErrUnsupportedCompression) {
			t.Errorf("compress %v: %v", codec, err)
		}
	}
}

func TestTheLimitIsExact(t *testing.T) {
	for name, plain := range samples() {
		for _, codec := range allCodecs {
			compressed, err := Compress(nil, codec, plain)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Decompress(nil, codec, compressed, int64(len(plain))); err != nil {
				t.Errorf("%s, %v: at the limit: %v", name, codec, err)
			}
			if _, err := Decompress(nil, codec, compressed, int64(len(plain)-1)); !errors.Is(err, ErrDecompressedTooLarge) {
				t.Errorf("%s, %v: past the limit: %v, want ErrDecompressedTooLarge", name, codec, err)
			}
		}
	}
}

// allocatedBy returns the bytes that f takes from the heap.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// decompressorBytesMax is what a decompressor takes: a collection may drop the pooled
// one at any time, and the race detector makes the pool do so at random.
const decompressorBytesMax = 12 << 20

// CVE-2023-34455 and its kind: a few bytes that claim, or really are, a great
// many must not cost a great deal of memory.
func TestBombs(t *testing.T) {
	const limit = 1 << 20
	huge := func(w io.WriteCloser) {
		zeros := make([]byte, 1<<20)
		for range 32 {
			if _, err := w.Write(zeros); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var gzipped, lz4ed, zstded bytes.Buffer
	huge(gzip.NewWriter(&gzipped))
	huge(lz4.NewWriter(&lz4ed))
	zw, err := zstd.NewWriter(&zstded)
	if err != nil {
		t.Fatal(err)
	}
	huge(zw)
	zeros := s2.EncodeSnappy(nil, make([]byte, 4<<20))
	lz4Sized := lz4Frames(t, []byte("small"), lz4.SizeOption(5))
	binary.LittleEndian.PutUint64(lz4Sized[6:], 1<<40)

	for name, c := range map[string]struct {
		codec Codec
		src   []byte
		want  error
	}{
		"gzip of 32 MiB":                {CodecGzip, gzipped.Bytes(), ErrDecompressedTooLarge},
		"lz4 of 32 MiB":                 {CodecLZ4, lz4ed.Bytes(), ErrDecompressedTooLarge},
		"zstd of 32 MiB":                {CodecZstd, zstded.Bytes(), ErrDecompressedTooLarge},
		"snappy of 4 MiB":               {CodecSnappy, zeros, ErrDecompressedTooLarge},
		"snappy in xerial framing":      {CodecSnappy, xerial(make([]byte, 4<<20)), ErrDecompressedTooLarge},
		"snappy that claims 4 GiB":      {CodecSnappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 'x'}, ErrDecompress},
		"lz4 that claims 1 TiB":         {CodecLZ4, lz4Sized, ErrDecompressedTooLarge},
		"zstd that claims 2^60 bytes":   {CodecZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x10, 1, 0, 0}, ErrDecompressedTooLarge},
		"zstd with a window of 128 MiB": {CodecZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 1, 0, 0}, nil},
		"zstd with a window of 1 TiB":   {CodecZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf0, 1, 0, 0}, nil},
	} {
		// Once to fill the pools with decompressors, which are large themselves.
		_, _ = Decompress(nil, c.codec, c.src, limit)
		allocated := allocatedBy(func() {
			if _, err := Decompress(nil, c.codec, c.src, limit); !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", name, err, c.want)
			}
		})
		// Doubling memory sums up to four times the limit at the worst.
		if allocated > 4*limit+decompressorBytesMax {
			t.Errorf("%s: took %d bytes of memory", name, allocated)
		}
	}
}

// zstdFrame compresses plain to one frame that does not state its content size
// and has the window of level 22.
func zstdFrame(t *testing.T, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithWindowSize(128<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	// A flush in between, so that the size is not known at the start.
	if _, err = w.Write(plain[:len(plain)/2]); err == nil {
		err = w.Flush()
	}
	if err == nil {
		_, err = w.Write(plain[len(plain)/2:])
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	var header zstd.Header
	if err := header.Decode(out.Bytes()); err != nil || header.WindowSize != 128<<20 {
		t.Fatalf("the frame has a window of %d bytes, %v", header.WindowSize, err)
	}
	return out.Bytes()
}

// A producer at zstd level 22 declares a window of 128 MiB for a small batch.
func TestZstdWithAGreatWindowIsReadWithoutBuyingIt(t *testing.T) {
	for _, size := range []int{10_000, 3 << 20, 20 << 20} {
		plain := bytes.Repeat([]byte("tiny batch, great ambitions. "), size/29)
		frame := zstdFrame(t, plain)
		var got []byte
		var err error
		allocated := allocatedBy(func() { got, err = Decompress(nil, CodecZstd, frame, 32<<20) })
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d of %d bytes came back, %v", len(got), len(plain), err)
		}
		if want := uint64(4*size + 2*zstdWindowMax); allocated > want {
			t.Errorf("%d bytes took %d of memory, want at most %d", len(plain), allocated, want)
		}
		if _, err = Decompress(nil, CodecZstd, frame, int64(len(plain)-1)); !errors.Is(err, ErrDecompressedTooLarge) {
			t.Errorf("past the limit: %v", err)
		}
	}
}

// What does need more than 8 MiB of window is refused, not misread.
func TestZstdThatRefersBackTooFarIsRefused(t *testing.T) {
	far := make([]byte, 10<<20)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(far)
	plain := append(far, far[:1<<20]...)
	frame := zstdFrame(t, plain)
	if len(frame) > len(far)+len(far)/100 {
		t.Fatal("the frame does not refer back 10 MiB")
	}
	if _, err := Decompress(nil, CodecZstd, frame, 32<<20); !errors.Is(err, ErrDecompress) {
		t.Errorf("got %v, want ErrDecompress", err)
	}
}

// One frame may be its own window: a single segment larger than the window that
// is allowed.
func TestZstdSingleSegment(t *testing.T) {
	for _, size := range []int{1000, 1 << 20, zstdWindowMax, zstdWindowMax + 10, 20 << 20} {
		plain := bytes.Repeat([]byte("0123456789"), size/10)
		e, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decompress(nil, CodecZstd, e.EncodeAll(plain, nil), 32<<20)
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d of %d bytes, %v", len(got), len(plain), err)
		}
	}
}

func TestPooledDecompressorsForgetAFailure(t *testing.T) {
	plain := samples()["text"]
	for _, codec := range allCodecs[1:] {
		compressed, err := Compress(nil, codec, plain)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			if _, err := Decompress(nil, codec, compressed[:len(compressed)/2], testLimit); err == nil {
				t.Fatal("half a stream was read")
			}
			if got, err := Decompress(nil, codec, compressed, testLimit); err != nil || !bytes.Equal(got, plain) {
				t.Fatalf("%v, round %d: %v", codec, i, err)
			}
		}
	}
}

func TestCodecsAreSafeForConcurrentUse(t *testing.T) {
	plain := samples()["text"]
	for _, codec := range allCodecs[1:] {
		t.Run(codec.String(), func(t *testing.T) {
			t.Parallel()
			for i := range 4 {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					t.Parallel()
					for range 50 {
						compressed, err := Compress(nil, codec, plain)
						if err != nil {
							t.Fatal(err)
						}
						if got, err := Decompress(nil, codec, compressed, testLimit); err != nil || !bytes.Equal(got, plain) {
							t.Fatal(err)
						}
					}
				})
			}
		})
	}
}
