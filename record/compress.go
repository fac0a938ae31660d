package record

import (
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compress appends src, compressed by codec at its usual level, to dst and
// returns the extended slice. The shapes are those that every client reads:
// snappy as one raw block, LZ4 as one frame of independent 64 KiB blocks. The
// error is ErrUnsupportedCompression for a codec that is not Known.
func Compress(dst []byte, codec Codec, src []byte) ([]byte, error) {
	switch codec {
	case CodecNone:
		return append(dst, src...), nil
	case CodecGzip:
		w := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(w)
		return compressStream(dst, w, src)
	case CodecSnappy:
		size := s2.MaxEncodedLen(len(src))
		if size < 0 {
			return dst, fmt.Errorf("record: %d bytes are too many for one snappy block", len(src))
		}
		at := len(dst)
		dst = append(dst, make([]byte, size)...)
		return dst[:at+len(s2.EncodeSnappy(dst[at:], src))], nil
	case CodecLZ4:
		w := lz4Writers.Get().(*lz4.Writer)
		defer lz4Writers.Put(w)
		return compressStream(dst, w, src)
	case CodecZstd:
		return zstdEncoder().EncodeAll(src, dst), nil
	}
	return dst, fmt.Errorf("%w: %v", ErrUnsupportedCompression, codec)
}

var (
	gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
	lz4Writers  = sync.Pool{New: func() any {
		w := lz4.NewWriter(nil)
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)); err != nil {
			panic(fmt.Sprintf("record: lz4 refuses its own options: %v", err))
		}
		return w
	}}

	// EncodeAll may be called concurrently; the encoder keeps a state for each
	// of its workers, which is what bounds its memory.
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(fmt.Sprintf("record: zstd refuses its own options: %v", err))
		}
		return e
	})
)

type resettableWriter interface {
	io.WriteCloser
	Reset(io.Writer)
}

func compressStream(dst []byte, w resettableWriter, src []byte) ([]byte, error) {
	out := sliceWriter{bytes: dst}
	w.Reset(&out)
	_, err := w.Write(src)
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return dst, fmt.Errorf("record: compressing %d bytes: %w", len(src), err)
	}
	return out.bytes, nil
}

// sliceWriter appends what is written to it.
type sliceWriter struct{ bytes []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.bytes = append(w.bytes, p...)
	return len(p), nil
}
