package disktest

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"ringlog/engine/disk"
)

// The cases of names and directories.

func openFollowsFlags(r *rig) {
	r.refused(&disk.Operation{Kind: disk.Open, Path: "log"}, syscall.ENOENT)
	r.refused(&disk.Operation{Kind: disk.Open, Path: "missing/log", Flags: disk.Create}, syscall.ENOENT)
	for _, flags := range []disk.Flags{disk.Exclusive, disk.ReadOnly | disk.Create, disk.ReadOnly | disk.Truncate} {
		r.refused(&disk.Operation{Kind: disk.Open, Path: "log", Flags: flags}, syscall.EINVAL)
	}
	file := r.open("log", disk.Create|disk.Exclusive)
	r.refused(&disk.Operation{Kind: disk.Open, Path: "log", Flags: disk.Create | disk.Exclusive}, fs.ErrExist)
	data := pattern(blocks(2), 1)
	r.write(file, 0, data)

	// Create alone takes what is there, with its length.
	op := r.must(&disk.Operation{Kind: disk.Open, Path: "log", Flags: disk.Create})
	if op.Length != int64(len(data)) {
		r.Errorf("open says %d bytes, want %d", op.Length, len(data))
	}

	reader := r.open("log", disk.ReadOnly)
	r.expect(reader, 0, data)
	for _, kind := range []disk.Kind{disk.Write, disk.Preallocate, disk.ZeroRange} {
		r.refused(&disk.Operation{Kind: kind, File: reader, Buffer: data, Length: int64(blocks(9))}, syscall.EBADF)
	}

	op = r.must(&disk.Operation{Kind: disk.Open, Path: "log", Flags: disk.Truncate})
	if op.Length != 0 || r.size("log") != 0 {
		r.Errorf("truncated file has %d bytes, then %d", op.Length, r.size("log"))
	}
	r.expect(op.File, 0, nil)
}

func renameReplaces(r *rig) {
	r.must(&disk.Operation{Kind: disk.MakeDirectory, Path: "d"})
	one, two := pattern(blocks(1), 1), pattern(blocks(2), 2)
	a, b := r.open("a", disk.Create), r.open("d/b", disk.Create)
	r.write(a, 0, one)
	r.write(b, 0, two)

	r.must(&disk.Operation{Kind: disk.Rename, Path: "a", NewPath: "d/b"})
	r.expectList(".", "d/")
	r.expectList("d", "b=4096")
	r.expect(r.open("d/b", 0), 0, one)
	// What was replaced lives on for those who have it open.
	r.expect(b, 0, two)
	r.expect(a, 0, one)

	r.must(&disk.Operation{Kind: disk.Rename, Path: "d/b", NewPath: "d/b"})
	r.expectList("d", "b=4096")
	r.refused(&disk.Operation{Kind: disk.Rename, Path: "a", NewPath: "c"}, syscall.ENOENT)
	r.refused(&disk.Operation{Kind: disk.Rename, Path: "d/b", NewPath: "missing/c"}, syscall.ENOENT)
	r.refused(&disk.Operation{Kind: disk.Rename, Path: "d/b", NewPath: "d"}, syscall.EISDIR, syscall.ENOTEMPTY, syscall.EEXIST)
}

// exchangeSwaps is about content: what each file has is found under the other name, and whoever has one
// open keeps it.
func exchangeSwaps(r *rig) {
	r.must(&disk.Operation{Kind: disk.MakeDirectory, Path: "d"})
	one, two := pattern(blocks(1), 1), pattern(blocks(2), 2)
	a, b := r.open("a", disk.Create), r.open("d/b", disk.Create)
	r.write(a, 0, one)
	r.write(b, 0, two)
	swap := disk.Operation{Kind: disk.Exchange, Path: "a", NewPath: "d/b"}
	r.do(&swap)
	if errors.Is(swap.Err, syscall.EOPNOTSUPP) {
		return // the engine renames there
	}
	if swap.Err != nil {
		r.Fatal(swap.Err)
	}
	r.expectList(".", "a=8192", "d/")
	r.expectList("d", "b=4096")
	r.expect(r.open("a", 0), 0, two)
	r.expect(r.open("d/b", 0), 0, one)
	r.expect(a, 0, one)
	r.expect(b, 0, two)
	r.refused(&disk.Operation{Kind: disk.Exchange, Path: "a", NewPath: "c"}, syscall.ENOENT)
	r.refused(&disk.Operation{Kind: disk.Exchange, Path: "c", NewPath: "a"}, syscall.ENOENT)
}

// freeSpaceIsTold is about what can be said of every disk: there is some, and not more than all.
func freeSpaceIsTold(r *rig) {
	space := r.must(&disk.Operation{Kind: disk.FreeSpace})
	if space.Length <= 0 || space.TotalBytes != 0 && space.TotalBytes < space.Length {
		r.Errorf("%d bytes of %d are free", space.Length, space.TotalBytes)
	}
}

func openFileOutlivesName(r *rig) {
	file := r.open("log", disk.Create)
	data := pattern(blocks(2), 1)
	r.write(file, 0, data)
	r.must(&disk.Operation{Kind: disk.Unlink, Path: "log"})
	r.expectList(".")
	r.expect(file, 0, data)
	r.write(file, int64(blocks(2)), data)
	r.must(&disk.Operation{Kind: disk.Flush, File: file})
	r.refused(&disk.Operation{Kind: disk.Unlink, Path: "log"}, syscall.ENOENT)

	fresh := r.open("log", disk.Create|disk.Exclusive)
	r.expect(fresh, 0, nil)
	r.expect(file, int64(blocks(2)), data)
}

