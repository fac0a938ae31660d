package dump

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"ringlog/engine/plan"
	"ringlog/engine/segment"
	"ringlog/meta"
	"ringlog/record"
)

// logCheck is the check of one log: its segments in order, then the journal's part of it, then
// the judgement that a start would come to.
type logCheck struct {
	*verifier
	log        *Log
	label      string
	files      map[string]int64 // of the directory, with their sizes
	checkpoint segment.CheckpointLog
	hasCheck   bool // checkpoint is of the log's generation
	merge      *merge
	found      map[int64]foundBatch // in segments that are not sealed
	reader     record.Reader

	next      int64 // the offset behind the last batch
	epoch     int32 // of it, -1 before the first
	file      string
	position  int64 // where the last segment's batches end
	untold    gap   // behind that end
	missing   bool  // a sealed segment is gone or short
	endDamage bool  // the log's end has been reported as damage
}

// foundBatch is what the journal's batches are compared with.
type foundBatch struct {
	crc   uint32
	bytes int
}

// gap is a batch that lies behind the end of a log without following it.
type gap struct {
	found  bool
	at     int64 // position
	offset int64
}

// log checks one log.
func (v *verifier) log(ctx context.Context, id meta.LogID) error {
	name := path.Join(id.String(), segment.ManifestName)
	l, err := v.store.Log(id)
	if bad, gone := v.stored(err, name, "", Lost, doRestore); bad {
		if gone {
			v.report.note(name, "", "the directory has no manifest: a log that was being made or removed")
		}
		return nil
	}
	c := logCheck{verifier: v, log: l, label: l.Manifest.Label, epoch: -1, found: make(map[int64]foundBatch)}
	c.checkpoint, c.hasCheck = v.last[id]
	c.hasCheck = c.hasCheck && c.checkpoint.Gen == l.Manifest.Gen
	if l.Manifest.LogID != id {
		v.report.damage(Damage{Severity: Lost, File: name, Log: c.label, What: fmt.Sprintf("it is the manifest of log %x: a file was put here", l.Manifest.LogID), Do: doRestore})
		return nil
	}
	if err := c.list(); err != nil {
		return err
	}
	c.merge = newMerge(l, v.journals)
	c.merge.found = func(base int64) (uint32, int, bool) {
		b, ok := c.found[base]
		return b.crc, b.bytes, ok
	}
	if err := c.segments(ctx); err != nil {
		return err
	}
	c.conclude()
	c.others()
	return nil
}

// list reads the names in the log's directory.
func (c *logCheck) list() error {
	entries, err := fs.ReadDir(c.store.fsys, c.log.ID.String())
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	c.files = make(map[string]int64, len(entries))
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			c.files[entry.Name()] = info.Size()
		}
	}
	return nil
}

// segments checks one after the other.
func (c *logCheck) segments(ctx context.Context) error {
	m := c.log.Manifest
	c.next = m.Segments[0].BaseOffset
	for i := range m.Segments {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := &m.Segments[i]
		upTo := int64(math.MaxInt64)
		if i+1 < len(m.Segments) {
			upTo = m.Segments[i+1].BaseOffset
		}
		if m.State == segment.Cutting && s.BaseOffset > m.Cut {
			break // what lies above a cut may be destroyed in any part
		}
		if s.BaseOffset != c.next && i > 0 && !m.Segments[i-1].Sealed {
			c.report.note(c.log.segmentName(s), c.label, "bytes of the segment before it were never written: this one was never released, and the next start drops it")
			return nil
		}
		if err := c.segment(s, upTo); err != nil {
			return err
		}
	}
	return nil
}

// segment checks one segment and its indexes.
func (c *logCheck) segment(s *segment.Summary, upTo int64) error {
	name := c.log.segmentName(s)
	f, err := c.store.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		c.gone(s, name, upTo)
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	c.report.Segments++
	c.file, c.position = name, 0
	x := c.index(s)
	before := c.report.Lost()
	if s.Sealed {
		err = c.sealed(f, s, x)
	} else {
		err = c.open(f, s, upTo, x)
	}
	if err == nil && c.report.Lost() == before {
		x.judge(c, s)
	}
	c.progress(f.size)
	return err
}

