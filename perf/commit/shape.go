package commit

import (
	"errors"
	"math/rand/v2"

	"ringlog/record"
)

// shape is how the load is cut up. Slice i is the partitions from i*size on.
type shape struct {
	partitions int
	slices     int
	size       int // partitions in a slice; the last may have fewer
	window     int // groups in flight
	rotating   bool
}

// groupBytesMax bounds a group, as a broker bounds a request.
const groupBytesMax = 16 << 20

// shapeOf cuts the load of o, whose appends have batchBytes each. When all
// appends that are asked for may be in flight, each slice has a group for each of them;
// else fewer groups take the slices in turn.
func shapeOf(o *Options, batchBytes int) shape {
	wanted := o.Partitions * o.InFlight
	allowed := int(min(max(o.InFlightBytes/int64(batchBytes), 1), int64(wanted)))
	together := min(o.Partitions, allowed)
	s := shape{partitions: o.Partitions}
	s.size = min(divideUp(together, min(o.Groups, together)), max(groupBytesMax/batchBytes, 1))
	s.slices = divideUp(o.Partitions, s.size)
	s.window = s.slices * o.InFlight
	if allowed < wanted {
		s.window = min(s.window, max(allowed/s.size, 1))
	}
	s.rotating = s.window%s.slices != 0
	return s
}

func divideUp(n, by int) int { return (n + by - 1) / by }

// inFlight is how many appends are in flight at most.
func (s *shape) inFlight() int {
	if s.rotating {
		return s.window * s.size
	}
	return s.window / s.slices * s.partitions
}

// of returns the partitions of a slice.
func (s *shape) of(slice int) (first, count int) {
	first = slice * s.size
	return first, min(s.size, s.partitions-first)
}

// rotation hands out slices: a group keeps its own, or, when there are fewer
// groups than slices, takes the one whose turn it is.
type rotation struct {
	shape
	next int
}

func newRotation(s shape) *rotation { return &rotation{shape: s, next: s.window % s.slices} }

// after returns the slice of a group's next submission.
func (r *rotation) after(slice int) int {
	if !r.rotating {
		return slice
	}
	slice = r.next
	r.next = (r.next + 1) % r.slices
	return slice
}

// newBatch builds a batch of sizeBytes with one record of bytes that do not
// compress. Where no such batch exists, because a length in it takes one byte more
// than the record has less, it is a byte shorter.
func newBatch(sizeBytes int) (record.Batch, error) {
	random := rand.New(rand.NewPCG(1, uint64(sizeBytes)))
	value := make([]byte, sizeBytes)
	for i := range value {
		value[i] = byte(random.Uint32())
	}
	var builder record.Builder
	for length := sizeBytes - record.HeaderBytes; length >= 0; length-- {
		builder.Reset(record.BuilderOptions{})
		builder.Append(0, nil, value[:length])
		if builder.PlainBytes() <= sizeBytes {
			return builder.Build()
		}
	}
	return nil, errors.New("perf: no batch is so small")
}

// newSource returns copies of batch in memory of their own for count groups of
// size appends: the engine patches offsets in place, and what is copied from should be
// as cold as a request is.
func newSource(batch record.Batch, count, size int) [][]record.Batch {
	memory := make([]byte, count*size*len(batch))
	source := make([][]record.Batch, count)
	for i := range source {
		source[i] = make([]record.Batch, size)
		for k := range source[i] {
			copy(memory, batch)
			source[i][k] = memory[:len(batch):len(batch)]
			memory = memory[len(batch):]
		}
	}
	return source
}
