package dump

import (
	"encoding/binary"
	"path"
	"strings"
	"testing"

	"ringlog/engine/segment"
	"ringlog/meta"
)

func TestAWholeDirectoryIsWhole(t *testing.T) {
	var done, total int64
	r := newWorld(t).verify(Options{Records: true, Progress: func(d, all int64) { done, total = d, all }})
	if len(r.Damages) != 0 || len(r.Notes) != 0 {
		t.Errorf("%+v\n%+v", r.Damages, r.Notes)
	}
	if r.Logs != 1 || r.Segments != 2 || r.Batches != 13 || r.Records != 65 || r.Indexes != 2 || r.Snapshots != 1 || r.Frames != 3 {
		t.Errorf("%+v", r)
	}
	if done != total || total == 0 {
		t.Errorf("progress ended at %d of %d", done, total)
	}
}

// harm is what happens to the world, and what Verify has to say to it.
type harm struct {
	tells    string
	do       func(*world)
	severity Severity
	file     func(*world) string
	position func(*world) int64 // nil: any
	bytes    func(*world) int64 // nil: any
	from, to int64              // to 0: any
	words    string
}

func at(position int64) func(*world) int64 { return func(*world) int64 { return position } }

func logFile(base int64, suffix string) func(*world) string {
	return func(w *world) string { return w.log(base, suffix) }
}

func named(name string) func(*world) string { return func(*world) string { return name } }

func inLog(name string) func(*world) string {
	return func(*world) string { return path.Join(worldLog.String(), name) }
}

