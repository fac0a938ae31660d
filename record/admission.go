package record

import (
	"runtime"
	"sync"
)

// A decompressor takes megabytes whatever the size of its input: a zstd window of 8
// MiB, an LZ4 block of 4 MiB, a whole Snappy block. Validate therefore lets in about
// as many as there are processors, more of which would not be faster, and those
// with a large Snappy block one at a time.
var (
	decompressions = make(chan struct{}, max(4, runtime.NumCPU()))
	largeBlock     sync.Mutex
)

// admission is what a caller of Validate holds while it decompresses.
type admission struct{ counted, large bool }

// admitDecompression waits until the records of a batch may be decompressed. What is
// not compressed, or no batch at all, does not wait.
func admitDecompression(records []byte) (a admission) {
	batch, _, err := Next(records)
	if err != nil || batch.Codec() == CodecNone {
		return a
	}
	// In this order, so that those who wait for a large block keep no others out.
	if batch.Codec() == CodecSnappy && largestSnappyBlock(batch.Payload()) > snappyKeepBytes {
		largeBlock.Lock()
		a.large = true
	}
	decompressions <- struct{}{}
	a.counted = true
	return a
}

func (a admission) leave() {
	if a.counted {
		<-decompressions
	}
	if a.large {
		largeBlock.Unlock()
	}
}
