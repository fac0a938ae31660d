package record

import (
	"fmt"
	"math"
)

// Rules are what a topic and a request ask of a produced batch.
type Rules struct {
	// NowMillis is the broker's time, which the timestamp bounds refer to.
	NowMillis int64

	// LogAppendTime says that the topic replaces timestamps
	// (message.timestamp.type), so that those sent are not bounded.
	LogAppendTime bool

	// TimestampBeforeMaxMillis and TimestampAfterMaxMillis bound how far a
	// record's timestamp may lie before and after NowMillis
	// (message.timestamp.before.max.ms and .after.max.ms, KIP-937). Zero
	// allows nothing but now; see DefaultRules.
	TimestampBeforeMaxMillis int64
	TimestampAfterMaxMillis  int64

	// KeysRequired refuses records without a key: the topic is compacted.
	KeysRequired bool

	// ZstdRefused refuses zstd: the request is a Produce before version 7
	// (KIP-110).
	ZstdRefused bool

	// DecompressedBytesMax bounds what compressed records may grow to; zero
	// means the package's DecompressedBytesMax.
	DecompressedBytesMax int64
}

// DefaultRules returns the rules of a topic with Kafka's defaults: any past
// timestamp, none more than an hour ahead.
func DefaultRules(nowMillis int64) Rules {
	return Rules{
		NowMillis:                nowMillis,
		TimestampBeforeMaxMillis: math.MaxInt64,
		TimestampAfterMaxMillis:  3_600_000,
	}
}

func (r *Rules) decompressedBytesMax() int64 {
	if r.DecompressedBytesMax == 0 {
		return DecompressedBytesMax
	}
	return r.DecompressedBytesMax
}

// timestampBounds returns the first and last timestamp allowed.
func (r *Rules) timestampBounds() (first, last int64) {
	first, last = r.NowMillis-r.TimestampBeforeMaxMillis, r.NowMillis+r.TimestampAfterMaxMillis
	if r.TimestampBeforeMaxMillis > 0 && first > r.NowMillis {
		first = math.MinInt64
	}
	if r.TimestampAfterMaxMillis > 0 && last < r.NowMillis {
		last = math.MaxInt64
	}
	return first, last
}

// checkHeader verifies what the header alone tells: the part of Kafka's
// validation that comes before the first record.
func (r *Rules) checkHeader(b Batch) error {
	codec := b.Codec()
	switch {
	case !codec.Known():
		return invalid(ErrUnsupportedCompression, "%v", codec)
	case codec == CodecZstd && r.ZstdRefused:
		return invalid(ErrUnsupportedCompression, "zstd needs Produce version 7")
	case b.Control():
		return invalid(ErrControlBatch, "the control bit is set")
	case b.Attributes()&bitDeleteHorizon != 0:
		return invalid(ErrControlBatch, "the delete horizon bit is set")
	case b.LogAppendTime():
		return invalid(ErrInvalidTimestamp, "a producer must not set the timestamp type to LogAppendTime")
	case b.RecordCount() <= 0:
		return invalid(ErrRecordCount, "the header counts %d records", b.RecordCount())
	case int64(b.LastOffsetDelta())+1 != int64(b.RecordCount()):
		return invalid(ErrRecordCount, "the header counts %d records and its last offset delta is %d", b.RecordCount(), b.LastOffsetDelta())
	case codec == CodecNone && int(b.RecordCount()) > len(b.Payload())/recordBytesMin:
		return invalid(ErrRecordCount, "the header counts %d records in %d bytes", b.RecordCount(), len(b.Payload()))
	case b.HasProducerID() && b.BaseSequence() < 0:
		return invalid(ErrProducerState, "producer id %d comes with base sequence %d", b.ProducerID(), b.BaseSequence())
	case b.HasProducerID() && b.ProducerEpoch() < 0:
		return invalid(ErrProducerState, "producer id %d comes with epoch %d", b.ProducerID(), b.ProducerEpoch())
	case b.Transactional() && !b.HasProducerID():
		return invalid(ErrProducerState, "a transactional batch has no producer id")
	}
	return nil
}

// timestampFault returns what a client is told about a timestamp.
func timestampFault(timestamp, first, last int64) string {
	return fmt.Sprintf("timestamp %d is out of range: it should be within [%d, %d]", timestamp, first, last)
}
