package broker_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ringlog/broker"
	"ringlog/broker/brokertest"
	"ringlog/engine"
	"ringlog/record"
)

// told writes all records of a batch, and who produced it.
func told(t *testing.T, batch record.Batch) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "producer %d/%d from %d, %d records, last %d, max %d", batch.ProducerID(), batch.ProducerEpoch(), batch.BaseSequence(), batch.RecordCount(), batch.LastOffset(), batch.MaxTimestamp())
	var r record.Reader
	r.Reset(batch)
	defer r.Close()
	for r.Next() {
		one := r.Record()
		fmt.Fprintf(&text, "\n%d at %d: %q (%t) = %q (%t)", one.Offset, one.Timestamp, one.Key, one.Key == nil, one.Value, one.Value == nil)
		for headers := one.Headers(); ; {
			header, ok := headers.Next()
			if !ok {
				break
			}
			fmt.Fprintf(&text, " %s=%q", header.Key, header.Value)
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// rich builds a batch with everything that a record can have.
func rich(t *testing.T, codec record.Codec) []byte {
	t.Helper()
	var b record.Builder
	b.Reset(record.BuilderOptions{Codec: codec, Idempotent: true, ProducerID: 7, ProducerEpoch: 3, BaseSequence: 0})
	b.Append(1000, []byte("key"), []byte(strings.Repeat("value ", 100)), record.Header{Key: []byte("h"), Value: []byte("v")}, record.Header{Key: []byte("null")})
	b.Append(900, nil, nil)
	b.Append(1100, []byte{}, []byte{})
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(built)
}

// compression.type: what comes in another compression is stored in the topic's, the same in all
// else; what comes in it already is stored byte for byte.
func TestBatchesAreStoredInTheTopicsCompression(t *testing.T) {
	codecs := map[string]record.Codec{"uncompressed": record.CodecNone, "gzip": record.CodecGzip, "snappy": record.CodecSnappy, "lz4": record.CodecLZ4, "zstd": record.CodecZstd}
	for compression, want := range codecs {
		for name, codec := range codecs {
			store := brokertest.NewEngine()
			b, _ := brokertest.Start(t, store, brokertest.Options{})
			topic := brokertest.CreateTopic(t, b, "orders", 1, map[string]string{"compression.type": compression})
			sent := rich(t, codec)
			l := &line{t: t, b: b}
			p := l.send(slices.Clone(sent))
			l.group.Wait()
			if err := p.Parts[0].Err; err != nil {
				t.Fatalf("%s to %s: %v", name, compression, err)
			}
			stored, err := store.Stored(engine.LogID(topic.Partitions[0].LogID))
			if err != nil {
				t.Fatal(err)
			}
			if got := stored[0].Codec(); got != want {
				t.Errorf("%s to %s: stored as %v", name, compression, got)
			}
			if got, expected := told(t, stored[0]), told(t, sent); got != expected {
				t.Errorf("%s to %s:\n%s\nwant\n%s", name, compression, got, expected)
			}
			if codec == want && !slices.Equal(stored[0][record.PrefixBytes+9:], sent[record.PrefixBytes+9:]) {
				t.Errorf("%s: not stored as it came", name)
			}
		}
	}
}

// A batch may grow when it is compressed anew: then the limit is asked again, as in Kafka.
func TestABatchThatGrowsAboveTheLimitIsRefused(t *testing.T) {
	b, _ := brokertest.Start(t, brokertest.NewEngine(), brokertest.Options{})
	brokertest.CreateTopic(t, b, "orders", 1, map[string]string{"compression.type": "uncompressed", "max.message.bytes": "2000"})
	l := &line{t: t, b: b}
	small, large := l.send(compressed(t, record.CodecZstd, 1000)), l.send(compressed(t, record.CodecZstd, 4000))
	l.group.Wait()
	if small.Parts[0].Err != nil || !errors.Is(large.Parts[0].Err, broker.ErrBatchTooLarge) || !strings.Contains(large.Parts[0].Err.Error(), "compression.type=uncompressed") {
		t.Errorf("answers %v and %v", small.Parts[0].Err, large.Parts[0].Err)
	}
	if large.Parts[0].BaseOffset != -1 {
		t.Errorf("offset %d beside an error", large.Parts[0].BaseOffset)
	}
}