func directories(r *rig) {
	r.expectList(".")
	r.must(&disk.Operation{Kind: disk.MakeDirectory, Path: "logs"})
	r.must(&disk.Operation{Kind: disk.MakeDirectory, Path: "logs"}) // not an error when it exists
	r.must(&disk.Operation{Kind: disk.MakeDirectory, Path: "logs//b/"})
	r.write(r.open("logs/./a", disk.Create), 0, pattern(blocks(1), 1))
	r.write(r.open("logs/c", disk.Create), 0, pattern(blocks(3), 1))
	r.expectList(".", "logs/")
	r.expectList("logs", "a=4096", "b/", "c=12288")
	r.expectList("logs/b")
	r.must(&disk.Operation{Kind: disk.SyncDirectory, Path: "logs"})

	r.refused(&disk.Operation{Kind: disk.MakeDirectory, Path: "x/y"}, syscall.ENOENT)
	r.refused(&disk.Operation{Kind: disk.ReadDirectory, Path: "x"}, syscall.ENOENT)
	r.refused(&disk.Operation{Kind: disk.RemoveDirectory, Path: "x"}, syscall.ENOENT)
	r.refused(&disk.Operation{Kind: disk.RemoveDirectory, Path: "logs"}, syscall.ENOTEMPTY, syscall.EEXIST)

	r.must(&disk.Operation{Kind: disk.Unlink, Path: "logs/a"})
	r.must(&disk.Operation{Kind: disk.Unlink, Path: "logs/c"})
	r.must(&disk.Operation{Kind: disk.RemoveDirectory, Path: "logs/b"})
	r.expectList("logs")
	r.must(&disk.Operation{Kind: disk.Rename, Path: "logs", NewPath: "old"})
	r.expectList(".", "old/")
	r.must(&disk.Operation{Kind: disk.RemoveDirectory, Path: "old"})
	r.expectList(".")
}

func filesAndDirectoriesDiffer(r *rig) {
	r.open("file", disk.Create)
	r.must(&disk.Operation{Kind: disk.MakeDirectory, Path: "directory"})
	r.refused(&disk.Operation{Kind: disk.Open, Path: "directory"}, syscall.EISDIR)
	r.refused(&disk.Operation{Kind: disk.Open, Path: "directory", Flags: disk.ReadOnly}, syscall.EISDIR)
	r.refused(&disk.Operation{Kind: disk.Open, Path: "file/x", Flags: disk.Create}, syscall.ENOTDIR)
	r.refused(&disk.Operation{Kind: disk.Unlink, Path: "directory"}, syscall.EISDIR, syscall.EPERM)
	r.refused(&disk.Operation{Kind: disk.RemoveDirectory, Path: "file"}, syscall.ENOTDIR)
	r.refused(&disk.Operation{Kind: disk.MakeDirectory, Path: "file"}, syscall.EEXIST)
	r.refused(&disk.Operation{Kind: disk.ReadDirectory, Path: "file"}, syscall.ENOTDIR)
	r.refused(&disk.Operation{Kind: disk.Rename, Path: "directory", NewPath: "file"}, syscall.ENOTDIR)
	r.expectList(".", "directory/", "file=0")
}

func bigDirectory(r *rig) {
	// More names than one getdents64 buffer holds, created in no order.
	const count = 1000
	r.must(&disk.Operation{Kind: disk.MakeDirectory, Path: "many"})
	var want []string
	ops := make([]*disk.Operation, count)
	for i := range ops {
		name := fmt.Sprintf("%020d.segment", (i*7919)%count)
		want = append(want, name+"=0")
		ops[i] = &disk.Operation{Kind: disk.Open, Path: "many/" + name, Flags: disk.Create | disk.Exclusive}
		r.disk.Submit(ops[i])
	}
	r.wait(ops...)
	for _, op := range ops {
		if op.Err != nil {
			r.Fatal(op.Err)
		}
		r.closeFile(op.File)
	}
	slices.Sort(want)
	r.expectList("many", want...)
}

func leavingPathsAreRefused(r *rig) {
	kinds := []disk.Kind{disk.Open, disk.Rename, disk.Exchange, disk.Unlink, disk.SyncDirectory, disk.MakeDirectory, disk.RemoveDirectory, disk.ReadDirectory}
	for _, path := range []string{"", "/", "/etc/passwd", "..", "../x", "a/../b", "a/..", "x\x00y"} {
		for _, kind := range kinds {
			r.refused(&disk.Operation{Kind: kind, Path: path, NewPath: "x"}, disk.ErrBadPath)
		}
		r.refused(&disk.Operation{Kind: disk.Rename, Path: "x", NewPath: path}, disk.ErrBadPath)
		r.refused(&disk.Operation{Kind: disk.Exchange, Path: "x", NewPath: path}, disk.ErrBadPath)
	}
	// The root itself can be listed and synced, nothing else.
	for _, kind := range []disk.Kind{disk.Open, disk.Rename, disk.Unlink, disk.MakeDirectory, disk.RemoveDirectory} {
		r.refused(&disk.Operation{Kind: kind, Path: ".", NewPath: "x"}, disk.ErrBadPath)
	}
	r.open("..a", disk.Create) // dots in a name lead nowhere
	r.expectList(".", "..a=0")
}
