package portable

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"ringlog/engine/disk"
)

// zeroPiece is what the fallback of ZeroRange writes at a time. It is aligned
// because the file may be open with O_DIRECT.
var zeroPiece = disk.AlignedBytes(256 << 10)

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
		op.Done, err = retry(func() (int, error) { return unix.Pwrite(j.descriptor(), op.Buffer, op.Offset) })
	case disk.Read:
		// One call and no loop: behind the end of a file whose length is no
		// multiple of a block the next offset would break the alignment rule.
		op.Done, err = retry(func() (int, error) { return unix.Pread(j.descriptor(), op.Buffer, op.Offset) })
	case disk.Flush:
		err = flush(j.descriptor())
	case disk.SyncFilesystem:
		if err = syncFilesystem(j.descriptor()); err == nil {
			err = flush(j.descriptor())
		}
	case disk.Preallocate:
		err = preallocate(j.descriptor(), op.Offset, op.Length)
	case disk.ZeroRange:
		err = zeroRange(j.descriptor(), op.Offset, op.Length)
	case disk.Open:
		j.target, err = d.open(op)
	case disk.Close:
		err = j.target.file.Close()
	case disk.Rename:
		err = d.root.Rename(op.Path, op.NewPath)
	case disk.Unlink:
		err = d.unlink(op.Path, 0)
	case disk.RemoveDirectory:
		err = d.unlink(op.Path, unix.AT_REMOVEDIR)
	case disk.MakeDirectory:
		err = d.makeDirectory(op.Path)
	case disk.SyncDirectory:
		err = d.syncDirectory(op.Path)
	case disk.ReadDirectory:
		op.Entries, err = d.readDirectory(op.Path, op.Entries[:0])
	}
	runtime.KeepAlive(j.target)
	if err != nil {
		op.Done = max(op.Done, 0)
		op.Fail(name, cause(err))
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
	if d.direct {
		file, err = d.root.OpenFile(op.Path, flags|directFlag, 0o644)
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
	_, err = retry(func() (int, error) {
		return 0, unix.Unlinkat(int(parent.Fd()), path.Base(name), flags)
	})
	return err
}

// makeDirectory creates name; a directory that is there already is fine, a file is not.
func (d *Disk) makeDirectory(name string) error {
	err := d.root.Mkdir(name, 0o755)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if information, statErr := d.root.Stat(name); statErr != nil || !information.IsDir() {
		return err
	}
	return nil
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

// readDirectory appends the names in directory name to entries, sorted.
func (d *Disk) readDirectory(name string, entries []disk.Entry) ([]disk.Entry, error) {
	directory, err := d.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return entries, err
	}
	defer directory.Close()
	found, err := directory.ReadDir(-1)
	if err != nil {
		return entries, err
	}
	for _, item := range found {
		entry := disk.Entry{Name: item.Name(), Directory: item.IsDir()}
		if !entry.Directory {
			information, err := item.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed since it was listed
			}
			if err != nil {
				return entries, err
			}
			entry.Bytes = information.Size()
		}
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b disk.Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// writeZeros is ZeroRange where the file system has no such call. A range that
// is not in whole blocks cannot go past the page cache and is refused.
func writeZeros(descriptor int, offset, length int64) error {
	if offset%disk.BlockBytes != 0 || length%disk.BlockBytes != 0 {
		return disk.ErrUnaligned
	}
	for length > 0 {
		piece := zeroPiece[:min(length, int64(len(zeroPiece)))]
		count, err := retry(func() (int, error) { return unix.Pwrite(descriptor, piece, offset) })
		if err != nil {
			return err
		}
		if count == 0 {
			return syscall.EIO
		}
		offset += int64(count)
		length -= int64(count)
	}
	return nil
}

// retry repeats a call that a signal interrupted: Go's own signals do so too.
func retry(call func() (int, error)) (int, error) {
	for {
		count, err := call()
		if err != syscall.EINTR {
			return count, err
		}
	}
}

// cause reduces err to the errno or sentinel that the seam promises. After
// Check an error of os.Root that is no errno says that a symbolic link would
// have led out of the root.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	if errors.Is(err, disk.ErrUnaligned) {
		return disk.ErrUnaligned
	}
	var pathError *fs.PathError
	var linkError *os.LinkError
	if errors.As(err, &pathError) || errors.As(err, &linkError) {
		return disk.ErrBadPath
	}
	return err
}
