package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"ringlog/engine/segment"
)

const sectorBytes = 512

func isCorrupt(err error) bool {
	var corrupt *segment.CorruptError
	return errors.As(err, &corrupt)
}

// Scenario 10: each bit of a frame is flipped, and each costs what it must and
// nothing else (docs/format/journal.md has the table).
func TestEveryFlippedBitCostsWhatItMust(t *testing.T) {
	h, entries := usual()
	var b Builder
	frame := build(&b, 2, h, entries)
	x := new(Header).take(frame)
	dataEnd := headerBytes + x.dataBytes
	owner, ends := 0, headerBytes+len(entries[0].data()) // of the byte that is flipped
	for i := range frame {
		if i == ends && owner < len(entries)-1 {
			owner++
			ends += len(entries[owner].data())
		}
		for bit := range 8 {
			frame[i] ^= 1 << bit
			f, err := Parse(frame, store)
			switch {
			case i < atVersion || i >= atStore && i < atRun:
				if err != ErrNoFrame {
					t.Fatalf("byte %d is of the name of the frame: %v", i, err)
				}
			case i < headerBytes:
				if !isCorrupt(err) || f.Bytes() != 0 {
					t.Fatalf("byte %d is of the header: %+v, %v", i, f.Header, err)
				}
			case i >= dataEnd && i < x.bytes():
				if !isCorrupt(err) || f.Header != h || f.Bytes() != len(frame) || f.Len() != 0 || f.Whole() {
					t.Fatalf("byte %d is of the table: %+v, %v", i, f, err)
				}
			case err != nil || f.Header != h || f.Len() != len(entries) || f.Whole() != (i >= dataEnd):
				t.Fatalf("byte %d is of data or padding: %+v, %v", i, f, err)
			default:
				for k := range entries {
					e, _, whole := f.At(k)
					if e != entries[k].entry || whole == (i < dataEnd && k == owner) {
						t.Fatalf("byte %d is of entry %d; entry %d is whole: %v", i, owner, k, whole)
					}
				}
			}
			frame[i] ^= 1 << bit
		}
	}
}

