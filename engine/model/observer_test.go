package model

import (
	"bytes"
	"strings"
	"testing"

	"ringlog/engine/disk"
	"ringlog/engine/journal"
	"ringlog/engine/segment"
	"ringlog/record"
)

const (
	logDirectory = "00000000000000000000000000000001"
	segmentZero  = logDirectory + "/00000000000000000000.log"
)

var (
	logID   = [16]byte{15: 1}
	storeID = [16]byte{0: 7}
)

// scene is an Observer of a log with an empty segment and a journal, and the
// hands of an engine.
type scene struct {
	*testing.T
	o        *Observer
	segment  disk.File
	ring     disk.File
	position int64
	at       int64 // in the ring
}

func newScene(t *testing.T) *scene {
	manifest := segment.Manifest{LogID: logID, Gen: 1, Segments: []segment.Summary{{}}}
	checkpoint := segment.Checkpoint{Store: storeID, Run: 3, From: 1}
	file := func(name string, content []byte) File {
		return File{Path: name, DurablePath: name, Content: content, Durable: content}
	}
	s := &scene{T: t, o: NewObserver([]File{
		{Path: logDirectory, DurablePath: logDirectory, Directory: true},
		file(logDirectory+"/"+segment.ManifestName, manifest.Encode()),
		file(segmentZero, nil),
		file(segment.CheckpointName(0), checkpoint.Encode()),
		file(segment.JournalName(0), nil),
	}), segment: 1, ring: 2}
	s.do(&disk.Operation{Kind: disk.Open, Path: segmentZero, File: s.segment})
	s.do(&disk.Operation{Kind: disk.Open, Path: segment.JournalName(0), File: s.ring})
	return s
}

// do submits and completes.
func (s *scene) do(op *disk.Operation) {
	s.o.Submitted(op)
	s.complete(op)
}

func (s *scene) complete(op *disk.Operation) {
	op.Done = len(op.Buffer)
	s.o.Completed(0, op)
}

func (s *scene) flush(file disk.File) *disk.Operation {
	op := &disk.Operation{Kind: disk.Flush, File: file}
	s.o.Submitted(op)
	return op
}

func batchAt(offset int64) []byte {
	var b record.Builder
	b.Reset(record.BuilderOptions{BaseOffset: offset})
	b.Append(1, []byte{byte(offset)}, []byte("value"))
	built, err := b.Build()
	if err != nil {
		panic(err)
	}
	return bytes.Clone(built)
}

// write is the write of a batch behind what the segment has, in a buffer of its own.
func (s *scene) write(offset int64) *disk.Operation {
	op := &disk.Operation{Kind: disk.Write, File: s.segment, Offset: s.position, Buffer: batchAt(offset)}
	s.position += int64(len(op.Buffer))
	s.o.Submitted(op)
	return op
}

// frame is the write of a frame with one batch of the log.
func (s *scene) frame(run, sequence, flushed uint64, gen uint64, offset int64) *disk.Operation {
	var b journal.Builder
	b.Begin(disk.AlignedBytes(2 * journal.BlockBytes))
	b.Entry(journal.Entry{LogID: logID, Gen: gen, PreviousEnd: offset, FirstOffset: offset, LastOffset: offset})
	b.Append(batchAt(offset))
	frame := b.Finish(journal.Header{Store: storeID, Run: run, Sequence: sequence, Flushed: flushed})
	op := &disk.Operation{Kind: disk.Write, File: s.ring, Offset: s.at, Buffer: frame}
	s.at += int64(len(frame))
	s.o.Submitted(op)
	return op
}

// publishes asks what the Observer says to a durable end of the log, which is
// written as a whole.
func (s *scene) publishes(durable, written int64) error {
	return s.o.Published(logDirectory, Frontiers{HighWatermark: durable, Durable: durable, Written: written, Next: 10}, false)
}

func (s *scene) allows(durable, written int64) {
	s.Helper()
	if err := s.publishes(durable, written); err != nil {
		s.Error(err)
	}
}

func (s *scene) refuses(durable, written int64, reason string) {
	s.Helper()
	if err := s.publishes(durable, written); err == nil || !strings.Contains(err.Error(), reason) {
		s.Errorf("durable %d, written %d: %v, expected %q", durable, written, err, reason)
	}
}

// Rule 2: a flush covers what had completed when it was submitted.
func TestAFlushThatOvertakesAWriteIsNotCounted(t *testing.T) {
	s := newScene(t)
	s.allows(0, 0)
	first, second := s.write(0), s.write(1)
	s.complete(first)
	flush := s.flush(s.segment)
	s.complete(second)
	s.allows(0, 2)
	s.complete(flush)
	s.allows(1, 2)
	s.refuses(2, 2, "a power cut may leave no more than 1")
}

