package replica

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strings"
	"testing"
)

// The format, pinned byte by byte; a change of it is a new version.
func TestSnapshotBytes(t *testing.T) {
	l := newTestLog(t, Options{})
	l.now = 0x0102030405
	m := from(0x11, 2, 0, 3)
	m.maxTimestamp = 0x0a0b
	l.produce(m)
	l.produce(from(0x11, 2, 3, 1))
	l.now++
	l.produce(from(0x22, 0, 0x7fffffff, 2))

	want := strings.Join([]string{
		"524c7073",     // "RLps"
		"0100", "0000", // version
		"",                 // CRC-32C, set below
		"02000000",         // producers
		"1100000000000000", // producer id
		"0504030201000000", // last append
		"04000000",         // sequences known
		"0200",             // epoch
		"02", "00",         // batches
		"0000000000000000", "0b0a000000000000", "00000000", "02000000",
		"0300000000000000", "0000000000000000", "03000000", "00000000",
		"2200000000000000",
		"0604030201000000",
		"02000000",
		"0000",
		"01", "00",
		"0400000000000000", "0000000000000000", "ffffff7f", "01000000",
	}, "")
	checked, err := hex.DecodeString(want[16:])
	if err != nil {
		t.Fatal(err)
	}
	crc := binary.LittleEndian.AppendUint32(nil, crc32.Checksum(checked, crc32.MakeTable(crc32.Castagnoli)))
	want = want[:16] + hex.EncodeToString(crc) + want[16:]
	if got := hex.EncodeToString(l.partition.AppendSnapshot(nil)); got != want {
		t.Errorf("snapshot\n  %s, want\n  %s", got, want)
	}
}

func TestSnapshotIsAppended(t *testing.T) {
	p := New(Options{})
	got := p.AppendSnapshot([]byte("before"))
	if string(got[:6]) != "before" {
		t.Fatalf("snapshot overwrote what was there: %q", got)
	}
	if err := p.Restore(got[6:]); err != nil {
		t.Errorf("restore: %v", err)
	}
}

// Rule 12: side state that lies is refused as a whole, and the replica is as
// empty as before, ready to replay the log.
func TestRestoreRefusesEveryFlippedBitAndEveryCut(t *testing.T) {
	l := newTestLog(t, Options{})
	l.produce(from(1, 0, 0, 1))
	l.produce(from(2, 0, 0, 1))
	l.produce(from(1, 0, 1, 4))
	whole := l.partition.AppendSnapshot(nil)
	empty := string(New(Options{}).AppendSnapshot(nil))
	refused := func(snapshot []byte, what string, n int) {
		p := New(Options{})
		if err := p.Restore(snapshot); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s %d: %v, want ErrSnapshot", what, n, err)
		}
		if left := string(p.AppendSnapshot(nil)); left != empty {
			t.Errorf("%s %d left %x", what, n, left)
		}
	}
	for bit := range len(whole) * 8 {
		flipped := append([]byte(nil), whole...)
		flipped[bit/8] ^= 1 << (bit % 8)
		refused(flipped, "bit", bit)
	}
	for n := range whole {
		refused(whole[:n:n], "cut at", n)
	}
	refused(append(whole, 0), "longer by", 1)
}

// Bytes with a good checksum that no table makes are refused too.
func TestRestoreRefusesLies(t *testing.T) {
	const first, second = snapshotHeadBytes, snapshotHeadBytes + snapshotProducerBytes + 2*snapshotBatchBytes
	for _, c := range []struct {
		lie string
		at  int
		put []byte
	}{
		{"a newer version", 4, []byte{2}},
		{"a bit in the head that means nothing", 6, []byte{1}},
		{"fewer producers than there are", 12, []byte{1}},
		{"more producers than there are", 12, []byte{3}},
		{"a negative producer id", first + 7, []byte{0x80}},
		{"the same producer twice", second, []byte{1}},
		{"a producer that appended before the one ahead of it", second + 8, []byte{0, 0, 0}},
		{"fewer sequences known than are remembered", first + 16, []byte{6}},
		{"more sequences known than are ever counted", first + 16, []byte{1, 0, 0, 0x40}},
		{"a negative epoch", first + 21, []byte{0x80}},
		{"no batch", second + 22, []byte{0}},
		{"six batches", first + 22, []byte{6}},
		{"a bit in a producer that means nothing", first + 23, []byte{1}},
		{"a negative base offset", first + 24 + 7, []byte{0x80}},
		{"an offset past the largest", first + 24, []byte{255, 255, 255, 255, 255, 255, 255, 127}},
		{"a negative base sequence", first + 24 + 19, []byte{0x80}},
		{"a negative last offset delta", first + 24 + 23, []byte{0x80}},
		{"a gap between two batches", first + 48 + 16, []byte{4}},
		{"a batch at an offset of the one before", first + 48, []byte{2}},
	} {
		l := newTestLog(t, Options{})
		l.produce(from(1, 0, 0, 3))
		l.produce(from(1, 0, 3, 4))
		l.produce(from(2, 0, 0, 1))
		snapshot := l.partition.AppendSnapshot(nil)
		copy(snapshot[c.at:], c.put)
		crc := crc32.Checksum(snapshot[snapshotCheckedAt:], castagnoli)
		binary.LittleEndian.PutUint32(snapshot[snapshotCRCAt:], crc)
		if err := New(Options{}).Restore(snapshot); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s: %v, want ErrSnapshot", c.lie, err)
		}
	}
}

