package record

// Next returns the first batch of b and what follows it. It reads the length
// and the magic only: see Check for the rest. The error is ErrShort when b ends
// before the batch does (also when b is empty), or a *CorruptError. Both leave
// rest as b.
func Next(b []byte) (batch Batch, rest []byte, err error) {
	if len(b) < PrefixBytes {
		return nil, b, ErrShort
	}
	size := Batch(b).SizeBytes()
	if size < HeaderBytes {
		return nil, b, corrupt(lengthAt, ErrLength, "length says %d bytes in all, and a header alone takes %d", size, HeaderBytes)
	}
	// Looked at before the size is believed: the beginning of something else
	// must not pass for the beginning of a very long batch.
	if len(b) > magicAt && b[magicAt] != Magic {
		return nil, b, corrupt(magicAt, ErrUnsupportedMagic, "magic is %d, want %d", Batch(b).Magic(), Magic)
	}
	if size > len(b) {
		return nil, b, ErrShort
	}
	return Batch(b[:size:size]), b[size:], nil
}

// Check verifies that b is exactly one whole batch whose checksum matches and
// whose header is possible: what holds for every batch that was ever stored,
// compacted ones without records included. It does not look at the records.
// The error is a *CorruptError.
func Check(b []byte) error {
	batch, rest, err := Next(b)
	switch {
	case err == ErrShort:
		return corrupt(min(lengthAt, len(b)), ErrLength, "%d bytes are not a whole batch", len(b))
	case err != nil:
		return err
	case len(rest) != 0:
		return corrupt(len(batch), ErrLength, "%d bytes follow the batch", len(rest))
	}
	return batch.Check()
}

// Check verifies checksum and header of a batch that Next returned. The error
// is a *CorruptError.
func (b Batch) Check() error {
	if computed := b.ComputeCRC(); computed != b.CRC() {
		return corrupt(crcAt, ErrChecksum, "stored %08x, computed %08x over %d bytes", b.CRC(), computed, len(b)-attributesAt)
	}
	switch {
	case b.LastOffsetDelta() < 0:
		return corrupt(lastOffsetDeltaAt, ErrHeader, "last offset delta is %d", b.LastOffsetDelta())
	case b.LastOffset() < b.BaseOffset():
		return corrupt(baseOffsetAt, ErrHeader, "offsets from %d on run past the largest", b.BaseOffset())
	case b.RecordCount() < 0 || int64(b.RecordCount()) > int64(b.LastOffsetDelta())+1:
		return corrupt(recordCountAt, ErrHeader, "%d records in a range of %d offsets", b.RecordCount(), int64(b.LastOffsetDelta())+1)
	}
	return nil
}