// Rule 1: written and durable are prefixes.
func TestAWriteBehindAHoleIsNotCounted(t *testing.T) {
	s := newScene(t)
	first, second := s.write(0), s.write(1)
	s.complete(second)
	s.complete(s.flush(s.segment))
	s.refuses(0, 2, "a kill may leave no more than 0")
	s.complete(first)
	s.complete(&disk.Operation{Kind: disk.SyncFilesystem, File: s.ring}) // never submitted: it covers nothing
	s.refuses(1, 2, "a power cut may leave no more than 0")
}

// Rules 1 and 4: J is counted from frames, in order, and only by a flush of the journal.
func TestFramesRaiseD(t *testing.T) {
	s := newScene(t)
	first, second := s.frame(3, 1, 0, 1, 0), s.frame(3, 2, 0, 1, 1)
	s.complete(second)
	s.complete(s.flush(s.ring))
	s.refuses(0, 2, "a kill may leave no more than 0")
	s.complete(first)
	s.complete(s.flush(s.segment))
	s.refuses(2, 2, "a power cut may leave no more than 0")
	s.complete(s.flush(s.ring))
	s.allows(2, 2)
}

// J begins at or below S, and counts the log's present generation and the
// checkpoint's run alone.
func TestFramesThatDoNotCount(t *testing.T) {
	for _, row := range []struct {
		run, sequence, gen uint64
		offset             int64
		why                string
	}{
		{3, 1, 1, 1, "begins behind a gap"},
		{3, 1, 0, 0, "is of an older generation"},
		{2, 1, 1, 0, "is of an older run"},
		{4, 1, 1, 0, "is of a run that no checkpoint knows"},
		{3, 2, 1, 0, "follows a frame that is missing"},
	} {
		s := newScene(t)
		s.complete(s.frame(row.run, row.sequence, 0, row.gen, row.offset))
		s.complete(s.flush(s.ring))
		if s.publishes(row.offset+1, row.offset+1) == nil {
			t.Errorf("a frame counts that %s", row.why)
		}
	}
}

// S and J carry each other: an entry that begins where the segments end.
func TestFramesGoOnWhereSegmentsEnd(t *testing.T) {
	s := newScene(t)
	s.complete(s.write(0))
	s.complete(s.frame(3, 1, 0, 1, 1))
	s.complete(s.flush(s.ring))
	s.refuses(2, 2, "a power cut may leave no more than 0")
	s.complete(s.flush(s.segment))
	s.allows(2, 2)
}

// Rule 6: a name is durable with its directory's sync, a replaced manifest too,
// and truncation is the one thing that takes frontiers back.
func TestNamesNeedTheirDirectory(t *testing.T) {
	s := newScene(t)
	s.complete(s.write(0))
	s.complete(s.flush(s.segment))
	s.allows(1, 1)
	s.refuses(0, 0, "fall from")
	manifest := segment.Manifest{LogID: logID, Gen: 1, Segments: []segment.Summary{{}, {BaseOffset: 1}}}
	const next, file = logDirectory + "/00000000000000000001.log", disk.File(3)
	s.do(&disk.Operation{Kind: disk.Open, Path: next, File: file, Flags: disk.Create})
	s.do(&disk.Operation{Kind: disk.Write, File: file, Buffer: batchAt(1)})
	s.do(&disk.Operation{Kind: disk.Flush, File: file})
	s.refuses(2, 2, "no more than 1")
	s.do(&disk.Operation{Kind: disk.Open, Path: logDirectory + "/" + segment.ManifestNewName, File: 4, Flags: disk.Create})
	s.do(&disk.Operation{Kind: disk.Write, File: 4, Buffer: manifest.Encode()})
	s.do(&disk.Operation{Kind: disk.Flush, File: 4})
	rename := &disk.Operation{Kind: disk.Rename, Path: logDirectory + "/" + segment.ManifestNewName, NewPath: logDirectory + "/" + segment.ManifestName}
	sync := &disk.Operation{Kind: disk.SyncDirectory, Path: logDirectory}
	s.o.Submitted(sync)
	s.do(rename)
	s.complete(sync)
	s.refuses(2, 2, "a power cut may leave no more than 1")
	s.do(&disk.Operation{Kind: disk.SyncDirectory, Path: logDirectory})
	s.allows(2, 2)
}

// What is destroyed below D is noticed.
func TestDestroyedBytesAreMissed(t *testing.T) {
	s := newScene(t)
	s.complete(s.write(0))
	s.complete(s.flush(s.segment))
	s.allows(1, 1)
	s.do(&disk.Operation{Kind: disk.ZeroRange, File: s.segment, Length: disk.BlockBytes})
	s.refuses(1, 1, "a kill may leave no more than 0")
}

// At rest nothing that was appended is left out.
func TestRestIsDurable(t *testing.T) {
	s := newScene(t)
	if s.o.AtRest(logDirectory, Frontiers{Durable: 1, Next: 2}) == nil {
		t.Error("a log is at rest with a batch that nobody makes durable")
	}
	if err := s.o.AtRest(logDirectory, Frontiers{Durable: 2, Next: 2}); err != nil {
		t.Error(err)
	}
}
