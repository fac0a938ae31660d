package model

import (
	"fmt"
	"slices"

	"ringlog/engine/journal"
	"ringlog/engine/segment"
	"ringlog/record"
)

// view is the shadow as a power cut at its worst, or a kill, leaves it.
type view struct {
	names   map[string]*shadowFile
	content func(*shadowFile) *content
	start   int64  // of the log that was read last
	why     string // what ended it
	broken  string // a rule that its files break, or ""
}

func (o *Observer) view(durable bool) *view {
	if durable {
		return &view{names: o.names.durable, content: func(f *shadowFile) *content { return &f.durable }}
	}
	return &view{names: o.names.live, content: func(f *shadowFile) *content { return &f.live }}
}

// file is what a path leads to, if all names on the way are there.
func (v *view) file(name string) *content {
	for at := range name {
		if name[at] == '/' && v.names[name[:at]] == nil {
			return nil
		}
	}
	f := v.names[name]
	if f == nil || f.directory {
		return nil
	}
	return v.content(f)
}

// end is where a log's unbroken run of batches ends: in its segments as its
// manifest names them, and from there in its spill and in the frames of the journal.
func (v *view) end(directory string) int64 {
	name := directory + "/" + segment.ManifestName
	stored := v.file(name)
	if stored == nil {
		v.why = name + " is not there"
		return -1
	}
	manifest, err := segment.DecodeManifest(padded(stored.bytes))
	if err != nil {
		v.why = fmt.Sprintf("%s: %v", name, err)
		return -1
	}
	v.start = manifest.Start
	end := manifest.Segments[0].BaseOffset
	for i := range manifest.Segments {
		s := &manifest.Segments[i]
		if s.BaseOffset != end {
			break
		}
		name := directory + "/" + s.Name(segment.LogSuffix)
		file := v.file(name)
		if file == nil {
			v.why = name + " is not there"
			break
		}
		end = file.walk(s.BaseOffset)
		v.why = fmt.Sprintf("%s has batches up to %d", name, end)
		if s.Sealed && end < s.NextOffset {
			v.broken = fmt.Sprintf("%s is sealed up to %d, and %s", name, s.NextOffset, v.why)
		}
	}
	return v.journaled(manifest, v.spilled(directory, manifest, end))
}

// spilled is where the run ends with what was put aside of a log that has failed: the
// frames that held it may be overwritten.
func (v *view) spilled(directory string, manifest *segment.Manifest, end int64) int64 {
	name := directory + ".spill"
	file := v.file(name)
	if file == nil {
		return end
	}
	for _, shard := range v.rings() {
		stored := v.file(segment.CheckpointName(shard))
		if stored == nil {
			continue
		}
		checkpoint, err := segment.DecodeCheckpoint(padded(stored.bytes))
		if err != nil {
			continue
		}
		frames := readRing(padded(file.bytes), checkpoint.Store)
		for i := range frames {
			end = follow(&frames[i], manifest, end)
		}
	}
	v.why += fmt.Sprintf("; %s goes on up to %d", name, end)
	return end
}

// padded gives a stored file the zeros back that its shadow leaves out.
func padded(bytes []byte) []byte {
	const block = 4096
	return append(bytes[:len(bytes):len(bytes)], make([]byte, (block-len(bytes)%block)%block)...)
}

// walk reads the batches that follow each other from where the last walk ended.
func (c *content) walk(base int64) (end int64) {
	if c.read.base != base || c.read.position == 0 {
		c.read = walked{base: base, end: base}
	}
	for {
		view := c.bytes[min(c.read.position, int64(len(c.bytes))):]
		batch, _, err := record.Next(view)
		if err == record.ErrShort && len(view) >= record.HeaderBytes {
			// The batch may end in zeros, which the shadow leaves out.
			missing := record.Batch(view).SizeBytes() - len(view)
			if missing > 0 && missing < 4096 {
				batch, _, err = record.Next(append(view[:len(view):len(view)], make([]byte, missing)...))
			}
		}
		if err != nil || batch.Check() != nil || batch.BaseOffset() != c.read.end {
			return c.read.end
		}
		c.read.position += int64(len(batch))
		c.read.end = batch.LastOffset() + 1
	}
}

// journaled is where the run of journal entries ends that begins at or below end.
func (v *view) journaled(manifest *segment.Manifest, end int64) int64 {
	for _, shard := range v.rings() {
		ring, stored := v.file(segment.JournalName(shard)), v.file(segment.CheckpointName(shard))
		if stored == nil {
			v.why += "; without a checkpoint no frame counts"
			continue
		}
		checkpoint, err := segment.DecodeCheckpoint(padded(stored.bytes))
		if err != nil {
			v.why += "; " + err.Error()
			continue
		}
		frames := readRing(padded(ring.bytes), checkpoint.Store)
		found := make([]journal.Found, len(frames))
		for i := range frames {
			f := &frames[i]
			found[i] = journal.Found{Run: f.Run, Sequence: f.Sequence, Flushed: f.Flushed, From: f.From, Whole: f.Whole()}
		}
		verdict := journal.Judge(found, journal.Trim{Run: checkpoint.Run, From: checkpoint.From, Flushed: checkpoint.Flushed}, true)
		for _, i := range verdict.Take {
			end = follow(&frames[i], manifest, end)
		}
		v.why += fmt.Sprintf("; %s has %d frames of run %d that count, of %d, up to %d", segment.JournalName(shard), len(verdict.Take), verdict.Run, len(frames), end)
		if n := len(verdict.Damaged); n > 0 {
			v.why += fmt.Sprintf(", and %v were flushed and are gone", verdict.Damaged)
		}
	}
	return end
}

// rings are the numbers of the shards that have a journal, ascending. A log that
// moved has entries in several, and is flushed in between.
func (v *view) rings() (shards []int) {
	for name := range v.names { // any order: sorted below
		if shard, kind, ok := segment.ParseShardName(name); ok && kind == segment.JournalKind {
			shards = append(shards, shard)
		}
	}
	slices.Sort(shards)
	return shards
}

// follow goes on through the entries of a log in one frame.
func follow(f *journal.Frame, manifest *segment.Manifest, end int64) int64 {
	for i := range f.Len() {
		e, _, whole := f.At(i)
		if whole && e.LogID == manifest.LogID && e.Gen == manifest.Gen && e.PreviousEnd <= end && e.LastOffset >= end {
			end = e.LastOffset + 1
		}
	}
	return end
}

// readRing finds every frame of the store in a ring.
func readRing(ring []byte, store [16]byte) (frames []journal.Frame) {
	for at := 0; at < len(ring); {
		f, err := journal.Parse(ring[at:], store)
		if err != nil {
			at += journal.BlockBytes
			continue
		}
		frames = append(frames, f)
		at += f.Bytes()
	}
	return frames
}