// A table that was saved under a larger bound keeps its newest entries.
func TestRestoreUnderASmallerBound(t *testing.T) {
	l := newTestLog(t, Options{})
	for id := range int64(5) {
		l.produce(from(id, 0, 0, 1))
	}
	snapshot := l.partition.AppendSnapshot(nil)
	l.partition = New(Options{ProducersMax: 2})
	if err := l.partition.Restore(snapshot); err != nil {
		t.Fatal(err)
	}
	l.step(l.opened())
	l.step(l.lead(8))
	l.commit()
	l.expect(l.produce(from(3, 0, 0, 1)), "answer 5: 3")
	l.expect(l.produce(from(4, 0, 0, 1)), "answer 6: 4")
	l.expect(l.produce(from(2, 0, 9, 1)), "append 7 at 5 epoch 8")
}

// FuzzRestore: arbitrary bytes, given the checksum that lets them in, never
// panic, never take more memory than they are long, and what is accepted is
// what AppendSnapshot would have made.
func FuzzRestore(f *testing.F) {
	l := newTestLog(f, Options{})
	f.Add(l.partition.AppendSnapshot(nil))
	l.produce(from(1, 0, 0x7ffffffe, 3))
	f.Add(l.partition.AppendSnapshot(nil))
	for i := range int32(7) {
		l.produce(from(2, 1, 2*i, 2))
	}
	f.Add(l.partition.AppendSnapshot(nil))
	f.Fuzz(func(t *testing.T, snapshot []byte) {
		if len(snapshot) >= snapshotCheckedAt {
			crc := crc32.Checksum(snapshot[snapshotCheckedAt:], castagnoli)
			binary.LittleEndian.PutUint32(snapshot[snapshotCRCAt:], crc)
		}
		p := New(Options{})
		if err := p.Restore(snapshot); err != nil {
			if !errors.Is(err, ErrSnapshot) {
				t.Fatalf("restore: %v", err)
			}
			return
		}
		if len(p.producers.table)*(snapshotProducerBytes+snapshotBatchBytes) > len(snapshot) {
			t.Fatalf("%d entries from %d bytes", len(p.producers.table), len(snapshot))
		}
		if again := p.AppendSnapshot(nil); string(again) != string(snapshot) {
			t.Fatalf("snapshot\n  %x, restored and saved\n  %x", snapshot, again)
		}
		p.producers.expire(1 << 62) // the list is whole: everything can be walked and forgotten
	})
}

// What a snapshot holds can be read without a replica, in the order of the last appends.
func TestTheProducersOfASnapshotAreRead(t *testing.T) {
	l := newTestLog(t, Options{})
	l.now = 5
	l.produce(from(7, 2, 0, 3))
	l.now = 6
	l.produce(from(8, 0, 0, 1))
	l.now = 7
	m := from(7, 2, 3, 2)
	m.maxTimestamp = 99
	l.produce(m)
	got, err := ReadProducers(l.partition.AppendSnapshot(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := []ProducerState{{ID: 8, LastSequence: 0, LastAppend: 6}, {ID: 7, Epoch: 2, LastSequence: 4, LastTimestamp: 99, LastAppend: 7}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := ReadProducers([]byte("no snapshot at all")); !errors.Is(err, ErrSnapshot) {
		t.Errorf("nonsense: %v", err)
	}
}
