package disktest

import (
	"syscall"

	"ringlog/engine/disk"
)

// The cases of what is inside files.

func writeIsReadBack(r *rig) {
	file := r.open("log", disk.Create)
	data := pattern(blocks(16), 1)
	r.write(file, 0, data)
	r.expect(file, 0, data)
	r.expect(file, int64(blocks(3)), data[blocks(3):blocks(5)])
	r.closeFile(file)

	again := r.open("log", 0)
	r.expect(again, 0, data)
	if got := r.size("log"); got != int64(len(data)) {
		r.Errorf("size is %d, want %d", got, len(data))
	}
}

func readsAreShortAtTheEnd(r *rig) {
	file := r.open("log", disk.Create)
	data := pattern(blocks(3), 1)
	r.write(file, 0, data)
	if got := r.read(file, 0, blocks(8)); len(got) != len(data) {
		r.Errorf("read %d bytes of a file of %d", len(got), len(data))
	}
	for _, offset := range []int64{int64(blocks(3)), int64(blocks(100))} {
		if got := r.read(file, offset, blocks(1)); len(got) != 0 {
			r.Errorf("read %d bytes at %d, behind the end", len(got), offset)
		}
	}
}

func holeReadsAsZeros(r *rig) {
	file := r.open("log", disk.Create)
	data := pattern(blocks(1), 1)
	r.write(file, int64(blocks(4)), data)
	r.expect(file, 0, make([]byte, blocks(4)))
	r.expect(file, int64(blocks(4)), data)
}

func overwriteKeepsNeighbours(r *rig) {
	file := r.open("log", disk.Create)
	data := pattern(blocks(8), 1)
	r.write(file, 0, data)
	part := pattern(blocks(2), 9)
	r.write(file, int64(blocks(3)), part)
	copy(data[blocks(3):], part)
	r.expect(file, 0, data)
}

func emptyBuffers(r *rig) {
	file := r.open("log", disk.Create)
	for _, kind := range []disk.Kind{disk.Write, disk.Read} {
		if op := r.must(&disk.Operation{Kind: kind, File: file, Offset: int64(blocks(7))}); op.Done != 0 {
			r.Errorf("%s of nothing did %d bytes", kind, op.Done)
		}
	}
	if got := r.size("log"); got != 0 {
		r.Errorf("a write of nothing extended the file to %d", got)
	}
}

func filesAreSeparate(r *rig) {
	a, b := r.open("a", disk.Create), r.open("b", disk.Create)
	if a == b {
		r.Fatal("two open files have one File")
	}
	one, two := pattern(blocks(2), 1), pattern(blocks(2), 2)
	r.write(a, 0, one)
	r.write(b, 0, two)
	r.expect(a, 0, one)
	r.expect(b, 0, two)

	// The same file opened twice is one file with two handles.
	second := r.open("a", 0)
	r.expect(second, 0, one)
	r.closeFile(a)
	r.expect(second, 0, one)
}

func flushesSucceed(r *rig) {
	file := r.open("log", disk.Create)
	r.must(&disk.Operation{Kind: disk.Flush, File: file})
	r.write(file, 0, pattern(blocks(2), 1))
	r.must(&disk.Operation{Kind: disk.Flush, File: file})
	r.must(&disk.Operation{Kind: disk.SyncFilesystem, File: file})
	r.must(&disk.Operation{Kind: disk.SyncDirectory, Path: "."})
	r.refused(&disk.Operation{Kind: disk.SyncDirectory, Path: "missing"}, syscall.ENOENT)
	r.refused(&disk.Operation{Kind: disk.SyncDirectory, Path: "log"}, syscall.ENOTDIR)
}

