package engine

import (
	"ringlog/engine/disk"
	"ringlog/engine/plan"
	"ringlog/record"
)

// mergeWriter writes batches behind the end of a segment in large pieces. It
// keeps what lies behind them in their last block: that may be valid.
type mergeWriter struct {
	file     *segmentFile
	position int64  // behind the last batch put
	start    int64  // of memory[0] in the file
	memory   []byte // aligned; filled up to position
	loaded   bool   // memory holds the block that start is in
	dirty    bool
	wrote    bool // anything, ever
}

// begin goes on at position of f.
func (w *mergeWriter) begin(f *segmentFile, position int64) {
	w.file, w.position, w.start = f, position, plan.RoundDown(position)
	w.loaded, w.dirty = false, false
}

// put takes a batch; it is written by a later put, or by flush.
func (w *mergeWriter) put(j *job, batch record.Batch) error {
	if !w.loaded {
		if err := w.load(j, int64(len(batch))); err != nil {
			return err
		}
	}
	if need := w.position - w.start + int64(len(batch)); need > int64(len(w.memory)) {
		if err := w.flush(j); err != nil {
			return err
		}
		if need = w.position - w.start + int64(len(batch)); need > int64(len(w.memory)) {
			grown := disk.AlignedBytes(int(plan.PowerOfTwo(need)))
			copy(grown, w.memory[:w.position-w.start])
			w.memory = grown
		}
	}
	copy(w.memory[w.position-w.start:], batch)
	w.position += int64(len(batch))
	w.dirty = true
	return nil
}

// load reads the block in which the segment ends.
func (w *mergeWriter) load(j *job, bytes int64) error {
	if w.memory == nil {
		w.memory = disk.AlignedBytes(int(min(plan.PowerOfTwo(bytes+plan.BlockBytes), mergeWriteBytes)))
	}
	if w.position > w.start {
		if err := j.shard.files.open(j, w.file); err != nil {
			return err
		}
		n, err := j.readAll(w.file.file, w.memory[:plan.BlockBytes], w.start)
		if err != nil {
			return err
		}
		clear(w.memory[n:plan.BlockBytes])
	}
	w.loaded = true
	return nil
}

// flush writes what was put.
func (w *mergeWriter) flush(j *job) error {
	if !w.dirty {
		return nil
	}
	f := w.file
	f.pins++
	defer func() { f.pins-- }()
	if err := j.shard.files.open(j, f); err != nil {
		return err
	}
	end := plan.RoundUp(w.position)
	if f.prepared < end {
		op := disk.Operation{Kind: disk.Preallocate, File: f.file, Offset: f.prepared, Length: end - f.prepared}
		if err := j.do(&op); err != nil {
			return err
		}
		f.prepared = end
	}
	if err := w.fillLastBlock(j); err != nil {
		return err
	}
	if err := j.writeAll(f.file, w.memory[:end-w.start], w.start); err != nil {
		return err
	}
	f.writesDone++
	w.wrote, w.dirty = true, false
	next := plan.RoundDown(w.position)
	copy(w.memory, w.memory[next-w.start:min(end-w.start, int64(len(w.memory)))])
	w.start = next
	return nil
}

// fillLastBlock keeps what the file has behind the end in the last block.
func (w *mergeWriter) fillLastBlock(j *job) error {
	last := plan.RoundDown(w.position)
	if last == w.position {
		return nil
	}
	block := disk.AlignedBytes(plan.BlockBytes)
	n, err := j.readAll(w.file.file, block, last)
	if err != nil {
		return err
	}
	clear(block[n:])
	if need := last - w.start + plan.BlockBytes; need > int64(len(w.memory)) {
		grown := disk.AlignedBytes(int(plan.RoundUp(need)))
		copy(grown, w.memory[:w.position-w.start])
		w.memory = grown
	}
	copy(w.memory[w.position-w.start:], block[w.position-last:])
	return nil
}
