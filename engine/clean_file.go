package engine

import (
	"errors"
	"fmt"

	"ringlog/engine/compact"
	"ringlog/engine/disk"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
	"ringlog/record"
)

// cleanedFile is the segment that a group of segments becomes. Until the manifest names it, it is a
// file beside the log that nobody knows; a start removes it.
type cleanedFile struct {
	log      *Log
	pass     uint32
	base     int64
	file     disk.File
	isOpen   bool
	made     bool // there is such a file
	index    *segment.Index
	memory   []byte // aligned
	have     int    // bytes of it that are not written
	position int64  // of memory[0] in the file
}

// name is the file's name in the log's directory.
func (w *cleanedFile) name() string { return segment.PassName(w.base, w.pass, segment.LogSuffix) }

func (w *cleanedFile) path() string { return w.log.directory + "/" + w.name() }

// create makes the file, under a name that was never used.
func (w *cleanedFile) create(j *job, l *Log, base int64) error {
	l.cleaning.pass++
	*w = cleanedFile{log: l, base: base, pass: l.cleaning.pass, index: newIndex(base), memory: w.memory}
	file, _, err := j.open(w.path(), disk.Create|disk.Truncate)
	if err != nil {
		return fmt.Errorf("engine: create %s: %w", w.path(), err)
	}
	w.file, w.isOpen, w.made = file, true, true
	return nil
}

// take moves what the copier has ready into memory, and indexes it. Called on the goroutine that
// copies, while nothing is written.
func (w *cleanedFile) take(c *compact.Copier, interval int64) error {
	ready := c.Ready()
	if need := w.have + len(ready); need > len(w.memory) {
		grown := disk.AlignedBytes(int(plan.PowerOfTwo(int64(max(need, coldBytesMax)))))
		copy(grown, w.memory[:w.have])
		w.memory = grown
	}
	w.have += copy(w.memory[w.have:], ready)
	for rest := ready; len(rest) > 0; {
		batch, behind, err := record.Next(rest)
		if err != nil {
			return fmt.Errorf("engine: what compaction made of %s is no batch: %w", w.log.label, err)
		}
		if w.index.Position+int64(len(batch)) > segment.SegmentBytesMax {
			return fmt.Errorf("engine: compacted segment of %s at offset %d: more than %d bytes", w.log.label, w.base, int64(segment.SegmentBytesMax))
		}
		w.index.Add(batch.BaseOffset(), batch.LastOffset()+1, batch.MaxTimestamp(), len(batch), interval)
		rest = behind
	}
	c.Drained()
	return nil
}

// write writes the whole blocks of what memory has, in pieces that others' can come between, and
// returns how many bytes that were.
func (w *cleanedFile) write(j *job) (int64, error) {
	whole := int(plan.RoundDown(int64(w.have)))
	for at := 0; at < whole; at += plan.PieceBytes {
		if err := j.writeAll(w.file, w.memory[at:min(at+plan.PieceBytes, whole)], w.position+int64(at)); err != nil {
			return 0, fmt.Errorf("engine: write %s: %w", w.path(), err)
		}
	}
	copy(w.memory, w.memory[whole:w.have])
	w.have -= whole
	w.position += int64(whole)
	j.shard.counters.cleanWriteBytes.Add(int64(whole))
	return int64(whole), nil
}

// finish writes the rest, flushes the file and closes it, and writes its index.
func (w *cleanedFile) finish(j *job) error {
	if padded := int(plan.RoundUp(int64(w.have))); padded > w.have {
		if padded > len(w.memory) {
			panic("engine: memory of a compaction is no whole blocks")
		}
		clear(w.memory[w.have:padded])
		w.have = padded
	}
	if _, err := w.write(j); err != nil {
		return err
	}
	if !j.shard.faults.swapUnflushed {
		if err := j.flush(w.file); err != nil {
			return fmt.Errorf("engine: flush %s: %w", w.path(), err)
		}
	}
	w.isOpen = false
	if err := j.close(w.file); err != nil {
		return fmt.Errorf("engine: close %s: %w", w.path(), err)
	}
	of := segmentFile{Summary: segment.Summary{BaseOffset: w.base, Pass: w.pass}}
	index, timeIndex := w.index.Encode()
	if err := w.log.writeIndex(j, &of, index, timeIndex); err != nil {
		return err
	}
	return w.log.syncDirectory(j)
}

// discard removes the file: nothing refers to it, nor will.
func (w *cleanedFile) discard(j *job) {
	var err error
	if w.isOpen {
		err = j.close(w.file)
		w.isOpen = false
	}
	if err == nil && w.made {
		of := segmentFile{Summary: segment.Summary{BaseOffset: w.base, Pass: w.pass}}
		err = errors.Join(w.log.unlink(j, w.name()), w.log.removeIndexFiles(j, &of))
	}
	if err != nil && !isClosed(err) {
		j.shard.logger.Warn("a file of a compaction that was given up cannot be removed; the next start does", "path", w.path(), "error", err)
	}
}

// summary describes the segment in place of its sources.
func (w *cleanedFile) summary(sources []*segmentFile, horizon int64) segment.Summary {
	x := w.index
	s := segment.Summary{
		BaseOffset: w.base, Sealed: true, Bytes: x.Position, NextOffset: x.NextOffset,
		MaxTimestamp: x.MaxTimestamp, MaxTimestampOffset: x.MaxTimestampOffset,
		CreatedMillis: sources[0].CreatedMillis, Pass: w.pass, HorizonMillis: horizon,
	}
	for _, f := range sources {
		s.CreatedMillis, s.AppendedMillis = min(s.CreatedMillis, f.CreatedMillis), max(s.AppendedMillis, f.AppendedMillis)
	}
	return s
}
