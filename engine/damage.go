package engine

import (
	"errors"
	"fmt"
	"io/fs"

	"ringlog/engine/segment"
	"ringlog/record"
)

// errMisplaced is the reason for batches that are whole and not at the offset
// where the one before ends. The base offset lies outside of the checksum, so
// that leaders can set it: only its neighbours vouch for it, in a compacted log too
// (package compact leaves no gaps).
var errMisplaced = errors.New("a batch is not at the offset where the one before it ends")

// errOtherEpoch is the reason for batches whose leader epoch, which lies outside
// of the checksum as well, is not the one that the manifest knows.
var errOtherEpoch = errors.New("a batch is of another leader epoch than its neighbours")

// errVanished is the reason for a segment whose file has lost its name.
var errVanished = errors.New("the file is not in its directory any more")

const (
	// damagesMax is how many ranges of a log are told apart. Of one that is rotten through and
	// through the rest of the segment is fenced each time.
	damagesMax = 256
	// resumesMax is how many entries of an index are tried behind a damaged batch.
	resumesMax = 256
)

// damage is a range of a segment that is not what was written. It is never served;
// what lies before and behind it is.
type damage struct {
	from, to mark // to is the segment's end when nothing behind the damage can be trusted
	err      error
}

func (f *segmentFile) begin() mark { return mark{segment: f, offset: f.BaseOffset} }
func (f *segmentFile) end() mark   { return mark{segment: f, position: f.Bytes, offset: f.NextOffset} }

// noteDamage fences what lies in f between two places.
func (l *Log) noteDamage(f *segmentFile, from, to mark, reason error) error {
	if err := l.damagedAt(from.offset); err != nil {
		return err
	}
	if len(l.damages) >= damagesMax {
		to = f.end()
	}
	err := &segment.CorruptError{
		File: f.path(), Offset: from.position,
		Reason: fmt.Sprintf("offsets [%d, %d) of %s are fenced: %v", from.offset, to.offset, l.label, reason),
	}
	l.damages = append(l.damages, damage{from: from, to: to, err: err})
	l.shard.counters.corruptions.Add(1)
	l.noteDamages()
	l.shard.logger.Error("stored batches are damaged and are not served; what lies before and behind them is",
		"log", l.label, "from", from.offset, "to", to.offset, "error", err)
	return err
}

// noteDamages counts the ranges that are fenced now.
func (l *Log) noteDamages() {
	n := int64(len(l.damages))
	if l.closed != nil {
		n = 0
	}
	l.shard.counters.damages.Add(n - l.damagesCounted)
	l.damagesCounted = n
}

// keepDamages forgets the ranges of offsets that the log does not have any more.
func (l *Log) keepDamages() {
	kept := l.damages[:0]
	for _, d := range l.damages {
		if d.to.offset = min(d.to.offset, l.next.offset); d.to.offset > l.start && d.from.offset < d.to.offset {
			kept = append(kept, d)
		}
	}
	clear(l.damages[len(kept):])
	l.damages = kept
	l.noteDamages()
}

// damagedAt returns the error of the fenced range that holds offset, or nil.
func (l *Log) damagedAt(offset int64) error {
	if d := l.damageAt(offset); d != nil {
		return d.err
	}
	return nil
}

// damageAt returns the fenced range that holds offset, or nil.
func (l *Log) damageAt(offset int64) *damage {
	for i := range l.damages {
		if d := &l.damages[i]; offset >= d.from.offset && offset < d.to.offset {
			return d
		}
	}
	return nil
}

// openToRead opens the file of a segment that the log has. One that is not there is damage: all of it.
func (l *Log) openToRead(j *job, f *segmentFile) error {
	err := j.shard.files.open(j, f)
	if errors.Is(err, fs.ErrNotExist) && !f.gone && l.closed == nil && f.named {
		return l.noteDamage(f, f.begin(), f.end(), errVanished)
	}
	return err
}

// follows returns why a stored batch cannot be the one at offset next, or nil.
func (l *Log) follows(batch record.Batch, next int64) error {
	if batch.BaseOffset() != next {
		return errMisplaced
	}
	// Epochs that ended below the start offset are forgotten.
	if known := l.epochAt(next + 1); known >= 0 && known != batch.LeaderEpoch() {
		return errOtherEpoch
	}
	return nil
}

// chain is what the batches of a segment say themselves, each where the one before ends.
type chain struct {
	index  *segment.Index // of what follows
	reason error          // why it ended before its limit, or nil
	known  *segment.Index // that the segment had until now, or nil
	agrees bool           // the entries of known, as far as the chain goes, are true
}

