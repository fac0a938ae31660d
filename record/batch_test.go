package record

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFormat pins every byte of a batch, so that a change of the format names
// the field that moved.
func TestFormat(t *testing.T) {
	var b Builder
	b.Reset(BuilderOptions{
		BaseOffset: 0x0102030405060708, LeaderEpoch: 9,
		Idempotent: true, ProducerID: 4242, ProducerEpoch: 3, BaseSequence: 77, Transactional: true,
	})
	b.Append(1000, []byte("k"), []byte("value"), Header{Key: []byte("h"), Value: []byte("v")})
	b.Append(999, nil, nil)
	batch := finish(t, &b)

	want := strings.Join([]string{
		"0102030405060708", // base offset
		"00000049",         // batch length: 12 less than the whole
		"00000009",         // leader epoch
		"02",               // magic
		"89288e3e",         // CRC-32C
		"0010",             // attributes: transactional
		"00000001",         // last offset delta
		"00000000000003e8", // base timestamp
		"00000000000003e8", // maximum timestamp
		"0000000000001092", // producer id
		"0003",             // producer epoch
		"0000004d",         // base sequence
		"00000002",         // record count

		"20",           // record of 16 bytes
		"00",           // attributes
		"00",           // timestamp delta 0
		"00",           // offset delta 0
		"026b",         // key "k"
		"0a76616c7565", // value "value"
		"02",           // one header
		"0268",         // header key "h"
		"0276",         // header value "v"

		"0c", // record of 6 bytes
		"00", // attributes
		"01", // timestamp delta -1
		"02", // offset delta 1
		"01", // null key
		"01", // null value
		"00", // no headers
	}, "\n")
	got := hex.EncodeToString(batch)
	var lines []string
	for _, line := range strings.Split(want, "\n") {
		n := min(len(line), len(got))
		lines, got = append(lines, got[:n]), got[n:]
	}
	if diff := cmp.Diff(want, strings.Join(lines, "\n")+got); diff != "" {
		t.Errorf("the format moved (-want +got):\n%s", diff)
	}
}

func TestHeaderView(t *testing.T) {
	b := build(t, BuilderOptions{
		Codec: CodecLZ4, BaseOffset: 500, LeaderEpoch: 7,
		Idempotent: true, ProducerID: 1 << 40, ProducerEpoch: 12, BaseSequence: 30, Transactional: true,
	}, 10)
	type header struct {
		Base, Last, BaseTimestamp, MaxTimestamp, ProducerID int64
		Size                                                int
		LeaderEpoch, LastDelta, BaseSequence, LastSequence  int32
		Count                                               int32
		Epoch                                               int16
		Magic                                               int8
		Codec                                               string
		Transactional, Control, LogAppendTime, Idempotent   bool
	}
	want := header{
		Base: 500, Last: 509, BaseTimestamp: noon - 9, MaxTimestamp: noon, ProducerID: 1 << 40, Size: len(b),
		LeaderEpoch: 7, LastDelta: 9, BaseSequence: 30, LastSequence: 39, Count: 10, Epoch: 12, Magic: 2,
		Codec: "lz4", Transactional: true, Idempotent: true,
	}
	got := header{
		b.BaseOffset(), b.LastOffset(), b.BaseTimestamp(), b.MaxTimestamp(), b.ProducerID(), b.SizeBytes(),
		b.LeaderEpoch(), b.LastOffsetDelta(), b.BaseSequence(), b.LastSequence(), b.RecordCount(), b.ProducerEpoch(), b.Magic(),
		b.Codec().String(), b.Transactional(), b.Control(), b.LogAppendTime(), b.HasProducerID(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, ok := b.DeleteHorizon(); ok {
		t.Error("a batch that compaction never saw has a delete horizon")
	}
}

// KIP-98 and KIP-101: the fields that the leader assigns lie outside of the CRC.
func TestOffsetAndEpochArePatchedWithoutTouchingTheChecksum(t *testing.T) {
	b := build(t, BuilderOptions{Codec: CodecZstd}, 3)
	crc := b.CRC()
	b.SetBaseOffset(math.MaxInt64 - 10)
	b.SetLeaderEpoch(math.MaxInt32)
	if b.CRC() != crc {
		t.Error("the stored CRC moved")
	}
	if err := Check(b); err != nil {
		t.Error(err)
	}
	if b.LastOffset() != math.MaxInt64-8 || b.LeaderEpoch() != math.MaxInt32 {
		t.Errorf("last offset %d, epoch %d", b.LastOffset(), b.LeaderEpoch())
	}
}

// KIP-32: with LogAppendTime the header's maximum is every record's timestamp.
func TestLogAppendTime(t *testing.T) {
	for _, codec := range allCodecs {
		b := build(t, BuilderOptions{Codec: codec}, 5)
		b.SetLogAppendTime(noon + 60_000)
		if err := Check(b); err != nil {
			t.Fatalf("%v: %v", codec, err)
		}
		if !b.LogAppendTime() || b.MaxTimestamp() != noon+60_000 || b.Codec() != codec {
			t.Errorf("%v: LogAppendTime %v, maximum %d, codec %v", codec, b.LogAppendTime(), b.MaxTimestamp(), b.Codec())
		}
		var r Reader
		r.Reset(b)
		for r.Next() {
			if r.Record().Timestamp != noon+60_000 {
				t.Errorf("%v: record has timestamp %d", codec, r.Record().Timestamp)
			}
		}
		if r.Err() != nil {
			t.Error(r.Err())
		}
		r.Close()
	}
}

func TestSequenceNumbersWrapToZero(t *testing.T) {
	var b Builder
	b.Reset(BuilderOptions{Idempotent: true, ProducerID: 1, BaseSequence: math.MaxInt32 - 1})
	for range 4 {
		b.Append(noon, nil, nil)
	}
	batch := finish(t, &b)
	if got := batch.LastSequence(); got != 1 { // max-1, max, 0, 1
		t.Errorf("last sequence is %d, want 1", got)
	}
	if got := build(t, BuilderOptions{}, 4).LastSequence(); got != NoSequence {
		t.Errorf("a batch without sequence ends at %d", got)
	}
}

func TestCodecNames(t *testing.T) {
	for _, codec := range allCodecs {
		if got, ok := ParseCodec(codec.String()); !ok || got != codec {
			t.Errorf("%v is parsed as %v, %v", codec, got, ok)
		}
	}
	if _, ok := ParseCodec("producer"); ok {
		t.Error("producer is no codec")
	}
	if Codec(5).Known() || Codec(5).String() != "codec 5" {
		t.Errorf("codec 5 is %v", Codec(5))
	}
}

// A batch that covers offsets of others says so, and forgets whose it was.
func TestAnExtendedBatchForgetsItsProducer(t *testing.T) {
	b := build(t, BuilderOptions{BaseOffset: 70, LeaderEpoch: 3, Idempotent: true, ProducerID: 5, BaseSequence: 9}, 3)
	b.Extend(11)
	if err := Check(b); err != nil {
		t.Fatal(err)
	}
	if b.LastOffset() != 81 || b.RecordCount() != 3 || b.BaseOffset() != 70 || b.LeaderEpoch() != 3 {
		t.Errorf("[%d, %d] in epoch %d, %d records", b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), b.RecordCount())
	}
	if b.HasProducerID() || b.ProducerEpoch() != NoProducerEpoch || b.BaseSequence() != NoSequence {
		t.Errorf("producer %d, epoch %d, sequence %d", b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
	}
}
