package engine

import (
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
)

const (
	// noSpaceRetry is how often a log whose disk was full looks again.
	noSpaceRetry = time.Second
	// noSpaceRepeat is how often it is said of some log of a shard.
	noSpaceRepeat = 10 * time.Second
	// sparesMax is how many freed segments a log keeps for itself (rule 8).
	sparesMax = 1
)

// logSpace reserves room for a log's bytes ahead of them (rule 8): a batch is
// accepted only where the file system has promised blocks, so that a full disk is an
// answer to a producer and never a failed write.
type logSpace struct {
	log       *Log
	step      int64 // of the last reservation
	stepAt    time.Duration
	preparing bool
	needBytes int64 // of the append that waits, 0 when none does
	needsRoll bool
	full      error // ErrNoSpace, wrapped, while the disk has no room; else nil
	retry     timer
	lookAt    int64 // below this position in the active segment there is nothing to reserve
}

// expire tries again after the disk was full.
func (p *logSpace) expire(s *shard) {
	if s.space.low { // all are told when that ends
		s.timers.set(&p.retry, s.now+noSpaceRetry, p)
		return
	}
	p.log.prepare()
}

// reserve says whether size bytes may be appended now, to a new segment when
// roll is set, and starts what is needed when they may not.
func (l *Log) reserve(size int64, roll bool) bool {
	f, end := l.active, l.next.position+size
	if roll {
		f, end = l.coming, size
	}
	if f != nil && f.isOpen && f.prepared >= plan.RoundUp(end) {
		return true
	}
	l.space.needBytes, l.space.needsRoll = size, roll
	if l.space.full == nil {
		l.prepare()
	}
	return false
}

// reserveAhead starts the next reservation before anybody waits for it.
func (l *Log) reserveAhead() {
	if l.next.position < l.space.lookAt || l.space.preparing || l.space.full != nil {
		return
	}
	p := l.spaceState()
	if p.Next() != (plan.Space{}) {
		l.prepare()
		return
	}
	l.space.lookAt = p.NothingBelow()
}

// nextSpace decides what to reserve next.
func (l *Log) nextSpace() plan.Space {
	p := l.spaceState()
	return p.Next()
}

func (l *Log) spaceState() plan.Prepare {
	p := plan.Prepare{
		Position:      l.next.position,
		PreparedBytes: l.active.prepared,
		SegmentBytes:  l.config.SegmentBytes,
		NeedBytes:     l.space.needBytes,
		NeedsComing:   l.space.needsRoll,
		StepBytes:     l.space.step,
	}
	if l.coming != nil {
		p.ComingBytes = l.coming.prepared
	}
	return p
}

// prepare starts the job that reserves space, unless it runs.
func (l *Log) prepare() {
	if l.space.preparing || l.usable() != nil {
		return
	}
	l.space.preparing = true
	l.jobs++
	l.shard.start("prepare "+l.label, func(j *job) {
		err := l.runPrepare(j)
		l.jobs--
		l.space.preparing = false
		l.prepared(err)
	})
}

// prepared takes the end of the job.
func (l *Log) prepared(err error) {
	s := l.shard
	l.space.lookAt = 0
	switch {
	case isClosed(err) || l.usable() != nil:
	case err == nil:
		l.space.full = nil
		l.space.needBytes, l.space.needsRoll = 0, false
		l.retryWaiting()
	case isShortage(err):
		switch {
		case isWatermark(err) && s.space.low: // it has said so
		case l.space.full == nil && s.now >= s.fullSaid:
			s.fullSaid = s.now + noSpaceRepeat
			s.logger.Error("no space or no file descriptor for the next bytes of a log: its produces are refused until there is; other logs may fare the same",
				"log", l.label, "directory", s.options.Directory, "error", err)
		}
		l.space.full = l.noSpace(err)
		l.space.log = l
		s.timers.set(&l.space.retry, s.now+noSpaceRetry, &l.space)
		// Those that fit into what is reserved already still go in.
		l.retryWaiting()
	default:
		l.fail(err)
	}
}

