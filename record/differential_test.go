package record

import (
	"bytes"
	"hash/crc32"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// drawn is what a batch is made from, by us and by the generated codec.
type drawn struct {
	options BuilderOptions
	records []plainRecord
}

func drawBatch(t *rapid.T) drawn {
	bytesOrNull := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 40), rapid.SliceOfN(rapid.Byte(), 100, 200))
	d := drawn{options: BuilderOptions{
		Codec:         Codec(rapid.IntRange(0, codecCount-1).Draw(t, "codec")),
		BaseOffset:    rapid.Int64Range(0, 1<<60).Draw(t, "base offset"),
		LeaderEpoch:   rapid.Int32Min(-1).Draw(t, "leader epoch"),
		Idempotent:    rapid.Bool().Draw(t, "idempotent"),
		ProducerID:    rapid.Int64Min(0).Draw(t, "producer id"),
		ProducerEpoch: rapid.Int16Min(0).Draw(t, "producer epoch"),
		BaseSequence:  rapid.Int32Min(0).Draw(t, "sequence"),
	}}
	d.options.Transactional = d.options.Idempotent && rapid.Bool().Draw(t, "transactional")
	for i := range rapid.IntRange(1, 30).Draw(t, "records") {
		r := plainRecord{
			Offset:    d.options.BaseOffset + int64(i),
			Timestamp: rapid.Int64Range(0, noon).Draw(t, "timestamp"),
			Key:       bytesOrNull.Draw(t, "key"),
			Value:     bytesOrNull.Draw(t, "value"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			r.Headers = append(r.Headers, Header{
				Key:   []byte(rapid.StringN(0, 5, 20).Draw(t, "header key")),
				Value: bytesOrNull.Draw(t, "header value"),
			})
		}
		d.records = append(d.records, r)
	}
	return d
}

func (d drawn) ours(t *rapid.T) Batch {
	var b Builder
	b.Reset(d.options)
	for _, r := range d.records {
		b.Append(r.Timestamp, r.Key, r.Value, r.Headers...)
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// theirs encodes the same batch with franz-go's generated codec; the records
// come compressed from ours, since two compressors need not agree on bytes.
func (d drawn) theirs(t *rapid.T) []byte {
	var plain []byte
	maxTimestamp := NoTimestamp
	for i, r := range d.records {
		m := kmsg.NewRecord()
		m.TimestampDelta64 = r.Timestamp - d.records[0].Timestamp
		m.OffsetDelta = int32(i)
		m.Key, m.Value = r.Key, r.Value
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kmsg.Header{Key: string(h.Key), Value: h.Value})
		}
		m.Length = int32(len(m.AppendTo(nil)) - 1) // less the one byte of length 0
		plain = m.AppendTo(plain)
		maxTimestamp = max(maxTimestamp, r.Timestamp)
	}
	payload, err := Compress(nil, d.options.Codec, plain)
	if err != nil {
		t.Fatal(err)
	}
	b := kmsg.NewRecordBatch()
	b.FirstOffset = d.options.BaseOffset
	b.PartitionLeaderEpoch = d.options.LeaderEpoch
	b.Magic = 2
	b.Attributes = int16(d.options.Codec)
	if d.options.Transactional {
		b.Attributes |= 0x10
	}
	b.LastOffsetDelta = int32(len(d.records) - 1)
	b.FirstTimestamp, b.MaxTimestamp = d.records[0].Timestamp, maxTimestamp
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = -1, -1, -1
	if d.options.Idempotent {
		b.ProducerID, b.ProducerEpoch, b.FirstSequence = d.options.ProducerID, d.options.ProducerEpoch, d.options.BaseSequence
	}
	b.NumRecords = int32(len(d.records))
	b.Records = payload
	raw := b.AppendTo(nil)
	b.Length = int32(len(raw) - 12)
	b.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// TestBuilderAgreesWithTheGeneratedCodec: the same batch from our Builder and
// from kmsg is the same bytes, passes validation, and is read back the same by
// both.
func TestBuilderAgreesWithTheGeneratedCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawBatch(t)
		ours, theirs := d.ours(t), d.theirs(t)
		if !bytes.Equal(ours, theirs) {
			t.Fatalf("ours and theirs differ:\n%x\n%x", ours, theirs)
		}
		rules := DefaultRules(noon)
		var v Validator
		if _, err := v.Validate(theirs, &rules); err != nil {
			t.Fatal(err)
		}
		read, err := readAll(theirs)
		if diff := cmp.Diff(d.records, read, bytesAsOne); diff != "" || err != nil {
			t.Fatalf("ours read something else: %v (-appended +read):\n%s", err, diff)
		}
		if diff := cmp.Diff(d.records, readWithTheirs(t, ours), bytesAsOne); diff != "" {
			t.Fatalf("theirs read something else (-appended +read):\n%s", diff)
		}
	})
}

func readWithTheirs(t *rapid.T, batch Batch) (records []plainRecord) {
	var b kmsg.RecordBatch
	if err := b.ReadFrom(batch); err != nil {
		t.Fatal(err)
	}
	plain, err := Decompress(nil, Codec(b.Attributes&7), b.Records, testLimit)
	if err != nil {
		t.Fatal(err)
	}
	for range b.NumRecords {
		length, n := kbin.Varint(plain)
		var r kmsg.Record
		if err := r.ReadFrom(plain[:n+int(length)]); err != nil {
			t.Fatal(err)
		}
		plain = plain[n+int(length):]
		p := plainRecord{Offset: b.FirstOffset + int64(r.OffsetDelta), Timestamp: b.FirstTimestamp + r.TimestampDelta64, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			p.Headers = append(p.Headers, Header{Key: []byte(h.Key), Value: h.Value})
		}
		records = append(records, p)
	}
	return records
}

// Varints agree with franz-go's over the whole range.
func TestVarintsAgreeWithTheGeneratedCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v32, v64 := rapid.Int32().Draw(t, "32 bits"), rapid.Int64().Draw(t, "64 bits")
		b := appendVarint(nil, v32)
		if !bytes.Equal(b, kbin.AppendVarint(nil, v32)) || len(b) != varintBytes(int64(v32)) {
			t.Fatalf("%d is %x", v32, b)
		}
		if got, n := varint(append(b, 0xff)); got != v32 || n != len(b) {
			t.Fatalf("%x is %d in %d bytes", b, got, n)
		}
		b = appendVarlong(nil, v64)
		if !bytes.Equal(b, kbin.AppendVarlong(nil, v64)) || len(b) != varintBytes(v64) {
			t.Fatalf("%d is %x", v64, b)
		}
		if got, n := varlong(append(b, 0xff)); got != v64 || n != len(b) {
			t.Fatalf("%x is %d in %d bytes", b, got, n)
		}
		for cut := range b {
			if _, n := varlong(b[:cut]); n != 0 {
				t.Fatalf("%x is whole", b[:cut])
			}
		}
	})
}