// gone is a segment that the manifest names and that is not there.
func (c *logCheck) gone(s *segment.Summary, name string, upTo int64) {
	if c.options.Live {
		c.report.note(name, c.label, "removed while this ran")
		c.next = s.NextOffset
		return
	}
	d := Damage{Severity: Lost, File: name, Log: c.label, FromOffset: s.BaseOffset, What: "log.meta names the segment and it is not there", Do: doRestore}
	if s.Sealed {
		c.missing = true
		d.ToOffset, c.next = s.NextOffset, s.NextOffset
	} else if upTo < math.MaxInt64 {
		d.ToOffset, c.next = upTo, upTo
	}
	c.endDamage = c.endDamage || !s.Sealed
	c.report.damage(d)
}

// sealed checks a segment of which every byte is known to be durable.
func (c *logCheck) sealed(f *file, s *segment.Summary, x *indexCheck) error {
	if c.next != s.BaseOffset {
		c.report.damage(Damage{Severity: Lost, File: f.name, Log: c.label, FromOffset: min(c.next, s.BaseOffset), ToOffset: max(c.next, s.BaseOffset),
			What: "the segment does not begin where the one before it ends", Do: doSealed})
	}
	c.next = s.BaseOffset
	maxTimestamp := int64(-1)
	limit := s.Bytes
	if f.size < limit {
		c.missing = true
		limit = f.size
	}
	intact := true
	for {
		end, reason, err := c.walker.walk(f, c.position, limit, func(batch record.Batch, position int64) bool {
			c.follow(f, s, batch, position)
			x.batch(position, batch, maxTimestamp)
			maxTimestamp = max(maxTimestamp, batch.MaxTimestamp())
			return true
		})
		c.position = end
		if err != nil {
			return err
		}
		if end >= s.Bytes {
			break
		}
		intact = false
		more, err := c.damaged(f, s, end, limit, reason)
		if err != nil || !more {
			return err
		}
	}
	switch {
	case !intact:
	case c.next != s.NextOffset:
		c.report.damage(Damage{Severity: Lost, File: f.name, Position: c.position, Log: c.label, FromOffset: min(c.next, s.NextOffset), ToOffset: max(c.next, s.NextOffset),
			What: fmt.Sprintf("its batches end at offset %d, and log.meta says %d", c.next, s.NextOffset), Do: doSealed})
	case maxTimestamp != s.MaxTimestamp && maxTimestamp >= 0:
		c.report.damage(Damage{Severity: Rebuilt, File: path.Join(c.log.ID.String(), segment.ManifestName), Log: c.label,
			What: fmt.Sprintf("segment %d: the largest timestamp is %d, and log.meta says %d: searches and retention by time go by the latter", s.BaseOffset, maxTimestamp, s.MaxTimestamp), Do: doHardware})
	}
	c.next = s.NextOffset
	return nil
}

// damaged reports bytes of a sealed segment that are no batch, up to where batches go on; more is
// false when they do not.
func (c *logCheck) damaged(f *file, s *segment.Summary, end, limit int64, reason error) (more bool, err error) {
	d := Damage{Severity: Lost, File: f.name, Position: end, Log: c.label, FromOffset: c.next, ToOffset: s.NextOffset, Do: doSealed}
	if reason == nil || end >= f.size {
		d.What, d.Bytes = fmt.Sprintf("the file ends at byte %d, and log.meta says %d", f.size, s.Bytes), s.Bytes-end
		c.report.damage(d)
		c.next = s.NextOffset
		return false, nil
	}
	at, batch, found, err := c.walker.resync(f, end+1, limit, c.next)
	if err != nil {
		return false, err
	}
	d.What, d.Bytes = describe(reason), at-end
	if found {
		d.ToOffset = batch.BaseOffset()
		c.next, c.position = batch.BaseOffset(), at
	} else {
		d.Bytes = s.Bytes - end
		c.next = s.NextOffset
	}
	c.report.damage(d)
	return found, nil
}

// describe says what is wrong with a batch, without the names of packages.
func describe(reason error) string {
	if errors.Is(reason, record.ErrShort) {
		return "no whole batch is here"
	}
	return strings.TrimPrefix(reason.Error(), "record: ")
}

