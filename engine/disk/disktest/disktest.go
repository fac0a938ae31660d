// Package disktest is the conformance test of the disk seam: what every
// implementation of disk.Disk does alike. An implementation's own tests call
// Run, and RunRooted when it stands on a real directory; the engine may then
// be built on any of them and tested on another.
//
// Nothing here asks for more than the seam promises: operations may come back
// in any order, a Wait may return early, a Write may be short.
package disktest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"ringlog/engine/disk"
)

// Run runs the conformance test. open returns an empty Disk that belongs to
// the calling goroutine; Run closes it. Each case gets a Disk of its own.
func Run(t *testing.T, open func(t *testing.T) disk.Disk) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := &rig{T: t, disk: open(t)}
			defer r.close()
			c.run(r)
		})
	}
}

// cases in the order of the seam's text.
var cases = []struct {
	name string
	run  func(r *rig)
}{
	{"a write is read back", writeIsReadBack},
	{"a read past the end is short and then empty", readsAreShortAtTheEnd},
	{"a hole reads as zeros", holeReadsAsZeros},
	{"overwriting keeps the neighbours", overwriteKeepsNeighbours},
	{"empty buffers move nothing", emptyBuffers},
	{"two files do not share bytes", filesAreSeparate},
	{"flushes succeed", flushesSucceed},
	{"preallocate extends with zeros and keeps what is there", preallocateExtends},
	{"zero range wipes the range only", zeroRangeWipes},
	{"bad requests are refused, each once", badRequestsAreRefused},
	{"files that are not open are refused", closedFilesAreRefused},
	{"open follows its flags", openFollowsFlags},
	{"rename replaces", renameReplaces},
	{"exchange swaps", exchangeSwaps},
	{"free space is told", freeSpaceIsTold},
	{"an open file outlives its name", openFileOutlivesName},
	{"directories are made, listed and removed", directories},
	{"a file and a directory are not taken for each other", filesAndDirectoriesDiffer},
	{"a big directory is listed whole", bigDirectory},
	{"leaving paths are refused", leavingPathsAreRefused},
	{"many in flight come back once each", manyInFlight},
	{"more than any queue holds is taken", moreThanAnyQueue},
	{"an operation may be used again", operationsAreReused},
	{"wait adds to what it is given", waitAppends},
	{"idle waits return", idleWaitsReturn},
	{"wake merges and ends one wait", wakeMerges},
	{"wake works from another goroutine", wakeFromAnotherGoroutine},
	{"close hands everything back", closeHandsBack},
	{"a closed disk takes nothing", closedTakesNothing},
}

// rig is a Disk under test with the few verbs that the cases are written in.
type rig struct {
	*testing.T
	disk   disk.Disk
	closed bool
}

func (r *rig) close() {
	if r.closed {
		return
	}
	r.closed = true
	if err := r.disk.Close(); err != nil {
		r.Errorf("close: %v", err)
	}
}

// wait returns when every one of ops, and nothing else, has come back.
func (r *rig) wait(ops ...*disk.Operation) {
	r.Helper()
	pending := make(map[*disk.Operation]bool, len(ops))
	for _, op := range ops {
		pending[op] = true
	}
	for len(pending) > 0 {
		finished, err := r.disk.Wait(nil, -1)
		if err != nil {
			r.Fatalf("wait: %v", err)
		}
		for _, op := range finished {
			if !pending[op] {
				r.Fatalf("%s of %q came back twice or was never submitted", op.Kind, op.Path)
			}
			delete(pending, op)
		}
		if got := r.disk.InFlight(); got != len(pending) {
			r.Fatalf("InFlight is %d with %d not returned", got, len(pending))
		}
	}
}

// do carries out op and returns it; it may have failed.
func (r *rig) do(op *disk.Operation) *disk.Operation {
	r.Helper()
	before := r.disk.InFlight()
	r.disk.Submit(op)
	if got := r.disk.InFlight(); got != before+1 {
		r.Fatalf("InFlight went from %d to %d at a Submit", before, got)
	}
	r.wait(op)
	return op
}

// must carries out op, which has to succeed.
func (r *rig) must(op *disk.Operation) *disk.Operation {
	r.Helper()
	if r.do(op).Err != nil {
		r.Fatalf("%s: %v", op.Kind, op.Err)
	}
	return op
}