var harms = []harm{
	{"a bit of a record in a sealed segment", func(w *world) { w.flip(w.log(0, segment.LogSuffix), w.starts[10]+80) },
		Lost, logFile(0, segment.LogSuffix), func(w *world) int64 { return w.starts[10] }, func(w *world) int64 { return w.sizes[10] }, 10, 15, "checksum"},
	{"a bit of a batch's length", func(w *world) { w.flip(w.log(0, segment.LogSuffix), w.starts[10]+10) },
		Lost, logFile(0, segment.LogSuffix), func(w *world) int64 { return w.starts[10] }, func(w *world) int64 { return w.sizes[10] }, 10, 15, ""},
	{"the last batch of a sealed segment", func(w *world) { w.flip(w.log(0, segment.LogSuffix), w.starts[35]+80) },
		Lost, logFile(0, segment.LogSuffix), func(w *world) int64 { return w.starts[35] }, func(w *world) int64 { return w.sizes[35] }, 35, 40, "checksum"},
	{"a leader epoch, which no checksum covers", func(w *world) { w.flip(w.log(0, segment.LogSuffix), w.starts[10]+14) },
		Lost, logFile(0, segment.LogSuffix), func(w *world) int64 { return w.starts[10] }, nil, 10, 15, "epoch"},
	{"a base offset, which no checksum covers", func(w *world) {
		binary.BigEndian.PutUint64(w.files[w.log(0, segment.LogSuffix)].Data[w.starts[10]:], 11)
	}, Lost, logFile(0, segment.LogSuffix), func(w *world) int64 { return w.starts[10] }, nil, 11, 16, "does not follow"},
	{"a sealed segment that was cut short", func(w *world) {
		f := w.files[w.log(0, segment.LogSuffix)]
		f.Data = f.Data[:w.starts[30]]
	}, Lost, logFile(0, segment.LogSuffix), func(w *world) int64 { return w.starts[30] }, nil, 30, 40, "the file ends"},
	{"a sealed segment that was removed", func(w *world) { delete(w.files, w.log(0, segment.LogSuffix)) },
		Lost, logFile(0, segment.LogSuffix), nil, nil, 0, 40, "not there"},
	{"the active segment was removed", func(w *world) { delete(w.files, w.log(worldSealed, segment.LogSuffix)) },
		Lost, logFile(worldSealed, segment.LogSuffix), nil, nil, 40, 0, "not there"},
	{"a durable batch of the active segment", func(w *world) { w.flip(w.log(worldSealed, segment.LogSuffix), w.starts[45]+80) },
		Lost, logFile(worldSealed, segment.LogSuffix), func(w *world) int64 { return w.starts[45] }, func(w *world) int64 { return w.sizes[45] }, 45, 50, "everything below"},
	{"the manifest", func(w *world) { w.flip(path.Join(worldLog.String(), segment.ManifestName), 40) },
		Lost, inLog(segment.ManifestName), at(12), nil, 0, 0, "checksum"},
	{"the manifest of another log", func(w *world) { w.manifest.LogID[0]++; w.putManifest() },
		Lost, inLog(segment.ManifestName), nil, nil, 0, 0, "a file was put here"},
	{"a manifest that says more than the segment has", func(w *world) {
		w.manifest.Segments[0].NextOffset, w.manifest.Segments[1].BaseOffset = 39, 40
		w.putManifest()
	},
		Lost, logFile(0, segment.LogSuffix), nil, nil, 39, 40, "log.meta says 39"},
	{"a frame that a later one calls flushed", func(w *world) { clear(w.files[segment.JournalName(0)].Data[w.frames[8]:w.frames[9]]) },
		Lost, named(segment.JournalName(0)), func(w *world) int64 { return w.frames[8] }, nil, 0, 0, "frames 8 to 8"},
	{"and what the log lacks then", func(w *world) { clear(w.files[segment.JournalName(0)].Data[w.frames[8]:w.frames[9]]) },
		Lost, logFile(worldSealed, segment.LogSuffix), nil, nil, 0, 0, "damaged frame"},
	{"the batches of a frame that a later one calls flushed", func(w *world) { w.flip(segment.JournalName(0), w.frames[8]+200) },
		Lost, named(segment.JournalName(0)), func(w *world) int64 { return w.frames[8] + 84 }, func(w *world) int64 { return w.sizes[55] }, 55, 60, "damaged"},
	{"a journal that has other bytes than the segment", func(w *world) {
		w.rewriteActive()
	}, Lost, named(segment.JournalName(0)), nil, nil, 0, 0, "other bytes at offset 50"},
	{"a checkpoint of long ago", func(w *world) { w.check.Run = 1; w.put(segment.CheckpointName(0), w.check.Encode()) },
		Lost, named(segment.JournalName(0)), func(w *world) int64 { return w.frames[7] }, nil, 0, 0, "later run"},
	{"a log that a start could not prove complete", func(w *world) { w.check.Logs[0].Unproven = true; w.put(segment.CheckpointName(0), w.check.Encode()) },
		Lost, logFile(worldSealed, segment.LogSuffix), nil, nil, 65, 0, "may have held more"},

	{"the checkpoint", func(w *world) { w.flip(segment.CheckpointName(0), 40) }, Rebuilt, named(segment.CheckpointName(0)), at(12), nil, 0, 0, "checksum"},
	{"the head of the journal", func(w *world) { w.flip(segment.JournalName(0), 20) }, Rebuilt, named(segment.JournalName(0)), at(12), nil, 0, 0, "checksum"},
	{"an offset index", func(w *world) { w.flip(w.log(0, segment.IndexSuffix), 30) }, Rebuilt, logFile(0, segment.IndexSuffix), at(12), nil, 0, 0, "checksum"},
	{"a time index", func(w *world) { w.flip(w.log(0, segment.TimeIndexSuffix), 30) }, Rebuilt, logFile(0, segment.TimeIndexSuffix), at(12), nil, 0, 0, "checksum"},
	{"an index of another segment's batches", func(w *world) {
		x := &segment.Index{}
		x.Reset(0)
		for base := int64(0); base < worldSealed; base += worldBatch {
			x.Add(base, base+worldBatch, worldTime+base+worldBatch-1, int(w.sizes[base])+base0(base), 300)
		}
		w.putIndex(x)
	}, Rebuilt, logFile(0, segment.IndexSuffix), nil, nil, 0, 0, ""},
	{"an index that covers half of its sealed segment", func(w *world) {
		_, x := w.segment(0, 20)
		w.putIndex(x)
	}, Rebuilt, logFile(0, segment.IndexSuffix), nil, nil, 0, 0, "it covers"},
	{"a snapshot", func(w *world) { w.flip(w.log(worldSealed, segment.SnapshotSuffix), 30) }, Rebuilt, logFile(worldSealed, segment.SnapshotSuffix), at(12), nil, 0, 0, "checksum"},
	{"a snapshot of another offset", func(w *world) {
		w.put(w.log(worldSealed, segment.SnapshotSuffix), (&segment.Snapshot{Offset: 45}).Encode())
	}, Rebuilt, logFile(worldSealed, segment.SnapshotSuffix), nil, nil, 0, 0, "as of offset 45"},
	{"a snapshot that is no producer table", func(w *world) {
		w.put(w.log(worldSealed, segment.SnapshotSuffix), (&segment.Snapshot{Offset: worldSealed, State: []byte("?")}).Encode())
	}, Rebuilt, logFile(worldSealed, segment.SnapshotSuffix), nil, nil, 0, 0, ""},
	{"a largest timestamp that the batches do not have", func(w *world) { w.manifest.Segments[0].MaxTimestamp++; w.putManifest() },
		Rebuilt, inLog(segment.ManifestName), nil, nil, 0, 0, "largest timestamp"},
	{"a placement table", func(w *world) {
		w.put(segment.PlacementName, (&segment.Placement{Shards: 1}).Encode())
		w.flip(segment.PlacementName, 17)
	}, Rebuilt, named(segment.PlacementName), at(12), nil, 0, 0, "checksum"},
	{"what was put aside of a failed log", func(w *world) { w.put(worldLog.String()+spillSuffix, make([]byte, 4096)) },
		Lost, named(worldLog.String() + spillSuffix), at(0), nil, 0, 0, ""},
}

