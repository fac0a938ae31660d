package dump

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"ringlog/engine/segment"
	"ringlog/meta"
)

// TestALogGoesOnInTheJournal: what segments lack is shown from the journal, and nothing twice.
func TestALogGoesOnInTheJournal(t *testing.T) {
	w := newWorld(t)
	bases, inJournal := w.offsets(0, forever)
	if wanted := []int64{0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60}; !slices.Equal(bases, wanted) || inJournal != 2 {
		t.Errorf("batches %v, %d of them in the journal", bases, inJournal)
	}
	// A range takes the batches that have some of its offsets.
	for _, span := range []struct {
		from, to int64
		wanted   []int64
	}{{12, 21, []int64{10, 15, 20}}, {40, 41, []int64{40}}, {58, 60, []int64{55}}, {64, forever, []int64{60}}, {65, forever, nil}, {7, 7, nil}} {
		if bases, _ := w.offsets(span.from, span.to); !slices.Equal(bases, span.wanted) {
			t.Errorf("offsets %d to %d are in %v", span.from, span.to, bases)
		}
	}
}

// TestACutLogTakesNothingFromTheJournal: before a cut began everything was in the segments.
func TestACutLogTakesNothingFromTheJournal(t *testing.T) {
	w := newWorld(t)
	w.manifest.State, w.manifest.Cut = segment.Cutting, 55
	w.putManifest()
	if bases, inJournal := w.offsets(50, forever); !slices.Equal(bases, []int64{50}) || inJournal != 0 {
		t.Errorf("batches %v, %d of them in the journal", bases, inJournal)
	}
}

func TestALogIsShownUpToItsDamage(t *testing.T) {
	w := newWorld(t)
	w.flip(w.log(0, segment.LogSuffix), w.starts[10]+80)
	log, err := w.store().Log(worldLog)
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	end, err := log.Batches(nil, 0, forever, func(Located) bool { shown++; return true })
	var corrupt *segment.CorruptError
	if !errors.As(err, &corrupt) || corrupt.Offset != w.starts[10] || shown != 2 || end.Offset != 10 {
		t.Errorf("%d batches up to %+v: %v", shown, end, err)
	}
}

func TestSummaries(t *testing.T) {
	w := newWorld(t)
	s := w.store()
	journals, err := s.ReadJournals()
	if err != nil {
		t.Fatal(err)
	}
	log, err := s.Log(worldLog)
	if err != nil {
		t.Fatal(err)
	}
	got := log.Summary(journals)
	if got.Label != "orders-0" || got.EndOffset != worldEnd || got.JournalBatches != 2 || got.Segments != 2 || got.Bytes != 13*w.sizes[0] || got.Error != "" {
		t.Errorf("%+v", got)
	}
	if _, err := s.Log(meta.LogID{9}); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestFramesSayWhatAStartWouldDo(t *testing.T) {
	w := newWorld(t)
	ring, err := w.store().Ring(0)
	if err != nil {
		t.Fatal(err)
	}
	if len(ring.Frames) != 3 || len(ring.Taken()) != 3 || ring.Frames[1].Position != w.frames[8] || ring.Frames[1].Entries[0].FirstOffset != 55 {
		t.Errorf("%+v", ring)
	}
	data, fields, err := w.store().FrameBytes(segment.JournalName(0), &ring.Frames[1], ring.Store)
	if err != nil || len(data) != ring.Frames[1].Bytes || len(fields) < 20 {
		t.Errorf("%d bytes, %d fields, %v", len(data), len(fields), err)
	}
	// Without a checkpoint the head of the ring knows its frames.
	delete(w.files, segment.CheckpointName(0))
	if ring, err := w.store().Ring(0); err != nil || len(ring.Frames) != 3 || ring.known() {
		t.Errorf("%+v, %v", ring, err)
	}
}

func TestFilesAreKnown(t *testing.T) {
	w := newWorld(t)
	w.put("elsewhere", w.files[w.log(0, segment.LogSuffix)].Data)
	w.put("note.txt", []byte(strings.Repeat("not a file of ours. ", 10)))
	w.put(worldLog.String()+spillSuffix, nil)
	for name, wanted := range map[string]Kind{
		w.log(0, segment.LogSuffix): SegmentFile, "elsewhere": SegmentFile, w.log(0, segment.IndexSuffix): StoredFile,
		segment.CheckpointName(0): StoredFile, segment.JournalName(0): JournalFile, worldLog.String() + spillSuffix: SpillFile,
	} {
		if kind, err := KindOf(w.files, name); err != nil || kind != wanted {
			t.Errorf("%s is %d, %v", name, kind, err)
		}
	}
	if _, err := KindOf(w.files, "note.txt"); !errors.Is(err, ErrUnknownFile) {
		t.Errorf("got %v", err)
	}
	for name, kind := range map[string]segment.Kind{
		w.log(0, segment.IndexSuffix): segment.KindIndex, w.log(0, segment.TimeIndexSuffix): segment.KindTimeIndex,
		w.log(worldSealed, segment.SnapshotSuffix): segment.KindSnapshot, segment.CheckpointName(0): segment.KindCheckpoint,
	} {
		found, content, _, fields, err := Stored(w.files, name)
		if err != nil || found != kind || content == nil || len(fields) < 6 {
			t.Errorf("%s: %s, %v, %d fields, %v", name, found, content, len(fields), err)
		}
	}
	shown := 0
	end, err := SegmentBatches(w.files, w.log(worldSealed, segment.LogSuffix), func(Located) bool { shown++; return true })
	if err != nil || shown != 3 || end.Offset != worldActive || end.Reason == nil {
		t.Errorf("%d batches up to %+v, %v", shown, end, err)
	}
	if id, ok := w.store().StoreID(); !ok || id != worldStore {
		t.Errorf("store %x, %v", id, ok)
	}
}