func preallocateExtends(r *rig) {
	file := r.open("log", disk.Create)
	data := pattern(blocks(2), 1)
	r.write(file, 0, data)
	r.must(&disk.Operation{Kind: disk.Preallocate, File: file, Offset: int64(blocks(1)), Length: int64(blocks(9))})
	if got := r.size("log"); got != int64(blocks(10)) {
		r.Errorf("size is %d, want %d", got, blocks(10))
	}
	r.expect(file, 0, data)
	r.expect(file, int64(blocks(2)), make([]byte, blocks(8)))

	r.must(&disk.Operation{Kind: disk.Preallocate, File: file, Offset: 0, Length: int64(blocks(1))})
	if got := r.size("log"); got != int64(blocks(10)) {
		r.Errorf("size is %d after a smaller preallocate, want %d", got, blocks(10))
	}
	r.write(file, int64(blocks(9)), data[:blocks(1)])
	r.expect(file, int64(blocks(9)), data[:blocks(1)])
}

func zeroRangeWipes(r *rig) {
	file := r.open("log", disk.Create)
	data := pattern(blocks(8), 1)
	r.write(file, 0, data)
	r.must(&disk.Operation{Kind: disk.ZeroRange, File: file, Offset: int64(blocks(2)), Length: int64(blocks(3))})
	clear(data[blocks(2):blocks(5)])
	r.expect(file, 0, data)

	// A range past the end extends the file.
	r.must(&disk.Operation{Kind: disk.ZeroRange, File: file, Offset: int64(blocks(7)), Length: int64(blocks(3))})
	clear(data[blocks(7):])
	r.expect(file, 0, append(data, make([]byte, blocks(2))...))
	if got := r.size("log"); got != int64(blocks(10)) {
		r.Errorf("size is %d, want %d", got, blocks(10))
	}
}

func badRequestsAreRefused(r *rig) {
	file := r.open("log", disk.Create)
	buffer := disk.AlignedBytes(blocks(3))
	for _, kind := range []disk.Kind{disk.Write, disk.Read} {
		r.refused(&disk.Operation{Kind: kind, File: file, Buffer: buffer, Offset: 512}, disk.ErrUnaligned)
		r.refused(&disk.Operation{Kind: kind, File: file, Buffer: buffer[:disk.BlockBytes-1]}, disk.ErrUnaligned)
		r.refused(&disk.Operation{Kind: kind, File: file, Buffer: buffer[512 : 512+disk.BlockBytes]}, disk.ErrUnaligned)
		r.refused(&disk.Operation{Kind: kind, File: file, Buffer: buffer, Offset: -disk.BlockBytes}, syscall.EINVAL)
	}
	for _, kind := range []disk.Kind{disk.Preallocate, disk.ZeroRange} {
		r.refused(&disk.Operation{Kind: kind, File: file, Length: 0}, syscall.EINVAL)
		r.refused(&disk.Operation{Kind: kind, File: file, Offset: -1, Length: 9}, syscall.EINVAL)
	}
	r.refused(&disk.Operation{Kind: 0, File: file}, syscall.EINVAL)
	r.refused(&disk.Operation{Kind: 200, File: file}, syscall.EINVAL)
	if got := r.size("log"); got != 0 {
		r.Errorf("a refused operation extended the file to %d", got)
	}
}

func closedFilesAreRefused(r *rig) {
	kinds := []disk.Kind{disk.Write, disk.Read, disk.Flush, disk.SyncFilesystem, disk.Preallocate, disk.ZeroRange, disk.Close}
	try := func(file disk.File) {
		r.Helper()
		for _, kind := range kinds {
			r.refused(&disk.Operation{Kind: kind, File: file, Buffer: disk.AlignedBytes(blocks(1)), Length: 4096}, syscall.EBADF)
		}
	}
	try(0)
	try(-1)
	try(12345)
	old := r.open("a", disk.Create)
	r.closeFile(old)
	// Another file takes the old one's place; the old File must not name it.
	file := r.open("b", disk.Create)
	try(old)
	r.write(file, 0, pattern(blocks(1), 1))
	if got := r.size("a"); got != 0 {
		r.Errorf("a closed file was written: size %d", got)
	}
}
