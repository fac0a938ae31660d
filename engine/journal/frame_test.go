package journal

import (
	"bytes"
	"encoding/hex"
	"math"
	"testing"

	"pgregory.net/rapid"
)

var store = [16]byte{0xa5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0x5a}

// written is an entry with its batches.
type written struct {
	entry  Entry
	pieces [][]byte
}

func (w written) data() []byte { return bytes.Join(w.pieces, nil) }

// build makes a frame in memory that was used before.
func build(b *Builder, blocks int, h Header, entries []written) []byte {
	memory := bytes.Repeat([]byte{0xee}, blocks*BlockBytes)
	b.Begin(memory)
	for _, w := range entries {
		b.Entry(w.entry)
		for _, piece := range w.pieces {
			b.Append(piece)
		}
	}
	return b.Finish(h)
}

// usual is a frame of three logs in two blocks.
func usual() (Header, []written) {
	h := Header{Store: store, Run: 3, Sequence: 20, Flushed: 18, From: 7, Metadata: 99}
	entry := func(id byte, end, first, last int64, durable int64) Entry {
		return Entry{LogID: [16]byte{id}, Gen: uint64(id), PreviousEnd: end, FirstOffset: first, LastOffset: last, Epoch: 4, Durable: durable, HighWatermark: durable - 1}
	}
	return h, []written{
		{entry(1, 100, 100, 109, 90), [][]byte{bytes.Repeat([]byte("a"), 1100), bytes.Repeat([]byte("b"), 900)}},
		{entry(2, 5000, 5300, 5300, 5000), [][]byte{bytes.Repeat([]byte("c"), 61)}},
		{entry(3, 1<<40, 1<<40, 1<<40+3, 1<<40-7), [][]byte{bytes.Repeat([]byte{0}, 3000)}},
	}
}

func offsets() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(0, 1<<20), rapid.Int64Range(0, math.MaxInt64-1))
}

func entries() *rapid.Generator[written] {
	return rapid.Custom(func(t *rapid.T) written {
		var w written
		e := &w.entry
		copy(e.LogID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "log"))
		e.Gen = rapid.Uint64().Draw(t, "gen")
		e.PreviousEnd = offsets().Draw(t, "previous end")
		e.FirstOffset = rapid.OneOf(rapid.Just(e.PreviousEnd), rapid.Int64Range(e.PreviousEnd, math.MaxInt64-1)).Draw(t, "first")
		e.LastOffset = rapid.Int64Range(e.FirstOffset, math.MaxInt64-1).Draw(t, "last")
		e.Epoch = rapid.Int32().Draw(t, "epoch")
		e.Durable = rapid.Int64Range(0, e.PreviousEnd).Draw(t, "durable")
		e.HighWatermark = rapid.Int64Range(0, e.PreviousEnd).Draw(t, "high watermark")
		w.pieces = rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 200), 1, 4).Draw(t, "batches")
		return w
	})
}

// What was built is what is read: every field, every byte, with other bytes
// behind the frame and other bytes in the memory before.
func TestFramesSurviveARoundTrip(t *testing.T) {
	var b Builder
	rapid.Check(t, func(t *rapid.T) {
		h := Header{Store: store, Run: rapid.Uint64().Draw(t, "run"), Metadata: rapid.Uint64().Draw(t, "metadata")}
		h.Sequence = rapid.Uint64Range(1, math.MaxUint64-1).Draw(t, "sequence")
		h.Flushed = rapid.Uint64Range(0, h.Sequence-1).Draw(t, "flushed")
		h.From = rapid.Uint64Range(0, h.Sequence).Draw(t, "from")
		blocks := rapid.IntRange(1, 4).Draw(t, "blocks")
		memory := bytes.Repeat([]byte{0xee}, blocks*BlockBytes)
		b.Begin(memory)
		var want []written
		total := 0
		for _, w := range rapid.SliceOfN(entries(), 0, 30).Draw(t, "entries") {
			if len(w.data()) > b.Room() {
				continue
			}
			b.Entry(w.entry)
			for _, piece := range w.pieces {
				b.Append(piece)
			}
			want, total = append(want, w), total+len(w.data())
		}
		if b.Entries() != len(want) || b.Bytes() != total {
			t.Fatalf("%d entries of %d bytes, want %d of %d", b.Entries(), b.Bytes(), len(want), total)
		}
		frame := b.Finish(h)
		if &frame[0] != &memory[0] || len(frame)%BlockBytes != 0 {
			t.Fatalf("the frame is %d bytes, not at the front of the memory or no whole blocks", len(frame))
		}
		got, err := Parse(append(bytes.Clone(frame), "what the ring has behind it"...), store)
		if err != nil || got.Header != h || got.Len() != len(want) || got.Bytes() != len(frame) || !got.Whole() {
			t.Fatalf("%+v, %v", got, err)
		}
		for i, w := range want {
			if e, data, whole := got.At(i); e != w.entry || !bytes.Equal(data, w.data()) || !whole {
				t.Fatalf("entry %d: %+v, %v; want %+v", i, e, whole, w.entry)
			}
		}
	})
}

// Padding is zeros, whatever the memory held, up to the last of whole blocks.
func TestPaddingIsZeroed(t *testing.T) {
	h, entries := usual()
	var b Builder
	frame := build(&b, 4, h, entries)
	if len(frame) != 2*BlockBytes {
		t.Fatalf("%d bytes", len(frame))
	}
	x := new(Header).take(frame)
	if padding := frame[x.bytes():]; !bytes.Equal(padding, make([]byte, len(padding))) {
		t.Fatal("what was in the memory goes to the disk")
	}
}

