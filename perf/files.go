package perf

import (
	"errors"
	"fmt"
	"path/filepath"

	"ringlog/engine/disk"
)

// Preparer makes the files of a disk measurement, through the Disk that will be
// measured. It belongs to the Disk's owner.
type Preparer struct {
	Disk     disk.Disk
	finished []*disk.Operation
}

// filesTogether is how many files are prepared at a time: enough for the device,
// few beside the descriptors and slots that there are.
const filesTogether = 64

const filesDirectory = "perf-files"

func fileName(i int) string { return filepath.Join(filesDirectory, fmt.Sprintf("%05d", i)) }

// Perform submits operations and waits for all of them; the error is the first
// that one of them had.
func (p *Preparer) Perform(operations ...*disk.Operation) error {
	for _, op := range operations {
		p.Disk.Submit(op)
	}
	var first error
	for left := len(operations); left > 0; left -= len(p.finished) {
		var err error
		if p.finished, err = p.Disk.Wait(p.finished[:0], -1); err != nil {
			return err
		}
		for _, op := range p.finished {
			err := op.Err
			if err == nil && op.Kind == disk.Write && op.Done != len(op.Buffer) {
				err = fmt.Errorf("perf: write of %d bytes stopped after %d", len(op.Buffer), op.Done)
			}
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// Make creates count files of fileBytes each with the history that was asked
// for, and flushes them all. zeros is aligned memory that is written to recycle.
// What it returns beside an error was opened and has to be removed.
func (p *Preparer) Make(count int, fileBytes int64, history History, zeros []byte) (files []disk.File, err error) {
	if err := p.Perform(&disk.Operation{Kind: disk.MakeDirectory, Path: filesDirectory}); err != nil {
		return nil, fmt.Errorf("perf: prepare files: %w", err)
	}
	clear(zeros)
	for len(files) < count {
		first := len(files)
		var opens []*disk.Operation
		for i := range min(filesTogether, count-first) {
			opens = append(opens, &disk.Operation{Kind: disk.Open, Path: fileName(first + i), Flags: disk.Create | disk.Truncate})
		}
		err := p.Perform(opens...)
		for _, open := range opens {
			switch {
			case err == nil:
				files = append(files, open.File)
			case open.Err == nil: // a sibling failed: what is returned has to be unbroken
				err = errors.Join(err, p.discard(open.File, open.Path))
			}
		}
		if err == nil {
			err = p.fill(files[first:], fileBytes, history, zeros)
		}
		if err != nil {
			return files, fmt.Errorf("perf: prepare files: %w", err)
		}
	}
	err = p.Perform(&disk.Operation{Kind: disk.SyncFilesystem, File: files[len(files)-1]})
	if err == nil {
		err = p.Perform(&disk.Operation{Kind: disk.SyncDirectory, Path: filesDirectory})
	}
	return files, err
}

// fill gives files their space and history.
func (p *Preparer) fill(files []disk.File, fileBytes int64, history History, zeros []byte) error {
	var operations []*disk.Operation
	for _, file := range files {
		operations = append(operations, &disk.Operation{Kind: disk.Preallocate, File: file, Length: fileBytes})
	}
	if err := p.Perform(operations...); err != nil || history != Recycled {
		return err
	}
	const together = 8 // more in flight make the device no faster
	operations = operations[:0]
	for _, file := range files {
		for offset := int64(0); offset < fileBytes; {
			piece := min(int64(len(zeros)), fileBytes-offset)
			operations = append(operations, &disk.Operation{Kind: disk.Write, File: file, Buffer: zeros[:piece:piece], Offset: offset})
			offset += piece
			if len(operations) == together {
				if err := p.Perform(operations...); err != nil {
					return err
				}
				operations = operations[:0]
			}
		}
	}
	return p.Perform(operations...)
}

// Remove closes and unlinks what Make opened.
func (p *Preparer) Remove(files []disk.File) error {
	for i, file := range files {
		if err := p.discard(file, fileName(i)); err != nil {
			return fmt.Errorf("perf: remove files: %w", err)
		}
	}
	return p.Perform(&disk.Operation{Kind: disk.RemoveDirectory, Path: filesDirectory})
}

// discard closes and unlinks a file.
func (p *Preparer) discard(file disk.File, path string) error {
	if err := p.Perform(&disk.Operation{Kind: disk.Close, File: file}); err != nil {
		return err
	}
	return p.Perform(&disk.Operation{Kind: disk.Unlink, Path: path})
}
