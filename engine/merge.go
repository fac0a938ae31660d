package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"ringlog/engine/disk"
	"ringlog/engine/journal"
	"ringlog/engine/segment"
)

const (
	// mergeWorkers is how many logs are merged at a time.
	mergeWorkers = 192
	// ringReadBytes is how much of a ring is read at a time, in pieces side by side; a
	// frame is never longer.
	ringReadBytes = 16 << 20
	// mergeWriteBytes is the size of a write of merged batches.
	mergeWriteBytes = 256 << 10
	// spillSuffix ends the name of a file with journal entries of one log that could not
	// be merged, beside the log directories.
	spillSuffix = ".spill"
)

// merging is the merge of the journals of all shards of the last run into the
// segments (rule 9): it runs before any log is opened, and opening one then knows
// nothing of it. Nothing of it depends on how often it was begun before.
type merging struct {
	shard   *shard // whose disk does it
	boot    *boot
	rings   []*ring
	logs    []*merge // those with entries, and those that are condemned
	byID    map[LogID]*merge
	trouble error // the first failure of a worker
}

// place is a frame of one of the rings; nil is a spill.
type place struct {
	ring     *ring
	sequence uint64
}

// run reads the rings, merges what the segments lack, and makes all of that durable.
// The checkpoints that say so are the caller's, and removeSpills comes after them.
func (m *merging) run(j *job) error {
	m.byID = make(map[LogID]*merge)
	m.shard.keeper.setLoaded(m.boot.merged)
	if err := m.readSpills(j); err != nil {
		return err
	}
	for _, n := range m.boot.rings {
		r := m.ringOf(n)
		m.rings = append(m.rings, r)
		if err := r.read(j); err != nil {
			return fmt.Errorf("engine: read the commit journal %s: %w", segment.JournalName(n), err)
		}
		m.take(r)
	}
	m.sort()
	m.startRun()
	err := j.parallel(len(m.logs), mergeWorkers, func(j *job, i int) {
		if m.trouble != nil {
			return
		}
		if err := m.logs[i].run(j, m.shard); err != nil && m.trouble == nil {
			m.trouble = fmt.Errorf("engine: merge the journal into log %s: %w", m.logs[i].id, err)
		}
	})
	if err == nil {
		err = m.trouble
	}
	if err != nil {
		return err
	}
	return m.finish(j)
}

// ringOf finds the checkpoint of a ring.
func (m *merging) ringOf(shard int) *ring {
	r := &ring{shard: shard}
	for i := range m.boot.checkpoints {
		if c := &m.boot.checkpoints[i]; c.shard == shard && !c.damaged {
			r.checkpoint, r.known = c.content, c.content.Run > 0
		}
	}
	return r
}

// startRun gives this run a number and sequences that no frame in any ring has.
func (m *merging) startRun() {
	b := m.boot
	b.runNow, b.sequence = 1, 1
	for i := range b.checkpoints {
		p := &b.checkpoints[i].content
		b.runNow, b.sequence = max(b.runNow, p.Run+1), max(b.sequence, p.From, p.Flushed+1)
		if p.Store != [16]byte{} {
			b.store = p.Store
		}
	}
	for _, r := range m.rings {
		b.runNow, b.sequence = max(b.runNow, r.verdict.NextRun), max(b.sequence, r.verdict.Next)
		b.store = r.checkpoint.Store
	}
	if m.shard.faults.keepRun && len(b.checkpoints) > 0 {
		b.runNow, b.sequence = max(1, b.checkpoints[0].content.Run), max(1, b.checkpoints[0].content.From)
	}
	if b.store == [16]byte{} {
		b.store = m.shard.options.NewStore()
	}
}

