package compact

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlog/record"
)

// stored is a log as these tests keep it: batches in segments.
type stored struct {
	segments []Segment
	content  [][]record.Batch // of each segment
	cleaned  int64
	now      int64
}

// truth is a record as it was produced.
type truth struct {
	key, value []byte
	timestamp  int64
	headers    int
	removable  int64 // a tombstone may be gone from this moment on; 0: no pass has kept it yet
}

var codecs = []record.Codec{record.CodecNone, record.CodecGzip, record.CodecSnappy, record.CodecLZ4, record.CodecZstd}

// drawBatch makes a batch of a few records whose keys repeat.
func drawBatch(t *rapid.T, next, now int64, epoch int32, sequences map[int64]int32) record.Batch {
	var b record.Builder
	options := record.BuilderOptions{BaseOffset: next, LeaderEpoch: epoch, Codec: rapid.SampledFrom(codecs).Draw(t, "codec")}
	if id := rapid.Int64Range(-1, 2).Draw(t, "producer"); id >= 0 {
		options.Idempotent, options.ProducerID, options.BaseSequence = true, id, sequences[id]
	}
	if rapid.IntRange(0, 5).Draw(t, "stamped") == 0 {
		options.LogAppendTimeMillis = now
	}
	b.Reset(options)
	records := rapid.IntRange(1, 5).Draw(t, "records")
	for range records {
		var value []byte
		if rapid.IntRange(0, 3).Draw(t, "tombstone") > 0 {
			value = rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "value")
		}
		key := fmt.Appendf(nil, "key %d", rapid.IntRange(0, 7).Draw(t, "key"))
		b.Append(now-rapid.Int64Range(0, 50).Draw(t, "age"), key, value, record.Header{Key: []byte("h")}, record.Header{Key: []byte{}, Value: []byte{1}})
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if options.Idempotent {
		sequences[options.ProducerID] += int32(records)
	}
	return append(record.Batch(nil), batch...)
}

// pass compacts the log once, as the engine does, and returns whether there was something to do.
func (s *stored) pass(t *rapid.T, p Policy, keep int64, keyBytes int64, remembered []int64) bool {
	l := Log{NowMillis: s.now, Cleaned: s.cleaned, Segments: s.segments}
	d := l.Decide(p)
	if d.Reason == None {
		return false
	}
	rules := Rules{NowMillis: s.now, TombstoneMillis: keep, End: d.From, Remembered: remembered}
	if d.Reason != Expired {
		m := NewMapper(NewKeys(d.From, d.To-d.From, keyBytes), d.From)
		m.Keys.limit = min(m.Keys.limit, int(keyBytes))
		for i := range s.segments {
			for _, batch := range s.content[i] {
				if batch.LastOffset() < d.From || batch.BaseOffset() >= d.To {
					continue
				}
				if err := m.Add(batch); err != nil {
					t.Fatal(err)
				}
			}
		}
		if m.End() <= d.From {
			t.Fatalf("a pass from %d on gets nowhere", d.From)
		}
		rules.Keys, rules.End = m.Keys, m.End()
	}
	next := stored{now: s.now, cleaned: s.cleaned}
	chosen := l.Chosen(d, rules.End)
	for i := 0; i < len(s.segments); i++ {
		if !slices.Contains(chosen, i) {
			next.segments, next.content = append(next.segments, s.segments[i]), append(next.content, s.content[i])
			continue
		}
		i = s.copyGroup(t, l, p, d, i, chosen, rules, &next)
	}
	*s = next
	s.cleaned = max(s.cleaned, rules.End)
	return true
}

// copyGroup copies the segments from the first one on that become one, and returns the last of them.
func (s *stored) copyGroup(t *rapid.T, l Log, p Policy, d Decision, first int, chosen []int, rules Rules, to *stored) int {
	c := NewCopier(rules, s.segments[first].BaseOffset, record.DecompressedBytesMax)
	var out []byte
	i := first
	for ; i == first || slices.Contains(chosen, i) && l.Joins(p, d, first, int64(len(out)), i); i++ {
		for _, batch := range s.content[i] {
			before := slices.Clone(batch)
			if err := c.Add(batch); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(before, batch) {
				t.Fatal("what is read was changed")
			}
			out = append(out, c.Ready()...)
			c.Drained()
		}
	}
	c.Finish()
	out = append(out, c.Ready()...)
	last := s.segments[i-1]
	if c.Next() != last.NextOffset {
		t.Fatalf("the copy ends at %d, the segments at %d", c.Next(), last.NextOffset)
	}
	var content []record.Batch
	for len(out) > 0 {
		batch, rest, err := record.Next(out)
		if err != nil {
			t.Fatal(err)
		}
		content, out = append(content, batch), rest
	}
	merged := s.segments[first]
	merged.NextOffset, merged.AppendedMillis, merged.HorizonMillis = last.NextOffset, last.AppendedMillis, c.Horizon()
	merged.Bytes = 0
	for _, batch := range content {
		merged.Bytes += int64(len(batch))
	}
	to.segments, to.content = append(to.segments, merged), append(to.content, content)
	return i - 1
}

