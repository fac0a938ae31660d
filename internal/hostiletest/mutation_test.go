package hostiletest

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
)

// mutation is one way to spoil a frame. hangs says that the broker may rightly wait for more.
type mutation struct {
	name  string
	hangs bool
	spoil func(random *rand.Rand, frame []byte) []byte
}

const (
	prefixBytes = 4
	headerBytes = prefixBytes + 8
)

// relength makes a frame's length true again.
func relength(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-prefixBytes))
	return frame
}

// largeCounts are numbers of elements, of either encoding, that no frame has bytes for.
var largeCounts = [][]byte{
	{0x7f, 0xff, 0xff, 0xff}, {0x00, 0x0f, 0xff, 0xff}, {0x80, 0x00, 0x00, 0x00}, {0xff, 0xff, 0xff, 0xfe},
	{0xff, 0xff, 0xff, 0xff, 0x07}, {0xff, 0xff, 0xff, 0xff, 0x0f}, {0xff, 0xff, 0x03}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
	{0x7f, 0xff},
}

// mutations are all of them.
var mutations = []mutation{
	{"cut short, and says so", false, func(random *rand.Rand, frame []byte) []byte {
		return relength(frame[:prefixBytes+random.IntN(len(frame)-prefixBytes)])
	}},
	{"cut short", true, func(random *rand.Rand, frame []byte) []byte {
		return frame[:1+random.IntN(len(frame)-1)]
	}},
	{"a count enlarged", false, func(random *rand.Rand, frame []byte) []byte {
		count := largeCounts[random.IntN(len(largeCounts))]
		where := headerBytes + random.IntN(len(frame)-headerBytes)
		if random.IntN(2) == 0 {
			return relength(append(frame[:where:where], append(slices.Clone(count), frame[where:]...)...)) // put in
		}
		copy(frame[where:], count) // put over
		return frame
	}},
	{"bytes flipped", false, func(random *rand.Rand, frame []byte) []byte {
		for range 1 + random.IntN(3) {
			frame[prefixBytes+random.IntN(len(frame)-prefixBytes)] ^= 1 << random.IntN(8)
		}
		return frame
	}},
	{"bytes flipped in the header", false, func(random *rand.Rand, frame []byte) []byte {
		frame[prefixBytes+random.IntN(10)] ^= 1 << random.IntN(8)
		return frame
	}},
	{"says to be shorter", true, func(random *rand.Rand, frame []byte) []byte {
		binary.BigEndian.PutUint32(frame, uint32(random.IntN(len(frame)-prefixBytes)))
		return frame
	}},
	{"says to be longer", true, func(random *rand.Rand, frame []byte) []byte {
		binary.BigEndian.PutUint32(frame, uint32(len(frame)+random.IntN(1<<20)))
		return frame
	}},
	{"says to be endless", false, func(random *rand.Rand, frame []byte) []byte {
		binary.BigEndian.PutUint32(frame, []uint32{0xffffffff, 0x80000000, 0x7fffffff, 100<<20 + 1}[random.IntN(4)])
		return frame
	}},
	{"bytes behind it", false, func(random *rand.Rand, frame []byte) []byte {
		for range 1 + random.IntN(100) {
			frame = append(frame, byte(random.Uint32()))
		}
		return relength(frame)
	}},
	{"noise", true, func(random *rand.Rand, frame []byte) []byte {
		for i := range frame[prefixBytes:] {
			frame[prefixBytes+i] = byte(random.Uint32())
		}
		return frame
	}},
}
