package record

// Cost is what it takes to check a produced batch besides reading it once. Whoever
// validates for many clients bounds by it how many decompressors there are at a time: one
// takes megabytes whatever the size of its input (a zstd window of 8 MiB, an LZ4 block
// of 4 MiB).
type Cost uint8

const (
	// CostNothing: the records are not compressed, or there is no batch.
	CostNothing Cost = iota
	// CostDecompressor: a decompressor while the batch is validated.
	CostDecompressor
	// CostBlock: a decompressor and a block that is made at once, of up to all that the
	// records may grow to: Snappy has blocks of any size.
	CostBlock
)

// CostOf tells from the header of records, and from the outline of Snappy blocks, what
// their validation will cost.
func CostOf(records []byte) Cost {
	batch, _, err := Next(records)
	switch {
	case err != nil || batch.Codec() == CodecNone || !batch.Codec().Known():
		return CostNothing
	case batch.Codec() == CodecSnappy && largestSnappyBlock(batch.Payload()) > snappyKeepBytes:
		return CostBlock
	}
	return CostDecompressor
}
