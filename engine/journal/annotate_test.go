package journal

import (
	"errors"
	"testing"

	"ringlog/engine/segment"
)

// TestAnnotationsCoverTheFrame: each byte belongs to exactly one field, and they say what was written.
func TestAnnotationsCoverTheFrame(t *testing.T) {
	var b Builder
	h, entries := usual()
	data := build(&b, 3, h, entries)
	f, err := Parse(data, store)
	if err != nil {
		t.Fatal(err)
	}
	values, at := map[string]string{}, 0
	for _, field := range Annotate(&f, data) {
		if field.At != at || field.Bytes == 0 {
			t.Errorf("%+v does not follow byte %d", field, at)
		}
		at += field.Bytes
		values[field.Name] = field.Value
	}
	if at != f.Bytes() {
		t.Errorf("%d of %d bytes are named", at, f.Bytes())
	}
	for name, wanted := range map[string]string{
		"magic": `"RLjf"`, "sequence": "20", "from": "7", "entries": "3", "CRC-32C of the table": "holds",
		"entry 0: batches": "offsets 100 to 109, checksum holds", "entry 1: gap": "300", "entry 2: leader epoch": "4", "padding": "zeros",
	} {
		if values[name] != wanted {
			t.Errorf("%s is %q, want %q", name, values[name], wanted)
		}
	}
}

// TestADamagedTableIsNotRead: only what the header says is named then.
func TestADamagedTableIsNotRead(t *testing.T) {
	var b Builder
	h, entries := usual()
	data := build(&b, 3, h, entries)
	data[headerBytes+1100+900+61+3000] ^= 1
	f, err := Parse(data, store)
	var corrupt *segment.CorruptError
	if !errors.As(err, &corrupt) {
		t.Fatal(err)
	}
	for _, field := range Annotate(&f, data) {
		if field.Name == "CRC-32C of the table" && field.Value != "does not hold" {
			t.Errorf("%+v", field)
		}
		if field.Name == "entry 0: log id" {
			t.Error("a row of a damaged table was read")
		}
	}
}
