package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"ringlog/engine/journal"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
	"ringlog/record"
)

// merge is the merge of one log.
type merge struct {
	id      LogID
	entries []mergeEntry // in order of sequence
	at      int          // the first that is not done
	spilled bool         // some come from a spill
	highest int64        // highest D that an entry of the log's generation recorded
	last    place        // where its last entry was found
	problem error        // why the log cannot be proven complete, or nil
	doubt   error        // why it cannot be, unless all of its entries follow; or nil
	gone    bool         // the log was deleted
	scanned []scanned    // what the scan found, as far as entries overlap it
	from    int64        // the scan began at this offset
	out     mergeWriter
	result  segment.CheckpointLog
}

// mergeEntry is an entry and its batches.
type mergeEntry struct {
	journal.Entry
	at    place
	data  []byte
	whole bool
}

// scanned is a batch that the scan of the segments found.
type scanned struct {
	base  int64
	crc   uint32
	bytes int
}

// run merges one log.
func (g *merge) run(j *job, s *shard) error {
	id := g.id
	s.opening[id] = true
	defer delete(s.opening, id)
	l := &Log{id: id, label: id.String(), shard: s, directory: id.String(), config: LogConfig{}.withDefaults(), epochLead: -1}
	content, err := j.readFile(l.directory+"/"+segment.ManifestName, manifestBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		// The name of a log is durable before it takes an append, so this one was
		// deleted, durably. What is in the journal of it is nobody's.
		g.gone = true
		return nil
	}
	if err != nil {
		return err
	}
	manifest, err := segment.DecodeManifest(content)
	if errors.Is(err, ErrCorrupt) {
		g.problem = err // opening it will say the same
		g.result = s.keeper.entryOf(id)
		g.result.LogID, g.result.Unproven = id, true
		return nil
	}
	if err != nil {
		return err
	}
	l.label = manifest.Label
	l.meta = pair{directory: l.directory, name: segment.ManifestName, there: true, bytes: int64(len(content))}
	err = g.runLog(j, l, manifest)
	l.giveUp(j)
	return err
}

// entryOf returns the loaded entry of a log, or an empty one.
func (k *keeper) entryOf(id LogID) segment.CheckpointLog {
	if i, ok := k.find(id); ok {
		return k.loaded[i]
	}
	return segment.CheckpointLog{}
}

// runLog finds the log's end in its segments and the journal, and writes what the
// segments lack.
func (g *merge) runLog(j *job, l *Log, manifest *segment.Manifest) error {
	l.gen, l.start, l.side.epochsSaved = manifest.Gen, manifest.Start, slices.Clone(manifest.Epochs)
	r := recovery{log: l, manifest: manifest, merge: g}
	if err := r.takeFiles(j); err != nil {
		return err
	}
	r.checkpoint, r.hasCheckpoint = l.shard.keeper.checkpointOf(l, manifest)
	if manifest.State == segment.Cutting {
		// Everything was in the segments before the cut began; opening finishes it.
		g.entries = nil
	}
	for i := range g.entries {
		if e := &g.entries[i]; e.Gen == l.gen || l.shard.faults.applyOlderGen {
			g.highest = max(g.highest, e.Durable)
		}
	}
	if r.missing != nil || manifest.State == segment.Cutting {
		g.result = r.checkpoint
		if !r.hasCheckpoint {
			g.result = segment.CheckpointLog{LogID: l.id, Gen: l.gen, Limit: noLimit}
		}
		g.result.Unproven = g.result.Unproven || g.problem != nil && r.missing == nil
		return nil
	}
	if err := r.scan(j); err != nil {
		return err
	}
	return g.conclude(j, l, &r)
}

// resolve decides a doubt when the log's end is known: an entry that does not follow says that
// something between is missing, and it may have been acknowledged. (Its D may not tell: D
// waits for the names of segments.) Without damage such a gap is of batches that never were.
func (g *merge) resolve(gen uint64, end int64) {
	if g.doubt == nil || g.problem != nil {
		return
	}
	for i := range g.entries[g.at:] {
		if e := &g.entries[g.at+i]; e.Gen == gen && e.LastOffset >= end {
			g.problem = g.doubt
			return
		}
	}
}

