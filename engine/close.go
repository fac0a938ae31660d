package engine

import (
	"context"
	"fmt"

	"ringlog/engine/segment"
)

// close ends the shard in order: no more appends, everything flushed, side state
// and checkpoint written, the disk given back. The error is the first that
// kept something from being saved; the shard ends all the same.
func (s *shard) close(j *job) error {
	if s.closing {
		return ErrClosed
	}
	s.closing = true
	var first error
	keep := func(err error) {
		if err != nil && first == nil && !isClosed(err) {
			first = err
		}
	}
	logs := append([]*Log(nil), s.logs...)
	s.engine.registry.setClosing(logs)
	for _, l := range logs {
		l.refuseAppends()
	}
	if err := s.journal.trimAll(j); err != nil && isClosed(err) {
		return err // another error comes back where a log is brought to rest
	}
	// A flush for each side file made a close of 10,000 logs take 6 s.
	s.flushesLater = s.journal.enabled()
	err := j.parallel(len(logs), settleWorkers, func(j *job, i int) {
		l := logs[i]
		if l.usable() == nil {
			keep(l.settle(j))
		}
		s.engine.registry.rested(l.id)
	})
	if err != nil {
		return err
	}
	if err := j.until(func() bool { return !s.keeper.writing }); err != nil {
		return err
	}
	if s.flushesLater && s.err == nil {
		s.flushesLater = false
		keep(s.syncEverything(j))
	}
	if s.err == nil {
		err := s.keeper.checkpointNow(j)
		if isShortage(err) {
			s.logger.Warn("no space for the recovery checkpoint: the next start reads more", "shard", s.number, "error", err)
			err = nil
		}
		keep(err)
	}
	for _, l := range logs {
		l.shut(ErrClosed)
	}
	for _, l := range logs {
		if err := l.drain(j, 0); err != nil {
			return err
		}
	}
	s.ending = true
	return first
}

// settleWorkers is how many logs are brought to rest at a time: their flushes
// go through the device together.
const settleWorkers = 64

// refuseAppends is the begin of the end of a log.
func (l *Log) refuseAppends() {
	if l.usable() == nil {
		l.sealed = fmt.Errorf("%w: %s", ErrClosed, l.label)
		l.refuseWaiting(l.sealed)
	}
}

// settle brings a log to rest: everything that has an offset is durable in the
// segments, and nothing is in flight.
func (l *Log) settle(j *job) error {
	err := l.saveAll(j)
	if isShortage(err) {
		// Whatever was acknowledged is durable. What a full disk keeps out is what is rebuilt, and
		// appends that nobody has had an answer to.
		l.shard.logger.Warn("no space to bring a log to rest: the next start reads more", "log", l.label, "error", err)
		if u := l.firstUnnamed(); u != nil {
			err = l.waitFlushed(j, u.BaseOffset)
		} else {
			err = nil
		}
		if isShortage(err) {
			return nil // what was acknowledged is in the journal
		}
	}
	if err != nil {
		return fmt.Errorf("engine: close %s: %w", l.label, err)
	}
	l.settled = true
	return nil
}

// saveAll makes everything that the log has durable in its files, with its side state.
func (l *Log) saveAll(j *job) error {
	if err := l.waitFlushed(j, l.next.offset); err != nil {
		return err
	}
	if err := l.metaLock.lock(j); err != nil {
		return err
	}
	defer l.metaLock.unlock(l.shard)
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.saveEpochs(j); err != nil {
		return err
	}
	return l.runSeal(j)
}

// AdvanceStart implements API.
func (e *Engine) AdvanceStart(ctx context.Context, id LogID, offset int64) error {
	return e.onLog(ctx, id, func(j *job, l *Log) error { return l.advanceStart(j, offset) })
}

// Truncate implements API.
func (e *Engine) Truncate(ctx context.Context, id LogID, offset int64) error {
	return e.onLog(ctx, id, func(j *job, l *Log) error {
		if err := l.usable(); err != nil {
			return err
		}
		return l.truncate(j, offset)
	})
}

// Delete implements API.
func (e *Engine) Delete(ctx context.Context, id LogID) error {
	return e.onLog(ctx, id, func(j *job, l *Log) error { return l.shard.deleteLog(j, l) })
}

// Remove implements API.
func (e *Engine) Remove(ctx context.Context, id LogID) error {
	return e.callOwner(ctx, id, func(j *job) error {
		if _, open := j.shard.names[id]; open || j.shard.opening[id] {
			return fmt.Errorf("engine: %s is open: Delete it", id)
		}
		return j.shard.removeLog(j, id, 0)
	})
}

// hint is a place in a log from where to look for a timestamp, if there is one.
type hint struct {
	offset int64
	ok     bool
}

// TimeHint implements API.
func (e *Engine) TimeHint(ctx context.Context, id LogID, millis int64) (offset int64, ok bool, err error) {
	found, err := askLog(ctx, e, id, func(j *job, l *Log) (hint, error) {
		offset, ok, err := l.timeHint(j, millis)
		return hint{offset, ok}, err
	})
	return found.offset, found.ok, err
}

// MaxTimestampHint implements API.
func (e *Engine) MaxTimestampHint(ctx context.Context, id LogID) (offset int64, ok bool, err error) {
	found, err := askLog(ctx, e, id, func(_ *job, l *Log) (hint, error) {
		offset, ok := l.maxTimestampHint()
		return hint{offset, ok}, nil
	})
	return found.offset, found.ok, err
}

// timeHint finds the first segment with a timestamp at or above millis, and the
// place in it before which there is none.
func (l *Log) timeHint(j *job, millis int64) (int64, bool, error) {
	for _, f := range append([]*segmentFile(nil), l.segments...) {
		if f.NextOffset <= l.start || f.maxTimestamp() < millis || f.gone {
			continue
		}
		f.pins++
		x, err := l.indexOf(j, f)
		f.pins--
		if err != nil {
			return 0, false, err
		}
		_, offset := x.FindTime(millis)
		return max(offset, l.start), true, nil
	}
	return 0, false, nil
}

// maxTimestampHint returns the first batch with the log's largest timestamp.
func (l *Log) maxTimestampHint() (offset int64, ok bool) {
	largest := int64(-1)
	for _, f := range l.segments {
		if t := f.maxTimestamp(); t > largest && f.NextOffset > l.start {
			largest, offset = t, f.MaxTimestampOffset
			if f.index != nil {
				offset = f.index.MaxTimestampOffset
			}
		}
	}
	return max(offset, l.start), largest >= 0
}

// maxTimestamp is the largest timestamp of the segment so far, -1 when it is empty.
func (f *segmentFile) maxTimestamp() int64 {
	if f.index != nil {
		return f.index.MaxTimestamp
	}
	return f.MaxTimestamp
}

func newIndex(baseOffset int64) *segment.Index {
	x := new(segment.Index)
	x.Reset(baseOffset)
	return x
}
