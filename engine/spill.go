package engine

import (
	"errors"
	"fmt"
	"io/fs"

	"ringlog/engine/disk"
	"ringlog/engine/journal"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
)

// A spill is a file of journal frames with the entries of one log that its
// segments could not take: its disk failed, or it cannot be proven complete. With
// them put aside the ring can be used again, and the next start merges them (rule
// 13). It lies beside the log directories as LOGID.spill.

// spillBytesMax bounds what is read as a spill.
const spillBytesMax = 4 << 30

func spillName(id LogID) string { return id.String() + spillSuffix }

// spill puts aside what the ring holds of a log that has failed.
func (q *commitJournal) spill(j *job, l *Log) error {
	var entries []mergeEntry
	memory := disk.AlignedBytes(int(q.frameBytes))
	for i := range l.entries.count {
		mark := l.entries.at(i)
		at := q.fileOffset(q.positionOf(mark.sequence))
		data := memory[:min(q.frameBytes, segment.RingHeadBytes+q.size-at)]
		if err := j.readPieces(q.file, data, at); err != nil {
			return err
		}
		frame, err := journal.Parse(data, q.store)
		if err == nil && frame.Sequence != mark.sequence {
			err = &segment.CorruptError{File: segment.JournalName(q.shard.number), Offset: at, Reason: fmt.Sprintf("frame %d instead of %d", frame.Sequence, mark.sequence)}
		}
		if err != nil {
			return err
		}
		for k := range frame.Len() {
			if e, data, whole := frame.At(k); LogID(e.LogID) == l.id {
				entries = append(entries, mergeEntry{Entry: e, data: append([]byte(nil), data...), whole: whole})
			}
		}
	}
	if err := writeSpill(j, q.store, l.id, entries); err != nil {
		return fmt.Errorf("engine: put the journal entries of %s aside: %w", l.label, err)
	}
	q.shard.logger.Warn("what the journal held of a failed log is put aside for the next start", "log", l.label, "file", spillName(l.id))
	l.entries = deque[entryMark]{}
	return nil
}

// writeSpill writes the file and returns when it and its name are durable.
func writeSpill(j *job, store [16]byte, id LogID, entries []mergeEntry) error {
	var content []byte
	var b journal.Builder
	sequence := uint64(1)
	for len(entries) > 0 {
		bytes := len(entries[0].data) + 2*plan.BlockBytes
		b.Begin(disk.AlignedBytes(int(plan.RoundUp(int64(max(bytes, plan.FrameBytesMax))))))
		n := 0
		for n < len(entries) && b.Room() >= len(entries[n].data) {
			b.Entry(entries[n].Entry)
			b.Append(entries[n].data)
			n++
		}
		content = append(content, b.Finish(journal.Header{Store: store, Run: 1, Sequence: sequence, Flushed: sequence - 1, From: 1})...)
		entries = entries[n:]
		sequence++
	}
	name := spillName(id)
	err := j.replaceFile(".", name, name+segment.NewSuffix, content, true)
	if err == nil {
		j.shard.counters.spills.Add(1)
	}
	return err
}

// readSpills takes the entries of all spills.
func (m *merging) readSpills(j *job) error {
	for _, id := range m.boot.spills {
		content, err := j.readFile(spillName(id), spillBytesMax)
		if err != nil {
			return err
		}
		g := m.of(id)
		g.spilled = true
		for len(content) > 0 {
			f, err := journal.Parse(content, m.boot.storeFound())
			if err != nil {
				g.problem = &segment.CorruptError{File: spillName(id), Reason: err.Error()}
				break
			}
			for k := range f.Len() {
				e, data, whole := f.At(k)
				g.entries = append(g.entries, mergeEntry{Entry: e, data: data, whole: whole})
			}
			content = content[f.Bytes():]
		}
	}
	return nil
}

// storeFound is the store id of the data directory as a checkpoint has it.
func (b *boot) storeFound() (store [16]byte) {
	for i := range b.checkpoints {
		if b.checkpoints[i].content.Store != store {
			return b.checkpoints[i].content.Store
		}
	}
	return store
}

// putAside keeps the entries of logs that could not be merged.
func (m *merging) putAside(j *job) error {
	for _, g := range m.logs {
		if g.problem == nil || g.gone || len(g.entries) == 0 || g.spilled {
			continue // what was put aside before stays as it is
		}
		var whole []mergeEntry
		for _, e := range g.entries {
			if e.whole {
				whole = append(whole, e)
			}
		}
		if len(whole) == 0 {
			continue
		}
		if err := writeSpill(j, m.boot.store, g.id, whole); err != nil {
			return fmt.Errorf("engine: put the journal entries of log %s aside: %w", g.id, err)
		}
	}
	return nil
}

// removeSpills removes those that were merged. REQUIRES: the checkpoint says so.
func (m *merging) removeSpills(j *job) error {
	removed := false
	for _, g := range m.logs {
		if !g.spilled || g.problem != nil && !g.gone {
			continue
		}
		if err := j.simple(disk.Unlink, spillName(g.id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return j.simple(disk.SyncDirectory, ".")
}
