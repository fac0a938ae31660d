package backend

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringlog/engine/disk"
	"ringlog/engine/disk/disktest"
)

// soakVariable turns on the tests that make file systems on loop devices. They
// need root, loop devices, xfsprogs and e2fsprogs.
const soakVariable = "RINGLOG_SOAK"

// overwrites is how many are followed by a sync each. The finding behind rule
// 14 took 2,000; a hundred tell 100 flushes from the 2 of a file system that
// skips them.
const overwrites = 100

// device is a file system on a loop device of its own.
type device struct {
	name  string // "loop3"
	mount string
}

// newDevice makes a file system of the kind and mounts it, for the test's time.
func newDevice(t *testing.T, kind string) device {
	t.Helper()
	if os.Getenv(soakVariable) == "" {
		t.Skip(noSoak)
	}
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 400<<20); err != nil { // XFS wants 300 MiB
		t.Fatal(err)
	}
	node := command(t, "losetup", "--find", "--show", image)
	t.Cleanup(func() { command(t, "losetup", "--detach", node) })
	command(t, "mkfs."+kind, "-q", node)
	mount := t.TempDir()
	if err := unix.Mount(node, mount, kind, unix.MS_NOATIME, ""); err != nil {
		t.Fatalf("mount %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mount, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return device{name: filepath.Base(node), mount: mount}
}

func command(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	output, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, output)
	}
	return strings.TrimSpace(string(output))
}

// flushes is how many cache flushes the kernel has sent to the device
// (Documentation/block/stat.rst, field 16).
func (d device) flushes(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/sys/block", d.name, "stat"))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 16 {
		t.Skip(noFlushCount)
	}
	count, err := strconv.Atoi(fields[15])
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// Rule 14: "A syncfs is always followed by one fdatasync of a written file on
// that device: XFS skips the cache flush when its log is clean." And rule 2
// needs the same of each Flush.
func TestEverySyncReachesTheDevice(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			device := newDevice(t, kind)
			for _, mode := range []string{Portable, Uring} {
				for _, sync := range []disk.Kind{disk.SyncFilesystem, disk.Flush} {
					t.Run(fmt.Sprintf("%s %s", mode, sync), func(t *testing.T) { countFlushes(t, device, mode, sync) })
				}
			}
			t.Run("syncfs alone", func(t *testing.T) { countBareSyncfs(t, device) })
		})
	}
}

func countFlushes(t *testing.T, device device, mode string, sync disk.Kind) {
	if err := probe(); err != nil && mode == Uring {
		t.Skipf(noRing, err)
	}
	d, err := Open(device.mount, mode, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	if !d.Info().Direct {
		t.Error("the file system takes O_DIRECT and the disk does not use it")
	}
	run := func(op *disk.Operation) *disk.Operation {
		d.Submit(op)
		for finished := []*disk.Operation(nil); len(finished) == 0; {
			if finished, err = d.Wait(finished, -1); err != nil {
				t.Fatal(err)
			}
		}
		if op.Err != nil {
			t.Fatal(op.Err)
		}
		return op
	}
	file := run(&disk.Operation{Kind: disk.Open, Path: "log", Flags: disk.Create}).File
	buffer := disk.AlignedBytes(16 * disk.BlockBytes)
	run(&disk.Operation{Kind: disk.Write, File: file, Buffer: buffer})
	run(&disk.Operation{Kind: disk.Flush, File: file})

	before := device.flushes(t)
	for i := range overwrites {
		run(&disk.Operation{Kind: disk.Write, File: file, Buffer: buffer[:disk.BlockBytes], Offset: int64(i%16) * disk.BlockBytes})
		run(&disk.Operation{Kind: sync, File: file})
	}
	count := device.flushes(t) - before
	t.Logf("%d overwrites, each with a %s: %d device flushes", overwrites, sync, count)
	if count < overwrites {
		t.Errorf("only %d device flushes for %d times %s: what it promised was in the device's cache", count, overwrites, sync)
	}
}

// countBareSyncfs shows what SyncFilesystem would be worth without the
// fdatasync in it. It asserts nothing: a kernel may do better one day.
func countBareSyncfs(t *testing.T, device device) {
	fd, err := unix.Open(filepath.Join(device.mount, "log"), unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	before := device.flushes(t)
	for range overwrites {
		if _, err := unix.Pwrite(fd, disk.AlignedBytes(disk.BlockBytes), 0); err != nil {
			t.Fatal(err)
		}
		if err := unix.Syncfs(fd); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d overwrites, each with a syncfs alone: %d device flushes", overwrites, device.flushes(t)-before)
}

// The seam holds on every file system that the engine is meant for: each has
// its own answers to O_DIRECT, fallocate and ZERO_RANGE.
func TestConformanceByFileSystem(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs", "tmpfs"} {
		t.Run(kind, func(t *testing.T) {
			where := func(t *testing.T) string {
				t.Helper()
				root, err := os.MkdirTemp("/dev/shm", "ringlog-disk-test-")
				if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
					t.Skipf(noTmpfs, err)
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.RemoveAll(root) })
				return root
			}
			if kind != "tmpfs" {
				device := newDevice(t, kind)
				where = func(t *testing.T) string {
					t.Helper()
					root, err := os.MkdirTemp(device.mount, "root-")
					if err != nil {
						t.Fatal(err)
					}
					return root
				}
			}
			for _, mode := range []string{Portable, Uring} {
				t.Run(mode, func(t *testing.T) {
					disktest.Run(t, func(t *testing.T) disk.Disk {
						if err := probe(); err != nil && mode == Uring {
							t.Skipf(noRing, err)
						}
						d, err := Open(where(t), mode, Options{})
						if err != nil {
							t.Fatal(err)
						}
						return d
					})
				})
			}
		})
	}
}