// An entry as large as Room fits; the frame is then full to its last row or so.
func TestRoomIsExact(t *testing.T) {
	worst := Entry{Gen: math.MaxUint64, PreviousEnd: math.MaxInt64 / 2, FirstOffset: math.MaxInt64 - 2, LastOffset: math.MaxInt64 - 1, Epoch: -1}
	var b Builder
	for count := 1; count < 40; count++ {
		b.Begin(make([]byte, BlockBytes))
		for range count - 1 {
			if b.Room() > 0 {
				b.Entry(worst)
				b.Append([]byte("x"))
			}
		}
		if room := b.Room(); room > 0 {
			b.Entry(worst)
			b.Append(make([]byte, room))
		}
		if b.Room() != 0 {
			t.Fatalf("%d bytes are left after all were taken", b.Room())
		}
		h := Header{Store: store, Sequence: 1}
		if f, err := Parse(b.Finish(h), store); err != nil || !f.Whole() || f.Len() != b.Entries() {
			t.Fatalf("%d entries: %v", count, err)
		}
	}
}

// A lower bound may be recorded too low, never too high.
func TestBoundsAreNeverRaised(t *testing.T) {
	for _, row := range []struct{ durable, recorded int64 }{{-1, 0}, {0, 0}, {99, 99}, {100, 100}, {101, 100}, {math.MaxInt64, 100}} {
		var b Builder
		e := Entry{PreviousEnd: 100, FirstOffset: 100, LastOffset: 100, Durable: row.durable, HighWatermark: row.durable}
		f, err := Parse(build(&b, 1, Header{Store: store, Sequence: 1}, []written{{e, [][]byte{{1}}}}), store)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := f.At(0); got.Durable != row.recorded || got.HighWatermark != row.recorded {
			t.Errorf("%d is recorded as %d and %d, want %d", row.durable, got.Durable, got.HighWatermark, row.recorded)
		}
	}
}

// docs/format/journal.md: the bytes of a small frame. What breaks this test
// needs a new format version.
func TestLayout(t *testing.T) {
	h := Header{Store: store, Run: 2, Sequence: 0x0102, Flushed: 0xff, From: 0xf0, Metadata: 7}
	var b Builder
	frame := build(&b, 1, h, []written{
		{Entry{LogID: [16]byte{0xaa, 15: 0xbb}, Gen: 3, PreviousEnd: 300, FirstOffset: 300, LastOffset: 309, Epoch: 5, Durable: 290, HighWatermark: 100}, [][]byte{[]byte("batch one"), []byte("batch two")}},
		{Entry{LogID: [16]byte{0xcc}, Gen: 200, PreviousEnd: 7, FirstOffset: 1000, LastOffset: 1000, Epoch: -1}, [][]byte{[]byte("third")}},
	})
	// The checksums were computed by another program.
	const want = "524c6a66" + "0100" + "0000" + "a50102030405060708090a0b0c0d0e5a" + // magic, version, zero, store
		"0200000000000000" + "0201000000000000" + "ff00000000000000" + "f000000000000000" + "0700000000000000" + // run, sequence, flushed, from, metadata
		"02000000" + "17000000" + "40000000" + "4d2e2de7" + "308f22aa" + // entries, bytes of data and table, CRC of table and header
		"6261746368206f6e6562617463682074776f" + "7468697264" + // the batches
		"aa0000000000000000000000000000bb" + "03" + "ac02" + "00" + "09" + "05" + "0a" + "c801" + "12" + "1c61ea18" +
		"cc000000000000000000000000000000" + "c801" + "07" + "e107" + "00" + "ffffffff0f" + "07" + "07" + "05" + "47695a09"
	layout, err := hex.DecodeString(want)
	if err != nil {
		t.Fatal(err)
	}
	if want := append(layout, make([]byte, BlockBytes-len(layout))...); !bytes.Equal(frame, want) {
		t.Errorf("the frame is\n%x, want\n%x", frame[:len(layout)], layout)
	}
}

// The table costs at most 6 % of entries of 1.1 KiB, and the whole frame not
// much more than that and half a block.
func TestCompactness(t *testing.T) {
	const count, dataBytes = 384, 1126
	var b Builder
	b.Begin(make([]byte, 1<<20))
	data := make([]byte, dataBytes)
	for i := range int64(count) {
		end := 1<<33 + i*1e6
		b.Entry(Entry{LogID: [16]byte{byte(i)}, Gen: 300, PreviousEnd: end, FirstOffset: end, LastOffset: end + 9, Epoch: 1000, Durable: end - 100, HighWatermark: end - 5000})
		b.Append(data)
	}
	f, err := Parse(b.Finish(Header{Store: store, Sequence: 1}), store)
	if err != nil {
		t.Fatal(err)
	}
	share := float64(f.Bytes()-BlockBytes/2-b.Bytes()) / float64(b.Bytes())
	if share > 0.06 {
		t.Fatalf("the table costs %.1f %%", 100*share)
	}
	if len(b.table) > count*40 {
		t.Errorf("a row of %d bytes", len(b.table)/count)
	}
}

// Rule of the hot path: a warm builder allocates nothing.
func TestBuilderAllocatesNothing(t *testing.T) {
	h, entries := usual()
	var b Builder
	memory := make([]byte, 2*BlockBytes)
	frames := func() {
		b.Begin(memory)
		for i := range entries {
			b.Entry(entries[i].entry)
			for _, piece := range entries[i].pieces {
				b.Append(piece)
			}
		}
		h.Sequence++
		b.Finish(h)
	}
	if n := testing.AllocsPerRun(100, frames); n != 0 {
		t.Fatalf("%v allocations a frame", n)
	}
}
