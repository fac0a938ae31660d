package replica

import "errors"

// Errors that a produce is answered with.
var (
	// ErrNotLeader is returned when this broker does not lead the partition.
	ErrNotLeader = errors.New("replica: not the leader of this partition")
	// ErrOutOfOrderSequence is returned when a batch does not follow its
	// producer's last one: records between the two are missing, or an epoch starts
	// with a sequence other than 0.
	ErrOutOfOrderSequence = errors.New("replica: out of order sequence number")
	// ErrDuplicateSequence is returned for a retry of a batch that is in the log
	// but older than the last five of its producer, so that its offset is no
	// longer known.
	ErrDuplicateSequence = errors.New("replica: duplicate of a batch older than the last five")
	// ErrInvalidProducerEpoch is returned when a newer instance of the producer
	// has appended since, or the epoch is negative.
	ErrInvalidProducerEpoch = errors.New("replica: producer epoch is not the current one")
	// ErrTruncated is returned for a batch that got an offset and was cut away
	// before it was committed.
	ErrTruncated = errors.New("replica: batch was truncated before it was committed")
)

// ErrSnapshot is returned by Restore for bytes that AppendSnapshot did not make.
var ErrSnapshot = errors.New("replica: snapshot is damaged")
