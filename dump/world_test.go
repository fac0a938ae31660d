package dump

import (
	"math"
	"path"
	"testing"
	"testing/fstest"

	"ringlog/engine/journal"
	"ringlog/engine/segment"
	"ringlog/meta"
	"ringlog/record"
	"ringlog/replica"
)

// world is the engine's directory of a broker that was killed, in memory:
//
//	log orders-0, generation 1, leader epoch 3 from offset 0, 5 from offset 20
//	  00000000000000000000.log  sealed: batches of 5 offsets, 0 to 39, with indexes
//	  00000000000000000040.log  active: 40 to 54, of which an index covers 40 to 49, then prepared space
//	  00000000000000000040.snapshot
//	shard-0.checkpoint          knows 40 to 49 to be durable; the journal begins at frame 7
//	shard-0.journal             frame 7: 50 to 54, written back already · frame 8: 55 to 59, flushed
//	                            frame 9: 60 to 64, the last, of which nobody knows whether it was flushed
type world struct {
	t     *testing.T
	files fstest.MapFS

	starts   map[int64]int64 // position of the batch of an offset, in its segment
	sizes    map[int64]int64 // its bytes
	frames   map[uint64]int64
	sealed   int64 // bytes of the sealed segment
	manifest segment.Manifest
	check    segment.Checkpoint
}

var (
	worldLog   = meta.LogID{0x0f, 0x3c, 15: 1}
	worldStore = [16]byte{0xa5, 15: 0x5a}
)

const (
	worldTime     = int64(1_700_000_000_000)
	worldBatch    = 5 // offsets
	worldSealed   = 40
	worldActive   = 55 // end of what the active segment has
	worldEnd      = 65
	worldRing     = 64 << 10
	worldPrepared = 64 << 10
)

func newWorld(t *testing.T) *world {
	w := &world{t: t, files: fstest.MapFS{}, starts: map[int64]int64{}, sizes: map[int64]int64{}, frames: map[uint64]int64{}}
	sealed, index := w.segment(0, worldSealed)
	active, _ := w.segment(worldSealed, worldActive)
	w.sealed = int64(len(sealed))
	w.put(w.log(0, segment.LogSuffix), sealed)
	w.put(w.log(worldSealed, segment.LogSuffix), append(active, make([]byte, worldPrepared-len(active))...))
	w.putIndex(index)
	_, saved := w.segment(worldSealed, 50)
	w.putIndex(saved)
	w.put(w.log(worldSealed, segment.SnapshotSuffix), (&segment.Snapshot{Offset: worldSealed, State: replica.New(replica.Options{}).AppendSnapshot(nil)}).Encode())
	w.manifest = segment.Manifest{LogID: worldLog, Gen: 1, Label: "orders-0",
		Segments: []segment.Summary{
			{BaseOffset: 0, Sealed: true, Bytes: w.sealed, NextOffset: worldSealed, MaxTimestamp: index.MaxTimestamp, MaxTimestampOffset: index.MaxTimestampOffset},
			{BaseOffset: worldSealed, MaxTimestamp: -1, MaxTimestampOffset: -1}},
		Epochs: []segment.Epoch{{Epoch: 3}, {Epoch: 5, Start: 20}}}
	w.putManifest()
	w.check = segment.Checkpoint{Store: worldStore, Run: 2, From: 7, Flushed: 6, Logs: []segment.CheckpointLog{{
		LogID: worldLog, Gen: 1, Segment: worldSealed, Position: saved.Position, Offset: 50, Durable: 50, Limit: worldPrepared, EpochsBelow: 50}}}
	w.put(segment.CheckpointName(0), w.check.Encode())
	w.putJournal()
	return w
}

// log is the path of one of the log's files.
func (w *world) log(base int64, suffix string) string {
	return path.Join(worldLog.String(), segment.FileName(base, suffix))
}

func (w *world) put(name string, content []byte) {
	w.files[name] = &fstest.MapFile{Data: content, Mode: 0o600}
}

func (w *world) putManifest() {
	w.put(path.Join(worldLog.String(), segment.ManifestName), w.manifest.Encode())
}

func (w *world) putIndex(x *segment.Index) {
	offsets, times := x.Encode()
	w.put(w.log(x.BaseOffset, segment.IndexSuffix), offsets)
	w.put(w.log(x.BaseOffset, segment.TimeIndexSuffix), times)
}

// batch is the one that begins at an offset.
func (w *world) batch(base int64) record.Batch {
	epoch := int32(3)
	if base >= 20 {
		epoch = 5
	}
	var b record.Builder
	b.Reset(record.BuilderOptions{BaseOffset: base, LeaderEpoch: epoch})
	for i := range int64(worldBatch) {
		b.Append(worldTime+base+i, []byte("key"), []byte("a value of some length"))
	}
	batch, err := b.Build()
	if err != nil {
		w.t.Fatal(err)
	}
	w.sizes[base] = int64(len(batch))
	return append(record.Batch(nil), batch...)
}

// segment is the batches from base to end, and their index, which has an entry for every second.
func (w *world) segment(base, end int64) ([]byte, *segment.Index) {
	var data []byte
	x := &segment.Index{}
	x.Reset(base)
	for at := base; at < end; at += worldBatch {
		w.starts[at] = int64(len(data))
		batch := w.batch(at)
		x.Add(at, at+worldBatch, batch.MaxTimestamp(), len(batch), 300)
		data = append(data, batch...)
	}
	return data, x
}

// putJournal writes the ring with its three frames.
func (w *world) putJournal() {
	content := append((&segment.Ring{Store: worldStore, Bytes: worldRing}).Encode(), make([]byte, worldRing)...)
	at := segment.RingHeadBytes
	for sequence := uint64(7); sequence <= 9; sequence++ {
		base := 50 + int64(sequence-7)*worldBatch
		var b journal.Builder
		b.Begin(content[at : at+2*journal.BlockBytes])
		b.Entry(journal.Entry{LogID: worldLog, Gen: 1, PreviousEnd: base, FirstOffset: base, LastOffset: base + worldBatch - 1, Epoch: 5,
			Durable: base - 5*min(int64(sequence-7), 1), HighWatermark: 50})
		b.Append(w.batch(base))
		w.frames[sequence] = int64(at)
		at += len(b.Finish(journal.Header{Store: worldStore, Run: 2, Sequence: sequence, Flushed: sequence - 1, From: 7}))
	}
	w.put(segment.JournalName(0), content)
}

// flip changes one bit.
func (w *world) flip(name string, position int64) {
	w.files[name].Data[position] ^= 0x10
}

// verify checks the world.
func (w *world) verify(options Options) *Report {
	w.t.Helper()
	report, err := Verify(w.t.Context(), w.store(), options)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func (w *world) store() *Store {
	w.t.Helper()
	s, err := Open(w.files)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// offsets returns the base offsets of the batches that the log has, and how many of them lie in
// the journal alone.
func (w *world) offsets(from, to int64) (bases []int64, inJournal int) {
	w.t.Helper()
	s := w.store()
	journals, err := s.ReadJournals()
	if err != nil {
		w.t.Fatal(err)
	}
	log, err := s.Log(worldLog)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := log.Batches(journals, from, to, func(at Located) bool {
		bases = append(bases, at.Batch.BaseOffset())
		if at.Journal {
			inJournal++
		}
		return true
	}); err != nil {
		w.t.Fatal(err)
	}
	return bases, inJournal
}

const forever = int64(math.MaxInt64)
