package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/segment"
)

const (
	// reserveBytesMin is the smallest reserve: what the manifest of a log of some
	// hundred segments needs, while the old one is still there.
	reserveBytesMin = 64 << 10
	// reserveRetry is how often a shard whose reserve was used up tries to get it back.
	reserveRetry = time.Second
)

// reserve is space of the data directory that is kept for the moment in which the disk
// is full: making room (retention, DeleteRecords) begins with writing a manifest, and a
// start with writing the checkpoint, which has the number of the run (rule 8). Both
// are pairs and seldom need it: when one has outgrown its second file, or names cannot be
// exchanged.
//
// While it is away no log of the shard is given new space: it would be the first to
// take what is needed last.
type reserve struct {
	shard  *shard
	bytes  int64 // of the file; 0: it is away
	stored int64 // bytes of the last checkpoint
	making bool
	full   bool // it could not be made, because the disk is full
	retry  timer
}

// want is how large the reserve should be: for a checkpoint of all logs that comes to
// be beside the last one.
func (r *reserve) want() int64 { return roundUp(max(reserveBytesMin, 2*r.stored)) }

// expire tries again.
func (r *reserve) expire(*shard) { r.keep() }

// begin takes what a start found, and made, of it. A shard on whose disk the start was
// made may have given it away.
func (r *reserve) begin(found, stored int64) {
	r.stored = stored
	if !r.full {
		r.bytes = found
	}
	r.keep()
}

// keep starts making the reserve, or making it larger, unless it is there. Best effort: it
// is missed on a full disk only.
func (r *reserve) keep() {
	s := r.shard
	if r.making || r.bytes >= r.want() || s.err != nil || s.closing {
		return
	}
	r.making = true
	s.start("keep a reserve", func(j *job) {
		err := r.make(j)
		r.making = false
		switch {
		case err == nil:
			r.returned()
		case isClosed(err):
		case isFull(err):
			s.timers.set(&r.retry, s.now+reserveRetry, r)
			r.full = r.bytes == 0
		default:
			s.logger.Warn("no space can be kept in reserve for a full disk", "file", segment.ReserveName(s.number), "error", err)
		}
	})
}

// make creates or extends the file. Its name need not be durable: one that is lost is
// made again.
func (r *reserve) make(j *job) error {
	name, to := segment.ReserveName(r.shard.number), r.want()
	file, size, err := j.open(name, disk.Create)
	if err != nil {
		return err
	}
	if size < to {
		op := disk.Operation{Kind: disk.Preallocate, File: file, Offset: size, Length: to - size}
		err = j.do(&op)
	}
	if closeErr := j.close(file); err == nil {
		err = closeErr
	}
	if err == nil {
		r.bytes = max(size, to)
	}
	return err
}

// returned lets logs have space again.
func (r *reserve) returned() {
	if !r.full {
		return
	}
	r.full = false
	r.shard.retryFull()
}

// give gives the reserve back to the disk, and says whether there was any.
func (r *reserve) give(j *job) bool {
	if r.bytes == 0 || r.making {
		return false
	}
	s := r.shard
	r.bytes, r.full = 0, true
	s.timers.set(&r.retry, s.now+reserveRetry, r)
	err := j.simple(disk.Unlink, segment.ReserveName(s.number))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Warn("the space in reserve cannot be used", "file", segment.ReserveName(s.number), "error", err)
		return false
	}
	s.logger.Warn("the disk is full: the space in reserve is used", "shard", s.number)
	return true
}

// replace is pair.replace for what has to find more space than was prepared.
func (r *reserve) replace(j *job, p *pair, content []byte) error {
	err := p.replace(j, content)
	if isFull(err) && r.give(j) {
		err = p.replace(j, content)
	}
	return err
}

// refuse says why no log is given new space, or nil.
func (r *reserve) refuse() error {
	if r.full {
		return fmt.Errorf("engine: the disk is full, its reserve is used: %w", errNoSpaceOnDevice)
	}
	return nil
}

// isFull says whether err is a lack of space.
func isFull(err error) bool {
	return errors.Is(err, errNoSpaceOnDevice) || errors.Is(err, errQuota)
}
