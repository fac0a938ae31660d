package segment

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func manifestOf() *Manifest {
	return &Manifest{
		LogID: [16]byte{1, 2, 3}, Gen: 7, Start: 12, State: Cutting, Cut: 99, Cleaned: 44, Label: "orders-3",
		Segments: []Summary{
			{BaseOffset: 10, Sealed: true, Bytes: 5000, NextOffset: 50, MaxTimestamp: 3, MaxTimestampOffset: 40, CreatedMillis: 1, AppendedMillis: 2, Pass: 3, HorizonMillis: 77},
			{BaseOffset: 50, Bytes: 10, NextOffset: 51, MaxTimestamp: -1, MaxTimestampOffset: -1},
		},
		Epochs: []Epoch{{0, 0}, {4, 44}},
	}
}

func checkpointOf() *Checkpoint {
	return &Checkpoint{
		Store: [16]byte{9, 8}, Run: 5, From: 70, FromPosition: 4096 * 11, Flushed: 81,
		Logs: []CheckpointLog{
			{LogID: [16]byte{1}, Gen: 2, Segment: 3, Position: 4, Offset: 5, Durable: 6, Limit: 7, Unproven: true, EpochsBelow: 77},
			{LogID: [16]byte{2}, Limit: 1 << 62},
		},
	}
}

func TestStoredFilesSurviveARoundTrip(t *testing.T) {
	if got, err := DecodeManifest(manifestOf().Encode()); err != nil || !reflect.DeepEqual(got, manifestOf()) {
		t.Errorf("manifest: %+v, %v", got, err)
	}
	if got, err := DecodeCheckpoint(checkpointOf().Encode()); err != nil || !reflect.DeepEqual(got, checkpointOf()) {
		t.Errorf("checkpoint: %+v, %v", got, err)
	}
	snapshot := &Snapshot{Offset: 9, State: []byte("producers")}
	if got, err := DecodeSnapshot(snapshot.Encode()); err != nil || !reflect.DeepEqual(got, snapshot) {
		t.Errorf("snapshot: %+v, %v", got, err)
	}
	for _, file := range [][]byte{manifestOf().Encode(), checkpointOf().Encode(), snapshot.Encode()} {
		if len(file)%storedBlockBytes != 0 {
			t.Errorf("a file of %d bytes is no whole blocks", len(file))
		}
	}
}

// Reliability scenario 10: every flipped bit and every torn end is noticed.
func TestEveryFlippedBitIsNoticed(t *testing.T) {
	x, _ := build(newRand(), 0, 20, 100)
	index, timeIndex := x.Encode()
	decoders := map[string]struct {
		file   []byte
		decode func([]byte) error
	}{
		"manifest":   {manifestOf().Encode(), func(b []byte) error { _, err := DecodeManifest(b); return err }},
		"checkpoint": {checkpointOf().Encode(), func(b []byte) error { _, err := DecodeCheckpoint(b); return err }},
		"snapshot":   {(&Snapshot{Offset: 3, State: []byte("abc")}).Encode(), func(b []byte) error { _, err := DecodeSnapshot(b); return err }},
		"index":      {index, func(b []byte) error { _, err := DecodeIndex(0, b, timeIndex); return err }},
		"time index": {timeIndex, func(b []byte) error { _, err := DecodeIndex(0, index, b); return err }},
	}
	for name, d := range decoders {
		length := storedHeaderBytes + int(d.file[8]) + int(d.file[9])<<8
		for i := range length {
			for bit := range 8 {
				bad := append([]byte(nil), d.file...)
				bad[i] ^= 1 << bit
				if err := d.decode(bad); !errors.Is(err, ErrCorrupt) {
					t.Fatalf("%s: bit %d of byte %d: %v", name, bit, i, err)
				}
			}
		}
		for n := range length {
			if err := d.decode(d.file[:n]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s of %d bytes: %v", name, n, err)
			}
		}
	}
}

func TestNewerVersionIsRefusedWithASentence(t *testing.T) {
	file := AppendStored(nil, KindManifest, manifestVersion+1, []byte("whatever comes"))
	_, err := DecodeManifest(file)
	if !errors.Is(err, ErrNewerFormat) || !strings.Contains(err.Error(), "log.meta has format 3, this program reads up to 2") {
		t.Fatal(err)
	}
}