// take hands the entries of a ring to their logs.
func (m *merging) take(r *ring) {
	frames := r.verdict.Take
	if m.shard.faults.applyDropped {
		frames = append(append([]int(nil), frames...), r.verdict.Dropped...)
	}
	for _, i := range frames {
		f := &r.frames[i]
		for k := range f.Len() {
			e, data, whole := f.At(k)
			g := m.of(LogID(e.LogID))
			g.last = place{ring: r, sequence: f.Sequence}
			g.entries = append(g.entries, mergeEntry{Entry: e, at: g.last, data: data, whole: whole})
		}
	}
	for _, damage := range r.verdict.Damaged {
		m.shard.logger.Error("frames of the commit journal that were flushed are damaged",
			"shard", r.shard, "from_sequence", damage.From, "to_sequence", damage.To-1)
		m.condemn(r, damage)
	}
	if n := len(r.verdict.Ahead); n > 0 {
		m.shard.logger.Error("the commit journal has frames of a later run than the checkpoint: an older checkpoint, or another journal, was put here",
			"shard", r.shard, "frames", n)
		m.condemn(r, journal.Range{From: 1, To: math.MaxUint64})
	}
}

// sort orders the entries of each log: those of rings on which it was before come first.
func (m *merging) sort() {
	for _, g := range m.logs {
		slices.SortStableFunc(g.entries, func(a, b mergeEntry) int {
			return cmp.Or(cmp.Compare(a.Gen, b.Gen), cmp.Compare(a.PreviousEnd, b.PreviousEnd))
		})
	}
}

func (m *merging) of(id LogID) *merge {
	g := m.byID[id]
	if g == nil {
		g = &merge{id: id}
		m.byID[id] = g
		m.logs = append(m.logs, g)
	}
	return g
}

// condemn marks every log that may have had its last batches in a damaged frame: all
// but those that have a later entry, which proves itself by following what is there.
func (m *merging) condemn(r *ring, damage journal.Range) {
	if m.shard.faults.trustDamage {
		return
	}
	suspects := m.boot.logs // when nobody knows which of them were here
	if r.known {
		suspects = nil
		for i := range r.checkpoint.Logs {
			suspects = append(suspects, r.checkpoint.Logs[i].LogID)
		}
		for _, g := range m.logs {
			if g.last.ring == r {
				suspects = append(suspects, g.id)
			}
		}
	}
	for _, id := range suspects {
		g := m.of(id)
		if r.spares(damage, g) || g.problem != nil {
			continue
		}
		problem := &segment.CorruptError{
			File:   segment.JournalName(r.shard),
			Reason: fmt.Sprintf("frames %d to %d are damaged, and may have held the log's last batches", damage.From, damage.To-1),
		}
		if g.last.ring == r && g.last.sequence >= damage.To {
			g.doubt = problem // until that later entry follows
		} else {
			g.problem = problem
		}
	}
}

// finish makes what was merged durable, by one flush for all.
func (m *merging) finish(j *job) error {
	k := &m.shard.keeper
	wrote := false
	for _, g := range m.logs {
		wrote = wrote || g.out.wrote
		i, known := k.find(g.id)
		switch {
		case g.gone && known:
			k.forget(g.id)
		case g.gone:
		case known:
			k.loaded[i] = g.result
		default:
			k.setLoaded(append(k.loaded, g.result))
		}
	}
	m.boot.merged = k.loaded
	if wrote && !m.shard.faults.openBeforeFlush {
		if err := m.flush(j); err != nil {
			return err
		}
	}
	return m.putAside(j)
}

// flush makes everything on the file system durable; a ring is the written file that
// goes with it, or, without one, the checkpoint, which is about to be replaced.
func (m *merging) flush(j *job) error {
	name := segment.CheckpointName(m.shard.number)
	if len(m.rings) > 0 {
		name = segment.JournalName(m.rings[0].shard)
	}
	file, _, err := j.open(name, disk.Create)
	if err != nil {
		return err
	}
	j.one = disk.Operation{Kind: disk.SyncFilesystem, File: file}
	err = j.do(&j.one)
	if closeErr := j.close(file); err == nil {
		err = closeErr
	}
	return err
}

// isSpill returns the log that a file of put-aside entries is of.
func isSpill(name string) (id LogID, ok bool) {
	name, ok = strings.CutSuffix(name, spillSuffix)
	if !ok {
		return id, false
	}
	return parseLogID(name)
}