// Every beginning of a frame says how much more is needed.
func TestEveryTruncationIsShort(t *testing.T) {
	h, entries := usual()
	var b Builder
	frame := build(&b, 2, h, entries)
	for n := range len(frame) {
		want := len(frame)
		if n < headerBytes {
			want = BlockBytes
		}
		var short *ShortError
		if _, err := Parse(frame[:n], store); !errors.Is(err, ErrShort) || !errors.As(err, &short) || short.Bytes != want || errors.Is(err, ErrNoFrame) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

// Scenario 7: a frame is torn at any sectors over a frame of an older lap. Whatever
// mixture is left, an entry that is called whole is the one whose header
// it stands under, byte for byte.
func TestEveryMixtureOfTwoLaps(t *testing.T) {
	h, entries := usual()
	var b Builder
	older := bytes.Clone(build(&b, 2, h, entries))
	h.Sequence += 50
	_, newEntries := usual()
	for i := range newEntries {
		newEntries[i].entry.Gen += 100
		for _, piece := range newEntries[i].pieces {
			for j := range piece {
				piece[j] ^= 0x55
			}
		}
	}
	newer := build(&b, 2, h, newEntries)
	wholes, torn := 0, 0
	mixture := make([]byte, len(newer))
	for sectors := range 1 << (len(newer) / sectorBytes) {
		for i := range len(newer) / sectorBytes {
			from := older
			if sectors>>i&1 == 1 {
				from = newer
			}
			copy(mixture[i*sectorBytes:(i+1)*sectorBytes], from[i*sectorBytes:])
		}
		f, err := Parse(mixture, store)
		if err != nil && !isCorrupt(err) {
			t.Fatal(err)
		}
		want := entries
		if sectors&1 == 1 {
			want = newEntries
		}
		if wanted := f.Sequence == h.Sequence; wanted != (sectors&1 == 1) {
			t.Fatalf("sectors %b: frame %d", sectors, f.Sequence)
		}
		for i := range f.Len() {
			if e, data, whole := f.At(i); whole && (e != want[i].entry || !bytes.Equal(data, want[i].data())) {
				t.Fatalf("sectors %b: entry %d is %+v", sectors, i, e)
			} else if whole {
				wholes++
			}
		}
		if !f.Whole() {
			torn++
		}
	}
	if wholes == 0 || torn == 0 {
		t.Fatalf("%d whole entries, %d torn frames", wholes, torn)
	}
}

// Bytes of another store, of a client, of nobody: no frame.
func TestWhatIsNoFrame(t *testing.T) {
	h, entries := usual()
	var b Builder
	frame := bytes.Clone(build(&b, 2, h, entries))
	h.Store[7]++
	other := build(&b, 2, h, entries)
	for name, block := range map[string][]byte{
		"prepared space":      make([]byte, BlockBytes),
		"another store":       other,
		"the middle of one":   frame[BlockBytes:],
		"a frame in a record": append([]byte("value: "), frame...),
	} {
		if _, err := Parse(block, store); err != ErrNoFrame {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// sign makes a frame of anything: checksums hold, whatever the rest says.
func sign(h Header, x extent, data, table []byte, change func(header []byte)) []byte {
	frame := make([]byte, headerBytes, BlockBytes)
	frame = append(append(frame, data...), table...)
	frame = append(frame, make([]byte, frameBytes(len(frame))-len(frame))...)
	x.tableCRC = crc32.Checksum(table, castagnoli)
	h.put(frame, x)
	if change != nil {
		change(frame)
		resign(frame)
	}
	return frame
}

func resign(frame []byte) {
	binary.LittleEndian.PutUint32(frame[atHeaderCRC:], crc32.Checksum(frame[:atHeaderCRC], castagnoli))
}

// A checksum that holds does not make nonsense true, and no claim is believed
// before the bytes for it are there.
func TestHostileHeaders(t *testing.T) {
	usual := Header{Store: store, Run: 1, Sequence: 9, Flushed: 8, From: 9}
	put32 := func(at int, value uint32) func([]byte) {
		return func(header []byte) { binary.LittleEndian.PutUint32(header[at:], value) }
	}
	put64 := func(at int, value uint64) func([]byte) {
		return func(header []byte) { binary.LittleEndian.PutUint64(header[at:], value) }
	}
	for name, change := range map[string]func([]byte){
		"sequence 0":               put64(atSequence, 0),
		"the sequence after all":   put64(atSequence, math.MaxUint64),
		"flushed before it began":  put64(atFlushed, 9),
		"needed from the future":   put64(atFrom, 10),
		"format 0":                 put32(atVersion, 0),
		"something where zero is":  put32(atVersion, 1<<16|formatVersion),
		"four billion entries":     put32(atEntries, math.MaxUint32),
		"one entry without a row":  put32(atEntries, 1),
		"four billion data bytes":  put32(atDataBytes, math.MaxUint32),
		"four billion table bytes": put32(atTableBytes, math.MaxUint32),
		"both": func(header []byte) {
			put32(atEntries, math.MaxUint32/rowBytesMin)(header)
			put32(atTableBytes, math.MaxUint32)(header)
			put32(atDataBytes, math.MaxUint32)(header)
		},
	} {
		if f, err := Parse(sign(usual, extent{}, nil, nil, change), store); !isCorrupt(err) || f.Bytes() != 0 {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	large := sign(usual, extent{entries: 9_000_000, dataBytes: 1, tableBytes: FrameBytesMax - headerBytes - 1}, nil, nil, func([]byte) {})
	var short *ShortError
	if _, err := Parse(large, store); !errors.As(err, &short) || short.Bytes != FrameBytesMax {
		t.Errorf("the largest frame: %v", err)
	}
	_, err := Parse(sign(usual, extent{}, nil, nil, func(header []byte) {
		header[atVersion]++
		header[atEntries+3] = 0xff // what it means there is not for us to say
	}), store)
	if !errors.Is(err, segment.ErrNewerFormat) || !strings.Contains(err.Error(), "a journal frame has format 2, this program reads up to 1") {
		t.Errorf("a newer format: %v", err)
	}
}

func TestHostileTables(t *testing.T) {
	data := []byte("0123456789")
	id := make([]byte, logIDBytes)
	// fields: gen, previous end, gap, span, epoch, durable, high watermark, length
	row := func(fields ...uint64) []byte {
		table := bytes.Clone(id)
		for _, field := range fields {
			table = binary.AppendUvarint(table, field)
		}
		crc := crc32.Checksum(data, castagnoli)
		return binary.LittleEndian.AppendUint32(table, crc)
	}
	parse := func(entries int, data, table []byte) error {
		h := Header{Store: store, Run: 1, Sequence: 9, Flushed: 8, From: 9}
		f, err := Parse(sign(h, extent{entries: entries, dataBytes: len(data), tableBytes: len(table)}, data, table, nil), store)
		if err != nil && (f.Header != h || f.Len() != 0 || f.Whole() || f.Bytes() != BlockBytes) {
			t.Errorf("with %v: %+v", err, f)
		}
		return err
	}
	good := row(1, 100, 0, 9, 0, 50, 60, 10)
	if err := parse(1, data, good); err != nil {
		t.Fatal(err)
	}
	if err := parse(1, data, row(math.MaxUint64, math.MaxInt64-1, 0, 0, math.MaxUint32, math.MaxInt64-1, 0, 10)); err != nil {
		t.Fatalf("the largest values: %v", err)
	}
	long := append(bytes.Clone(id), bytes.Repeat([]byte{0xff}, 40)...)
	for name, bad := range map[string]struct {
		entries     int
		data, table []byte
	}{
		"no data":                   {1, nil, row(1, 100, 0, 9, 0, 0, 0, 0)},
		"less data than announced":  {1, data[:9], good},
		"more data than announced":  {1, append(data, 'x'), good},
		"data and no entry":         {0, data, nil},
		"a table and no entry":      {0, nil, good},
		"one row for two":           {2, data, append(bytes.Clone(good), make([]byte, rowBytesMin)...)},
		"two rows for one":          {1, data, append(bytes.Clone(good), good...)},
		"half a row":                {1, data, row(1<<40, 100, 0, 9, 0, 0, 0, 10)[:rowBytesMin+3]},
		"previous end below zero":   {1, data, row(1, 1<<63, 0, 9, 0, 0, 0, 10)},
		"gap out of the offsets":    {1, data, row(1, 100, math.MaxInt64-99, 0, 0, 0, 0, 10)},
		"span out of the offsets":   {1, data, row(1, 100, 0, math.MaxInt64-99, 0, 0, 0, 10)},
		"no offset after the last":  {1, data, row(1, 100, 0, math.MaxInt64-100, 0, 0, 0, 10)},
		"epoch of 33 bits":          {1, data, row(1, 100, 0, 0, 1<<32, 0, 0, 10)},
		"durable below zero":        {1, data, row(1, 100, 0, 0, 0, 101, 0, 10)},
		"high watermark below zero": {1, data, row(1, 100, 0, 0, 0, 0, 101, 10)},
		"length beyond any frame":   {1, data, row(1, 100, 0, 0, 0, 0, 0, math.MaxUint64)},
		"a number without end":      {1, data, long},
	} {
		if err := parse(bad.entries, bad.data, bad.table); !isCorrupt(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever is read as a frame can be written again and is then the same; and
// nothing makes Parse panic, read outside, or believe a claim. Inputs are tried
// as they are, in whole blocks, and signed.
func FuzzFrame(f *testing.F) {
	// Small seeds, without their padding: the fuzzer does not have to learn it.
	h, entries := usual()
	for i := range entries {
		entries[i].pieces = [][]byte{{'a' + byte(i)}, []byte("batch")}
	}
	var b Builder
	for n := range len(entries) + 1 {
		frame := build(&b, 1, h, entries[:n])
		x := new(Header).take(frame)
		f.Add(bytes.Clone(frame[:x.bytes()]))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		check(t, input)
		if len(input) < headerBytes {
			return
		}
		blocks := append(bytes.Clone(input), make([]byte, frameBytes(len(input))-len(input))...)
		check(t, blocks)
		x := new(Header).take(blocks)
		if x.sound() && x.bytes() <= len(blocks) {
			binary.LittleEndian.PutUint32(blocks[atTableCRC:], crc32.Checksum(blocks[headerBytes+x.dataBytes:x.bytes()], castagnoli))
		}
		copy(blocks, magic[:])
		copy(blocks[atStore:], store[:])
		resign(blocks)
		check(t, blocks)
	})
}

func check(t *testing.T, input []byte) {
	f, err := Parse(input, store)
	if err != nil {
		if f.Len() != 0 || f.Whole() {
			t.Fatalf("%+v and %v", f, err)
		}
		return
	}
	if f.Bytes() > len(input) || f.Bytes()%BlockBytes != 0 {
		t.Fatalf("%d of %d bytes", f.Bytes(), len(input))
	}
	var b Builder
	b.Begin(make([]byte, f.Bytes()+BlockBytes))
	for i := range f.Len() {
		e, data, _ := f.At(i)
		b.Entry(e)
		b.Append(data)
	}
	again, err := Parse(b.Finish(f.Header), store)
	if err != nil || again.Header != f.Header || again.Len() != f.Len() || !again.Whole() {
		t.Fatalf("%+v becomes %+v, %v", f, again, err)
	}
	for i := range f.Len() {
		e, data, _ := f.At(i)
		if e2, data2, _ := again.At(i); e2 != e || !bytes.Equal(data, data2) {
			t.Fatalf("entry %d: %+v becomes %+v", i, e, e2)
		}
	}
}

// Using the builder wrongly is a mistake of the program and stops it.
func TestBuilderRefusesBadCode(t *testing.T) {
	good := Entry{LastOffset: 3}
	for name, use := range map[string]func(b *Builder){
		"memory of half a block": func(b *Builder) { b.Begin(make([]byte, BlockBytes/2)) },
		"no memory":              func(b *Builder) { b.Begin(nil) },
		"entry without memory":   func(b *Builder) { b.Finish(Header{Sequence: 1}); b.Entry(good) },
		"data without entry":     func(b *Builder) { b.Append([]byte("x")) },
		"entry without data":     func(b *Builder) { b.Entry(good); b.Entry(good) },
		"last without data":      func(b *Builder) { b.Entry(good); b.Finish(Header{Sequence: 1}) },
		"more than there is":     func(b *Builder) { b.Entry(good); b.Append(make([]byte, BlockBytes)) },
		"no room":                func(b *Builder) { b.Entry(good); b.Append(make([]byte, b.Room()+rowBytesMax)); b.Entry(good) },
		"offsets going back":     func(b *Builder) { b.Entry(Entry{PreviousEnd: 4, FirstOffset: 3, LastOffset: 5}) },
		"a last one before":      func(b *Builder) { b.Entry(Entry{FirstOffset: 3, LastOffset: 2}) },
		"flushed before written": func(b *Builder) { b.Finish(Header{Sequence: 4, Flushed: 4}) },
		"frame 0":                func(b *Builder) { b.Finish(Header{}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: nobody minds", name)
				}
			}()
			var b Builder
			b.Begin(make([]byte, BlockBytes))
			use(&b)
		}()
	}
}

// A restart copies out of its window the frames that it still needs, and looks at their batches there: the copy
// must say of them exactly what Parse says, and stay what it is when the window is read into again.
func TestAClonedFrameSaysWhatParseSays(t *testing.T) {
	store := [16]byte{7}
	var b Builder
	b.Begin(make([]byte, 1<<16))
	for i := range 3 {
		b.Entry(Entry{LogID: [16]byte{byte(i)}, Gen: 1, PreviousEnd: 10, FirstOffset: 10, LastOffset: 12})
		b.Append([]byte{1, 2, 3, byte(i)})
	}
	data := b.Finish(Header{Store: store, Run: 1, Sequence: 5, Flushed: 4, From: 2})
	for name, damage := range map[string]func(d []byte){
		"whole":                 func([]byte) {},
		"a damaged batch":       func(d []byte) { d[headerBytes+5] ^= 1 },
		"a damaged table":       func(d []byte) { d[headerBytes+13] ^= 1 },
		"a damaged first batch": func(d []byte) { d[headerBytes] ^= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			window := append([]byte(nil), data...)
			damage(window)
			parsed, parseErr := Parse(append([]byte(nil), window...), store)
			skimmed, err := Skim(window, store)
			if (err == nil) != (parseErr == nil) {
				t.Fatalf("Skim says %v, Parse %v", err, parseErr)
			}
			cloned := skimmed.Clone()
			clear(window)
			if cloned.Whole() != parsed.Whole() || cloned.Len() != parsed.Len() || cloned.Bytes() != parsed.Bytes() || cloned.Header != parsed.Header {
				t.Fatalf("the clone is %+v, Parse gives %+v", cloned, parsed)
			}
			for i := range parsed.Len() {
				e, batch, whole := parsed.At(i)
				if ce, cb, cw := cloned.At(i); ce != e || cw != whole || !bytes.Equal(cb, batch) {
					t.Fatalf("entry %d of the clone is %+v %x %v, not %+v %x %v", i, ce, cb, cw, e, batch, whole)
				}
			}
		})
	}
}