// conclude judges what was merged, and destroys what lies behind it.
func (g *merge) conclude(j *job, l *Log, r *recovery) error {
	end := l.next.offset
	g.resolve(l.gen, end)
	highest := g.highest
	if r.hasCheckpoint {
		highest = max(highest, r.checkpoint.Durable)
	}
	if end < highest && g.problem == nil {
		g.problem = &segment.CorruptError{
			File: l.next.segment.path(), Offset: l.next.position,
			Reason: fmt.Sprintf("segments and journal end at offset %d, and everything below %d was durable", end, highest),
		}
	}
	if g.problem != nil && !l.shard.faults.trustCheckpointEnd {
		l.shard.logger.Error("a log cannot be proven complete: it opens read-only", "log", l.label, "id", l.id, "error", g.problem)
		g.result = r.checkpoint
		if !r.hasCheckpoint {
			g.result = segment.CheckpointLog{LogID: l.id, Gen: l.gen, Segment: l.segments[0].BaseOffset, Offset: l.segments[0].BaseOffset, Durable: l.segments[0].BaseOffset, Limit: noLimit}
		}
		g.result.Durable = max(g.result.Durable, highest)
		g.result.Unproven = true
		return nil
	}
	if err := r.destroyLeftovers(j); err != nil {
		return err
	}
	// Flushed, whatever was written by whom: after a kill it may be in memory only.
	g.out.wrote = true
	l.settled = true
	g.result, _ = l.checkpointEntry()
	g.result.EpochsBelow = 0
	if r.hasCheckpoint {
		g.result.EpochsBelow = r.checkpoint.EpochsBelow
	}
	return nil
}

// overlap compares a batch of an entry with what the scan found at its place.
func (g *merge) overlap(batch record.Batch) error {
	low, high := 0, len(g.scanned)
	for low < high {
		if middle := (low + high) / 2; g.scanned[middle].base < batch.BaseOffset() {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low < len(g.scanned) {
		if s := &g.scanned[low]; s.base == batch.BaseOffset() && s.crc == batch.CRC() && s.bytes == len(batch) {
			return nil
		}
	}
	return fmt.Errorf("the journal has other bytes at offset %d than the segment", batch.BaseOffset())
}

// note remembers a batch that the scan found.
func (g *merge) note(batch record.Batch) {
	if len(g.entries) > 0 {
		g.scanned = append(g.scanned, scanned{base: batch.BaseOffset(), crc: batch.CRC(), bytes: len(batch)})
	}
}

// extend writes entries that follow behind position to f, as far as they do, and
// none at or above upTo, where the next segment begins. It returns where they end.
func (r *recovery) extend(j *job, f *segmentFile, position, upTo int64) (int64, error) {
	g, l, x := r.merge, r.log, f.index
	g.out.begin(f, position)
	for ; g.at < len(g.entries); g.at++ {
		e := &g.entries[g.at]
		if e.Gen != l.gen && !l.shard.faults.applyOlderGen || e.LastOffset < g.from {
			continue
		}
		if !e.whole {
			g.damaged(e)
			break
		}
		if e.PreviousEnd > x.NextOffset && !l.shard.faults.skipGaps {
			break // a gap: what follows was never released, or the highest D will tell
		}
		more, err := r.extendBy(j, e, upTo)
		if err != nil || !more {
			if err == nil {
				err = g.out.flush(j)
			}
			return g.out.position, err
		}
	}
	if err := g.out.flush(j); err != nil {
		return 0, err
	}
	return g.out.position, nil
}

func (g *merge) damaged(e *mergeEntry) {
	if g.problem == nil {
		g.problem = &segment.CorruptError{File: "commit journal", Reason: fmt.Sprintf("the batches from offset %d on, in frame %d, are damaged", e.FirstOffset, e.at.sequence)}
	}
}

// extendBy writes those batches of an entry that lie above the end; more is false when
// one belongs to the next segment.
func (r *recovery) extendBy(j *job, e *mergeEntry, upTo int64) (more bool, err error) {
	g, l := r.merge, r.log
	f := g.out.file
	x := f.index
	for data := e.data; len(data) > 0; {
		batch, rest, err := record.Next(data)
		if err != nil {
			return false, &segment.CorruptError{File: "commit journal", Reason: fmt.Sprintf("entry of %s at offset %d: %v", l.label, e.FirstOffset, err)}
		}
		if batch.BaseOffset() >= upTo {
			return false, nil
		}
		data = rest
		if batch.BaseOffset() < x.NextOffset {
			if batch.BaseOffset() >= g.from && batch.LastOffset() < x.NextOffset {
				if err := g.overlap(batch); err != nil {
					g.problem = &segment.CorruptError{File: f.path(), Reason: err.Error()}
					return false, nil
				}
			}
			continue
		}
		candidate := plan.Batch{
			BaseOffset: batch.BaseOffset(), LastOffset: batch.LastOffset(), Epoch: batch.LeaderEpoch(),
			Next: x.NextOffset, LastEpoch: l.epochAt(x.NextOffset), Segment: f.BaseOffset,
		}
		if l.shard.faults.skipGaps {
			candidate.Next = candidate.BaseOffset
		}
		if !candidate.Follows() {
			return false, nil // never released: the highest D will tell otherwise
		}
		if err := g.out.put(j, batch); err != nil {
			return false, err
		}
		x.Add(batch.BaseOffset(), batch.LastOffset()+1, batch.MaxTimestamp(), len(batch), int64(l.config.IndexIntervalBytes))
		g.note(batch)
	}
	return true, nil
}
