package engine

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/plan"
)

const (
	// watermarkInterval is how often a shard asks how much is free when nobody needs to know.
	watermarkInterval = time.Second
	// watermarkAge is how old an answer may be for a decision; what this shard took since is
	// subtracted.
	watermarkAge = 50 * time.Millisecond
	// watermarkRepeat is how often it is said again that produces are refused.
	watermarkRepeat = time.Minute
)

// errWatermark is why no space is reserved although the disk has some. It is a lack of space
// like any other.
var errWatermark = fmt.Errorf("what is left is kept free: %w", errNoSpaceOnDevice)

// watermark keeps Options.FreeBytesMin of the disk free: below it no log is given new
// space, so that whatever is not a record (manifests, checkpoints, metadata, indexes, and other
// programs that write a little) finds some, and a disk that is filling up announces
// itself before anything fails. Records that fit into what is reserved for their log
// already are taken: they cost the disk nothing.
type watermark struct {
	shard   *shard
	min     int64 // 0: nothing is kept free, or nothing is known yet
	free    int64 // as of at, less what was taken since
	at      time.Duration
	known   bool
	looking bool
	taken   int64         // bytes that are being reserved: the disk may not have subtracted them yet
	low     bool          // not even the smallest step can be had
	sayFrom time.Duration // when it may be said next
	said    bool          // and has been, so that its end is worth a line
	timer   timer
}

// diskGauges is how the disk stands, as a shard saw it last.
type diskGauges struct{ free, total, min, low atomic.Int64 }

// enabled says whether anything is to be kept free.
func (w *watermark) enabled() bool { return w.shard.options.FreeBytesMin != 0 }

// expire looks again, for those who watch and for those who are refused.
func (w *watermark) expire(s *shard) {
	s.timers.set(&w.timer, s.now+watermarkInterval, w)
	if w.looking || s.err != nil || s.closing {
		return
	}
	w.looking = true
	s.start("look how much is free", func(j *job) {
		_ = w.look(j) // it has been said
		w.looking = false
	})
}

// look asks the disk.
func (w *watermark) look(j *job) error {
	s := w.shard
	op := disk.Operation{Kind: disk.FreeSpace}
	if err := j.do(&op); err != nil {
		if !isClosed(err) && !w.known {
			s.logger.Warn("the file system does not say how much is free: nothing is kept free", "directory", s.options.Directory, "error", err)
		}
		return err
	}
	w.min = s.options.FreeBytesMin
	if w.min == FreeBytesDefault {
		w.min = plan.FreeBytesMin(op.TotalBytes)
	}
	w.free, w.at, w.known = op.Length-w.taken, s.now, true
	g := &s.counters.space
	g.free.Store(op.Length)
	g.total.Store(op.TotalBytes)
	g.min.Store(w.min)
	w.judge()
	return nil
}

// judge begins or ends the time in which produces are refused.
func (w *watermark) judge() {
	s := w.shard
	switch low := w.free-plan.PrepareStepMin < w.min; {
	case low:
		w.low = true
		s.counters.space.low.Store(1)
		w.say()
	case w.low:
		w.low = false
		s.counters.space.low.Store(0)
		if w.said {
			s.logger.Info("the disk has room again: produces are taken", "directory", s.options.Directory, "free", w.free, "kept", w.min)
			w.said = false
		}
		s.retryFull()
	}
}

// say says, now and then, that the disk is about to be full.
func (w *watermark) say() {
	s := w.shard
	if s.now < w.sayFrom {
		return
	}
	w.said, w.sayFrom = true, s.now+watermarkRepeat
	s.logger.Error("the disk is nearly full: produces that need new space are refused until there is more; delete topics or records, shorten retention, or enlarge the disk",
		"directory", s.options.Directory, "free", w.free, "kept", w.min)
}

// take allows to reserve so many bytes, or says why not; give ends it.
func (w *watermark) take(j *job, bytes int64) error {
	if !w.enabled() {
		return nil
	}
	if !w.known || w.shard.now-w.at > watermarkAge {
		if err := w.look(j); isClosed(err) {
			return err
		}
	}
	if w.known && w.free-bytes < w.min {
		w.judge()
		return fmt.Errorf("%d bytes of %s are free, %d of them are kept: %w", max(w.free, 0), w.shard.options.Directory, w.min, errWatermark)
	}
	w.free -= bytes
	w.taken += bytes
	return nil
}

// give says that what take allowed is reserved, or will not be.
func (w *watermark) give(bytes int64) {
	if w.enabled() {
		w.taken -= bytes
	}
}

// retryFull lets every log look again that found no space.
func (s *shard) retryFull() {
	for _, l := range s.logs {
		if l.space.full != nil {
			l.prepare()
		}
	}
}

// isWatermark says that there is space, and it is kept free.
func isWatermark(err error) bool { return errors.Is(err, errWatermark) }
