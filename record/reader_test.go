package record

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plainRecord is a record with its bytes copied, for comparison.
type plainRecord struct {
	Offset, Timestamp int64
	Key, Value        []byte
	Headers           []Header
}

// bytesAsOne compares byte slices in one go (cmp goes through them byte by byte
// otherwise), and tells null from empty.
var bytesAsOne = cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) })

func readAll(batch Batch) (records []plainRecord, err error) {
	var r Reader
	r.Reset(batch)
	defer r.Close()
	for r.Next() {
		record := r.Record()
		p := plainRecord{Offset: record.Offset, Timestamp: record.Timestamp, Key: bytes.Clone(record.Key), Value: bytes.Clone(record.Value)}
		headers := record.Headers()
		for h, ok := headers.Next(); ok; h, ok = headers.Next() {
			p.Headers = append(p.Headers, Header{Key: bytes.Clone(h.Key), Value: bytes.Clone(h.Value)})
		}
		records = append(records, p)
	}
	return records, r.Err()
}

func TestRecordsAreReadAsTheyWereAppended(t *testing.T) {
	large := bytes.Repeat([]byte("larger than the window "), 3_000)
	want := []plainRecord{
		{Offset: 40, Timestamp: noon, Key: []byte("k"), Value: []byte("v")},
		{Offset: 41, Timestamp: noon - 7, Value: large},
		{Offset: 42, Timestamp: noon + 7, Key: []byte{}, Value: []byte{}},
		{Offset: 45, Timestamp: NoTimestamp, Key: []byte("tombstone, after a gap"), Headers: []Header{
			{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("a"), Value: nil}, {Key: []byte{}, Value: []byte{}},
		}},
	}
	for _, codec := range allCodecs {
		var b Builder
		b.Reset(BuilderOptions{Codec: codec, BaseOffset: 40})
		for _, r := range want {
			b.AppendAt(int32(r.Offset-40), r.Timestamp, r.Key, r.Value, r.Headers...)
		}
		b.SetLastOffsetDelta(8)
		batch := finish(t, &b)
		if err := Check(batch); err != nil || batch.LastOffset() != 48 || batch.RecordCount() != 4 {
			t.Errorf("%v: %v, last offset %d, %d records", codec, err, batch.LastOffset(), batch.RecordCount())
		}
		got, err := readAll(batch)
		if diff := cmp.Diff(want, got, bytesAsOne); diff != "" || err != nil {
			t.Errorf("%v: %v (-appended +read):\n%s", codec, err, diff)
		}
	}
}

func TestAReaderReportsDamage(t *testing.T) {
	var r Reader
	defer r.Close()
	for name, c := range map[string]struct {
		batch Batch
		want  error
	}{
		"a record cut off":  {wrap(CodecNone, 1, []byte{12, 0, 0}), ErrInvalidRecord},
		"a record missing":  {wrap(CodecNone, 2, []byte{12, 0, 0, 0, 1, 1, 0}), ErrInvalidRecord},
		"damaged snappy":    {wrap(CodecSnappy, 1, []byte{9, 9, 9}), ErrDecompress},
		"damaged zstd":      {wrap(CodecZstd, 1, []byte{9, 9, 9}), ErrDecompress},
		"an unknown codec":  {wrap(Codec(6), 1, []byte{9, 9, 9}), ErrUnsupportedCompression},
		"nothing, in lz4":   {wrap(CodecLZ4, 1, nil), ErrDecompress},
		"nothing, in plain": {wrap(CodecNone, 1, nil), ErrInvalidRecord},
	} {
		r.Reset(c.batch)
		for r.Next() {
		}
		if !errors.Is(r.Err(), c.want) {
			t.Errorf("%s: got %v, want %v", name, r.Err(), c.want)
		}
	}
	r.DecompressedBytesMax = 1000
	r.Reset(build(t, BuilderOptions{Codec: CodecGzip}, 1000))
	for r.Next() {
	}
	if !errors.Is(r.Err(), ErrDecompressedTooLarge) {
		t.Errorf("past the reader's limit: %v", r.Err())
	}
}