// follow judges a batch whose checksum holds: does it go on where the log is?
func (c *logCheck) follow(f *file, s *segment.Summary, batch record.Batch, position int64) {
	c.report.Batches++
	c.report.Records += int64(batch.RecordCount())
	d := Damage{Severity: Lost, File: f.name, Position: position, Bytes: int64(len(batch)), Log: c.label, FromOffset: batch.BaseOffset(), ToOffset: batch.LastOffset() + 1, Do: doSealed}
	expected, known := c.epochOf(batch.BaseOffset())
	switch {
	case !follows(batch, c.next, c.epoch, s.BaseOffset):
		d.What = fmt.Sprintf("the batch does not follow: offset %d of epoch %d, behind offset %d of epoch %d", batch.BaseOffset(), batch.LeaderEpoch(), c.next, c.epoch)
		c.report.damage(d)
	case known && batch.LeaderEpoch() != expected:
		d.What = fmt.Sprintf("the batch has leader epoch %d, and log.meta says %d (its checksum does not cover it)", batch.LeaderEpoch(), expected)
		c.report.damage(d)
	}
	c.next = batch.LastOffset() + 1
	if known {
		c.epoch = max(c.epoch, expected) // one damaged epoch condemns one batch
	} else {
		c.epoch = max(c.epoch, batch.LeaderEpoch())
	}
	c.records(f.name, position, batch)
}

// records reads every record of a batch, if that was asked for.
func (c *logCheck) records(name string, position int64, batch record.Batch) {
	if !c.options.Records {
		return
	}
	c.reader.Reset(batch)
	for c.reader.Next() {
	}
	if err := c.reader.Err(); err != nil {
		c.report.damage(Damage{Severity: Lost, File: name, Position: position, Bytes: int64(len(batch)), Log: c.label, FromOffset: batch.BaseOffset(), ToOffset: batch.LastOffset() + 1,
			What: fmt.Sprintf("the checksum of the batch holds, and its records cannot be read: %v", err),
			Do:   "it was stored so: consumers fail at it too and have to skip it; tell the authors of the producer, and of ringlog, which checks what it takes"})
	}
	c.reader.Close()
}

// epochOf is the leader epoch that the manifest has for an offset, as far as the checkpoint
// says that it has all.
func (c *logCheck) epochOf(offset int64) (epoch int32, known bool) {
	epochs := c.log.Manifest.Epochs
	if !c.hasCheck || offset >= c.checkpoint.EpochsBelow || len(epochs) == 0 || offset < epochs[0].Start {
		return 0, false
	}
	for _, e := range epochs {
		if e.Start <= offset {
			epoch = e.Epoch
		}
	}
	return epoch, true
}

