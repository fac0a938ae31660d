package coord

import (
	"context"
	"errors"
)

// Errors that Ask answers with. All say that the same request may succeed later, here or elsewhere.
var (
	// ErrNotCoordinator is returned when this broker does not lead the partition.
	ErrNotCoordinator = errors.New("coord: not the coordinator")
	// ErrLoading is returned while the partition's log is being replayed.
	ErrLoading = errors.New("coord: the coordinator is loading its log")
	// ErrUnavailable is returned when the coordinator cannot take the request now: its log could not be read or written, or
	// too many requests wait. What had been asked may or may not have taken effect.
	ErrUnavailable = errors.New("coord: the coordinator is not available")
)

// Log is the topic whose partitions the machines write.
type Log interface {
	// Append appends records, which are at least one, to a partition as one batch under the leader epoch, and calls done once when
	// they are committed or will not be. It does not block and has read the records when it returns. done may be called by any
	// goroutine, also before Append returns, and does not block. An error that is ErrNotCoordinator says that another broker leads the
	// partition. What is more than a batch can hold becomes several batches in order, of which a crash may leave the first ones.
	Append(partition, epoch int32, records []Record, done func(error))
	// Load visits all committed records of a partition in order. It may block. A record's slices
	// are valid during the visit only. It returns the first error, be it visit's.
	Load(ctx context.Context, partition, epoch int32, visit func(Record) error) error
}
