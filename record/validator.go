package record

import (
	"errors"
	"math"
)

// Result is what validation learned about a batch.
type Result struct {
	// Batch is the view of what was validated.
	Batch Batch

	// MaxTimestamp is the largest timestamp of the records, NoTimestamp when
	// none has one, and MaxTimestampDelta the offset delta of the first
	// record that carries it. Kafka does not believe the header's maximum: it
	// stores this one (with SetMaxTimestamp), unless the topic stamps
	// LogAppendTime.
	MaxTimestamp      int64
	MaxTimestampDelta int32

	// DecompressedBytes is the size of the records when decompressed.
	DecompressedBytes int64
}

// Validator decides whether what a client produced to a partition may be
// stored. It looks at all of it: that it is exactly one batch of format 2, its
// checksum, its header, and every record, decompressed if need be. What passes
// can be read by every client, and by ourselves, ever after.
//
//	Start ── error ──▶ idle
//	  │
//	  ▼     done or error
//	busy ───────────────────▶ idle ──▶ Start again
//	  ▲ │
//	  └─┘ Resume: not done, the budget is spent
//
// The zero value is ready. A validator is reused without allocating; it holds
// memory and a decompressor only while it is busy, and belongs to one goroutine
// at a time, a different one for each Resume if the caller likes.
//
// Where this is stricter than Kafka: offset deltas of uncompressed records must
// count from 0 as well, a batch that claims LogAppendTime is always refused, a
// delete horizon is refused, an idempotent batch needs an epoch, a
// transactional one a producer id, and compressed records are bounded. Where it
// is not: any negative key or value length is null, record attributes and
// unused attribute bits are ignored, a negative producer id is none.
type Validator struct {
	rules          Rules
	batch          Batch
	stream         stream
	busy           bool
	allowance      int64 // how far into the records all calls of Resume together may go
	index          int
	timestampFirst int64
	timestampLast  int64
	deltaFirst     int64 // the same bounds for what records carry, without those that scan leaves alone
	deltaLast      int64
	result         Result
	refused        *InvalidError // what records offend, so far
	record         Record
}

// Validate checks records, the bytes that a client produced to one partition,
// in one go. It does not change them. The error is a *CorruptError, an
// *InvalidError, or one that matches ErrDecompress or ErrDecompressedTooLarge.
//
// It holds a decompressor meanwhile; see CostOf.
func (v *Validator) Validate(records []byte, rules *Rules) (Result, error) {
	if err := v.Start(records, rules); err != nil {
		return Result{}, err
	}
	if _, err := v.Resume(math.MaxInt64); err != nil {
		return Result{}, err
	}
	return v.result, nil
}

// Busy says that a validation was started and is neither done nor closed.
func (v *Validator) Busy() bool { return v.busy }

// Start checks the frame, checksum and header of records, which must not change
// until the validation is done or closed. The rules are copied.
func (v *Validator) Start(records []byte, rules *Rules) error {
	v.Close()
	batch, err := onlyBatch(records)
	if err != nil {
		return err
	}
	if computed := batch.ComputeCRC(); computed != batch.CRC() {
		return corrupt(crcAt, ErrChecksum, "stored %08x, computed %08x over %d bytes", batch.CRC(), computed, len(batch)-attributesAt)
	}
	if err := rules.checkHeader(batch); err != nil {
		return err
	}
	if err := v.stream.open(batch, rules.decompressedBytesMax()); err != nil {
		return err
	}
	v.busy = true
	v.rules, v.batch = *rules, batch
	v.timestampFirst, v.timestampLast = rules.timestampBounds()
	if rules.LogAppendTime {
		v.deltaFirst, v.deltaLast = deltasWithin(batch.BaseTimestamp(), math.MinInt64, math.MaxInt64)
	} else {
		v.deltaFirst, v.deltaLast = deltasWithin(batch.BaseTimestamp(), v.timestampFirst, v.timestampLast)
	}
	v.index, v.allowance, v.refused = 0, 0, nil
	v.result = Result{Batch: batch, MaxTimestamp: NoTimestamp}
	return nil
}

// Resume goes on with the records and returns done when all are checked. It
// stops early, with done false, before it would decompress much more than
// bytesMax bytes: the caller then moves the rest to where it holds nobody up.
// What was not used is kept for the next call, so that a record larger than
// bytesMax only takes several. Uncompressed records are done in one call.
func (v *Validator) Resume(bytesMax int64) (done bool, err error) {
	if !v.busy {
		panic("record: Resume of a Validator that is not busy")
	}
	if v.allowance += bytesMax; v.allowance < 0 || v.stream.source == nil {
		v.allowance = math.MaxInt64
	}
	done, err = v.resume()
	if err != nil || done {
		v.result.DecompressedBytes = v.stream.readBytes()
		v.Close()
	}
	return done, err
}

// Result returns what was learned once Resume is done without an error.
func (v *Validator) Result() Result { return v.result }

