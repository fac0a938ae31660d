package record

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// validateGenerally is Validate without scan: each record by the general path.
func validateGenerally(b []byte, rules *Rules) (Result, error) {
	var v Validator
	if err := v.Start(b, rules); err != nil {
		return Result{}, err
	}
	v.deltaFirst, v.deltaLast = 1, 0 // no record is common
	if _, err := v.Resume(math.MaxInt64); err != nil {
		return Result{}, err
	}
	return v.result, nil
}

// agree fails the test unless both ways come to the same result or to the same error.
func agree(t *testing.T, b []byte, rules *Rules) (accepted bool) {
	t.Helper()
	var v Validator
	got, err := v.Validate(b, rules)
	want, wantErr := validateGenerally(b, rules)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("with scan %v, without %v", err, wantErr)
	}
	got.Batch, want.Batch = nil, nil
	if diff := cmp.Diff(got, want); diff != "" {
		t.Fatalf("with scan and without:\n%s", diff)
	}
	return err == nil
}

// randomRecords appends records with fields of all lengths to b, some of them without
// a key or with headers.
func randomRecords(b *Builder, r *rand.Rand, base int64) {
	field := func(most int) []byte {
		switch r.IntN(8) {
		case 0:
			return nil
		case 1:
			return []byte{}
		case 2:
			return bytes.Repeat([]byte("x"), r.IntN(2000))
		}
		return filler[:r.IntN(most)]
	}
	for range 1 + r.IntN(200) {
		var headers []Header
		for range max(0, r.IntN(6)-2) {
			headers = append(headers, Header{Key: filler[:r.IntN(150)], Value: field(300)})
		}
		b.Append(base+r.Int64N(1<<r.IntN(40)), field(100), field(300), headers...)
	}
}

// What scan takes is what the general path takes, and what it leaves is refused with
// the same words: for batches of every shape, with every kind of damage, under every rule.
func TestScanAgreesWithTheGeneralPath(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	accepted, refused, rounds := 0, 0, 150
	if raceDetector {
		rounds = 30
	}
	for round := range rounds {
		base := []int64{noon, 0, -1, math.MaxInt64 - 1<<40, math.MinInt64, -noon}[random.IntN(6)]
		var builder Builder
		builder.Reset(BuilderOptions{})
		randomRecords(&builder, random, base)
		good := finish(t, &builder)
		rules := Rules{NowMillis: noon, TimestampBeforeMaxMillis: math.MaxInt64, TimestampAfterMaxMillis: math.MaxInt64}
		rules.LogAppendTime = random.IntN(4) == 0
		rules.KeysRequired = random.IntN(4) == 0
		if random.IntN(2) == 0 {
			rules.TimestampBeforeMaxMillis, rules.TimestampAfterMaxMillis = random.Int64N(1<<35), random.Int64N(1<<35)
		}
		for variant := range 12 {
			b := bytes.Clone(good)
			payload := Batch(b).Payload()
			for range min(variant, 3) {
				at := random.IntN(len(payload))
				if random.IntN(2) == 0 {
					at = random.IntN(min(40, len(payload))) // the head of the first record
				}
				switch random.IntN(3) {
				case 0:
					payload[at] = byte(random.Uint32())
				case 1:
					payload[at] ^= 0x80
				case 2:
					payload[at] ^= 1
				}
			}
			if variant == 11 {
				put64(baseTimestampAt, int64(random.Uint64()))(b)
			}
			Batch(b).UpdateCRC()
			if codec := allCodecs[round%len(allCodecs)]; codec != CodecNone && variant%3 == 0 {
				compressed, err := Compress(nil, codec, payload)
				if err != nil {
					t.Fatal(err)
				}
				base := Batch(b).BaseTimestamp()
				b = wrap(codec, Batch(b).RecordCount(), compressed)
				b = changed(b, put64(baseTimestampAt, base))
			}
			if agree(t, b, &rules) {
				accepted++
			} else {
				refused++
			}
		}
	}
	if accepted < rounds || refused < rounds {
		t.Errorf("%d accepted, %d refused: the test shows little", accepted, refused)
	}
}

