package engine

import (
	"errors"
	"fmt"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
	"ringlog/record"
)

const (
	// scrubFirst is how long after its start a shard begins its first pass: logs are opened before.
	scrubFirst = time.Minute
	// scrubYield is for how long the scrubber steps back when somebody else wants the disk or the memory,
	// and scrubYieldsMax how often for one piece: a disk that is always busy is looked at too,
	// at a piece a second.
	scrubYield     = 20 * time.Millisecond
	scrubYieldsMax = 50
)

// errAside is returned inside the scrubber when the log, or the segment, that it looks at is not there for
// it any more: it goes on with the next.
var errAside = errors.New("engine: nothing is left to be looked at")

// scrubber reads, slowly and in the background, every sealed segment of a shard again: checksums,
// offsets, leader epochs, and whether its file still has its name. What it finds is fenced and named as
// if a reader had met it, only earlier: while there may still be a second copy somewhere.
//
//	timer ─▶ pass: log by log, segment by segment ─▶ piece: wait for its time, and for nobody else to
//	  ▲                                               wait ─▶ read ─▶ check ─┬─ as it should be ─▶ next
//	  └───────── the pass is over ◀──────────────────────────────────────────└─ findDamage ─▶ behind it
//
// Between two pieces it holds nothing: no memory, no file, no log. Its reads count towards the depth that cold
// reads may have. How far a pass has come is not
// kept over a restart; the clock says at which log the next one begins, so that a broker that is
// restarted often does not look at the same ones again and again.
type scrubber struct {
	shard   *shard
	plan    plan.Scrub // BytesPerSecond is this shard's share; 0: nothing is scrubbed
	timer   timer
	pass    uint64 // number of the one that runs, or ran last
	running bool
	from    int           // where in shard.logs it began
	began   time.Duration // on the shard's clock
	due     time.Duration // of the next piece
}

func (x *scrubber) init(s *shard) {
	x.shard = s
	x.plan = plan.Scrub{BytesPerSecond: s.options.ScrubBytesPerSecond / int64(s.options.Shards), Interval: s.options.ScrubInterval}
	if s.options.ScrubBytesPerSecond > 0 {
		x.plan.BytesPerSecond = max(x.plan.BytesPerSecond, 1)
	}
}

// begin arms the clock.
func (x *scrubber) begin() {
	s := x.shard
	s.counters.scrub.since.Store(int64(s.now))
	if x.plan.BytesPerSecond > 0 {
		s.timers.set(&x.timer, s.now+scrubFirst, x)
	}
}

// expire begins a pass.
func (x *scrubber) expire(s *shard) {
	if x.running || s.closing {
		return
	}
	x.running = true
	x.pass++
	x.began, x.due = s.now, s.now
	x.from = int(s.nowMillis % int64(max(len(s.logs), 1)))
	g := &s.counters.scrub
	g.done.Store(0)
	g.total.Store(s.sealedBytes())
	s.start("scrub", func(j *job) {
		err := x.run(j)
		x.running = false
		if err == nil {
			x.ended()
		}
	})
}

// sealedBytes is how much a pass has to read.
func (s *shard) sealedBytes() (bytes int64) {
	for _, l := range s.logs {
		for _, f := range l.segments {
			if f.Sealed {
				bytes += f.Bytes
			}
		}
	}
	return bytes
}

// ended notes that a pass has looked at everything.
func (x *scrubber) ended() {
	s, g := x.shard, &x.shard.counters.scrub
	g.passes.Add(1)
	g.since.Store(int64(s.now))
	g.total.Store(g.done.Load())
	s.logger.Info("what is stored was read again", "shard", s.number, "bytes", g.done.Load(), "took", s.now-x.began, "damaged", s.counters.damages.Load())
	s.timers.set(&x.timer, x.plan.NextPass(x.began, s.now), x)
}

// run is one pass. The error is that the shard ends.
func (x *scrubber) run(j *job) error {
	for l := x.next(); l != nil; l = x.next() {
		l.scrubbed = x.pass
		if err := x.look(j, l); err != nil && !errors.Is(err, errAside) {
			return err
		}
		if x.shard.closing {
			return ErrClosed
		}
	}
	return nil
}

// next returns a log that this pass has not looked at, or nil. Logs come and go meanwhile.
func (x *scrubber) next() *Log {
	logs := x.shard.logs
	for i := range logs {
		if l := logs[(x.from+i)%len(logs)]; l.scrubbed != x.pass {
			return l
		}
	}
	return nil
}

// look goes through one log.
func (x *scrubber) look(j *job, l *Log) error {
	if err := x.checkNames(j, l); err != nil {
		return err
	}
	for after := int64(-1); ; {
		f := l.sealedBehind(after)
		if f == nil {
			return nil
		}
		after = f.BaseOffset
		if err := x.segment(j, l, f); err != nil {
			return err
		}
	}
}

// sealedBehind returns the first sealed segment that begins behind offset, or nil.
func (l *Log) sealedBehind(offset int64) *segmentFile {
	for _, f := range l.segments {
		if f.Sealed && f.BaseOffset > offset {
			return f
		}
	}
	return nil
}

// has says whether the log is still here to be read.
func (x *scrubber) has(l *Log) bool {
	s := x.shard
	return s.owns(l) && l.shard == s && l.closed == nil && !l.leaving && !s.closing && !l.cut.active
}

