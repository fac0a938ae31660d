package portable

import (
	"errors"
	"os"
	"path"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"ringlog/engine/disk"
	"ringlog/engine/disk/internal/system"
)

// run carries out one job on a worker's goroutine and sets the operation's result.
func (d *Disk) run(j *job) {
	op := j.op
	name := op.Path
	if j.target != nil {
		name = j.target.path
	}
	var err error
	switch op.Kind {
	case disk.Write:
		op.Done, err = system.Retry(func() (int, error) { return unix.Pwrite(j.descriptor(), op.Buffer, op.Offset) })
	case disk.Read:
		// One call and no loop: behind the end of a file whose length is no
		// multiple of a block the next offset would break the alignment rule.
		op.Done, err = system.Retry(func() (int, error) { return unix.Pread(j.descriptor(), op.Buffer, op.Offset) })
	case disk.Flush:
		err = system.Flush(j.descriptor())
	case disk.SyncFilesystem:
		err = system.SyncFilesystem(j.descriptor())
	case disk.Preallocate:
		err = system.Preallocate(j.descriptor(), op.Offset, op.Length)
	case disk.ZeroRange:
		err = system.ZeroRange(j.descriptor(), op.Offset, op.Length)
	case disk.Open:
		j.target, err = d.open(op)
	case disk.Close:
		err = j.target.file.Close()
	case disk.Rename:
		err = d.root.Rename(op.Path, op.NewPath)
	case disk.Exchange:
		err = system.Exchange(d.root, op.Path, op.NewPath)
	case disk.FreeSpace:
		op.Length, op.TotalBytes, err = system.FreeSpace(d.root)
	case disk.Unlink:
		err = d.unlink(op.Path, 0)
	case disk.RemoveDirectory:
		err = d.unlink(op.Path, unix.AT_REMOVEDIR)
	case disk.MakeDirectory:
		err = system.MakeDirectory(d.root, op.Path)
	case disk.SyncDirectory:
		err = d.syncDirectory(op.Path)
	case disk.ReadDirectory:
		op.Entries, err = system.ReadDirectory(d.root, op.Path, op.Entries[:0])
	}
	runtime.KeepAlive(j.target)
	if err != nil {
		op.Done = max(op.Done, 0)
		op.Fail(name, system.Cause(err))
	}
}

// descriptor is the target's; the job keeps its file alive.
func (j *job) descriptor() int { return int(j.target.file.Fd()) }

// open opens op.Path below the root, past the page cache where that is taken.
func (d *Disk) open(op *disk.Operation) (*openFile, error) {
	flags := os.O_RDWR
	if op.Flags&disk.ReadOnly != 0 {
		flags = os.O_RDONLY
	}
	if op.Flags&disk.Create != 0 {
		flags |= os.O_CREATE
	}
	if op.Flags&disk.Exclusive != 0 {
		flags |= os.O_EXCL
	}
	if op.Flags&disk.Truncate != 0 {
		flags |= os.O_TRUNC
	}
	var file *os.File
	var err error
	if d.info.Direct {
		file, err = d.root.OpenFile(op.Path, flags|system.DirectFlag, 0o644)
		if errors.Is(err, syscall.EINVAL) {
			// A file system mounted below the root may refuse what the root's takes.
			// open(2): O_EXCL with O_CREAT may have made the file before the refusal.
			file, err = d.root.OpenFile(op.Path, flags&^os.O_EXCL, 0o644)
		}
	} else {
		file, err = d.root.OpenFile(op.Path, flags, 0o644)
	}
	if err != nil {
		return nil, err
	}
	information, err := file.Stat()
	if err == nil && information.IsDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	op.Length = information.Size()
	return &openFile{path: op.Path, file: file}, nil
}

// unlink removes name; os.Root.Remove would take a file and a directory alike,
// the seam does not.
func (d *Disk) unlink(name string, flags int) error {
	parent, err := d.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	_, err = system.Retry(func() (int, error) {
		return 0, unix.Unlinkat(int(parent.Fd()), path.Base(name), flags)
	})
	return err
}

// syncDirectory makes the names in directory name durable.
func (d *Disk) syncDirectory(name string) error {
	directory, err := d.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}
