package record

import (
	"encoding/binary"
	"errors"
)

// The LZ4 frame format, version 1.6. What Kafka's clients understand is a part
// of it: one frame, blocks that do not refer to each other, no dictionary.
const (
	lz4Magic         = 0x184D2204
	lz4HeaderBytes   = 7 // magic, two descriptor bytes, header checksum
	lz4ChecksumBytes = 4

	lz4VersionMask      = 0xc0
	lz4Version          = 0x40
	lz4BlockIndependent = 1 << 5
	lz4BlockChecksum    = 1 << 4
	lz4ContentSize      = 1 << 3
	lz4ContentChecksum  = 1 << 2
	lz4Reserved         = 1 << 1
	lz4DictionaryID     = 1 << 0

	lz4Stored = 1 << 31 // a block that is not compressed
)

var (
	errLZ4Magic       = errors.New("not an LZ4 frame")
	errLZ4Descriptor  = errors.New("frame descriptor is damaged or asks for what Kafka does not have: linked blocks, a dictionary")
	errLZ4Cut         = errors.New("frame is cut off")
	errLZ4Block       = errors.New("a block is larger than the frame allows")
	errLZ4Trailing    = errors.New("bytes follow the frame")
	errLZ4ContentSize = errors.New("content has not the size that the frame states")
)

// lz4Frame is what the outline of a frame tells.
type lz4Frame struct {
	blockBytes   int   // largest block when decompressed
	contentBytes int64 // all of it when decompressed; negative: not stated
}

// scanLZ4Frame walks the outline of the frame that must fill src: descriptor
// and block sizes. The library would go on to further frames, to the legacy
// format and to linked blocks, all of which a Java consumer cannot read; what
// the consumers cannot read must not be stored. It decompresses and verifies
// no checksum: the library does.
func scanLZ4Frame(src []byte) (lz4Frame, error) {
	frame := lz4Frame{contentBytes: -1}
	if len(src) < lz4HeaderBytes {
		return frame, errLZ4Cut
	}
	if binary.LittleEndian.Uint32(src) != lz4Magic {
		return frame, errLZ4Magic
	}
	flags, blockCode := src[4], src[5]>>4
	if flags&lz4VersionMask != lz4Version || flags&(lz4Reserved|lz4DictionaryID) != 0 ||
		flags&lz4BlockIndependent == 0 || blockCode < 4 || blockCode > 7 || src[5]&0x0f != 0 {
		return frame, errLZ4Descriptor
	}
	frame.blockBytes = 1 << (8 + 2*blockCode) // 64 KiB, 256 KiB, 1 MiB, 4 MiB
	rest := src[6:]
	if flags&lz4ContentSize != 0 {
		if len(rest) < 9 {
			return frame, errLZ4Cut
		}
		size := binary.LittleEndian.Uint64(rest)
		frame.contentBytes = int64(min(size, 1<<62)) // beyond any limit is all the same
		rest = rest[8:]
	}
	rest = rest[1:] // header checksum
	for {
		if len(rest) < 4 {
			return frame, errLZ4Cut
		}
		size := int(binary.LittleEndian.Uint32(rest) &^ lz4Stored)
		end := binary.LittleEndian.Uint32(rest) == 0
		rest = rest[4:]
		if end {
			break
		}
		if size > frame.blockBytes {
			return frame, errLZ4Block
		}
		if flags&lz4BlockChecksum != 0 {
			size += lz4ChecksumBytes
		}
		if len(rest) < size {
			return frame, errLZ4Cut
		}
		rest = rest[size:]
	}
	if flags&lz4ContentChecksum != 0 {
		if len(rest) < lz4ChecksumBytes {
			return frame, errLZ4Cut
		}
		rest = rest[lz4ChecksumBytes:]
	}
	if len(rest) != 0 {
		return frame, errLZ4Trailing
	}
	return frame, nil
}