// open checks a segment that is not sealed: its end is where nothing follows, in the
// file or in the journal.
func (c *logCheck) open(f *file, s *segment.Summary, upTo int64, x *indexCheck) error {
	if len(c.found) == 0 {
		c.merge.from = s.BaseOffset
	}
	maxTimestamp := int64(-1)
	for {
		end, _, err := c.walker.walk(f, c.position, f.size, func(batch record.Batch, position int64) bool {
			expected, known := c.epochOf(batch.BaseOffset())
			if !follows(batch, c.next, c.epoch, s.BaseOffset) || known && expected != batch.LeaderEpoch() {
				return false
			}
			c.found[batch.BaseOffset()] = foundBatch{crc: batch.CRC(), bytes: len(batch)}
			c.follow(f, s, batch, position)
			x.batch(position, batch, maxTimestamp)
			maxTimestamp = max(maxTimestamp, batch.MaxTimestamp())
			return true
		})
		c.position = end
		if err != nil {
			return err
		}
		c.merge.epoch = c.epoch
		x.limit = min(x.limit, end) // an index says nothing of what only the journal has
		more, err := c.merge.extend(c.next, s.BaseOffset, upTo, func(batch record.Batch, e *entryRef) bool {
			c.found[batch.BaseOffset()] = foundBatch{crc: batch.CRC(), bytes: len(batch)}
			c.report.Batches++
			c.report.Records += int64(batch.RecordCount())
			c.records(e.name, e.position, batch)
			c.next, c.epoch = batch.LastOffset()+1, max(c.epoch, batch.LeaderEpoch())
			c.position += int64(len(batch))
			return true
		})
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	at, batch, found, err := c.walker.resync(f, c.position, f.size, c.next)
	if found {
		c.untold = gap{found: true, at: at, offset: batch.BaseOffset()}
	}
	return err
}

// conclude judges the end of the log as a start would.
func (c *logCheck) conclude() {
	m := c.log.Manifest
	if m.State == segment.Cutting {
		c.report.note(path.Join(c.log.ID.String(), segment.ManifestName), c.label, "a truncation to offset %d was under way; the next start finishes it", m.Cut)
		return
	}
	if c.options.Live || c.endDamage {
		return // a broker writes while this reads, or it has been said
	}
	if p := c.merge.problem; p != nil {
		d := Damage{Severity: Lost, File: p.File, Position: p.Offset, Bytes: int64(c.merge.culprit.bytes), Log: c.label, What: p.Reason, Do: doJournal}
		if c.merge.culprit.LastOffset >= c.next {
			d.FromOffset, d.ToOffset = max(c.merge.culprit.FirstOffset, c.next), c.merge.culprit.LastOffset+1
		}
		c.report.damage(d)
		return
	}
	if e := c.merge.unreached(c.next); e != nil && c.journals.damaged() {
		c.report.damage(Damage{Severity: Lost, File: c.file, Position: c.position, Log: c.label, FromOffset: c.next, ToOffset: e.FirstOffset,
			What: fmt.Sprintf("segments and journal end at offset %d, and the journal goes on with offset %d: a damaged frame held what is between", c.next, e.FirstOffset), Do: doJournal})
		return
	}
	durable := c.merge.highest()
	if c.hasCheck {
		durable = max(durable, c.checkpoint.Durable)
	}
	verdict := plan.Recovery{Checkpoint: true, Durable: durable, End: c.next, Unproven: c.hasCheck && c.checkpoint.Unproven}.Judge()
	switch {
	case c.missing: // it has been said, and what lies behind is not the end
	case verdict == plan.Fence && c.next >= durable:
		c.report.damage(Damage{Severity: Lost, File: c.file, Position: c.position, Log: c.label, FromOffset: c.next,
			What: "a damaged frame of the commit journal may have held more behind this end", Do: doJournal})
	case verdict == plan.Fence:
		d := Damage{Severity: Lost, File: c.file, Position: c.position, Log: c.label, FromOffset: c.next, ToOffset: durable,
			What: fmt.Sprintf("segments and journal end at offset %d, and everything below %d was durable", c.next, durable), Do: doRestore}
		if c.untold.found && c.untold.at > c.position {
			d.Bytes, d.ToOffset = c.untold.at-c.position, min(durable, c.untold.offset)
			d.What += fmt.Sprintf("; batches go on at byte %d with offset %d", c.untold.at, c.untold.offset)
		}
		c.report.damage(d)
	case c.untold.found:
		c.report.note(c.file, c.label, "behind the log's end, at byte %d, lies a batch of offset %d that does not follow: a torn tail, which nobody was told of; the next start destroys it",
			c.untold.at, c.untold.offset)
	}
}

// others looks at what else lies in the log's directory.
func (c *logCheck) others() {
	named := map[string]bool{}
	for i := range c.log.Manifest.Segments {
		for _, suffix := range []string{segment.LogSuffix, segment.IndexSuffix, segment.TimeIndexSuffix} {
			named[c.log.fileName(&c.log.Manifest.Segments[i], suffix)] = true
		}
	}
	names := make([]string, 0, len(c.files))
	for name := range c.files {
		names = append(names, name)
	}
	slices.Sort(names)
	var snapshots []int64
	var leftovers []string
	for _, name := range names {
		offset, _, suffix, ok := segment.ParsePassName(name)
		where := path.Join(c.log.ID.String(), name)
		switch {
		case ok && suffix == segment.SnapshotSuffix:
			snapshots = append(snapshots, offset)
		case named[where], name == segment.ManifestName, name == segment.ManifestNewName, segment.IsPrepared(name):
		case ok, strings.HasSuffix(name, segment.NewSuffix):
			leftovers = append(leftovers, name)
		default:
			c.report.note(where, c.label, "the engine knows no such name and leaves it alone")
		}
	}
	if len(leftovers) > 0 { // one note: compaction and retention may leave hundreds
		bytes := int64(0)
		for _, name := range leftovers {
			bytes += c.files[name]
		}
		c.report.note(path.Join(c.log.ID.String(), leftovers[0]), c.label, "files that log.meta does not name: %d, of %d bytes in all, this one the first: being made when the broker ended, or being removed",
			len(leftovers), bytes)
	}
	end := c.next
	if c.options.Live {
		end = math.MaxInt64
	}
	c.snapshots(c.log, snapshots, end)
}