// followChain reads f from its begin up to position limit.
func (l *Log) followChain(j *job, f *segmentFile, known *segment.Index, limit int64) (c chain, err error) {
	c = chain{index: newIndex(f.BaseOffset), known: known, agrees: known != nil}
	interval := int64(l.config.IndexIntervalBytes)
	entry := 0
	var w walker
	var broken error
	_, c.reason, err = w.walk(j, f, 0, limit, func(batch record.Batch, position int64) bool {
		if broken = l.follows(batch, c.index.NextOffset); broken != nil || l.closed != nil || f.gone {
			return false
		}
		for c.agrees && entry < known.Entries() {
			at, offset, _ := known.Entry(entry)
			if at > position {
				break
			}
			c.agrees = at == position && offset == batch.BaseOffset()
			entry++
		}
		c.index.Add(batch.BaseOffset(), batch.LastOffset()+1, batch.MaxTimestamp(), len(batch), interval)
		return true
	})
	if c.index.Position < limit && c.reason == nil {
		c.reason = broken
	}
	return c, err
}

// ended says that what is read of f now means nothing.
func (l *Log) ended(f *segmentFile) bool { return l.closed != nil || l.cut.active || f.gone }

// findDamage is called when what a read for offset found in f is not what should be there.
// It may not be the log's fault: an index that lies leads into the middle of a batch, and a bit
// may have flipped on the way. So the segment is read from its begin, and
// what its own chain of batches cannot confirm is fenced: up to the next mark that the index knows and
// that holds what it should. nil: everything is as it should be now, and may be read again.
func (l *Log) findDamage(j *job, f *segmentFile, offset int64) error {
	if err := l.damageLock.lock(j); err != nil {
		return err
	}
	defer l.damageLock.unlock(j.shard)
	if err := l.damagedAt(offset); err != nil {
		return err
	}
	if l.ended(f) || !j.shard.owns(l) {
		return nil
	}
	l.jobs++
	f.pins++
	defer func() {
		l.jobs--
		f.pins--
	}()
	limit, gen, known := l.storedEnd(f), l.gen, f.index
	if known == nil {
		known = l.loadIndex(j, f)
	}
	c, err := l.followChain(j, f, known, limit)
	from := mark{position: c.index.Position, offset: c.index.NextOffset}
	switch {
	case err != nil:
		return unreadable(f, from.position, err)
	case l.ended(f) || l.gen != gen:
		return nil
	case from.position >= limit:
		l.confirmed(j, f, &c)
		return nil
	}
	to, err := l.resume(j, f, &c, limit)
	if err != nil {
		return err
	}
	if l.ended(f) || l.gen != gen {
		return nil
	}
	_ = l.noteDamage(f, from, to, c.reason)
	return l.damagedAt(offset)
}

// storedEnd is the position up to which f holds what was written.
func (l *Log) storedEnd(f *segmentFile) int64 {
	switch at := l.completed; {
	case f.BaseOffset < at.segment.BaseOffset:
		return f.Bytes
	case f == at.segment:
		return at.position
	}
	return 0
}

// confirmed takes the chain of a segment in which nothing is wrong. An index that says something else
// is replaced.
func (l *Log) confirmed(j *job, f *segmentFile, c *chain) {
	if c.agrees || !f.Sealed {
		l.shard.counters.rereads.Add(1)
		l.shard.logger.Warn("a read found other bytes than the next one of the same place: it is repeated", "log", l.label, "segment", f.BaseOffset)
		return
	}
	l.shard.counters.indexesRebuilt.Add(1)
	l.shard.logger.Warn("an index leads to the wrong places and is rebuilt", "log", l.label, "segment", f.BaseOffset)
	l.shard.indexes.forget(f)
	f.index = c.index
	l.shard.indexes.add(f)
	l.storeIndex(j, f, c.index)
}

// storeIndex writes a rebuilt index. When that fails, only the next reader's time is lost.
func (l *Log) storeIndex(j *job, f *segmentFile, x *segment.Index) {
	index, timeIndex := x.Encode()
	if err := l.writeIndex(j, f, index, timeIndex); err != nil && !isClosed(err) {
		l.shard.logger.Warn("a rebuilt index cannot be stored", "log", l.label, "segment", f.BaseOffset, "error", err)
	}
}

// resume returns the first place behind a chain from which f is whole again: where its index
// says that a batch begins, and one does. It is the end of the segment when there is none, or the
// index is none to believe.
func (l *Log) resume(j *job, f *segmentFile, c *chain, limit int64) (mark, error) {
	if !c.agrees {
		return f.end(), nil
	}
	var w walker
	at := mark{position: c.index.Position}
	for range resumesMax {
		var ok bool
		if at.position, at.offset, ok = c.known.Behind(at.position); !ok || at.position >= limit {
			break
		}
		whole := false
		_, _, err := w.walk(j, f, at.position, limit, func(batch record.Batch, _ int64) bool {
			whole = l.follows(batch, at.offset) == nil
			return false
		})
		if err != nil {
			return mark{}, unreadable(f, at.position, err)
		}
		if whole {
			return at, nil
		}
	}
	return f.end(), nil
}

// unreadable says that the disk did not give what it has.
func unreadable(f *segmentFile, position int64, err error) error {
	if isClosed(err) {
		return err
	}
	f.log.shard.counters.readErrors.Add(1)
	return fmt.Errorf("%w: %s at %d: %w", ErrUnreadable, f.path(), position, err)
}
