package disk

import (
	"path"
	"strings"
	"syscall"
	"unsafe"
)

// CleanPath returns name in its shortest form, relative to the root: "a//b/"
// becomes "a/b" and the root itself is ".". It returns ErrBadPath for an empty
// or absolute name, one with a ".." element or with a zero byte. It judges the
// words only: that no symbolic link leads out of the root is checked where the
// path is resolved.
func CleanPath(name string) (string, error) {
	if name == "" || name[0] == '/' || strings.IndexByte(name, 0) >= 0 {
		return "", ErrBadPath
	}
	for rest := name; rest != ""; {
		element, tail, _ := strings.Cut(rest, "/")
		if element == ".." {
			return "", ErrBadPath
		}
		rest = tail
	}
	return path.Clean(name), nil
}

// Check returns why op can be refused before any device sees it, or nil: a bad
// path, a broken alignment rule, a negative offset, an empty range, an unknown
// kind. Paths are rewritten in their clean form. Every implementation calls it
// once at Submit, so that all refuse the same operations with the same errors.
func (op *Operation) Check() error {
	switch op.Kind {
	case Write, Read:
		if op.Offset < 0 {
			return syscall.EINVAL
		}
		if op.Offset%BlockBytes != 0 || !Aligned(op.Buffer) {
			return ErrUnaligned
		}
		return nil
	case Preallocate, ZeroRange:
		if op.Offset < 0 || op.Length <= 0 || op.Offset+op.Length < 0 {
			return syscall.EINVAL
		}
		return nil
	case Flush, SyncFilesystem, Close, FreeSpace:
		return nil
	case Open:
		if op.Flags&Exclusive != 0 && op.Flags&Create == 0 || op.Flags&ReadOnly != 0 && op.Flags&(Create|Truncate) != 0 {
			return syscall.EINVAL
		}
		return op.checkPaths(false)
	case Rename, Exchange, Unlink, MakeDirectory, RemoveDirectory:
		return op.checkPaths(false)
	case SyncDirectory, ReadDirectory:
		return op.checkPaths(true)
	}
	return syscall.EINVAL
}

// checkPaths cleans the paths that the kind uses; only some kinds may name the root.
func (op *Operation) checkPaths(mayBeRoot bool) error {
	var err error
	if op.Path, err = checkPath(op.Path, mayBeRoot); err != nil {
		return err
	}
	if op.Kind == Rename || op.Kind == Exchange {
		op.NewPath, err = checkPath(op.NewPath, mayBeRoot)
	}
	return err
}

func checkPath(name string, mayBeRoot bool) (string, error) {
	clean, err := CleanPath(name)
	if err != nil {
		return name, err
	}
	if clean == "." && !mayBeRoot {
		return name, ErrBadPath
	}
	return clean, nil
}

// UsesFile says whether operations of the kind act on File rather than on Path.
func (k Kind) UsesFile() bool {
	switch k {
	case Write, Read, Flush, SyncFilesystem, Preallocate, ZeroRange, Close:
		return true
	}
	return false
}

// Fail sets op.Err to an OperationError that names what op acts on; path is
// the path that op.File was opened by, or op.Path.
func (op *Operation) Fail(path string, cause error) {
	op.Err = &OperationError{Kind: op.Kind, Path: path, Offset: op.Offset, Err: cause}
}

// Aligned says whether buffer may be handed to a Write or Read: its length and
// its address are multiples of BlockBytes.
func Aligned(buffer []byte) bool {
	if len(buffer)%BlockBytes != 0 {
		return false
	}
	return len(buffer) == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(buffer)))%BlockBytes == 0
}

// AlignedBytes allocates length bytes on the Go heap at an address that is a
// multiple of BlockBytes. It is for set-up and tests; the hot path takes its
// buffers from an arena.
func AlignedBytes(length int) []byte {
	raw := make([]byte, length+BlockBytes)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) % BlockBytes)
	return raw[skip : skip+length : skip+length]
}