// checkNames looks whether the files of the log are still in its directory. An open file is read as if nothing
// had happened when somebody has removed it; the next start would not find it.
func (x *scrubber) checkNames(j *job, l *Log) error {
	var files []*segmentFile
	for _, f := range l.segments {
		if f.named {
			files = append(files, f)
		}
	}
	list := disk.Operation{Kind: disk.ReadDirectory, Path: l.directory}
	err := j.do(&list)
	switch {
	case isClosed(err):
		return err
	case !x.has(l):
		return errAside
	case err != nil:
		x.shard.counters.readErrors.Add(1)
		x.shard.logger.Error("the directory of a log cannot be read", "log", l.label, "directory", l.directory, "error", err)
		return nil
	}
	names := make(map[string]bool, len(list.Entries))
	for _, entry := range list.Entries {
		names[entry.Name] = true
	}
	for _, f := range files {
		switch {
		case f.gone || names[f.name]:
		case f.Sealed:
			_ = l.noteDamage(f, f.begin(), f.end(), errVanished)
		default:
			l.fail(&segment.CorruptError{File: f.path(), Reason: errVanished.Error()})
		}
	}
	return nil
}

// segment reads one segment, piece by piece.
func (x *scrubber) segment(j *job, l *Log, f *segmentFile) error {
	gen, at, size, doubts := l.gen, f.begin(), x.plan.Piece(), 0
	for at.position < f.Bytes {
		if err := x.await(j); err != nil {
			return err
		}
		if !x.has(l) || l.gen != gen {
			return errAside
		}
		if f.gone {
			return nil
		}
		if d := l.damageAt(at.offset); d != nil {
			at = d.to
			continue
		}
		next, need, bad, err := x.piece(j, l, f, at, size)
		switch {
		case isClosed(err):
			return err
		case err != nil:
			x.shard.logger.Error("a segment cannot be read", "log", l.label, "error", err)
			return nil // what is readable of the rest is for those who ask
		case next == at && need > size:
			size = need
			continue
		case bad != nil && doubts > doubtsMax:
			return nil // it has been said, and nothing of it is on the disk
		case bad != nil:
			doubts++
			if err := l.findDamage(j, f, next.offset); isClosed(err) {
				return err
			}
		}
		x.shard.counters.scrub.bytes.Add(next.position - at.position)
		x.shard.counters.scrub.done.Add(next.position - at.position)
		at = next
	}
	return nil
}

// await waits until the next piece is due and nobody waits for the disk, within bounds.
func (x *scrubber) await(j *job) error {
	s := x.shard
	for x.due > s.now {
		if err := j.sleep(min(x.due-s.now, time.Second)); err != nil {
			return err
		}
		if s.closing {
			return ErrClosed
		}
	}
	for yields := 0; yields < scrubYieldsMax && x.busy(); yields++ {
		if err := j.sleep(scrubYield); err != nil {
			return err
		}
	}
	return nil
}

// busy says whether others wait for what the scrubber would take.
func (x *scrubber) busy() bool {
	q, s := &x.shard.reads.cold, x.shard
	return q.head != nil || len(q.deep)+len(q.hungry)+len(s.starved) > 0 || q.streams.wantedHead != nil || s.journal.full()
}

// piece reads up to size bytes from the batch at on and checks the whole batches in them. next is
// behind the last good one; need, above size, is what the first one takes. bad is why the one at next
// is not what it should be.
func (x *scrubber) piece(j *job, l *Log, f *segmentFile, at mark, size int64) (next mark, need int64, bad, err error) {
	start := plan.RoundDown(at.position)
	size = min(size, plan.RoundUp(f.Bytes)-start)
	x.due = x.plan.Due(x.due, x.shard.now, size)
	l.jobs++
	f.pins++
	defer func() {
		l.jobs--
		f.pins--
	}()
	if err := l.openToRead(j, f); err != nil {
		if errors.Is(err, ErrCorrupt) {
			return at, 0, nil, nil // all of it is fenced
		}
		return at, 0, nil, unreadable(f, at.position, err)
	}
	data := x.shard.scratch.take(int(size))
	if err := x.shard.reads.fill(j, f.file, data, start); err != nil {
		return at, 0, nil, unreadable(f, start, err) // a read may still be under way
	}
	defer x.shard.scratch.give(data)
	if l.ended(f) || !x.has(l) {
		return at, 0, nil, nil // what was read may be anything; the loop sees it
	}
	next, need, bad = l.checkPiece(data[:min(size, f.Bytes-start)], start, at, f.Bytes)
	return next, need, bad, nil
}

// checkPiece checks the whole batches from at on in data, which a segment of end bytes has from position
// start on.
func (l *Log) checkPiece(data []byte, start int64, at mark, end int64) (next mark, need int64, bad error) {
	next = at
	for next.position < start+int64(len(data)) {
		batch, _, err := record.Next(data[next.position-start:])
		if errors.Is(err, record.ErrShort) && start+int64(len(data)) < end {
			if next != at {
				return next, 0, nil
			}
			size := int64(record.PrefixBytes)
			if rest := data[at.position-start:]; int64(len(rest)) >= size {
				size = int64(record.Batch(rest).SizeBytes())
			}
			if size <= walkBytesMax && at.position+size <= end {
				return next, max(plan.RoundUp(at.position+size-start), int64(len(data))+plan.BlockBytes), nil
			}
		}
		if err == nil {
			err = batch.Check()
		}
		if err == nil {
			err = l.follows(batch, next.offset)
		}
		if err != nil {
			return next, 0, fmt.Errorf("at %d: %w", next.position, err)
		}
		next.position, next.offset = next.position+int64(len(batch)), batch.LastOffset()+1
	}
	return next, 0, nil
}