// runPrepare reserves until there is nothing to reserve.
func (l *Log) runPrepare(j *job) error {
	small := false // the step is to be as small as can be: a larger one found no space
	for l.usable() == nil {
		active := l.active
		if err := l.shard.files.open(j, active); err != nil {
			return err
		}
		if l.coming != nil && l.space.needsRoll {
			if err := l.shard.files.open(j, l.coming); err != nil {
				return err
			}
		}
		if active != l.active {
			continue
		}
		if l.space.step = plan.PrepareStep(l.space.step, l.shard.since(l.space.stepAt)); small {
			l.space.step = plan.PrepareStepMin
		}
		space := l.nextSpace()
		if space == (plan.Space{}) {
			return nil
		}
		if err := l.shard.reserve.refuse(); err != nil {
			return err
		}
		l.space.stepAt = l.shard.now
		if err := l.reserveSpace(j, active, space); err != nil {
			if isFull(err) && !small {
				small = true
				continue
			}
			return err
		}
		l.space.needBytes, l.space.needsRoll = 0, false
		l.retryWaiting()
	}
	return nil
}

func (l *Log) reserveSpace(j *job, active *segmentFile, space plan.Space) error {
	if space.ActiveTo > 0 {
		return extend(j, active, space.ActiveTo)
	}
	if l.coming == nil {
		if err := l.prepareManifest(j); err != nil {
			return err
		}
		f, err := l.newPrepared(j)
		if err != nil {
			return err
		}
		l.coming = f
	}
	if l.coming.prepared < space.ComingTo {
		return extend(j, l.coming, space.ComingTo)
	}
	return nil
}

// newPrepared takes a freed segment, or creates an empty file.
func (l *Log) newPrepared(j *job) (*segmentFile, error) {
	if n := len(l.spares); n > 0 {
		f := l.spares[n-1]
		l.spares = l.spares[:n-1]
		if err := l.shard.files.open(j, f); err != nil {
			l.spares = append(l.spares, f)
			return nil, err
		}
		return f, nil
	}
	l.number++
	f := l.newFile(segment.PreparedName(l.number))
	file, _, err := j.open(f.path(), disk.Create|disk.Truncate)
	if err != nil {
		return nil, err
	}
	l.shard.files.opened(f, file)
	return f, nil
}

// newFile is a file that nothing is known of yet.
func (l *Log) newFile(name string) *segmentFile {
	return &segmentFile{log: l, name: name, limit: noLimit}
}

// noLimit lets writes go as far as the file is reserved.
const noLimit = 1<<63 - 1

// extend reserves f up to the position to.
func extend(j *job, f *segmentFile, to int64) error {
	if f.prepared >= to {
		return nil
	}
	bytes := to - f.prepared
	if err := j.shard.space.take(j, bytes); err != nil {
		return err
	}
	defer j.shard.space.give(bytes)
	f.pins++
	op := disk.Operation{Kind: disk.Preallocate, File: f.file, Offset: f.prepared, Length: to - f.prepared}
	err := j.do(&op)
	if err == nil && j.shard.options.Prewrite {
		err = prewrite(j, f, to)
	}
	f.pins--
	if err == nil {
		f.prepared = max(f.prepared, to)
	}
	return err
}

// prewriteBytes is the size of one write of zeros.
const prewriteBytes = 1 << 20

// prewrite writes zeros over the space that was just reserved. Nobody else
// writes there: it is not prepared yet. The next flush of the file pays for
// turning it into written blocks, once for many commits.
func prewrite(j *job, f *segmentFile, to int64) error {
	s := j.shard
	if s.zeros == nil {
		s.zeros = disk.AlignedBytes(prewriteBytes)
	}
	for at := f.prepared; at < to; at += prewriteBytes {
		if err := j.writeCounted(f.file, s.zeros[:min(prewriteBytes, to-at)], at, &s.counters.preparedBytes); err != nil {
			return err
		}
	}
	return nil
}