func TestAClosedReaderIsEmpty(t *testing.T) {
	var r Reader
	if r.Next() || r.Err() != nil {
		t.Error("a reader that was never reset has records")
	}
	r.Reset(build(t, BuilderOptions{Codec: CodecZstd}, 3))
	r.Next()
	r.Close()
	r.Close()
	if r.Next() || r.Err() != nil {
		t.Error("a closed reader has records")
	}
}

// timestamped returns a batch from offset 100 with one record per timestamp.
func timestamped(t *testing.T, codec Codec, timestamps ...int64) Batch {
	t.Helper()
	var b Builder
	b.Reset(BuilderOptions{Codec: codec, BaseOffset: 100})
	for _, timestamp := range timestamps {
		b.Append(timestamp, nil, []byte("v"))
	}
	return finish(t, &b)
}

// Black-box cases 2, 3 and 7 (KIP-79, KIP-734): the answer is the record inside
// the batch, compressed or not.
func TestFindTimestamp(t *testing.T) {
	type answer struct {
		Offset, Timestamp int64
		Found             bool
	}
	for _, codec := range allCodecs {
		batch := timestamped(t, codec, 20, 40, 30, 60, 60, 50)
		for asked, want := range map[int64]answer{
			-1: {100, 20, true}, 0: {100, 20, true}, 20: {100, 20, true},
			21: {101, 40, true}, 30: {101, 40, true}, 40: {101, 40, true},
			41: {103, 60, true}, 60: {103, 60, true}, 61: {},
		} {
			var got answer
			var err error
			got.Offset, got.Timestamp, got.Found, err = FindTimestamp(batch, asked)
			if err != nil || got != want {
				t.Errorf("%v: at or after %d: got %v, %v; want %v", codec, asked, got, err, want)
			}
		}
		offset, timestamp, ok, err := MaxTimestamp(batch)
		if offset != 103 || timestamp != 60 || !ok || err != nil {
			t.Errorf("%v: largest: %d at %d, %v, %v; want 60 at 103", codec, timestamp, offset, ok, err)
		}
	}
}

// Black-box case 4: with LogAppendTime every record has the batch's timestamp.
func TestFindTimestampWithLogAppendTime(t *testing.T) {
	batch := timestamped(t, CodecGzip, 20, 40)
	batch.SetLogAppendTime(1000)
	for asked, found := range map[int64]bool{30: true, 1000: true, 1001: false} {
		offset, timestamp, ok, err := FindTimestamp(batch, asked)
		if ok != found || err != nil || (ok && (offset != 100 || timestamp != 1000)) {
			t.Errorf("at or after %d: %d at %d, %v, %v", asked, timestamp, offset, ok, err)
		}
	}
	if offset, timestamp, ok, err := MaxTimestamp(batch); offset != 100 || timestamp != 1000 || !ok || err != nil {
		t.Errorf("largest: %d at %d, %v, %v", timestamp, offset, ok, err)
	}
}

func TestNoRecordHasATimestamp(t *testing.T) {
	if _, _, ok, err := MaxTimestamp(timestamped(t, CodecNone, NoTimestamp, NoTimestamp)); ok || err != nil {
		t.Errorf("found %v, %v", ok, err)
	}
	if _, _, _, err := MaxTimestamp(wrap(CodecGzip, 1, []byte("damaged"))); !errors.Is(err, ErrDecompress) {
		t.Errorf("damaged: %v", err)
	}
}

