package killtest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// Name is who sent a record and as his how manyth: unique in a history.
type Name struct {
	Producer int32
	Sequence int64
}

// String returns the name as it is printed in findings.
func (n Name) String() string { return fmt.Sprintf("%d/%d", n.Producer, n.Sequence) }

const nameBytes = 4 + 8

// valueBytesMax keeps batches of several records below a topic's limit.
const valueBytesMax = 2048

// Value returns the bytes of a record: its name, then filler that follows from
// the name, so that any change is seen.
func (n Name) Value() []byte {
	random := rand.New(rand.NewPCG(uint64(n.Producer), uint64(n.Sequence)))
	value := make([]byte, nameBytes+random.IntN(valueBytesMax-nameBytes))
	binary.BigEndian.PutUint32(value, uint32(n.Producer))
	binary.BigEndian.PutUint64(value[4:], uint64(n.Sequence))
	var letters uint64
	for i := nameBytes; i < len(value); i++ {
		// Letters of sixteen kinds, so that codecs have something to do.
		if letters == 0 {
			letters = random.Uint64()
		}
		value[i] = 'a' + byte(letters&15)
		letters >>= 4
	}
	return value
}

// ParseValue returns the name in a record, and whether the record is what its
// sender sent.
func ParseValue(value []byte) (Name, bool) {
	if len(value) < nameBytes {
		return Name{}, false
	}
	name := parseName(value)
	return name, string(name.Value()) == string(value)
}

// parseName returns the name that value begins with, which has at least nameBytes.
func parseName(value []byte) Name {
	return Name{int32(binary.BigEndian.Uint32(value)), int64(binary.BigEndian.Uint64(value[4:]))}
}
