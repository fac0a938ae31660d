package engine

import (
	"errors"
	"fmt"

	"ringlog/engine/segment"
)

// errMisplaced is the reason for batches that are whole and not at the offset
// where the one before ends. The base offset lies outside of the checksum, so
// that leaders can set it: only its neighbours vouch for it. (A compacted log will have
// gaps, and need another witness.)
var errMisplaced = errors.New("a batch is not at the offset where the one before it ends")

// errOtherEpoch is the reason for batches whose leader epoch, which lies outside
// of the checksum as well, is not the one that the manifest knows.
var errOtherEpoch = errors.New("a batch is of another leader epoch than its neighbours")

// damage is a range of a log that is not what was written. It is never served;
// what lies before and behind it is.
type damage struct {
	from, to int64 // offsets; to is the next segment's first one when the batch's end is not known
	err      error
}

// noteDamage fences the batch at position of f. offset is the first one that
// cannot be read.
func (l *Log) noteDamage(f *segmentFile, position, offset int64, reason error) error {
	if err := l.damagedAt(offset); err != nil {
		return err
	}
	to := f.NextOffset
	err := &segment.CorruptError{
		File: f.path(), Offset: position,
		Reason: fmt.Sprintf("offsets [%d, %d) of %s are fenced: %v", offset, to, l.label, reason),
	}
	l.damages = append(l.damages, damage{from: offset, to: to, err: err})
	l.shard.counters.corruptions.Add(1)
	l.shard.logger.Error("stored batches are corrupt and are not served", "log", l.label, "from", offset, "to", to, "error", err)
	return err
}

// damagedAt returns the error of the fenced range that holds offset, or nil.
func (l *Log) damagedAt(offset int64) error {
	for _, d := range l.damages {
		if offset >= d.from && offset < d.to {
			return d.err
		}
	}
	return nil
}
