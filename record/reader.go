package record

import (
	"errors"
	"fmt"
)

// Reader walks the records of a batch, decompressing as it goes. The zero value
// is ready for Reset. It belongs to one goroutine at a time.
//
//	r.Reset(batch)
//	defer r.Close()
//	for r.Next() {
//		use(r.Record())
//	}
//	return r.Err()
type Reader struct {
	// DecompressedBytesMax bounds what a compressed batch may grow to; zero
	// means the package's DecompressedBytesMax. Set it before Reset.
	DecompressedBytesMax int64

	batch  Batch
	stream stream
	record Record
	index  int // of the record that Next reads next
	left   int // records that Next has not read; 0 when closed
	err    error
}

// Reset starts on another batch, one that Next returned or Check accepted,
// which must not change until Close. An error shows in Err.
func (r *Reader) Reset(batch Batch) {
	r.Close()
	r.batch, r.left = batch, int(max(0, batch.RecordCount()))
	limit := r.DecompressedBytesMax
	if limit == 0 {
		limit = DecompressedBytesMax
	}
	// Nothing is decompressed for a batch that compaction has emptied: its
	// payload is empty, which no codec reads.
	if r.left > 0 {
		r.err = r.stream.open(batch, limit)
	}
}

// Next moves to the next record. It returns false behind the last one and on an
// error, which Err returns.
func (r *Reader) Next() bool {
	if r.err != nil || r.left == 0 {
		return false
	}
	body, err := r.stream.next()
	if err == nil {
		err = parseRecord(body, &r.record)
	}
	if err != nil {
		r.err = recordFailure(r.index, err)
		return false
	}
	r.index++
	r.left--
	r.record.Offset = r.batch.BaseOffset() + int64(r.record.OffsetDelta)
	r.record.Timestamp = r.batch.recordTimestamp(r.record.TimestampDelta)
	return true
}

// Record returns the record that Next moved to. It is overwritten by the next
// call of Next, and so are its bytes when the batch is compressed; otherwise
// they are bytes of the batch.
func (r *Reader) Record() *Record { return &r.record }

// Err returns what ended the walk early: ErrInvalidRecord, ErrDecompress,
// ErrDecompressedTooLarge or ErrUnsupportedCompression.
func (r *Reader) Err() error { return r.err }

// Close gives back what the reader borrowed. Records that it yielded are gone.
func (r *Reader) Close() {
	r.stream.close()
	r.batch, r.record, r.err = nil, Record{}, nil
	r.index, r.left = 0, 0
}

// recordFailure names the record that a fault was met in. Faults of compression
// carry their own sentinel.
func recordFailure(index int, err error) error {
	for _, sentinel := range [...]error{ErrDecompress, ErrDecompressedTooLarge, ErrUnsupportedCompression} {
		if errors.Is(err, sentinel) {
			return fmt.Errorf("record %d: %w", index, err)
		}
	}
	return invalidRecord(ErrInvalidRecord, index, err.Error())
}
