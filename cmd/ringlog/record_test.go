package main

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// FuzzRecordAsJSON: what consume --json prints, produce --input json reads back
// as the same record, whatever its bytes; and no line makes it panic.
func FuzzRecordAsJSON(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), "name", []byte("header"), int64(1_700_000_000_123), uint8(0))
	f.Add([]byte{0xFF, 0x00}, []byte{}, "", []byte("\xED\xA0\x80"), int64(0), uint8(1))
	f.Add([]byte(`{"value":1}`), []byte(`{"key":"a","key_base64":"AA=="}`), "\u2028", []byte("<&>"), int64(-1), uint8(6))
	f.Fuzz(func(t *testing.T, key, value []byte, name string, header []byte, millis int64, nulls uint8) {
		_, _ = fromJSON(key, false)
		_, _ = fromJSON(value, true)

		// Header names are text in the protocol, and years beyond 9999 have no form in
		// RFC 3339.
		name = string([]rune(name))
		if millis < 0 || millis > math.MaxInt32*int64(1000) {
			millis = 0
		}
		sent := &kgo.Record{Key: key, Value: value, Headers: []kgo.RecordHeader{{Key: name, Value: header}}, Timestamp: time.UnixMilli(millis).UTC(), Partition: 3, Offset: 7}
		for i, field := range []*[]byte{&sent.Key, &sent.Value, &sent.Headers[0].Value} {
			if nulls>>i&1 == 1 {
				*field = nil
			}
		}
		line, err := json.Marshal(toJSON(sent))
		if err != nil {
			t.Fatal(err)
		}
		got, err := fromJSON(line, true)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		want := &kgo.Record{Key: sent.Key, Value: sent.Value, Headers: sent.Headers, Timestamp: sent.Timestamp, Partition: 3}
		for _, field := range []struct {
			name      string
			got, want any
		}{
			{"key", got.Key, want.Key},
			{"value", got.Value, want.Value},
			{"headers", got.Headers, want.Headers},
			{"timestamp", got.Timestamp.UnixMilli(), want.Timestamp.UnixMilli()},
			{"partition", got.Partition, want.Partition},
		} {
			if difference := cmp.Diff(field.want, field.got); difference != "" {
				t.Errorf("%s (-sent +read): %s\n%s", field.name, difference, line)
			}
		}
	})
}
