package backend

import (
	"errors"
	"fmt"
	"testing"

	"ringlog/engine/disk"
)

// modes are the ways to reach a disk that are measured beside each other.
var modes = []string{Uring, Giouring, Portable}

// BenchmarkWrite overwrites a file that is fully written, as a recycled segment
// is, with depth writes in flight. With flush=each a Flush follows each round of
// depth writes, and the time is that of the round.
func BenchmarkWrite(b *testing.B) {
	for _, mode := range modes {
		for _, size := range []int{4 << 10, 64 << 10, 256 << 10} {
			for _, depth := range []int{1, 8} {
				for _, flush := range []string{"none", "each"} {
					b.Run(fmt.Sprintf("disk=%s/size=%dk/depth=%d/flush=%s", mode, size>>10, depth, flush), func(b *testing.B) {
						benchmarkWrite(b, mode, size, depth, flush == "each")
					})
				}
			}
		}
	}
}

func benchmarkWrite(b *testing.B, mode string, size, depth int, flush bool) {
	const fileBytes = 64 << 20
	d := benchmarkDisk(b, mode)
	file := benchmarkFile(b, d, fileBytes)
	ops := make([]*disk.Operation, depth)
	for i := range ops {
		ops[i] = &disk.Operation{Kind: disk.Write, File: file, Buffer: disk.AlignedBytes(size)}
	}
	sync := &disk.Operation{Kind: disk.Flush, File: file}
	b.SetBytes(int64(size * depth))
	b.ReportAllocs()
	offset := int64(0)
	for b.Loop() {
		for _, op := range ops {
			op.Offset = offset
			offset = (offset + int64(size)) % fileBytes
			d.Submit(op)
		}
		await(b, d, depth)
		if flush {
			d.Submit(sync)
			await(b, d, 1)
		}
	}
}

// BenchmarkRead reads a file at depth 8, past the page cache where that is taken.
func BenchmarkRead(b *testing.B) {
	const fileBytes, depth = 64 << 20, 8
	for _, mode := range modes {
		for _, size := range []int{4 << 10, 256 << 10} {
			b.Run(fmt.Sprintf("disk=%s/size=%dk/depth=%d", mode, size>>10, depth), func(b *testing.B) {
				d := benchmarkDisk(b, mode)
				file := benchmarkFile(b, d, fileBytes)
				ops := make([]*disk.Operation, depth)
				for i := range ops {
					ops[i] = &disk.Operation{Kind: disk.Read, File: file, Buffer: disk.AlignedBytes(size)}
				}
				b.SetBytes(int64(size * depth))
				b.ReportAllocs()
				offset := int64(0)
				for b.Loop() {
					for _, op := range ops {
						op.Offset = offset
						offset = (offset + int64(size)) % fileBytes
						d.Submit(op)
					}
					await(b, d, depth)
				}
			})
		}
	}
}

// BenchmarkWake is a Wake and the Wait that it ends, on one goroutine: what
// the pair costs when nobody has to be woken.
func BenchmarkWake(b *testing.B) {
	for _, mode := range modes {
		b.Run("disk="+mode, func(b *testing.B) {
			d := benchmarkDisk(b, mode)
			for b.Loop() {
				d.Wake()
				if _, err := d.Wait(nil, -1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchmarkDisk(b *testing.B, mode string) disk.Disk {
	b.Helper()
	if err := probe(); err != nil && mode != Portable {
		b.Skipf(noRing, err)
	}
	d, err := Open(b.TempDir(), mode, Options{})
	if errors.Is(err, ErrNotBuilt) {
		b.Skipf(notBuilt, err)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	})
	return d
}

// benchmarkFile is a file whose blocks are all written and durable.
func benchmarkFile(b *testing.B, d disk.Disk, fileBytes int64) disk.File {
	b.Helper()
	open := &disk.Operation{Kind: disk.Open, Path: "segment", Flags: disk.Create}
	d.Submit(open)
	await(b, d, 1)
	buffer := disk.AlignedBytes(1 << 20)
	for offset := int64(0); offset < fileBytes; offset += int64(len(buffer)) {
		d.Submit(&disk.Operation{Kind: disk.Write, File: open.File, Buffer: buffer, Offset: offset})
		await(b, d, 1)
	}
	d.Submit(&disk.Operation{Kind: disk.Flush, File: open.File})
	await(b, d, 1)
	return open.File
}

// await waits for count operations, all of which must have succeeded in full.
func await(b *testing.B, d disk.Disk, count int) {
	var space [16]*disk.Operation
	for count > 0 {
		finished, err := d.Wait(space[:0], -1)
		if err != nil {
			b.Fatal(err)
		}
		for _, op := range finished {
			if op.Err != nil || op.Kind == disk.Write && op.Done != len(op.Buffer) {
				b.Fatalf("%s did %d of %d bytes: %v", op.Kind, op.Done, len(op.Buffer), op.Err)
			}
		}
		count -= len(finished)
	}
}
