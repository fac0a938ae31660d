package hostiletest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The codecs by their numbers in a batch.
const (
	codecGzip = 1 + iota
	codecSnappy
	codecLZ4
	codecZstd
)

// compress compresses records by a codec.
func compress(t *testing.T, codec int16, records []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch codec {
	case codecGzip:
		w := gzip.NewWriter(&out)
		write(t, w.Write, records)
		write(t, func([]byte) (int, error) { return 0, w.Close() }, nil)
	case codecSnappy:
		return s2.EncodeSnappyBest(nil, records)
	case codecLZ4:
		w := lz4.NewWriter(&out)
		write(t, w.Write, records)
		write(t, func([]byte) (int, error) { return 0, w.Close() }, nil)
	case codecZstd:
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		return w.EncodeAll(records, nil)
	}
	return out.Bytes()
}

func write(t *testing.T, f func([]byte) (int, error), p []byte) {
	t.Helper()
	if _, err := f(p); err != nil {
		t.Fatal(err)
	}
}

// bomb is a batch that takes little room until it is decompressed.
type bomb struct {
	name  string
	batch []byte
	// want is how a produce of it is answered.
	want int16
}

// newBombs makes bombs of all codecs: a value of zeros that is more than may come out of a batch, one that
// may just, ten thousand small records, and each of them compressed once more as a value of another batch.
func newBombs(t *testing.T) (bombs []bomb) {
	t.Helper()
	const tooManyBytes, tiny = 65 << 20, 10_000
	// Snappy makes a twentieth of its zeros, and a batch may have a mebibyte.
	allowedBytes, snappyBytes := 60<<20, 16<<20
	if raceDetector { // where codecs take ten times as long
		allowedBytes, snappyBytes = 4<<20, 4<<20
	}
	var many []byte
	for number := range int32(tiny) {
		many = append(many, newRecord(number, make([]byte, 100))...)
	}
	for codec, name := range map[int16]string{codecGzip: "gzip", codecSnappy: "snappy", codecLZ4: "lz4", codecZstd: "zstd"} {
		allowed := allowedBytes
		if codec == codecSnappy {
			allowed = snappyBytes
		} else if !raceDetector || codec == codecZstd {
			batch := newBatch(codec, 1, compress(t, codec, newRecord(0, make([]byte, tooManyBytes))))
			bombs = append(bombs, bomb{name + ", too much", batch, kerr.MessageTooLarge.Code})
		}
		large := compress(t, codec, newRecord(0, make([]byte, allowed)))
		bombs = append(bombs,
			bomb{name + ", just allowed", newBatch(codec, 1, large), 0},
			bomb{name + ", many records", newBatch(codec, tiny, compress(t, codec, many)), 0},
			bomb{name + ", within another", newBatch(codec, 1, compress(t, codec, newRecord(0, newBatch(codec, 1, large)))), 0},
			bomb{name + ", a count that lies", newBatch(codec, 1<<30, large), kerr.InvalidRecord.Code},
		)
	}
	// A snappy block that says it becomes gigabytes.
	claim := append(binary.AppendUvarint(nil, 1<<31), make([]byte, 100)...)
	return append(bombs, bomb{"snappy, a claim", newBatch(codecSnappy, 1, claim), kerr.InvalidRecord.Code})
}

// tailInUse is the metric of the memory in which batches are until segments have them.
const tailInUse = `ringlog_memory_in_use_bytes{pool="tail"}`

// bombs: batches that decompress to a thousand times their size, from many clients at once. What comes
// out of them is looked at as it comes, by a few at a time.
func bombs(t *testing.T, b target) {
	clients := 8
	if raceDetector {
		clients = 1
	}
	all := newBombs(t)
	b.forgetPeak() // the test is another process, but the story begins here
	before, _, known := b.residentBytes()
	storedBefore := b.Metric(tailInUse)
	var throwing sync.WaitGroup
	for client := range clients {
		socket := mustDial(t, b.Address, byte(10+client))
		throwing.Go(func() {
			for i := range all {
				bomb := &all[(i+client)%len(all)]
				if _, err := socket.Write(frameOf(produce(bomb.batch), 1)); err != nil {
					t.Errorf("%s: %v", bomb.name, err)
					return
				}
				reply, err := receive(socket)
				if err != nil {
					t.Errorf("%s: %v", bomb.name, err)
					return
				}
				response := at(9, kmsg.NewPtrProduceResponse())
				if err := response.ReadFrom(reply[5:]); err != nil {
					t.Errorf("%s: %v", bomb.name, err)
					return
				}
				if got := response.Topics[0].Partitions[0].ErrorCode; got != bomb.want {
					t.Errorf("%s (%d bytes) is answered %v, want %v", bomb.name, len(bomb.batch), kerr.ErrorForCode(got), kerr.ErrorForCode(bomb.want))
				}
			}
		})
	}
	throwing.Wait()
	_, peak, _ := b.residentBytes()
	stored := int64(b.Metric(tailInUse) - storedBefore) // in the tail, as they came
	t.Logf("%d bombs of %d kinds: %d MiB at most over what it was, %d MiB of which are batches in the tail", clients*len(all), len(all), (peak-before)>>20, stored>>20)
	// Some 70 MiB of decompressors and blocks are in use at a time, and the collector lets as much garbage come
	// as there is in use before it looks.
	const allowanceBytes = 256 << 20
	if known && !raceDetector && peak-before-stored > allowanceBytes {
		t.Errorf("the bombs took %d MiB, more than %d", (peak-before-stored)>>20, allowanceBytes>>20)
	}
}
