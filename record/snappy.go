package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/s2"
)

// Snappy comes in two shapes. librdkafka and most others send one raw block.
// Java clients wrap blocks of 32 KiB or so in the framing of snappy-java:
//
//	magic (8 bytes) | version | lowest compatible version | { length | block } ...
//	                     4                  4                    4
//
// all big endian. Headers may come again between blocks, when streams were
// put one behind the other.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeaderBytes = 16

var (
	errSnappyBlock   = errors.New("damaged block")
	errSnappyFraming = errors.New("damaged framing")
)

// snappyKeepBytes is the largest block buffer that stays in the pool.
const snappyKeepBytes = 1 << 20

// snappySource decodes block by block.
type snappySource struct {
	rest    []byte // blocks to come
	framed  bool
	limit   int64
	buffer  []byte // memory for one decoded block
	decoded []byte // what of it is still to be read
}

func (s *snappySource) reset(src []byte, limit int64) error {
	s.rest, s.limit, s.decoded = src, limit, nil
	s.framed = bytes.HasPrefix(src, xerialMagic)
	if len(src) == 0 {
		return io.ErrUnexpectedEOF
	}
	_, _, err := s.nextBlock()
	return err
}

func (s *snappySource) read(p []byte) (int, error) {
	for len(s.decoded) == 0 {
		block, rest, err := s.nextBlock()
		if err != nil {
			return 0, err
		}
		if block == nil {
			return 0, io.EOF
		}
		s.rest = rest
		size, err := checkSnappyBlock(block)
		if err != nil {
			return 0, err
		}
		if int64(size) > s.limit {
			return 0, tooLarge(s.limit)
		}
		if cap(s.buffer) < size {
			s.buffer = make([]byte, size)
		}
		if s.decoded, err = s2.Decode(s.buffer[:size], block); err != nil {
			return 0, errSnappyBlock
		}
	}
	n := copy(p, s.decoded)
	s.decoded = s.decoded[n:]
	return n, nil
}

// nextBlock returns the next compressed block and what follows it; nil at the
// end.
func (s *snappySource) nextBlock() (block, rest []byte, err error) {
	rest = s.rest
	if !s.framed {
		if len(rest) == 0 {
			return nil, nil, nil
		}
		return rest, nil, nil
	}
	for bytes.HasPrefix(rest, xerialMagic) {
		if len(rest) < xerialHeaderBytes {
			return nil, nil, errSnappyFraming
		}
		rest = rest[xerialHeaderBytes:]
	}
	if len(rest) == 0 {
		return nil, nil, nil
	}
	if len(rest) < 4 {
		return nil, nil, errSnappyFraming
	}
	length := binary.BigEndian.Uint32(rest)
	rest = rest[4:]
	if length == 0 || uint64(length) > uint64(len(rest)) {
		return nil, nil, errSnappyFraming
	}
	return rest[:length], rest[length:], nil
}

// largestSnappyBlock returns how large the largest block of src says it is, up to
// where src is damaged.
func largestSnappyBlock(src []byte) (largest uint64) {
	s := snappySource{rest: src, framed: bytes.HasPrefix(src, xerialMagic)}
	for {
		block, rest, err := s.nextBlock()
		if err != nil || block == nil {
			return largest
		}
		if size, n := binary.Uvarint(block); n > 0 {
			largest = max(largest, size)
		}
		if s.rest = rest; !s.framed {
			return largest
		}
	}
}

func (s *snappySource) pieceBytes() int {
	if len(s.decoded) != 0 {
		return 0
	}
	block, _, err := s.nextBlock()
	if err != nil || block == nil {
		return 0
	}
	size, n := binary.Uvarint(block)
	if n <= 0 {
		return 0
	}
	return int(min(size, uint64(s.limit)))
}

func (s *snappySource) release() {
	s.rest, s.decoded = nil, nil
	if cap(s.buffer) > snappyKeepBytes {
		s.buffer = nil
	}
}

// checkSnappyBlock walks the elements of a block and returns how large it is
// when decoded. It is what makes the size safe to allocate: a block that passes
// does decode to its size, at most 64 bytes for every 3. It also refuses what
// the library decodes beyond Snappy: S2's repeat codes, which are copies with
// offset 0, and which no other Kafka client can read.
func checkSnappyBlock(block []byte) (int, error) {
	declared, n := binary.Uvarint(block)
	if n <= 0 || declared > 1<<32-1 {
		return 0, errSnappyBlock
	}
	rest := block[n:]
	made := uint64(0)
	for len(rest) > 0 {
		tag := rest[0]
		var size, skip, offset int
		switch tag & 3 {
		case 0: // literal: length-1 in six bits, or in 1 to 4 bytes behind
			size, skip = int(tag>>2), 1
			if size >= 60 {
				lengthBytes := size - 59
				if len(rest) < 1+lengthBytes {
					return 0, errSnappyBlock
				}
				var wide [4]byte
				copy(wide[:], rest[1:1+lengthBytes])
				size, skip = int(binary.LittleEndian.Uint32(wide[:])), 1+lengthBytes
			}
			size++
			if len(rest)-skip < size {
				return 0, errSnappyBlock
			}
			skip += size
			offset = 1 // no copy, nothing to check
		case 1: // copy of 4 to 11 bytes, 11-bit offset
			skip = 2
			if len(rest) < skip {
				return 0, errSnappyBlock
			}
			size, offset = 4+int(tag>>2&7), int(tag>>5)<<8|int(rest[1])
		case 2: // copy of 1 to 64 bytes, 16-bit offset
			skip = 3
			if len(rest) < skip {
				return 0, errSnappyBlock
			}
			size, offset = 1+int(tag>>2), int(binary.LittleEndian.Uint16(rest[1:]))
		case 3: // the same, 32-bit offset
			skip = 5
			if len(rest) < skip {
				return 0, errSnappyBlock
			}
			size, offset = 1+int(tag>>2), int(binary.LittleEndian.Uint32(rest[1:]))
		}
		if offset == 0 || (tag&3 != 0 && uint64(offset) > made) {
			return 0, errSnappyBlock
		}
		made += uint64(size)
		if made > declared {
			return 0, errSnappyBlock
		}
		rest = rest[skip:]
	}
	if made != declared {
		return 0, errSnappyBlock
	}
	return int(declared), nil
}
