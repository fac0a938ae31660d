// Package system holds the calls into the operating system that the
// implementations on real directories share: those that differ between systems,
// with what replaces them where a file system has none, and the reduction of
// errors to what the seam promises. All of them block; their callers are
// the workers of package portable and the helper of package uring.
package system

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"ringlog/engine/disk"
)

// zeroPiece is what the fallback of ZeroRange writes at a time. It is aligned
// because the file may be open with O_DIRECT.
var zeroPiece = disk.AlignedBytes(256 << 10)

// MakeDirectory creates name below root; a directory that is there already is fine, a file is not.
func MakeDirectory(root *os.Root, name string) error {
	err := root.Mkdir(name, 0o755)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if information, statErr := root.Stat(name); statErr != nil || !information.IsDir() {
		return err
	}
	return nil
}

// ReadDirectory appends the names in directory name below root to entries, sorted.
func ReadDirectory(root *os.Root, name string, entries []disk.Entry) ([]disk.Entry, error) {
	directory, err := root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
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

// FreeSpace is how much of the root's file system a process without privileges may still
// take, and how large it is, in bytes.
func FreeSpace(root *os.Root) (free, total int64, err error) {
	directory, err := root.Open(".")
	if err != nil {
		return 0, 0, err
	}
	defer directory.Close()
	var status unix.Statfs_t
	if _, err := Retry(func() (int, error) { return 0, unix.Fstatfs(int(directory.Fd()), &status) }); err != nil {
		return 0, 0, err
	}
	block := int64(status.Bsize)
	return int64(status.Bavail) * block, int64(status.Blocks) * block, nil
}

// openParents opens the directories of two names below root.
func openParents(root *os.Root, one, two string, use func(one, two int) error) error {
	first, err := root.Open(path.Dir(one))
	if err != nil {
		return err
	}
	defer first.Close()
	second, err := root.Open(path.Dir(two))
	if err != nil {
		return err
	}
	defer second.Close()
	return use(int(first.Fd()), int(second.Fd()))
}

// writeZeros is ZeroRange where the file system has no such call. A range that
// is not in whole blocks cannot go past the page cache and is refused.
func writeZeros(descriptor int, offset, length int64) error {
	if offset%disk.BlockBytes != 0 || length%disk.BlockBytes != 0 {
		return disk.ErrUnaligned
	}
	for length > 0 {
		piece := zeroPiece[:min(length, int64(len(zeroPiece)))]
		count, err := Retry(func() (int, error) { return unix.Pwrite(descriptor, piece, offset) })
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

// Retry repeats a call that a signal interrupted: Go's own signals do so too.
func Retry(call func() (int, error)) (int, error) {
	for {
		count, err := call()
		if err != syscall.EINTR {
			return count, err
		}
	}
}

// Cause reduces err to the errno or sentinel that the seam promises. After
// Check an error of os.Root that is no errno says that a symbolic link would
// have led out of the root.
func Cause(err error) error {
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
