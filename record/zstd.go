package record

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

const (
	// zstdWindowMax is the window that frames are decoded with at most: what
	// RFC 8878 wants every decoder to support, and what levels up to 19 use.
	zstdWindowMax = 8 << 20

	// zstdWindowMaxCode is that window as a frame header writes it: the
	// exponent above 10 in the upper five bits.
	zstdWindowMaxCode = 13 << 3

	zstdDescriptorAt  = 4 // behind the magic
	zstdSingleSegment = 1 << 5
)

const (
	_ = uint(zstdWindowMax - 1<<(10+zstdWindowMaxCode>>3))
	_ = uint(1<<(10+zstdWindowMaxCode>>3) - zstdWindowMax)
)

// zstdSource reads Zstandard frames in a stream.
//
// A decoder allocates the window of a frame at once and on the frame's word.
// Levels 20 to 22 declare 32 to 128 MiB however small the data, and a frame that
// is one segment declares all of its content. So a header that asks for more
// than zstdWindowMax is rewritten to ask for that. It decodes to the same bytes,
// unless it does refer back further than 8 MiB, which is an error: a batch that
// large that needs such a window is the price of not trusting the rest.
//
// The road not taken: decoding such frames in one piece into memory that
// doubles. It cannot be limited without the library printing to standard error,
// at the sender's will.
type zstdSource struct {
	src    zstdReader
	reader *zstd.Decoder
}

func (s *zstdSource) reset(src []byte, limit int64) error {
	var header zstd.Header
	if err := header.Decode(src); err != nil {
		return err
	}
	if header.HasFCS && !header.Skippable && header.FrameContentSize > uint64(limit) {
		return tooLarge(limit)
	}
	s.src.reset(src, &header)
	if s.reader == nil {
		// Concurrency 1: no goroutines of its own, hence nothing to close.
		reader, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindowMax))
		if err != nil {
			panic(fmt.Sprintf("record: zstd refuses its own options: %v", err))
		}
		s.reader = reader
	}
	return s.reader.Reset(&s.src)
}

func (s *zstdSource) read(p []byte) (int, error) { return s.reader.Read(p) }
func (s *zstdSource) pieceBytes() int            { return 0 }

func (s *zstdSource) release() {
	s.src.reset(nil, &zstd.Header{})
	if s.reader != nil {
		_ = s.reader.Reset(nil) // forgets the source; nil is always accepted
	}
}

// zstdReader reads compressed bytes behind a header that may be rewritten.
type zstdReader struct {
	headBytes [zstdDescriptorAt + 2]byte
	head      []byte // what of headBytes is still to be read
	rest      bytes.Reader
}

func (r *zstdReader) reset(src []byte, header *zstd.Header) {
	r.head = nil
	switch {
	case header.Skippable:
	case header.SingleSegment && header.FrameContentSize > zstdWindowMax:
		// Such a header has no window; it gets one. Its content size, being
		// large, takes as many bytes as it does without the flag.
		r.head = append(r.headBytes[:0], src[:zstdDescriptorAt]...)
		r.head = append(r.head, src[zstdDescriptorAt]&^zstdSingleSegment, zstdWindowMaxCode)
		src = src[zstdDescriptorAt+1:]
	case !header.SingleSegment && header.WindowSize > zstdWindowMax:
		r.head = append(r.headBytes[:0], src[:zstdDescriptorAt+1]...)
		r.head = append(r.head, zstdWindowMaxCode)
		src = src[zstdDescriptorAt+2:]
	}
	r.rest.Reset(src)
}

// Read implements io.Reader.
func (r *zstdReader) Read(p []byte) (int, error) {
	if len(r.head) > 0 {
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	return r.rest.Read(p)
}
