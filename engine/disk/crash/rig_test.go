package crash_test

import (
	"bytes"
	"errors"
	"testing"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
)

// seeds is how many power cuts a test tries when it looks for a rare one.
const seeds = 300

// rig drives a crash disk in the words of the tests.
type rig struct {
	testing.TB
	*crash.Disk
}

func newRig(t testing.TB, options crash.Options) *rig { return &rig{t, crash.New(options)} }

// wait returns when all of ops have come back.
func (r *rig) wait(ops ...*disk.Operation) {
	r.Helper()
	left := len(ops)
	for left > 0 {
		finished, err := r.Wait(nil, -1)
		if err != nil {
			r.Fatal(err)
		}
		left -= len(finished)
	}
}

func (r *rig) do(op *disk.Operation) error {
	r.Helper()
	r.Submit(op)
	r.wait(op)
	return op.Err
}

func (r *rig) must(op *disk.Operation) *disk.Operation {
	r.Helper()
	if err := r.do(op); err != nil {
		r.Fatal(err)
	}
	return op
}

func (r *rig) open(path string) disk.File {
	r.Helper()
	return r.must(&disk.Operation{Kind: disk.Open, Path: path, Flags: disk.Create}).File
}

// durable makes a file with content, all of it durable, and opens it.
func (r *rig) durable(path string, content []byte) disk.File {
	r.Helper()
	if err := r.WriteFile(path, content); err != nil {
		r.Fatal(err)
	}
	return r.open(path)
}

func (r *rig) flush(file disk.File) {
	r.Helper()
	r.must(&disk.Operation{Kind: disk.Flush, File: file})
}

func (r *rig) syncDirectory(path string) {
	r.Helper()
	r.must(&disk.Operation{Kind: disk.SyncDirectory, Path: path})
}

func (r *rig) rename(path, newPath string) {
	r.Helper()
	r.must(&disk.Operation{Kind: disk.Rename, Path: path, NewPath: newPath})
}

// write is a Write of count blocks of fill at block.
func write(file disk.File, block, count int, fill byte) *disk.Operation {
	return &disk.Operation{Kind: disk.Write, File: file, Offset: int64(block * disk.BlockBytes), Buffer: aligned(count, fill)}
}

func aligned(count int, fill byte) []byte {
	buffer := disk.AlignedBytes(count * disk.BlockBytes)
	copy(buffer, blocksOf(count, fill))
	return buffer
}

// blocksOf is count blocks of fill.
func blocksOf(count int, fill byte) []byte { return bytes.Repeat([]byte{fill}, count*disk.BlockBytes) }

// content is the file at path in d, or nil when there is none.
func content(t testing.TB, d *crash.Disk, path string) []byte {
	t.Helper()
	data, err := d.ReadFile(path)
	if err != nil {
		if !errors.Is(err, errNotThere) {
			t.Fatal(err)
		}
		return nil
	}
	return append([]byte{}, data...)
}

// sectorFills returns what fills each sector of data and fails on a mixed one.
func sectorFills(t testing.TB, data []byte) []byte {
	t.Helper()
	var fills []byte
	for at := 0; at < len(data); at += disk.SectorBytes {
		sector := data[at : at+disk.SectorBytes]
		if bytes.Count(sector, sector[:1]) != len(sector) {
			t.Fatalf("sector %d is torn inside", at/disk.SectorBytes)
		}
		fills = append(fills, sector[0])
	}
	return fills
}
