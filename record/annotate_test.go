package record

import (
	"strings"
	"testing"
)

// annotatedBatch has everything that a record can have.
func annotatedBatch(codec Codec) Batch {
	var b Builder
	b.Reset(BuilderOptions{Codec: codec})
	b.Append(1_700_000_000_000, []byte("key"), []byte("value"), Header{Key: []byte("h"), Value: []byte("1")}, Header{Key: []byte("null")})
	b.Append(1_700_000_000_123, nil, nil)
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	batch.SetBaseOffset(40)
	return batch
}

// TestAnnotationsCoverTheBatch: each byte belongs to exactly one field.
func TestAnnotationsCoverTheBatch(t *testing.T) {
	for _, codec := range []Codec{CodecNone, CodecZstd} {
		batch := annotatedBatch(codec)
		fields, err := Annotate(batch)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, f := range fields {
			if f.At != at || f.Bytes == 0 {
				t.Errorf("%s: %+v does not follow byte %d", codec, f, at)
			}
			at += f.Bytes
		}
		if at != len(batch) {
			t.Errorf("%s: %d of %d bytes are named", codec, at, len(batch))
		}
	}
}

// TestAnnotationsAreWhatTheReaderReads names the fields that the reader returns.
func TestAnnotationsAreWhatTheReaderReads(t *testing.T) {
	fields, err := Annotate(annotatedBatch(CodecNone))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, f := range fields {
		values[f.Name] = f.Value
	}
	for name, wanted := range map[string]string{
		"base offset": "40", "CRC-32C": "holds", "attributes": "none", "record count": "2",
		"record 0: key": `"key"`, "record 0: value": `"value"`, "record 0: headers": "2", "record 0: header value": `"1"`,
		"record 1: offset delta": "1: 41", "record 1: key length": "-1, null", "record 1: timestamp delta": "123: 1700000000123 (2023-11-14T22:13:20.123Z)",
	} {
		if values[name] != wanted {
			t.Errorf("%s is %q, want %q", name, values[name], wanted)
		}
	}
}

func TestADamagedRecordEndsTheAnnotations(t *testing.T) {
	batch := annotatedBatch(CodecNone)
	batch[HeaderBytes] = 0x7e // a length of 63
	fields, err := Annotate(batch)
	if err == nil || !strings.Contains(err.Error(), "record 0") {
		t.Errorf("got %v", err)
	}
	if len(fields) != 13 {
		t.Errorf("%d fields", len(fields))
	}
	if value := fields[4].Value; !strings.HasPrefix(value, "is ") {
		t.Errorf("the checksum %s", value)
	}
}
