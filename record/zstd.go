package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	// zstdStreamWindowMax is the largest window that is decoded as a stream:
	// what RFC 8878 wants every decoder to support. The window is allocated
	// at once, on the word of the frame.
	zstdStreamWindowMax = 8 << 20

	// zstdWindowMax is the largest window at all: what level 22 uses and the
	// reference decoder accepts unasked.
	zstdWindowMax = 128 << 20
)

// zstdBlockBytesMax is the most that the 3 bytes of a block header bring forth.
const zstdBlockBytesMax = 128 << 10

// zstdSource reads Zstandard frames. Levels 20 to 22 declare windows of 32 to
// 128 MiB however small the data. Such frames are decoded in one piece, into
// memory that doubles as long as more comes out, so that a few bytes that claim
// a great window cannot buy it.
type zstdSource struct {
	src    bytes.Reader
	reader *zstd.Decoder

	whole   []byte // frames with a large window, until the first read
	limit   int64
	decoded []byte // what is still to be read of them; not nil once decoded
}

// wideZstd decodes frames with large windows: one at a time for the whole
// process, which bounds their memory. They are rare.
var wideZstd = sync.OnceValue(func() *zstd.Decoder {
	return newZstdDecoder(zstd.WithDecoderMaxWindow(zstdWindowMax), zstd.WithDecoderMaxMemory(math.MaxInt32), zstd.WithDecodeAllCapLimit(true))
})

func newZstdDecoder(options ...zstd.DOption) *zstd.Decoder {
	// Concurrency 1: no goroutines of its own, hence nothing to close.
	options = append(options, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	d, err := zstd.NewReader(nil, options...)
	if err != nil {
		panic(fmt.Sprintf("record: zstd refuses its own options: %v", err))
	}
	return d
}

func (s *zstdSource) reset(src []byte, limit int64) error {
	var header zstd.Header
	if err := header.Decode(src); err != nil {
		return err
	}
	window := header.WindowSize
	if header.HasFCS && !header.Skippable {
		if header.FrameContentSize > uint64(limit) {
			return tooLarge(limit)
		}
		if header.SingleSegment { // the content is its own window
			window = header.FrameContentSize
		}
	}
	if window > zstdStreamWindowMax {
		s.whole, s.limit = src, limit
		return nil
	}
	s.src.Reset(src)
	if s.reader == nil {
		s.reader = newZstdDecoder(zstd.WithDecoderMaxWindow(zstdStreamWindowMax))
	}
	return s.reader.Reset(&s.src)
}

func (s *zstdSource) read(p []byte) (int, error) {
	if s.whole == nil && s.decoded == nil {
		return s.reader.Read(p)
	}
	if s.whole != nil {
		decoded, err := decodeWideZstd(s.whole, s.limit)
		if err != nil {
			return 0, err
		}
		s.whole, s.decoded = nil, decoded
	}
	n := copy(p, s.decoded)
	s.decoded = s.decoded[n:]
	if len(s.decoded) == 0 {
		return n, io.EOF
	}
	return n, nil
}

func decodeWideZstd(src []byte, limit int64) ([]byte, error) {
	possible := min(limit, int64(len(src))/3*zstdBlockBytesMax)
	for size := min(1<<20, possible); ; size = min(2*size, possible) {
		// One byte of room: an output of exactly the limit is no excess.
		out, err := wideZstd().DecodeAll(src, make([]byte, 0, size+1))
		switch {
		case err == nil && int64(len(out)) <= limit:
			return out, nil
		case err != nil && !errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return nil, err
		case size == possible:
			return nil, tooLarge(limit)
		}
	}
}

func (s *zstdSource) pieceBytes() int {
	if s.whole != nil {
		return int(s.limit)
	}
	return 0
}

func (s *zstdSource) release() {
	s.whole, s.decoded = nil, nil
	s.src.Reset(nil)
	if s.reader != nil {
		_ = s.reader.Reset(nil) // forgets the source; nil is always accepted
	}
}