// A checksum that holds does not make nonsense true.
func TestNonsenseIsRefused(t *testing.T) {
	for name, harm := range map[string]func(m *Manifest){
		"no segment":        func(m *Manifest) { m.Segments = nil },
		"unknown state":     func(m *Manifest) { m.State = 9 },
		"overlap":           func(m *Manifest) { m.Segments[1].BaseOffset = 49 },
		"sealed after open": func(m *Manifest) { m.Segments[0].Sealed, m.Segments[1].Sealed = false, true },
		"negative bytes":    func(m *Manifest) { m.Segments[0].Bytes = -1 },
		"negative start":    func(m *Manifest) { m.Start = -1 },
		"epochs fall":       func(m *Manifest) { m.Epochs[1].Epoch = 0 },
	} {
		m := manifestOf()
		harm(m)
		if _, err := DecodeManifest(m.Encode()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, harm := range map[string]func(p *Checkpoint){
		"durable below offset": func(p *Checkpoint) { p.Logs[0].Durable = 1 },
		"negative position":    func(p *Checkpoint) { p.FromPosition = -1 },
	} {
		p := checkpointOf()
		harm(p)
		if _, err := DecodeCheckpoint(p.Encode()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	flags := checkpointOf().Encode()[storedHeaderBytes:][:checkpointHeadBytes+4+2*checkpointLogBytes]
	flags[len(flags)-1-8] |= 2
	if _, err := DecodeCheckpoint(AppendStored(nil, KindCheckpoint, checkpointVersion, flags)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a flag that nobody knows: %v", err)
	}
}

// A manifest from before compaction: no segment was written anew.
func TestManifestOfVersion1IsRead(t *testing.T) {
	body := append(make([]byte, 0, 256), make([]byte, 16)...)
	body[0] = 9
	body = appendInt64(body, 7)       // generation
	body = appendInt64(body, 12)      // start
	body = append(body, byte(Normal)) // state
	body = appendInt64(body, 0)       // cut
	body = append(body, 1, 0, 'x')    // label
	body = appendCount(body, 1)       // segments
	body = appendInt64(body, 10)      // base offset
	body = append(body, 0)            // not sealed
	for field := range int64(6) {
		body = appendInt64(body, 20+field)
	}
	body = appendCount(body, 0) // epochs
	want := &Manifest{
		LogID: [16]byte{9}, Gen: 7, Start: 12, Label: "x", Epochs: []Epoch{},
		Segments: []Summary{{BaseOffset: 10, Bytes: 20, NextOffset: 21, MaxTimestamp: 22, MaxTimestampOffset: 23, CreatedMillis: 24, AppendedMillis: 25}},
	}
	got, err := DecodeManifest(AppendStored(nil, KindManifest, 1, body))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	if again, err := DecodeManifest(got.Encode()); err != nil || !reflect.DeepEqual(again, want) {
		t.Fatalf("written again: %+v, %v", again, err)
	}
}

// A name says by which pass of compaction the file was made.
func TestNamesOfPasses(t *testing.T) {
	for name, want := range map[string]struct {
		offset int64
		pass   uint32
		suffix string
	}{
		"00000000000000052310.log":              {52310, 0, LogSuffix},
		"00000000000000052310.12.log":           {52310, 12, LogSuffix},
		"00000000000000000000.1.timeindex":      {0, 1, TimeIndexSuffix},
		"00000000000000071044.snapshot":         {71044, 0, SnapshotSuffix},
		"00000000000000052310.4294967295.index": {52310, 1<<32 - 1, IndexSuffix},
	} {
		offset, pass, suffix, ok := ParsePassName(name)
		if offset != want.offset || pass != want.pass || suffix != want.suffix || !ok {
			t.Errorf("%s: %d, %d, %q, %v", name, offset, pass, suffix, ok)
		}
		if again := PassName(offset, pass, suffix); again != name {
			t.Errorf("%s becomes %s", name, again)
		}
	}
	for _, bad := range []string{
		"00000000000000052310.0.log", "00000000000000052310.01.log", "00000000000000052310.-1.log", "00000000000000052310.x.log",
		"00000000000000052310.4294967296.log", "00000000000000052310..log", "0000000000000005231.1.log", "log.meta",
	} {
		if _, _, _, ok := ParsePassName(bad); ok {
			t.Errorf("%s is taken for a segment's file", bad)
		}
	}
}

// A checkpoint from before the journal says the same of the logs, and of the
// journal nothing.
func TestCheckpointOfVersion1IsRead(t *testing.T) {
	body := []byte{1, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	for field := range int64(6) {
		body = appendInt64(body, 2+field)
	}
	want := &Checkpoint{Logs: []CheckpointLog{{LogID: [16]byte{42}, Gen: 2, Segment: 3, Position: 4, Offset: 5, Durable: 6, Limit: 7}}}
	got, err := DecodeCheckpoint(AppendStored(nil, KindCheckpoint, 1, body))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	if again, err := DecodeCheckpoint(got.Encode()); err != nil || !reflect.DeepEqual(again, want) {
		t.Fatalf("written again: %+v, %v", again, err)
	}
	for _, n := range []int{len(body) - 1, len(body) + 1} {
		if _, err := DecodeCheckpoint(AppendStored(nil, KindCheckpoint, 1, append(body, 0)[:n])); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a body of %d bytes: %v", n, err)
		}
	}
}

func TestNames(t *testing.T) {
	name := FileName(52310, LogSuffix)
	if name != "00000000000000052310.log" {
		t.Fatal(name)
	}
	if offset, suffix, ok := ParseName(name); offset != 52310 || suffix != LogSuffix || !ok {
		t.Fatal(offset, suffix, ok)
	}
	for _, bad := range []string{"", "log.meta", "1.log", "0000000000000005231x.log", "-0000000000000052310.log", "+0000000000000052310.log", "99999999999999999999.log"} {
		if _, _, ok := ParseName(bad); ok {
			t.Errorf("%q is taken for a name", bad)
		}
	}
	if !IsPrepared(PreparedName(3)) || IsPrepared("coming-x.prepared") || IsPrepared("coming-3.log") {
		t.Error("prepared names")
	}
	for shard, name := range map[int]string{0: "shard-0.journal", 17: "shard-17.journal"} {
		if got, kind, ok := ParseShardName(JournalName(shard)); got != shard || kind != JournalKind || !ok || JournalName(shard) != name {
			t.Errorf("%s: %d, %s, %v", JournalName(shard), got, kind, ok)
		}
		if got, kind, ok := ParseShardName(CheckpointName(shard)); got != shard || kind != CheckpointKind || !ok {
			t.Errorf("%s: %d, %s, %v", CheckpointName(shard), got, kind, ok)
		}
	}
	for _, bad := range []string{"", "shard-", "shard-1", "shard-1.", "shard-1.log", "shard-01.journal", "shard-+1.journal", "shard--1.journal",
		"shard-1.journal.new", "shard-.journal", "shard-99999999999999999999.journal", "xshard-1.journal"} {
		if _, _, ok := ParseShardName(bad); ok {
			t.Errorf("%q is taken for a shard's file", bad)
		}
	}
}

func FuzzDecode(f *testing.F) {
	x, _ := build(newRand(), 0, 20, 100)
	index, timeIndex := x.Encode()
	for _, seed := range [][]byte{manifestOf().Encode(), checkpointOf().Encode(), index, timeIndex, nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if m, err := DecodeManifest(file); err == nil {
			if again, err := DecodeManifest(m.Encode()); err != nil || !reflect.DeepEqual(again, m) {
				t.Fatalf("manifest %+v becomes %+v, %v", m, again, err)
			}
		}
		if p, err := DecodeCheckpoint(file); err == nil {
			if again, err := DecodeCheckpoint(p.Encode()); err != nil || !reflect.DeepEqual(again, p) {
				t.Fatalf("checkpoint %+v becomes %+v, %v", p, again, err)
			}
		}
		_, _ = DecodeSnapshot(file)
		_, _ = DecodeIndex(0, file, timeIndex)
		_, _ = DecodeIndex(0, index, file)
	})
}
