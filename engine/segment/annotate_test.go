package segment

import (
	"strings"
	"testing"

	"ringlog/internal/layout"
)

// storedExamples is a file of each kind.
func storedExamples() map[Kind][]byte {
	x := &Index{}
	x.Reset(100)
	for i := range int64(4) {
		x.Add(100+10*i, 110+10*i, 1_700_000_000_000+i, 5000, 4096)
	}
	index, timeIndex := x.Encode()
	id := [16]byte{0xab, 15: 1}
	return map[Kind][]byte{
		KindManifest: (&Manifest{LogID: id, Gen: 3, Start: 7, Label: "orders-3",
			Segments: []Summary{{BaseOffset: 0, Sealed: true, Bytes: 500, NextOffset: 10, MaxTimestamp: 1_700_000_000_000}, {BaseOffset: 10, MaxTimestamp: -1}},
			Epochs:   []Epoch{{Epoch: 2, Start: 0}}}).Encode(),
		KindCheckpoint: (&Checkpoint{Store: id, Run: 2, Logs: []CheckpointLog{{LogID: id, Limit: 4096, Unproven: true}}}).Encode(),
		KindIndex:      index,
		KindTimeIndex:  timeIndex,
		KindSnapshot:   (&Snapshot{Offset: 9, State: []byte("RLps")}).Encode(),
		KindRing:       (&Ring{Store: id, Bytes: 1 << 20}).Encode(),
		KindPlacement:  (&Placement{Shards: 2, Logs: []Placed{{LogID: id, Shard: 1}}}).Encode(),
	}
}

// TestAnnotationsCoverTheFile: of every kind each byte belongs to exactly one field.
func TestAnnotationsCoverTheFile(t *testing.T) {
	for wanted, file := range storedExamples() {
		kind, fields, err := Annotate(file)
		if err != nil || kind != wanted {
			t.Errorf("%s: %s, %v", wanted, kind, err)
			continue
		}
		at := 0
		for _, f := range fields {
			if f.At != at || f.Name == "" {
				t.Errorf("%s: %+v does not follow byte %d", kind, f, at)
			}
			at += f.Bytes
		}
		if at != len(file) {
			t.Errorf("%s: %d of %d bytes are named", kind, at, len(file))
		}
		if found, ok := KindOf(file); !ok || found != kind {
			t.Errorf("%s: taken for %s, %v", kind, found, ok)
		}
	}
}

func TestAnnotationsSayWhatIsThere(t *testing.T) {
	_, fields, err := Annotate(storedExamples()[KindManifest])
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"magic": `"RLlm", log.meta`, "CRC-32C": "holds", "log id": "ab000000000000000000000000000001", "label": `"orders-3"`, "segments": "2",
		"segment 0: largest timestamp": "1700000000000 (2023-11-14T22:13:20.000Z)", "segment 1: largest timestamp": "-1", "epoch 0: leader epoch": "2",
	} {
		if got := valueOf(fields, name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
}

func valueOf(fields []layout.Field, name string) string {
	for _, f := range fields {
		if f.Name == name {
			return f.Value
		}
	}
	return "(no such field)"
}

// TestADamagedFileIsAnnotatedAsFarAsItGoes: the envelope is shown, and the error says what is wrong.
func TestADamagedFileIsAnnotatedAsFarAsItGoes(t *testing.T) {
	file := storedExamples()[KindManifest]
	file[20] ^= 1
	_, fields, err := Annotate(file)
	if err == nil || !strings.Contains(err.Error(), "checksum") || len(fields) != 5 || fields[4].Value != "" {
		t.Errorf("%+v, %v", fields, err)
	}
	if _, _, err := Annotate(file[:8]); err == nil {
		t.Error("8 bytes are a file")
	}
	if _, ok := KindOf([]byte("RLjf0000")); ok {
		t.Error("a frame of the journal is a stored file")
	}
}
