package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"ringlog/engine/disk"
	"ringlog/engine/journal"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
	"ringlog/record"
)

const (
	// mergeWorkers is how many logs are merged at a time.
	mergeWorkers = 64
	// ringReadBytes is how much of a ring is read at a time; a frame is never longer.
	ringReadBytes = 4 << 20
	// mergeWriteBytes is the size of a write of merged batches.
	mergeWriteBytes = 256 << 10
	// SpillSuffix ends the name of a file with journal entries of one log that could not
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

// ring is what was found of one shard's journal.
type ring struct {
	shard      int
	checkpoint segment.Checkpoint
	known      bool // the checkpoint could be read
	frames     []journal.Frame
	found      []journal.Found
	verdict    journal.Verdict
}

// merge is the merge of one log.
type merge struct {
	id      LogID
	entries []mergeEntry // in order of sequence
	at      int          // the first that is not done
	spilled bool         // some come from a spill
	highest int64        // highest D that an entry of the log's generation recorded
	last    place        // where its last entry was found
	problem error        // why the log cannot be proven complete, or nil
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

// place is a frame of one of the rings; nil is a spill.
type place struct {
	ring     *ring
	sequence uint64
}

// scanned is a batch that the scan of the segments found.
type scanned struct {
	base  int64
	crc   uint32
	bytes int
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

// read finds the frames that are still needed, and judges them.
func (r *ring) read(j *job) error {
	file, size, err := j.open(segment.JournalName(r.shard), disk.ReadOnly)
	if err != nil {
		return err
	}
	if err = r.readHead(j, file); err == nil {
		err = r.readFrames(j, file, size)
	}
	if closeErr := j.close(file); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	p := &r.checkpoint
	r.verdict = journal.Judge(r.found, journal.Trim{Run: p.Run, From: p.From, Flushed: p.Flushed}, r.known)
	return nil
}

// readHead learns the store id from the ring when the checkpoint cannot tell it.
func (r *ring) readHead(j *job, file disk.File) error {
	block := disk.AlignedBytes(segment.RingHeadBytes)
	if _, err := j.readAll(file, block, 0); err != nil {
		return err
	}
	head, err := segment.DecodeRing(block)
	if errors.Is(err, ErrCorrupt) {
		j.shard.logger.Error("the head of a commit journal is damaged", "shard", r.shard, "error", err)
		return nil
	}
	if err == nil && !r.known {
		r.checkpoint.Store = head.Store
	}
	return err
}

// readFrames looks for frames at every block: behind a damaged one the next is
// somewhere.
func (r *ring) readFrames(j *job, file disk.File, size int64) error {
	window := disk.AlignedBytes(int(min(plan.RoundUp(size), ringReadBytes)))
	for at := int64(segment.RingHeadBytes); at < size; {
		data := window[:min(int64(len(window)), plan.RoundUp(size-at))]
		if err := j.readPieces(file, data, at); err != nil {
			return err
		}
		next := 0
		for next < len(data) {
			f, err := journal.Parse(data[next:], r.checkpoint.Store)
			var short *journal.ShortError
			if errors.As(err, &short) && next > 0 && short.Bytes <= len(window) {
				break // the window goes on from here
			}
			if errors.Is(err, segment.ErrNewerFormat) {
				return err
			}
			if f.Bytes() == 0 {
				next += plan.BlockBytes
				continue
			}
			r.keep(&f, data[next:next+f.Bytes()])
			if err == nil {
				next += f.Bytes()
			} else {
				next += plan.BlockBytes // its table is damaged: a frame of another lap may begin inside
			}
		}
		at += int64(next)
	}
	return nil
}

// keep takes a frame that can matter. It refers to memory that is read into again, so
// it is read once more from a copy.
func (r *ring) keep(f *journal.Frame, data []byte) {
	p := &r.checkpoint
	if r.known && (f.Run < p.Run || f.Run == p.Run && f.Sequence < p.From) {
		return
	}
	r.found = append(r.found, journal.Found{Run: f.Run, Sequence: f.Sequence, Flushed: f.Flushed, From: f.From, Whole: f.Whole()})
	kept, _ := journal.Parse(append([]byte(nil), data...), p.Store) // what it says is known already
	r.frames = append(r.frames, kept)
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
			"shard", r.shard, "from sequence", damage.From, "to", damage.To-1)
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
		if g.last.ring == r && g.last.sequence >= damage.To || r.spares(damage, g) || g.problem != nil {
			continue
		}
		g.problem = &segment.CorruptError{
			File:   segment.JournalName(r.shard),
			Reason: fmt.Sprintf("frames %d to %d are damaged, and may have held the log's last batches", damage.From, damage.To-1),
		}
	}
}

// spares says whether the damaged frames are there, with tables that do not name
// the log.
func (r *ring) spares(damage journal.Range, g *merge) bool {
	left := damage.To - damage.From
	for _, i := range r.verdict.Take {
		if f := &r.frames[i]; f.Sequence >= damage.From && f.Sequence < damage.To && f.Len() > 0 {
			left--
		}
	}
	if left > 0 {
		return false
	}
	for i := range g.entries {
		if e := &g.entries[i]; e.at.ring == r && e.at.sequence >= damage.From && e.at.sequence < damage.To && !e.whole {
			return false
		}
	}
	return true
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
	l.gen, l.start = manifest.Gen, manifest.Start
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

// conclude judges what was merged, and destroys what lies behind it.
func (g *merge) conclude(j *job, l *Log, r *recovery) error {
	end := l.next.offset
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
	f := l.active
	f.pins++
	defer func() { f.pins-- }()
	if err := l.shard.files.open(j, f); err != nil {
		return err
	}
	if !l.shard.faults.keepLeftovers {
		limit := f.prepared
		if r.hasCheckpoint && r.checkpoint.Segment == f.BaseOffset {
			limit = min(limit, r.checkpoint.Limit)
		}
		before := f.writesDone
		if err := l.destroy(j, f, l.next.position, limit); err != nil {
			return err
		}
		g.out.wrote = g.out.wrote || f.writesDone > before
	}
	// Flushed, whatever was written by whom: after a kill it may be in memory only.
	g.out.wrote = true
	l.settled = true
	g.result, _ = l.checkpointEntry()
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
		l.noteEpoch(batch.LeaderEpoch(), batch.BaseOffset())
		x.Add(batch.BaseOffset(), batch.LastOffset()+1, batch.MaxTimestamp(), len(batch), int64(l.config.IndexIntervalBytes))
		g.note(batch)
	}
	return true, nil
}

// isSpill returns the log that a file of put-aside entries is of.
func isSpill(name string) (id LogID, ok bool) {
	name, ok = strings.CutSuffix(name, spillSuffix)
	if !ok {
		return id, false
	}
	return parseLogID(name)
}
