package compact

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"ringlog/record"
)

// makeBatch builds a batch with a record for each key; "-key" is a tombstone, "" has no key.
func makeBatch(t *testing.T, options record.BuilderOptions, keys ...string) record.Batch {
	t.Helper()
	var b record.Builder
	b.Reset(options)
	for _, key := range keys {
		name, tombstone := strings.CutPrefix(key, "-")
		var k, v []byte
		if name != "" {
			k = []byte(name)
		}
		if !tombstone {
			v = []byte("value of " + name)
		}
		b.Append(1000, k, v)
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return append(record.Batch(nil), batch...)
}

// copyAll maps and copies batches, and returns what comes out as text.
func copyAll(t *testing.T, rules Rules, batches ...record.Batch) (string, *Copier) {
	t.Helper()
	last := batches[len(batches)-1].LastOffset() + 1
	m := NewMapper(NewKeys(batches[0].BaseOffset(), last, 1<<20), batches[0].BaseOffset())
	for _, batch := range batches {
		if err := m.Add(batch); err != nil {
			t.Fatal(err)
		}
	}
	if rules.End == 0 {
		rules.Keys, rules.End = m.Keys, m.End()
	}
	c := NewCopier(rules, batches[0].BaseOffset(), record.DecompressedBytesMax)
	for _, batch := range batches {
		if err := c.Add(batch); err != nil {
			t.Fatal(err)
		}
	}
	c.Finish()
	return describe(t, c.Ready()), c
}

// describe writes a line of each batch: offsets, producer, records.
func describe(t *testing.T, out []byte) string {
	t.Helper()
	var lines strings.Builder
	for len(out) > 0 {
		batch, rest, err := record.Next(out)
		if err == nil {
			err = batch.Check()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines.WriteString(describeBatch(t, batch))
		out = rest
	}
	return lines.String()
}

func describeBatch(t *testing.T, batch record.Batch) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "[%d, %d]", batch.BaseOffset(), batch.LastOffset())
	if batch.HasProducerID() {
		fmt.Fprintf(&b, " producer %d from %d", batch.ProducerID(), batch.BaseSequence())
	}
	if horizon, has := batch.DeleteHorizon(); has {
		fmt.Fprintf(&b, " horizon %d", horizon)
	}
	if batch.LeaderEpoch() != 0 {
		fmt.Fprintf(&b, " epoch %d", batch.LeaderEpoch())
	}
	b.WriteString(":")
	var reader record.Reader
	reader.Reset(batch)
	defer reader.Close()
	for reader.Next() {
		r := reader.Record()
		sign := ""
		if r.Value == nil {
			sign = "-"
		}
		fmt.Fprintf(&b, " %s%s@%d", sign, r.Key, r.Offset)
	}
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	b.WriteString("\n")
	return b.String()
}

func from(offset int64) record.BuilderOptions { return record.BuilderOptions{BaseOffset: offset} }

func fromProducer(offset int64, sequence int32) record.BuilderOptions {
	return record.BuilderOptions{BaseOffset: offset, Idempotent: true, ProducerID: 7, BaseSequence: sequence}
}

func inEpoch(offset int64, epoch int32) record.BuilderOptions {
	return record.BuilderOptions{BaseOffset: offset, LeaderEpoch: epoch}
}

