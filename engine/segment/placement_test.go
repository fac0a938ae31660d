package segment

import (
	"errors"
	"reflect"
	"testing"
)

// The table comes back as it was written; one that is damaged anywhere, or that
// names a shard that there is not, is refused.
func TestPlacement(t *testing.T) {
	p := &Placement{Shards: 3, Logs: []Placed{{LogID: [16]byte{1}, Shard: 2}, {LogID: [16]byte{2}}}}
	file := p.Encode()
	got, err := DecodePlacement(file)
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Fatalf("%+v, %v", got, err)
	}
	for at := range storedHeaderBytes + 2 + 4 + len(p.Logs)*placedBytes {
		file[at] ^= 0x10
		if _, err := DecodePlacement(file); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerFormat) {
			t.Errorf("byte %d is flipped: %v", at, err)
		}
		file[at] ^= 0x10
	}
	outside := &Placement{Shards: 2, Logs: p.Logs}
	if _, err := DecodePlacement(outside.Encode()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a log on a shard that there is not: %v", err)
	}
}
