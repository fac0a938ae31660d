package record

import "fmt"

// Codec is how the records of a batch are compressed: bits 0 to 2 of its
// attributes.
type Codec uint8

const (
	CodecNone   Codec = 0
	CodecGzip   Codec = 1
	CodecSnappy Codec = 2
	CodecLZ4    Codec = 3
	CodecZstd   Codec = 4 // KIP-110: Produce from version 7 and Fetch from version 10 on

	codecCount = 5
)

var codecNames = [codecCount]string{"none", "gzip", "snappy", "lz4", "zstd"}

// Known reports whether c is one of the five codecs that Kafka defines.
func (c Codec) Known() bool { return c < codecCount }

// String returns the codec's name as Kafka's compression.type has it.
func (c Codec) String() string {
	if c.Known() {
		return codecNames[c]
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

// ParseCodec returns the codec that compression.type calls name.
func ParseCodec(name string) (codec Codec, ok bool) {
	for c, n := range codecNames {
		if n == name {
			return Codec(c), true
		}
	}
	return CodecNone, false
}
