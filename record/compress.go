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
		return compressStream(dst, &gzipWriters, src)
	case CodecSnappy:
		size := s2.MaxEncodedLen(len(src))
		if size < 0 {
			return dst, fmt.Errorf("record: %d bytes are too many for one snappy block", len(src))
		}
		at := len(dst)
		dst = append(dst, make([]byte, size)...)
		return dst[:at+len(s2.EncodeSnappy(dst[at:], src))], nil
	case CodecLZ4:
		return compressStream(dst, &lz4Writers, src)
	case CodecZstd:
		return zstdEncoder().EncodeAll(src, dst), nil
	}
	return dst, fmt.Errorf("%w: %v", ErrUnsupportedCompression, codec)
}

var (
	gzipWriters = sync.Pool{New: func() any { return &streamWriter{compressor: gzip.NewWriter(nil)} }}
	lz4Writers  = sync.Pool{New: func() any {
		w := lz4.NewWriter(nil)
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)); err != nil {
			panic(fmt.Sprintf("record: lz4 refuses its own options: %v", err))
		}
		return &streamWriter{compressor: w}
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

// streamWriter is a compressor and what it writes to, pooled together.
type streamWriter struct {
	compressor interface {
		io.WriteCloser
		Reset(io.Writer)
	}
	out []byte
}

// Write appends what comes out of the compressor.
func (w *streamWriter) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

func compressStream(dst []byte, pool *sync.Pool, src []byte) ([]byte, error) {
	w := pool.Get().(*streamWriter)
	w.out = dst
	w.compressor.Reset(w)
	_, err := w.compressor.Write(src)
	if closeErr := w.compressor.Close(); err == nil {
		err = closeErr
	}
	out := w.out
	w.out = nil
	pool.Put(w)
	if err != nil {
		return dst, fmt.Errorf("record: compressing %d bytes: %w", len(src), err)
	}
	return out, nil
}