func TestWhatIsLeftOfBatches(t *testing.T) {
	const now, day = 50_000, 86_400_000
	rules := Rules{NowMillis: now, TombstoneMillis: day}
	for name, test := range map[string]struct {
		rules   func(r *Rules)
		batches []record.Batch
		want    string
	}{
		"the newest record of each key": {
			batches: []record.Batch{makeBatch(t, from(0), "a", "b", "a", "c"), makeBatch(t, from(4), "b")},
			want:    "[0, 3]: a@2 c@3\n[4, 4]: b@4\n",
		},
		"a batch that lost all its records is covered by the one before it": {
			batches: []record.Batch{makeBatch(t, from(0), "a"), makeBatch(t, from(1), "b", "b"), makeBatch(t, from(3), "c"), makeBatch(t, from(4), "b")},
			want:    "[0, 2]: a@0\n[3, 3]: c@3\n[4, 4]: b@4\n",
		},
		"or stands for itself, when there is none before it": {
			batches: []record.Batch{makeBatch(t, from(0), "a"), makeBatch(t, from(1), "b"), makeBatch(t, from(2), "a", "b")},
			want:    "[0, 1]:\n[2, 3]: a@2 b@3\n",
		},
		"a batch whose producer counts is not extended": {
			rules:   func(r *Rules) { r.Remembered = []int64{0} },
			batches: []record.Batch{makeBatch(t, fromProducer(0, 5), "a"), makeBatch(t, from(1), "b"), makeBatch(t, from(2), "b")},
			want:    "[0, 0] producer 7 from 5: a@0\n[1, 1]:\n[2, 2]: b@2\n",
		},
		"one whose producer does not is, and forgets it": {
			batches: []record.Batch{makeBatch(t, fromProducer(0, 5), "a"), makeBatch(t, from(1), "b"), makeBatch(t, fromProducer(2, 6), "b")},
			want:    "[0, 1]: a@0\n[2, 2] producer 7 from 6: b@2\n",
		},
		"the last batch of a producer stays without its records": {
			rules:   func(r *Rules) { r.Remembered = []int64{1} },
			batches: []record.Batch{makeBatch(t, fromProducer(0, 5), "a"), makeBatch(t, fromProducer(1, 6), "b"), makeBatch(t, from(2), "a", "b")},
			want:    "[0, 0]:\n[1, 1] producer 7 from 6:\n[2, 3]: a@2 b@3\n",
		},
		"epochs begin where they began": {
			batches: []record.Batch{makeBatch(t, inEpoch(0, 1), "a"), makeBatch(t, inEpoch(1, 1), "a"), makeBatch(t, inEpoch(2, 2), "a"), makeBatch(t, inEpoch(3, 3), "a")},
			want:    "[0, 1] epoch 1:\n[2, 2] epoch 2:\n[3, 3] epoch 3: a@3\n",
		},
		"tombstones stay for a while, counted from now": {
			batches: []record.Batch{makeBatch(t, from(0), "a", "-b"), makeBatch(t, from(2), "-a")},
			want:    "[0, 1] horizon 86450000: -b@1\n[2, 2] horizon 86450000: -a@2\n",
		},
		"and are not counted from before the map covers their batch": {
			rules:   func(r *Rules) { r.End = 1 },
			batches: []record.Batch{makeBatch(t, from(0), "-a", "-b")},
			want:    "[0, 1]: -a@0 -b@1\n",
		},
		"until their time is up": {
			batches: []record.Batch{
				makeBatch(t, record.BuilderOptions{DeleteHorizonMillis: now}, "a", "-b"),
				makeBatch(t, record.BuilderOptions{BaseOffset: 2, DeleteHorizonMillis: now + 1}, "-c"),
			},
			want: "[0, 1]: a@0\n[2, 2] horizon 50001: -c@2\n",
		},
		"records without a key are older than the policy": {
			batches: []record.Batch{makeBatch(t, from(0), "", "a", ""), makeBatch(t, from(3), "")},
			want:    "[0, 3]: a@1\n",
		},
		"what the map does not cover stays": {
			rules:   func(r *Rules) { r.End = 1 },
			batches: []record.Batch{makeBatch(t, from(0), "a", "a"), makeBatch(t, from(2), "a", "")},
			want:    "[0, 1]: a@0 a@1\n[2, 3]: a@2 @3\n",
		},
		"control batches stay": {
			batches: []record.Batch{makeBatch(t, record.BuilderOptions{Control: true, Idempotent: true, ProducerID: 7, BaseSequence: -1}, "a"), makeBatch(t, from(1), "a")},
			want:    "[0, 0] producer 7 from -1: a@0\n[1, 1]: a@1\n",
		},
	} {
		r := rules
		if test.rules != nil {
			test.rules(&r)
		}
		if got, _ := copyAll(t, r, test.batches...); got != test.want {
			t.Errorf("%s:\n%swant\n%s", name, got, test.want)
		}
	}
}

// What has nothing to drop comes out byte for byte, and says so.
func TestNothingChangesWhereNothingIsToBeDone(t *testing.T) {
	a, b := makeBatch(t, from(0), "a", "b"), makeBatch(t, record.BuilderOptions{BaseOffset: 2, Codec: record.CodecZstd, Idempotent: true}, "c")
	_, c := copyAll(t, Rules{NowMillis: 1}, a, b)
	if c.Changed() || string(c.Ready()) != string(a)+string(b) {
		t.Errorf("changed: %v, %d bytes of %d", c.Changed(), len(c.Ready()), len(a)+len(b))
	}
}

// A batch of every codec keeps it, its timestamps and its headers.
func TestACompressedBatchKeepsItsCodec(t *testing.T) {
	for _, codec := range codecs {
		options := from(0)
		options.Codec, options.LogAppendTimeMillis = codec, 12345
		batch := makeBatch(t, options, "a", "a", "b")
		_, c := copyAll(t, Rules{NowMillis: 1}, batch)
		out := record.Batch(c.Ready())
		if out.Codec() != codec || !out.LogAppendTime() || out.MaxTimestamp() != 12345 || out.RecordCount() != 2 {
			t.Errorf("%v: %v, %d records at %d", codec, out.Codec(), out.RecordCount(), out.MaxTimestamp())
		}
	}
}

func TestABatchThatDoesNotFollowIsRefused(t *testing.T) {
	c := NewCopier(Rules{}, 5, 0)
	if err := c.Add(makeBatch(t, from(6), "a")); err == nil {
		t.Error("a hole is copied")
	}
}

// The speed of both halves of a pass, without I/O, in bytes of records before they are compressed.
func BenchmarkCompaction(b *testing.B) {
	for _, codec := range []record.Codec{record.CodecNone, record.CodecLZ4, record.CodecZstd} {
		var batches []record.Batch
		size, next := 0, int64(0)
		var builder record.Builder
		for len(batches) < 256 {
			builder.Reset(record.BuilderOptions{BaseOffset: next, Codec: codec})
			for i := range int64(64) {
				builder.Append(1000, fmt.Appendf(nil, "key %d", (next+i)*7919%4096), bytes.Repeat([]byte("value "), 40))
			}
			batch, err := builder.Build()
			if err != nil {
				b.Fatal(err)
			}
			batches = append(batches, append(record.Batch(nil), batch...))
			size, next = size+builder.PlainBytes(), next+64
		}
		b.Run("codec="+codec.String(), func(b *testing.B) {
			b.SetBytes(int64(size))
			for range b.N {
				m := NewMapper(NewKeys(0, next, 1<<24), 0)
				for _, batch := range batches {
					if err := m.Add(batch); err != nil {
						b.Fatal(err)
					}
				}
				c := NewCopier(Rules{Keys: m.Keys, End: m.End(), NowMillis: 1}, 0, record.DecompressedBytesMax)
				for _, batch := range batches {
					if err := c.Add(batch); err != nil {
						b.Fatal(err)
					}
					c.Drained()
				}
			}
		})
	}
}
