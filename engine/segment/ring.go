package segment

const ringVersion = 1

// RingHeadBytes is what the head of a ring takes; its frames lie behind it.
const RingHeadBytes = storedBlockBytes

// Ring is the head of a shard's journal file, written once, when the file is made:
//
//	16 B store id · 8 B bytes of the ring behind this block
//
// The checkpoint has the store id too; either is enough to know a frame.
type Ring struct {
	Store [16]byte
	Bytes int64
}

// Encode returns the block.
func (r *Ring) Encode() []byte {
	body := append([]byte(nil), r.Store[:]...)
	return AppendStored(nil, KindRing, ringVersion, appendInt64(body, r.Bytes))
}

// DecodeRing reads what Encode wrote. The error is ErrNewerFormat or a *CorruptError.
func DecodeRing(block []byte) (*Ring, error) {
	c, err := openStored(block, KindRing, ringVersion)
	if err != nil {
		return nil, err
	}
	return decodeRing(&c)
}

func decodeRing(c *cursor) (*Ring, error) {
	r := &Ring{Store: c.id("store id"), Bytes: c.int64("ring bytes")}
	if r.Bytes < 0 {
		c.fail("a negative size")
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	return r, nil
}