// One bad record among common ones: what it is refused for is not lost on the short way.
func TestScanLeavesWhatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		body []byte
		good bool
	}{
		"a sound record":               {[]byte{0, 0, 2, 1, 2, 'v', 0}, true},
		"a header":                     {[]byte{0, 0, 2, 1, 2, 'v', 2, 2, 'k', 1}, true},
		"a header with a null key":     {[]byte{0, 0, 2, 1, 2, 'v', 2, 1, 2, 'h'}, false},
		"a negative number of headers": {[]byte{0, 0, 2, 1, 2, 'v', 1}, false},
		"more headers than there are":  {[]byte{0, 0, 2, 1, 2, 'v', 4, 2, 'k', 1}, false},
		"an offset delta of its own":   {[]byte{0, 0, 4, 1, 2, 'v', 0}, false},
		"a negative offset delta":      {[]byte{0, 0, 1, 1, 2, 'v', 0}, false},
		"a value past its end":         {[]byte{0, 0, 2, 1, 4, 'v', 0}, false},
		"a key past its end":           {[]byte{0, 0, 2, 40, 2, 'v', 0}, false},
		"a byte too many":              {[]byte{0, 0, 2, 1, 2, 'v', 0, 0}, false},
		"no headers, not even none":    {[]byte{0, 0, 2, 1, 2, 'v'}, false},
		"a timestamp without an end":   {[]byte{0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2, 1, 2, 'v', 0}, false},
		"a timestamp of an hour more":  {appendVarlong([]byte{0}, 3_600_001), false},
	} {
		if name == "a timestamp of an hour more" {
			c.body = append(c.body, 2, 1, 2, 'v', 0)
		}
		var payload []byte
		for index := range int32(40) {
			body := append(appendVarint([]byte{0, 0}, index), 1, 2, 'v', 0)
			if index == 1 {
				body = c.body
			}
			payload = append(appendVarint(payload, int32(len(body))), body...)
		}
		rules := DefaultRules(noon)
		if accepted := agree(t, wrap(CodecNone, 40, payload), &rules); accepted != c.good {
			t.Errorf("%s: accepted is %t", name, accepted)
		}
	}
}

// Of records with the same timestamp the first one carries the largest.
func TestScanNamesTheFirstOfEqualTimestamps(t *testing.T) {
	var v Validator
	rules := DefaultRules(noon)
	got, err := v.Validate(shaped(t, CodecNone, shapes[0].add), &rules)
	if err != nil || got.MaxTimestamp != noon || got.MaxTimestampDelta != 0 {
		t.Errorf("timestamp %d at offset delta %d, %v", got.MaxTimestamp, got.MaxTimestampDelta, err)
	}
}

// Common batches do take the short way, each record of them but the last few bytes.
func TestScanTakesCommonBatches(t *testing.T) {
	for _, shape := range shapes {
		var v Validator
		rules := DefaultRules(noon + 100_000)
		batch := shaped(t, CodecNone, shape.add)
		if err := v.Start(batch, &rules); err != nil {
			t.Fatal(err)
		}
		passed := v.scan(v.stream.window)
		if left := int(batch.RecordCount()) - v.index; left > 3 || passed == 0 {
			t.Errorf("%s: scan leaves %d records of %d", shape.name, left, batch.RecordCount())
		}
		v.Close()
	}
}

// The bounds of deltas are those of timestamps, also where their sums need more than 64 bits.
func TestDeltasWithin(t *testing.T) {
	edges := []int64{math.MinInt64, math.MinInt64 + 1, -5, -1, 0, 1, 5, math.MaxInt64 - 1, math.MaxInt64}
	for _, base := range edges {
		for _, first := range edges {
			for _, last := range edges {
				deltaFirst, deltaLast := deltasWithin(base, first, last)
				for _, delta := range edges {
					timestamp := base + delta
					overflows := (delta > 0) != (timestamp > base) && delta != 0
					within := !overflows && timestamp >= first && timestamp <= last
					if got := delta >= deltaFirst && delta <= deltaLast; got != within {
						t.Errorf("base %d, from %d to %d: delta %d is within: %t, want %t", base, first, last, delta, got, within)
					}
				}
			}
		}
	}
}