// base0 moves what lies behind the second batch by a byte.
func base0(base int64) int {
	if base == worldBatch {
		return 1
	}
	return 0
}

// rewriteActive gives the batch of offset 50, which the segment has as well, another timestamp.
func (w *world) rewriteActive() {
	data := w.files[w.log(worldSealed, segment.LogSuffix)].Data
	batch := w.batch(50)
	batch.SetMaxTimestamp(worldTime + 999)
	copy(data[w.starts[50]:], batch)
}

func TestEveryHarmIsFound(t *testing.T) {
	for _, h := range harms {
		t.Run(h.tells, func(t *testing.T) {
			w := newWorld(t)
			h.do(w)
			r := w.verify(Options{})
			for i := range r.Damages {
				d := &r.Damages[i]
				if d.Do == "" || d.What == "" {
					t.Errorf("%s says neither what nor what to do", d)
				}
				if d.Severity == h.severity && d.File == h.file(w) && strings.Contains(d.What, h.words) &&
					(h.position == nil || d.Position == h.position(w)) && (h.bytes == nil || d.Bytes == h.bytes(w)) &&
					(h.to == 0 || d.FromOffset == h.from && d.ToOffset == h.to) {
					return
				}
			}
			t.Errorf("not in\n%+v\n%+v", r.Damages, r.Notes)
		})
	}
}

// TestEveryBitOfASealedSegmentCounts flips a bit of each byte in turn: each is found, in the batch
// that it is in.
func TestEveryBitOfASealedSegmentCounts(t *testing.T) {
	w := newWorld(t)
	name := w.log(0, segment.LogSuffix)
	for position := range w.sealed {
		w.flip(name, position)
		r := w.verify(Options{})
		w.flip(name, position)
		if r.Lost() == 0 {
			t.Fatalf("a bit of byte %d is not missed", position)
		}
		d := &r.Damages[0]
		if start := position - position%w.sizes[0]; d.File != name || d.Position > position || d.Position < start {
			t.Errorf("byte %d: %s", position, d)
		}
	}
}