// Close abandons a validation and gives back what it borrowed. It does nothing
// when the validator is not busy.
func (v *Validator) Close() {
	if v.busy {
		v.busy = false
		v.stream.close()
		v.batch, v.record, v.refused = nil, Record{}, nil
	}
}

func (v *Validator) resume() (done bool, err error) {
	count := int(v.batch.RecordCount())
	for v.index < count {
		s := &v.stream
		if s.lengthBytes == 0 {
			s.position += v.scan(s.window[s.position:min(int64(s.end), v.allowance-s.before)])
			if v.index == count {
				break
			}
		}
		if v.pieceAhead() > v.allowance-v.stream.readBytes() {
			return false, nil
		}
		size, err := v.stream.nextLength()
		if err != nil {
			return false, v.fail(err)
		}
		if int64(size) > v.allowance-v.stream.readBytes() {
			return false, nil
		}
		if err := v.read(size); err != nil {
			return false, v.fail(err)
		}
		if err := v.checkRecord(); err != nil {
			return false, err
		}
		v.index++
	}
	ended, err := v.stream.ended()
	switch {
	case err != nil:
		return false, v.fail(err)
	case !ended:
		return false, invalid(ErrRecordCount, "bytes follow the %d records that the header counts", count)
	case v.refused != nil:
		return false, v.refused
	}
	return true, nil
}

// read parses the next record, which takes size bytes. A large compressed one is not
// put together for it: only what checkRecord looks at is known of it then.
func (v *Validator) read(size int) error {
	if size > windowBytes && v.stream.source != nil {
		return v.stream.pass(&v.record)
	}
	body, err := v.stream.take()
	if err != nil {
		return err
	}
	return parseRecord(body, &v.record)
}

// pieceAhead returns how much the decompressor would have to make at once to
// get to the next record, when that is known.
func (v *Validator) pieceAhead() int64 {
	s := &v.stream
	if s.source == nil || s.position < s.end {
		return 0
	}
	return int64(s.source.pieceBytes())
}

// checkRecord verifies what depends on the batch and the topic. Offsets out of
// order end the validation; the other faults are collected, so that a producer
// hears of all of them at once (KIP-467).
func (v *Validator) checkRecord() error {
	r := &v.record
	if int(r.OffsetDelta) != v.index {
		return invalid(ErrRecordCount, "record %d has offset delta %d", v.index, r.OffsetDelta)
	}
	if v.rules.KeysRequired && r.Key == nil {
		v.refuse(ErrKeyMissing, "a compacted topic cannot take a record without a key")
		return nil
	}
	base := v.batch.BaseTimestamp()
	timestamp := base + r.TimestampDelta
	if (r.TimestampDelta > 0) != (timestamp > base) && r.TimestampDelta != 0 {
		v.refuse(ErrInvalidTimestamp, "timestamp overflows 64 bits")
		return nil
	}
	if !v.rules.LogAppendTime && timestamp != NoTimestamp && (timestamp < v.timestampFirst || timestamp > v.timestampLast) {
		v.refuse(ErrInvalidTimestamp, timestampFault(timestamp, v.timestampFirst, v.timestampLast))
		return nil
	}
	if timestamp > v.result.MaxTimestamp {
		v.result.MaxTimestamp, v.result.MaxTimestampDelta = timestamp, r.OffsetDelta
	}
	return nil
}

// refuse notes that the present record offends. One bad timestamp makes the
// answer INVALID_TIMESTAMP, whatever else there is, as in Kafka.
func (v *Validator) refuse(cause error, message string) {
	if v.refused == nil {
		v.refused = &InvalidError{Cause: cause, Detail: message}
	}
	if errors.Is(cause, ErrInvalidTimestamp) {
		v.refused.Cause = cause
	}
	v.refused.RecordsRefused++
	if len(v.refused.Records) < recordErrorsMax {
		v.refused.Records = append(v.refused.Records, RecordError{Index: v.index, Message: message})
	}
}

func (v *Validator) fail(err error) error { return recordFailure(v.index, err) }

// onlyBatch returns the one batch that records must be.
func onlyBatch(records []byte) (Batch, error) {
	if len(records) == 0 {
		return nil, invalid(ErrNoBatch, "the partition has no bytes")
	}
	// The magic stands at the same place in all formats, and the old ones are
	// told apart from damage.
	if len(records) > magicAt && records[magicAt] < Magic {
		return nil, invalid(ErrUnsupportedMagic, "magic is %d, want %d", records[magicAt], Magic)
	}
	batch, rest, err := Next(records)
	switch {
	case err == ErrShort:
		return nil, corrupt(min(lengthAt, len(records)), ErrLength, "%d bytes are not a whole batch", len(records))
	case err != nil:
		return nil, err
	case len(rest) != 0:
		return nil, invalid(ErrManyBatches, "%d bytes follow the first batch", len(rest))
	}
	return batch, nil
}
