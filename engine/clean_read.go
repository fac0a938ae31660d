package engine

import (
	"errors"
	"fmt"

	"ringlog/buffer"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
	"ringlog/record"
)

// cleanReader goes through the batches of a segment, a buffer of them at a time, on a goroutine.
type cleanReader struct {
	add   func(record.Batch) error // takes a batch, whose place and checksum are right
	ended func() error             // takes the end of a buffer; may be nil

	epochs []segment.Epoch
	next   int64  // the offset of the batch that comes
	data   []byte // it begins with one
	last   bool   // nothing of the segment lies behind data
	at     int    // how much of data was used
	need   int64  // bytes that the batch there takes, when it is longer than data; else 0
}

// cleanDamage says why the bytes at a place are not the batch that should be there.
type cleanDamage struct{ reason error }

// Error says it.
func (d *cleanDamage) Error() string { return d.reason.Error() }

// run goes through data.
func (r *cleanReader) run() error {
	r.at, r.need = 0, 0
	for r.at < len(r.data) {
		batch, _, err := record.Next(r.data[r.at:])
		if errors.Is(err, record.ErrShort) && !r.last {
			if need := r.size(); need <= walkBytesMax {
				r.need = need
				break
			}
		}
		if err == nil {
			err = r.check(batch)
		}
		if err != nil {
			return &cleanDamage{err}
		}
		if err := r.add(batch); err != nil {
			return err
		}
		r.at += len(batch)
		r.next = batch.LastOffset() + 1
	}
	if r.ended != nil {
		return r.ended()
	}
	return nil
}

// check says why a batch is not the one that should be there, or nil: what readers are asked too.
func (r *cleanReader) check(batch record.Batch) error {
	if err := batch.Check(); err != nil {
		return err
	}
	if batch.BaseOffset() != r.next {
		return errMisplaced
	}
	if known := epochAt(r.epochs, r.next+1); known >= 0 && known != batch.LeaderEpoch() {
		return errOtherEpoch
	}
	return nil
}

// size is how long the batch at at says that it is, or a header when that cannot be seen yet.
func (r *cleanReader) size() int64 {
	if rest := r.data[r.at:]; len(rest) >= record.PrefixBytes {
		return max(int64(record.Batch(rest).SizeBytes()), record.HeaderBytes)
	}
	return record.HeaderBytes
}

// read shows all of f to r. After each buffer of it after is called, if it is not nil. A
// batch that is damaged is fenced, as if a reader had met it.
func (p *cleanPass) read(f *segmentFile, r *cleanReader, after func() error) error {
	l, j := p.log, p.job
	if f.gone {
		return errCleanStopped // retention was quicker
	}
	f.pins++
	defer func() { f.pins-- }()
	r.epochs, r.next = p.epochs, f.BaseOffset
	for position, want := int64(0), int64(coldBytesMax); position < f.Bytes; {
		size := min(want, plan.RoundUp(f.Bytes)-plan.RoundDown(position))
		err := p.withMemory(size, func(data []byte) error { return p.readInto(f, r, data, position) })
		var bad *cleanDamage
		if errors.As(err, &bad) {
			if err := l.findDamage(j, f, r.next); err != nil {
				return err
			}
			return &segment.CorruptError{File: f.path(), Offset: position + int64(r.at), Reason: bad.reason.Error()} // it reads well now: next time
		}
		if err == nil {
			j.shard.counters.cleanReadBytes.Add(size)
			err = j.shard.cleaner.pace(p, size)
		}
		if err == nil && after != nil {
			err = after()
		}
		if err != nil {
			return err
		}
		position += int64(r.at)
		want = max(coldBytesMax, plan.RoundUp(position-plan.RoundDown(position)+r.need))
	}
	return nil
}

// readInto fills data from the block of f that position lies in, and lets r go through it.
func (p *cleanPass) readInto(f *segmentFile, r *cleanReader, data []byte, position int64) error {
	j := p.job
	if err := p.log.openToRead(j, f); err != nil {
		return err
	}
	start := plan.RoundDown(position)
	w := coldWorker{readers: &j.shard.reads, job: j}
	if err := w.fill(f.file, data, start); err != nil {
		return unreadable(f, start, err)
	}
	if err := p.stopped(); err != nil {
		return err // cut under the read: what was read may be anything
	}
	have := min(int64(len(data)), f.Bytes-start)
	r.data, r.last = data[position-start:have], start+have == f.Bytes
	return j.offload(r.run)
}

// withMemory runs f with so many bytes of the cold pool. Readers come first.
func (p *cleanPass) withMemory(size int64, f func(data []byte) error) error {
	s := p.job.shard
	pool := s.options.Cold
	if size > int64(pool.MaxBytes()) {
		return fmt.Errorf("%w: a batch of %d bytes", buffer.ErrTooLarge, size)
	}
	for {
		if len(s.reads.cold.hungry) == 0 {
			if b := pool.TryGet(int(size)); b != nil {
				defer b.Release()
				return f(b.Bytes()[:size])
			}
		}
		if err := p.sleep(cleanMemoryWait); err != nil {
			return err
		}
	}
}
