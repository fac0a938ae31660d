package record

import (
	"errors"
	"fmt"
)

// What can be wrong with bytes that should be a batch. A CorruptError carries
// one of these as its cause.
var (
	// ErrShort is returned by Next when the bytes end before the batch does:
	// what is there may be the beginning of a valid one.
	ErrShort = errors.New("record: batch is incomplete")

	// ErrCorrupt is matched by every CorruptError. In Kafka: CORRUPT_MESSAGE.
	ErrCorrupt = errors.New("record: batch is corrupt")

	// ErrLength is the cause when the length of a batch is impossible, or is
	// not that of the bytes given.
	ErrLength = errors.New("record: wrong batch length")

	// ErrChecksum is the cause when the CRC-32C does not match.
	ErrChecksum = errors.New("record: checksum mismatch")

	// ErrHeader is the cause when header fields contradict each other in a
	// way that no producer or compaction leaves behind.
	ErrHeader = errors.New("record: impossible batch header")

	// ErrUnsupportedMagic is returned for every format but 2. Produce from
	// version 3 on allows no other (in Kafka: INVALID_RECORD).
	ErrUnsupportedMagic = errors.New("record: unsupported message format")
)

// What a Validator, or anybody who reads records, may find. In Kafka
// INVALID_RECORD unless another code is named.
var (
	// ErrInvalidRecord is matched by every error of this group that has no
	// code of its own, and returned when a record cannot be read.
	ErrInvalidRecord = errors.New("record: invalid record")

	// ErrNoBatch is returned when a produced partition has no bytes.
	ErrNoBatch = fmt.Errorf("%w: no batch", ErrInvalidRecord)

	// ErrManyBatches is returned when bytes follow the first batch: from
	// version 3 on a producer sends exactly one for each partition.
	ErrManyBatches = fmt.Errorf("%w: more than one batch", ErrInvalidRecord)

	// ErrRecordCount is returned when the number of records, the last offset
	// delta and the offset deltas of the records do not agree, or are zero.
	ErrRecordCount = fmt.Errorf("%w: wrong record count", ErrInvalidRecord)

	// ErrControlBatch is returned when a client sends what only brokers
	// write: a control batch or one with a delete horizon.
	ErrControlBatch = fmt.Errorf("%w: control batch from a client", ErrInvalidRecord)

	// ErrProducerState is returned when producer id, epoch, sequence and the
	// transactional bit contradict each other.
	ErrProducerState = fmt.Errorf("%w: inconsistent producer fields", ErrInvalidRecord)

	// ErrKeyMissing is returned when a record for a compacted topic has no key.
	ErrKeyMissing = fmt.Errorf("%w: no key", ErrInvalidRecord)

	// ErrInvalidTimestamp is returned when a timestamp lies outside of the
	// topic's bounds or a producer claims LogAppendTime. In Kafka:
	// INVALID_TIMESTAMP.
	ErrInvalidTimestamp = errors.New("record: timestamp out of bounds")

	// ErrUnsupportedCompression is returned for a codec that is unknown or
	// not allowed here. In Kafka: UNSUPPORTED_COMPRESSION_TYPE.
	ErrUnsupportedCompression = errors.New("record: unsupported compression")

	// ErrDecompress is returned when compressed bytes are damaged. A retry
	// of the same bytes cannot help, hence not CORRUPT_MESSAGE.
	ErrDecompress = fmt.Errorf("%w: damaged compressed records", ErrInvalidRecord)

	// ErrDecompressedTooLarge is returned when records grow past the limit
	// when decompressed. In Kafka nearest to MESSAGE_TOO_LARGE.
	ErrDecompressedTooLarge = errors.New("record: records too large when decompressed")
)

// CorruptError says that bytes are no batch. It matches ErrCorrupt and its Cause.
type CorruptError struct {
	Position int   // of the field or byte that is wrong, from the start of the bytes given
	Cause    error // ErrLength, ErrChecksum, ErrHeader or ErrUnsupportedMagic
	Detail   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%v at byte %d: %s", e.Cause, e.Position, e.Detail)
}

// Unwrap makes the error match ErrCorrupt and its cause.
func (e *CorruptError) Unwrap() []error { return []error{ErrCorrupt, e.Cause} }

func corrupt(position int, cause error, format string, arguments ...any) *CorruptError {
	return &CorruptError{Position: position, Cause: cause, Detail: fmt.Sprintf(format, arguments...)}
}

// RecordError is one offending record (KIP-467).
type RecordError struct {
	Index   int // of the record in its batch
	Message string
}

// InvalidError says why a batch is refused. It matches its Cause.
type InvalidError struct {
	Cause  error // one of the sentinels above
	Detail string

	// Records names the first offending records, at most recordErrorsMax;
	// empty when the batch as a whole is at fault.
	Records []RecordError

	// RecordsRefused is how many records offend, of those looked at.
	RecordsRefused int
}

// recordErrorsMax bounds the answer to a batch of a million bad records.
const recordErrorsMax = 32

func (e *InvalidError) Error() string {
	if len(e.Records) == 0 {
		return fmt.Sprintf("%v: %s", e.Cause, e.Detail)
	}
	first := e.Records[0]
	if e.RecordsRefused == 1 {
		return fmt.Sprintf("%v: record %d: %s", e.Cause, first.Index, first.Message)
	}
	return fmt.Sprintf("%v: %d records, the first of them record %d: %s", e.Cause, e.RecordsRefused, first.Index, first.Message)
}

// Unwrap returns the cause.
func (e *InvalidError) Unwrap() error { return e.Cause }

func invalid(cause error, format string, arguments ...any) *InvalidError {
	return &InvalidError{Cause: cause, Detail: fmt.Sprintf(format, arguments...)}
}

func invalidRecord(cause error, index int, message string) *InvalidError {
	return &InvalidError{
		Cause:          cause,
		Detail:         message,
		Records:        []RecordError{{Index: index, Message: message}},
		RecordsRefused: 1,
	}
}