// TestWhatNobodyWasToldIsNoDamage: the torn end of a log or of the journal is a note.
func TestWhatNobodyWasToldIsNoDamage(t *testing.T) {
	for tells, harm := range map[string]func(w *world){
		"the last frame": func(w *world) { w.flip(segment.JournalName(0), w.frames[9]+200) },
		"a batch behind a hole in the active segment": func(w *world) {
			copy(w.files[w.log(worldSealed, segment.LogSuffix)].Data[8192:], w.batch(70))
		},
		"a segment that the one before it does not reach": func(w *world) {
			w.manifest.Segments = append(w.manifest.Segments, segment.Summary{BaseOffset: 90, MaxTimestamp: -1, MaxTimestampOffset: -1})
			w.putManifest()
		},
		"a truncation that was under way": func(w *world) {
			w.manifest.State, w.manifest.Cut = segment.Cutting, 30
			w.putManifest()
		},
		"a segment that log.meta does not name": func(w *world) { w.put(w.log(90, segment.LogSuffix), nil) },
		"a stranger":                            func(w *world) { w.put("core.4711", nil) },
		"a deleted log":                         func(w *world) { w.put("00"+deletedSuffix+"/x", nil) },
		"a sealed segment without indexes":      func(w *world) { delete(w.files, w.log(0, segment.IndexSuffix)) },
	} {
		w := newWorld(t)
		harm(w)
		if r := w.verify(Options{}); len(r.Damages) != 0 || len(r.Notes) == 0 {
			t.Errorf("%s: %+v\n%+v", tells, r.Damages, r.Notes)
		}
	}
}

// TestALiveDirectoryIsNotBlamedForItsEnd: what a broker is writing may look like anything.
func TestALiveDirectoryIsNotBlamedForItsEnd(t *testing.T) {
	w := newWorld(t)
	w.flip(w.log(worldSealed, segment.LogSuffix), w.starts[45]+80)
	clear(w.files[segment.JournalName(0)].Data[w.frames[8]:w.frames[9]])
	if r := w.verify(Options{Live: true}); len(r.Damages) != 0 {
		t.Errorf("%+v", r.Damages)
	}
	w.flip(w.log(0, segment.LogSuffix), 100) // sealed: nobody writes there
	if r := w.verify(Options{Live: true}); r.Lost() != 1 {
		t.Errorf("%+v", r.Damages)
	}
}

// TestPartitionsHaveLogs: metadata and directories are held against each other.
func TestPartitionsHaveLogs(t *testing.T) {
	w := newWorld(t)
	image := meta.NewImage()
	apply := func(command meta.Command) {
		t.Helper()
		var err error
		if image, _, _, err = meta.Apply(image, image.Index+1, command); err != nil {
			t.Fatal(err)
		}
	}
	apply(meta.FormatCluster{ClusterID: "cluster"})
	apply(meta.StartBroker{ID: 1, Host: "localhost", Port: 9092})
	lost := meta.LogID{1}
	apply(meta.CreateTopics{Topics: []meta.NewTopic{{Name: "orders", ID: meta.TopicID{1}, LogIDs: []meta.LogID{worldLog, lost}, ReplicationFactor: 1}}})
	if r := w.verify(Options{Image: image, NodeID: 1}); len(r.Damages) != 0 || len(r.Notes) != 1 || r.Notes[0].Log != "orders-1" {
		t.Errorf("a log that may not have been made yet: %+v %+v", r.Damages, r.Notes)
	}
	apply(meta.StartBroker{ID: 1, Host: "localhost", Port: 9092})
	apply(meta.StartBroker{ID: 1, Host: "localhost", Port: 9092})
	if r := w.verify(Options{Image: image, NodeID: 1}); r.Lost() != 1 || r.Damages[0].Log != "orders-1" {
		t.Errorf("a log that was there: %+v %+v", r.Damages, r.Notes)
	}
	if r := w.verify(Options{Image: meta.NewImage(), NodeID: 1}); len(r.Damages) != 0 || len(r.Notes) != 1 || r.Notes[0].Log != "orders-0" {
		t.Errorf("a log that nobody knows: %+v %+v", r.Damages, r.Notes)
	}
}