// check reads the log as a consumer does, from offset 0, and compares with what was produced.
func (s *stored) check(t *rapid.T, produced map[int64]*truth, end int64) {
	newest := map[string]int64{}
	for offset := range end {
		if r := produced[offset]; r != nil {
			newest[string(r.key)] = offset
		}
	}
	found, next := map[string]int64{}, s.segments[0].BaseOffset
	var reader record.Reader
	defer reader.Close()
	for i := range s.segments {
		for _, batch := range s.content[i] {
			if err := batch.Check(); err != nil || batch.BaseOffset() != next {
				t.Fatalf("a batch at %d where %d is next: %v", batch.BaseOffset(), next, err)
			}
			next = batch.LastOffset() + 1
			reader.Reset(batch)
			for reader.Next() {
				r := reader.Record()
				want := produced[r.Offset]
				if want == nil || !bytes.Equal(r.Key, want.key) || !bytes.Equal(r.Value, want.value) || (r.Value == nil) != (want.value == nil) ||
					r.Timestamp != want.timestamp || r.HeaderCount != want.headers {
					t.Fatalf("the record at %d is %+v, produced was %+v", r.Offset, r, want)
				}
				if before, twice := found[string(r.Key)]; twice && r.Offset < s.cleaned {
					t.Fatalf("%s is at %d and at %d, below %d", r.Key, before, r.Offset, s.cleaned)
				}
				found[string(r.Key)] = r.Offset
			}
			if err := reader.Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if next != end {
		t.Fatalf("a reader gets to %d of %d", next, end)
	}
	for key, offset := range newest {
		at, ok := found[key]
		r := produced[offset]
		gone := r.value == nil && r.removable != 0 && r.removable <= s.now
		if ok && at != offset || !ok && !gone {
			t.Fatalf("the newest record of %s is at %d; found is %d, %v (tombstone: %v, removable at %d, now %d)", key, offset, at, ok, r.value == nil, r.removable, s.now)
		}
	}
}

// noteTombstones notes from when on those may be gone that a pass has kept.
func (s *stored) noteTombstones(produced map[int64]*truth) {
	for i := range s.segments {
		for _, batch := range s.content[i] {
			if horizon, has := batch.DeleteHorizon(); has {
				for offset := batch.BaseOffset(); offset <= batch.LastOffset(); offset++ {
					if r := produced[offset]; r != nil && r.removable == 0 {
						r.removable = horizon
					}
				}
			}
		}
	}
}

// Whatever is produced, in whatever passes it is compacted: a reader from offset 0 rebuilds
// exactly the map; offsets, timestamps and headers stay; nothing is missing in between; and
// producers' last batches keep their sequence numbers.
func TestAReaderRebuildsTheMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &stored{now: 1_000_000}
		produced, sequences := map[int64]*truth{}, map[int64]int32{}
		last := map[int64][]record.Batch{} // of each producer, the last two
		next, epoch := int64(0), int32(0)
		keep := rapid.Int64Range(0, 400).Draw(t, "delete.retention.ms")
		keyBytes := rapid.Int64Range(1, 9).Draw(t, "keys")
		policy := Policy{DirtyRatioMin: rapid.Float64Range(0, 0.9).Draw(t, "ratio"), LagMaxMillis: 700, SegmentBytes: rapid.Int64Range(200, 3000).Draw(t, "segment.bytes")}
		for range rapid.IntRange(1, 12).Draw(t, "segments") {
			segment := Segment{BaseOffset: next, CreatedMillis: s.now, AppendedMillis: s.now}
			var content []record.Batch
			for range rapid.IntRange(1, 5).Draw(t, "batches") {
				epoch += rapid.Int32Range(0, 1).Draw(t, "epoch")
				batch := drawBatch(t, next, s.now, epoch, sequences)
				content = append(content, batch)
				segment.Bytes += int64(len(batch))
				noteProduced(t, batch, produced)
				if id := batch.ProducerID(); id >= 0 {
					last[id] = append(last[id][max(0, len(last[id])-1):], batch)
				}
				next = batch.LastOffset() + 1
			}
			segment.NextOffset = next
			s.segments, s.content = append(s.segments, segment), append(s.content, content)
			s.now += rapid.Int64Range(1, 300).Draw(t, "later")
			var remembered []int64
			for id := range int64(3) {
				for _, batch := range last[id] {
					remembered = append(remembered, batch.BaseOffset())
				}
			}
			slices.Sort(remembered)
			for n := 0; rapid.Bool().Draw(t, "compact") && s.pass(t, policy, keep, keyBytes, remembered); n++ {
				s.noteTombstones(produced)
				s.check(t, produced, next)
				s.checkProducers(t, last)
				if n > 200 {
					t.Fatal("compaction never ends")
				}
			}
		}
	})
}

func noteProduced(t *rapid.T, batch record.Batch, produced map[int64]*truth) {
	var reader record.Reader
	reader.Reset(batch)
	defer reader.Close()
	for reader.Next() {
		r := reader.Record()
		produced[r.Offset] = &truth{key: bytes.Clone(r.Key), value: bytes.Clone(r.Value), timestamp: r.Timestamp, headers: r.HeaderCount}
	}
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
}

// checkProducers looks for the last batches of each producer as a replay would.
func (s *stored) checkProducers(t *rapid.T, last map[int64][]record.Batch) {
	at := map[int64]record.Batch{}
	for _, content := range s.content {
		for _, batch := range content {
			at[batch.BaseOffset()] = batch
		}
	}
	for id, batches := range last {
		for _, want := range batches {
			got := at[want.BaseOffset()]
			if got == nil || got.ProducerID() != id || got.BaseSequence() != want.BaseSequence() || got.LastSequence() != want.LastSequence() || got.ProducerEpoch() != want.ProducerEpoch() {
				t.Fatalf("producer %d's batch of sequences %d to %d at %d is %v", id, want.BaseSequence(), want.LastSequence(), want.BaseOffset(), got)
			}
		}
	}
}
