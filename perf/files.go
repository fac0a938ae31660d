package perf

import (
	"fmt"
	"path/filepath"

	"ringlog/engine/disk"
)

// preparer makes the files of a disk measurement, through the Disk that will be
// measured.
type preparer struct {
	disk     disk.Disk
	finished []*disk.Operation
}

// perform submits operations and waits for all of them.
func (p *preparer) perform(operations ...*disk.Operation) error {
	for _, op := range operations {
		p.disk.Submit(op)
	}
	for left := len(operations); left > 0; {
		var err error
		if p.finished, err = p.disk.Wait(p.finished[:0], -1); err != nil {
			return err
		}
		for _, op := range p.finished {
			if op.Err != nil {
				return op.Err
			}
			if op.Kind == disk.Write && op.Done != len(op.Buffer) {
				return fmt.Errorf("perf: write of %d bytes stopped after %d", len(op.Buffer), op.Done)
			}
		}
		left -= len(p.finished)
	}
	return nil
}

const filesDirectory = "perf-files"

func fileName(i int) string { return filepath.Join(filesDirectory, fmt.Sprintf("%05d", i)) }

// make creates count files of fileBytes each with the history that was asked
// for, and flushes them. zeros is aligned memory that is written to recycle.
func (p *preparer) make(count int, fileBytes int64, history History, zeros []byte) ([]disk.File, error) {
	if err := p.perform(&disk.Operation{Kind: disk.MakeDirectory, Path: filesDirectory}); err != nil {
		return nil, fmt.Errorf("perf: prepare files: %w", err)
	}
	clear(zeros)
	var files []disk.File
	for i := range count {
		open := &disk.Operation{Kind: disk.Open, Path: fileName(i), Flags: disk.Create | disk.Truncate}
		if err := p.perform(open); err != nil {
			return files, fmt.Errorf("perf: prepare files: %w", err)
		}
		files = append(files, open.File)
		if err := p.prepare(open.File, fileBytes, history, zeros); err != nil {
			return files, fmt.Errorf("perf: prepare files: %w", err)
		}
	}
	return files, p.perform(&disk.Operation{Kind: disk.SyncDirectory, Path: filesDirectory})
}

func (p *preparer) prepare(file disk.File, fileBytes int64, history History, zeros []byte) error {
	if err := p.perform(&disk.Operation{Kind: disk.Preallocate, File: file, Length: fileBytes}); err != nil {
		return err
	}
	if history == Recycled {
		const together = 8
		for offset := int64(0); offset < fileBytes; {
			var writes []*disk.Operation
			for len(writes) < together && offset < fileBytes {
				piece := min(int64(len(zeros)), fileBytes-offset)
				writes = append(writes, &disk.Operation{Kind: disk.Write, File: file, Buffer: zeros[:piece:piece], Offset: offset})
				offset += piece
			}
			if err := p.perform(writes...); err != nil {
				return err
			}
		}
	}
	return p.perform(&disk.Operation{Kind: disk.Flush, File: file})
}

// remove closes and unlinks the files.
func (p *preparer) remove(files []disk.File) error {
	for i, file := range files {
		if err := p.perform(&disk.Operation{Kind: disk.Close, File: file}); err != nil {
			return fmt.Errorf("perf: remove files: %w", err)
		}
		if err := p.perform(&disk.Operation{Kind: disk.Unlink, Path: fileName(i)}); err != nil {
			return fmt.Errorf("perf: remove files: %w", err)
		}
	}
	return p.perform(&disk.Operation{Kind: disk.RemoveDirectory, Path: filesDirectory})
}
