package engine

import (
	"errors"
	"io/fs"

	"ringlog/engine/disk"
	"ringlog/engine/segment"
)

// pair is a small file that is replaced again and again (log.meta, a checkpoint), and
// the one beside it, with segment.NewSuffix, that takes the next content. The two are exchanged,
// so replacing asks the file system for nothing that it has not promised before and works on
// a disk that is full to the last block, as often as it must (rule 8). A rename over the
// first one, which is what is left where names cannot be exchanged, gives the old blocks back
// each time and then has to find new ones.
//
//	name      ──▶ content          name      ──▶ next content
//	name.new  ──▶ spare       ─▶   name.new  ──▶ content, spare from now on
//
// It belongs to whoever holds the lock of the file: metaLock, or keeper.lock.
type pair struct {
	directory, name string
	there           bool  // the file is
	swapped         bool  // the exchange may not be durable: what is spare may be the content after a crash
	doubted         bool  // nor will it be: what should have made it so has failed (rule 13)
	bytes, spare    int64 // sizes of the two files, as far as they are known
}

func (p *pair) path() string      { return p.directory + "/" + p.name }
func (p *pair) sparePath() string { return p.path() + segment.NewSuffix }

// settle makes the last exchange durable: until then a crash may bring back what is spare now.
func (p *pair) settle(j *job) error {
	if !p.swapped || j.shard.faults.skipDirectorySync {
		return nil
	}
	err := j.simple(disk.SyncDirectory, p.directory)
	p.synced(err)
	return err
}

// synced takes the end of a sync of the directory since the last replace.
func (p *pair) synced(err error) {
	switch {
	case err == nil:
		p.swapped, p.doubted = false, false
	case !isShortage(err):
		p.doubted = true
	}
}

// openSpare opens the second file, made if need be. One that may be the content after a crash is
// never written to: it gives up its name for a new one.
func (p *pair) openSpare(j *job) (disk.File, error) {
	if p.swapped && p.doubted {
		if err := j.simple(disk.Unlink, p.sparePath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		p.swapped, p.doubted, p.spare = false, false, 0
	}
	if err := p.settle(j); err != nil {
		return 0, err
	}
	file, size, err := j.open(p.sparePath(), disk.Create)
	if err == nil {
		p.spare = size
	}
	return file, err
}

// prepare sees that the next content may have so many bytes on a disk that is full by then.
func (p *pair) prepare(j *job, bytes int64) error {
	if p.spare >= bytes {
		return nil
	}
	file, err := p.openSpare(j)
	if err != nil {
		return err
	}
	if p.spare < bytes {
		op := disk.Operation{Kind: disk.Preallocate, File: file, Offset: p.spare, Length: roundUp(bytes) - p.spare}
		err = j.do(&op)
	}
	if closeErr := j.close(file); err == nil {
		err = closeErr
	}
	if err == nil {
		p.spare = max(p.spare, roundUp(bytes))
	}
	return err
}

// replace puts content, whole blocks, in the place of the file, so that a crash leaves the old or the new
// whole. Whoever builds on it syncs the directory, by settle or by itself and then synced.
func (p *pair) replace(j *job, content []byte) error {
	file, err := p.openSpare(j)
	if err != nil {
		return err
	}
	data := j.shard.scratch.take(len(content))
	copy(data, content)
	err = j.writeAll(file, data, 0)
	if err == nil { // else the write may still be under way
		defer j.shard.scratch.give(data)
	}
	if err == nil && !j.shard.faults.skipFileFlush {
		err = j.flush(file)
	}
	if closeErr := j.close(file); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	written := max(p.spare, int64(len(data)))
	if p.there {
		if err = j.exchange(p.sparePath(), p.path()); err == nil {
			p.swapped = true
			p.bytes, p.spare = written, p.bytes
			return nil
		}
		if !errors.Is(err, errNotSupported) {
			p.swapped = !isShortage(err) // it may have happened
			p.doubted = p.swapped
			return err
		}
	}
	if err = j.rename(p.sparePath(), p.path()); err == nil {
		p.there, p.bytes, p.spare = true, written, 0
	}
	return err
}