// refused carries out op, which has to fail with an OperationError that is one of causes.
func (r *rig) refused(op *disk.Operation, causes ...error) {
	r.Helper()
	kind := op.Kind
	r.do(op)
	var failure *disk.OperationError
	if !errors.As(op.Err, &failure) {
		r.Fatalf("%s of %q ended with %v, want an OperationError of %v", kind, op.Path, op.Err, causes)
	}
	if failure.Kind != kind {
		r.Errorf("the error says %s, the operation was %s", failure.Kind, kind)
	}
	if !slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(op.Err, cause) }) {
		r.Errorf("%s of %q ended with %v, want one of %v", kind, op.Path, op.Err, causes)
	}
}

// open opens path, which has to succeed.
func (r *rig) open(path string, flags disk.Flags) disk.File {
	r.Helper()
	op := r.must(&disk.Operation{Kind: disk.Open, Path: path, Flags: flags})
	if op.File == 0 {
		r.Fatalf("open of %q gave the zero File", path)
	}
	return op.File
}

func (r *rig) closeFile(file disk.File) {
	r.Helper()
	r.must(&disk.Operation{Kind: disk.Close, File: file})
}

// write stores all of buffer, submitting the rest again after a short write.
func (r *rig) write(file disk.File, offset int64, buffer []byte) {
	r.Helper()
	for len(buffer) > 0 {
		op := r.must(&disk.Operation{Kind: disk.Write, File: file, Offset: offset, Buffer: buffer})
		if op.Done <= 0 || op.Done > len(buffer) || op.Done%disk.BlockBytes != 0 {
			r.Fatalf("write of %d bytes did %d", len(buffer), op.Done)
		}
		offset += int64(op.Done)
		buffer = buffer[op.Done:]
	}
}

// read returns up to length bytes from offset, reading on until the end of the file.
func (r *rig) read(file disk.File, offset int64, length int) []byte {
	r.Helper()
	buffer := disk.AlignedBytes(length)
	for i := range buffer {
		buffer[i] = 0xDB // what a read that moves nothing leaves behind
	}
	done := 0
	for done < length {
		op := r.must(&disk.Operation{Kind: disk.Read, File: file, Offset: offset + int64(done), Buffer: buffer[done:]})
		if op.Done == 0 {
			break
		}
		done += op.Done
	}
	return buffer[:done]
}

// expect compares what file holds at offset with want.
func (r *rig) expect(file disk.File, offset int64, want []byte) {
	r.Helper()
	got := r.read(file, offset, len(want))
	if len(got) != len(want) {
		r.Fatalf("read %d bytes at %d, want %d", len(got), offset, len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			r.Fatalf("byte %d is %#x, want %#x", offset+int64(i), got[i], want[i])
		}
	}
}

// size is the length of the file at path as a new Open tells it.
func (r *rig) size(path string) int64 {
	r.Helper()
	op := r.must(&disk.Operation{Kind: disk.Open, Path: path, Flags: disk.ReadOnly})
	r.closeFile(op.File)
	return op.Length
}

// list is the names in directory path, directories with a slash, files with their size.
func (r *rig) list(path string) []string {
	r.Helper()
	op := r.must(&disk.Operation{Kind: disk.ReadDirectory, Path: path})
	var names []string
	for _, entry := range op.Entries {
		if entry.Directory {
			names = append(names, entry.Name+"/")
		} else {
			names = append(names, fmt.Sprintf("%s=%d", entry.Name, entry.Bytes))
		}
	}
	return names
}

func (r *rig) expectList(path string, want ...string) {
	r.Helper()
	if got := r.list(path); !slices.Equal(got, want) {
		r.Fatalf("%q holds %q, want %q", path, got, want)
	}
}

// pattern is length aligned bytes that tell their place and who wrote them.
func pattern(length int, writer byte) []byte {
	buffer := disk.AlignedBytes(length)
	for i := range buffer {
		buffer[i] = byte(i>>9)*31 + byte(i) + writer
	}
	return buffer
}

// blocks is n blocks in bytes.
func blocks(n int) int { return n * disk.BlockBytes }
