package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/pierrec/lz4/v4"
)

// DecompressedBytesMax is the default limit for what the records of one batch
// may grow to. Kafka has none and takes what comes.
const DecompressedBytesMax = 64 << 20

// Decompress appends what src holds, compressed by codec, to dst, and returns
// the extended slice. The memory it takes follows what has come out so far,
// never what src claims, and at most limit bytes come out.
//
// The error is ErrDecompress, ErrDecompressedTooLarge or
// ErrUnsupportedCompression; dst is then returned as it was.
func Decompress(dst []byte, codec Codec, src []byte, limit int64) ([]byte, error) {
	if codec == CodecNone {
		if int64(len(src)) > limit {
			return dst, tooLarge(limit)
		}
		return append(dst, src...), nil
	}
	d, err := openDecoder(codec, src, limit)
	if err != nil {
		return dst, err
	}
	defer d.close()
	out := dst
	for {
		if len(out) == cap(out) {
			out = slices.Grow(out, max(512, len(out)-len(dst)))
		}
		n, err := d.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// decoder streams the decompressed records of one batch and bounds them. It
// belongs to one goroutine at a time.
type decoder struct {
	codec  Codec
	source blockSource // the codec's, from its pool
	limit  int64
	out    int64 // bytes that came out so far
	err    error // sticky
}

// blockSource is one codec's decompressor. read returns io.EOF once src is
// used up, and only then; other errors are wrapped by the decoder.
type blockSource interface {
	reset(src []byte, limit int64) error
	read(p []byte) (int, error)

	// pieceBytes returns how many bytes the next read has to bring forth in
	// one go before it can return the first, when that is known.
	pieceBytes() int

	// release forgets src and gives large memory up.
	release()
}

// Decompressors are large (a zstd one holds megabytes), so they are shared by
// all connections rather than owned by each validator.
var sourcePools = [codecCount]sync.Pool{
	CodecGzip:   {New: func() any { return new(gzipSource) }},
	CodecSnappy: {New: func() any { return new(snappySource) }},
	CodecLZ4:    {New: func() any { return new(lz4Source) }},
	CodecZstd:   {New: func() any { return new(zstdSource) }},
}

func openDecoder(codec Codec, src []byte, limit int64) (*decoder, error) {
	if !codec.Known() || codec == CodecNone {
		return nil, fmt.Errorf("%w: %v", ErrUnsupportedCompression, codec)
	}
	d := decoderPool.Get().(*decoder)
	*d = decoder{codec: codec, limit: limit, source: sourcePools[codec].Get().(blockSource)}
	if err := d.source.reset(src, limit); err != nil {
		err = d.wrap(err)
		d.close()
		return nil, err
	}
	return d, nil
}

var decoderPool = sync.Pool{New: func() any { return new(decoder) }}

// Read implements io.Reader. When it returns ErrDecompressedTooLarge, at most
// len(p) bytes too many were made.
func (d *decoder) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	n, err := d.source.read(p)
	d.out += int64(n)
	switch {
	case d.out > d.limit:
		d.err = tooLarge(d.limit)
		return 0, d.err
	case err == io.EOF:
		d.err = io.EOF
	case err != nil:
		d.err = d.wrap(err)
	}
	return n, d.err
}

// pieceBytes returns what the next Read makes in one go, when that is known.
func (d *decoder) pieceBytes() int { return d.source.pieceBytes() }

// close returns the parts of the decoder to their pools.
func (d *decoder) close() {
	d.source.release()
	sourcePools[d.codec].Put(d.source)
	*d = decoder{}
	decoderPool.Put(d)
}

func (d *decoder) wrap(err error) error {
	if errors.Is(err, ErrDecompressedTooLarge) {
		return err
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // where the source had to go on
	}
	return fmt.Errorf("%w: %v: %v", ErrDecompress, d.codec, err)
}

func tooLarge(limit int64) error {
	return fmt.Errorf("%w: more than %d bytes", ErrDecompressedTooLarge, limit)
}

// gzipSource reads RFC 1952 members, one or several.
type gzipSource struct {
	src    bytes.Reader
	reader gzip.Reader
}

func (s *gzipSource) reset(src []byte, _ int64) error {
	s.src.Reset(src)
	return s.reader.Reset(&s.src)
}

func (s *gzipSource) read(p []byte) (int, error) { return s.reader.Read(p) }
func (s *gzipSource) pieceBytes() int            { return 0 }
func (s *gzipSource) release()                   { s.src.Reset(nil) }

// lz4Source reads one LZ4 frame.
type lz4Source struct {
	src          bytes.Reader
	reader       *lz4.Reader
	contentBytes int64 // what the frame says is still to come; negative: not said
}

func (s *lz4Source) reset(src []byte, limit int64) error {
	frame, err := scanLZ4Frame(src)
	if err != nil {
		return err
	}
	if frame.contentBytes > limit {
		return tooLarge(limit)
	}
	s.contentBytes = frame.contentBytes
	s.src.Reset(src)
	if s.reader == nil {
		s.reader = lz4.NewReader(&s.src)
	} else {
		s.reader.Reset(&s.src)
	}
	return nil
}

func (s *lz4Source) pieceBytes() int { return 0 } // a block: 4 MiB at most

func (s *lz4Source) read(p []byte) (int, error) {
	n, err := s.reader.Read(p)
	if s.contentBytes >= 0 {
		s.contentBytes -= int64(n)
		if s.contentBytes < 0 || (err == io.EOF && s.contentBytes > 0) {
			return n, errLZ4ContentSize
		}
	}
	return n, err
}

func (s *lz4Source) release() {
	s.src.Reset(nil)
	if s.reader != nil {
		s.reader.Reset(&s.src) // returns the block buffer to the library's pool
	}
}