// KIP-98: the marker that ends a transaction.
func TestControlRecords(t *testing.T) {
	for _, kind := range []ControlType{ControlAbort, ControlCommit} {
		var b Builder
		b.Reset(BuilderOptions{Idempotent: true, ProducerID: 8, ProducerEpoch: 2, BaseSequence: NoSequence, Control: true, Transactional: true})
		b.AppendEndTransaction(noon, kind, 31)
		batch := finish(t, &b)
		if !batch.Control() || !batch.Transactional() || batch.RecordCount() != 1 {
			t.Errorf("attributes %x, %d records", batch.Attributes(), batch.RecordCount())
		}
		var r Reader
		r.Reset(batch)
		if !r.Next() {
			t.Fatal(r.Err())
		}
		got, ok := r.Record().ControlType()
		epoch, epochOK := r.Record().CoordinatorEpoch()
		if got != kind || !ok || epoch != 31 || !epochOK {
			t.Errorf("type %d, %v, coordinator epoch %d, %v", got, ok, epoch, epochOK)
		}
		wantKey, wantValue := []byte{0, 0, 0, byte(kind)}, []byte{0, 0, 0, 0, 0, 31}
		if !bytes.Equal(r.Record().Key, wantKey) || !bytes.Equal(r.Record().Value, wantValue) {
			t.Errorf("key %x, value %x", r.Record().Key, r.Record().Value)
		}
		r.Close()
	}
	for name, r := range map[string]Record{
		"no key": {}, "short": {Key: []byte{0, 0, 0}, Value: []byte{0}}, "negative version": {Key: []byte{0xff, 0xff, 0, 1}},
	} {
		if _, ok := r.ControlType(); ok {
			t.Errorf("%s: passes for a control record", name)
		}
		if _, ok := r.CoordinatorEpoch(); ok {
			t.Errorf("%s: has a coordinator epoch", name)
		}
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	batch := build(t, BuilderOptions{}, 100)
	var r Reader
	if n := testing.AllocsPerRun(100, func() {
		r.Reset(batch)
		for r.Next() {
			headers := r.Record().Headers()
			for _, ok := headers.Next(); ok; _, ok = headers.Next() {
			}
		}
		r.Close()
	}); n != 0 {
		t.Errorf("Reader: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, _, ok, err := FindTimestamp(batch, noon); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}); n != 0 {
		t.Errorf("FindTimestamp: %v allocations", n)
	}
}

func TestBuildingAllocatesNothing(t *testing.T) {
	for _, codec := range []Codec{CodecNone, CodecSnappy, CodecZstd, CodecGzip} {
		if codec != CodecNone && raceDetector {
			continue
		}
		var b Builder
		key, value := []byte("key"), bytes.Repeat([]byte("value"), 20)
		headers := []Header{{Key: []byte("h"), Value: []byte("v")}}
		if n := testing.AllocsPerRun(100, func() {
			b.Reset(BuilderOptions{Codec: codec})
			for i := range int64(50) {
				b.Append(noon+i, key, value, headers...)
			}
			if _, err := b.Build(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations", codec, n)
		}
	}
}

func TestBuilderRefusesBadCode(t *testing.T) {
	var b Builder
	for name, f := range map[string]func(){
		"offsets out of order":   func() { b.AppendAt(5, noon, nil, nil); b.AppendAt(5, noon, nil, nil) },
		"range before a record":  func() { b.AppendAt(5, noon, nil, nil); b.SetLastOffsetDelta(4) },
		"nothing, for no offset": func() { _, _ = b.Build() },
	} {
		b.Reset(BuilderOptions{})
		if func() (recovered any) {
			defer func() { recovered = recover() }()
			f()
			return nil
		}() == nil {
			t.Errorf("%s: no panic", name)
		}
	}
	b.Reset(BuilderOptions{Codec: 9})
	b.Append(noon, nil, nil)
	if _, err := b.Build(); !errors.Is(err, ErrUnsupportedCompression) {
		t.Errorf("codec 9: %v", err)
	}
	if b.Count() != 1 || b.PlainBytes() != HeaderBytes+7 {
		t.Errorf("%d records in %d bytes", b.Count(), b.PlainBytes())
	}
}

func ExampleReader() {
	var b Builder
	b.Reset(BuilderOptions{Codec: CodecZstd, BaseOffset: 7})
	b.Append(1000, []byte("a"), []byte("one"))
	b.Append(1001, []byte("b"), []byte("two"))
	batch, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	var r Reader
	r.Reset(batch)
	defer r.Close()
	for r.Next() {
		record := r.Record()
		fmt.Printf("%d %d %s=%s\n", record.Offset, record.Timestamp, record.Key, record.Value)
	}
	// Output:
	// 7 1000 a=one
	// 8 1001 b=two
}
