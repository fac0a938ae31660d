package record

// The records use the zigzag varints of Protocol Buffers: seven bits a byte,
// low ones first, the top bit says that another byte follows.

const (
	varintBytesMax  = 5  // of 32 bits
	varlongBytesMax = 10 // of 64 bits
)

// varint decodes a 32-bit varint at the start of b; n is how many bytes it
// takes, 0 when b ends first, negative when it does not fit 32 bits.
func varint(b []byte) (value int32, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int32(b[0]>>1) ^ -int32(b[0]&1), 1
	}
	return varintSlow(b)
}

func varintSlow(b []byte) (value int32, n int) {
	var u uint32
	for i := range min(len(b), varintBytesMax) {
		c := b[i]
		if i == varintBytesMax-1 && c > 0x0f {
			return 0, -1
		}
		u |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), i + 1
		}
	}
	return 0, 0
}

// varlong is varint for 64 bits.
func varlong(b []byte) (value int64, n int) {
	var u uint64
	for i := range min(len(b), varlongBytesMax) {
		c := b[i]
		if i == varlongBytesMax-1 && c > 1 {
			return 0, -1
		}
		u |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
	}
	return 0, 0
}

func appendVarint(dst []byte, value int32) []byte { return appendVarlong(dst, int64(value)) }

func appendVarlong(dst []byte, value int64) []byte {
	u := uint64(value)<<1 ^ uint64(value>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// varintBytes returns how many bytes appendVarlong takes.
func varintBytes(value int64) int {
	u := uint64(value)<<1 ^ uint64(value>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}
