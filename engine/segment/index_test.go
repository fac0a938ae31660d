package segment

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// model is a segment as a list of batches.
type modelBatch struct {
	base, last, position, timestamp int64
	bytes                           int
}

func build(r *rand.Rand, base int64, count int, interval int64) (*Index, []modelBatch) {
	x := new(Index)
	x.Reset(base)
	var batches []modelBatch
	next, position := base, int64(0)
	for range count {
		b := modelBatch{base: next, last: next + r.Int64N(5), position: position, timestamp: r.Int64N(1000), bytes: 61 + r.IntN(900)}
		x.Add(b.base, b.last+1, b.timestamp, b.bytes, interval)
		batches = append(batches, b)
		next, position = b.last+1, position+int64(b.bytes)
	}
	return x, batches
}

// The index leads to a batch at or below the one that is asked for, less than
// an interval and a batch away.
func TestIndexFindsByOffsetPositionAndTime(t *testing.T) {
	const interval = 1024
	r := rand.New(rand.NewPCG(1, 2))
	x, batches := build(r, 5000, 300, interval)
	for _, b := range batches {
		for offset := b.base; offset <= b.last; offset++ {
			position, base := x.Find(offset)
			if base > offset || position > b.position || b.position-position > interval+1000 {
				t.Fatalf("offset %d leads to %d at %d, it is in the batch at %d", offset, base, position, b.position)
			}
		}
		if at, _ := x.FindPosition(b.position + 10); at > b.position+10 {
			t.Fatalf("position %d leads to %d", b.position, at)
		}
	}
	for millis := int64(-1); millis < 1005; millis++ {
		position, base := x.FindTime(millis)
		for _, b := range batches {
			if b.timestamp >= millis {
				if base > b.base || position > b.position || b.position-position > interval+1000 {
					t.Fatalf("time %d leads to offset %d at %d; the first such batch is at %d", millis, base, position, b.position)
				}
				break
			}
		}
	}
	if int64(x.Entries()) > x.Position/interval {
		t.Fatalf("%d entries for %d bytes", x.Entries(), x.Position)
	}
}

func TestIndexSurvivesItsFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	x, _ := build(r, 77, 200, 700)
	index, timeIndex := x.Encode()
	got, err := DecodeIndex(77, index, timeIndex)
	if err != nil {
		t.Fatal(err)
	}
	// Going on from what was read gives what going on from the original gives.
	for _, y := range []*Index{x, got} {
		for i := range int64(50) {
			y.Add(y.NextOffset, y.NextOffset+2, 2000+i, 300, 700)
		}
	}
	a1, a2 := x.Encode()
	b1, b2 := got.Encode()
	if !bytes.Equal(a1, b1) || !bytes.Equal(a2, b2) {
		t.Fatal("an index that was read goes on differently")
	}
	if _, err := DecodeIndex(78, index, timeIndex); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("index of another segment: %v", err)
	}
}

// A crash between the two files leaves them of two moments: what both cover counts.
func TestIndexFilesOfTwoMoments(t *testing.T) {
	build := func(count int) *Index {
		x, _ := build(rand.New(rand.NewPCG(5, 6)), 0, count, 700)
		return x
	}
	older, newer := build(100), build(180)
	olderIndex, olderTimes := older.Encode()
	newerIndex, newerTimes := newer.Encode()
	for _, files := range [][2][]byte{{newerIndex, olderTimes}, {olderIndex, newerTimes}} {
		got, err := DecodeIndex(0, files[0], files[1])
		if err != nil {
			t.Fatal(err)
		}
		index, times := got.Encode()
		if !bytes.Equal(index, olderIndex) || !bytes.Equal(times, olderTimes) {
			t.Fatalf("covers %d bytes with %d entries, want %d and %d", got.Position, got.Entries(), older.Position, older.Entries())
		}
	}
}

func newRand() *rand.Rand { return rand.New(rand.NewPCG(8, 9)) }
