package record

import (
	"errors"
	"testing"
)

// The words are for operators and for producers (KIP-467 sends them), so they
// are pinned.
func TestErrorsSayWhatIsWrongAndWhere(t *testing.T) {
	good := build(t, BuilderOptions{}, 3)
	compacted := DefaultRules(noon)
	compacted.KeysRequired = true
	var b Builder
	b.Reset(BuilderOptions{})
	b.Append(noon, nil, nil)
	b.Append(noon+3_600_001, []byte("k"), nil)
	two := finish(t, &b)
	b.Reset(BuilderOptions{})
	b.Append(noon, []byte("k"), nil)
	b.Append(noon, nil, nil)
	one := finish(t, &b)

	for want, err := range map[string]error{
		"record: wrong batch length at byte 8: length says 12 bytes in all, and a header alone takes 61":                               Check(changed(good, put32(lengthAt, 0))),
		"record: unsupported message format at byte 16: magic is 3, want 2":                                                            Check(changed(good, func(b Batch) { b[magicAt] = 3 })),
		"record: invalid record: more than one batch: 3 bytes follow the first batch":                                                  validate(append(changed(good, func(Batch) {}), 1, 2, 3)),
		"record: invalid record: wrong record count: the header counts 2 records and its last offset delta is 2":                       validate(changed(good, put32(recordCountAt, 2))),
		"record: invalid record: record 0: a varint is damaged or cut off":                                                             validate(wrap(CodecNone, 1, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0, 0})),
		"record: invalid record: no key: record 1: a compacted topic cannot take a record without a key":                               validateWith(one, &compacted),
		"record: timestamp out of bounds: 2 records, the first of them record 0: a compacted topic cannot take a record without a key": validateWith(two, &compacted),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if err := validate(wrap(CodecZstd, 1, []byte("damaged"))); !errors.Is(err, ErrInvalidRecord) || errors.Is(err, ErrCorrupt) {
		t.Errorf("damaged compression behind a good checksum: %v, and a retry cannot help", err)
	}
}
