package loopfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// FileSystem is a file system on a loop device of its own, mounted at Path.
type FileSystem struct {
	Path string

	t    testing.TB
	kind Kind
	loop *os.File // held open: the device detaches itself when nobody has it
}

const (
	// shutdown is EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN (linux/fs/ext4/ext4.h,
	// linux/fs/xfs/libxfs/xfs_fs.h), withoutLogFlush its strictest flag.
	shutdown        = 0x8004587D
	withoutLogFlush = 2

	// unmountTimeout bounds the wait for the kernel to let go of the files of a
	// ring that was closed, which it does behind its owner's back.
	unmountTimeout = 30 * time.Second

	// spareBytes is what must be free where an image is put, besides the image.
	spareBytes = 1 << 30
)

// New makes a file system of some bytes and mounts it, until the test ends.
// Where that is impossible the test is skipped with the reason and the remedy.
func New(t testing.TB, kind Kind, bytes int64) *FileSystem {
	t.Helper()
	if errIsolation != nil {
		t.Skipf("%v; %s", errIsolation, remedy)
	}
	maker, err := exec.LookPath("mkfs." + string(kind))
	if err != nil {
		t.Skipf("%v; %s", err, remedy)
	}
	image, err := newImage(t, bytes)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close() // the device holds it
	loop, err := attach(image)
	if err != nil {
		t.Skipf("%v; %s", err, remedy)
	}
	f := &FileSystem{Path: filepath.Join(t.TempDir(), string(kind)), t: t, kind: kind, loop: loop}
	t.Cleanup(func() { loop.Close() })
	if output, err := exec.Command(maker, "-q", loop.Name()).CombinedOutput(); err != nil {
		t.Fatalf("loopfs: %s %s: %v\n%s", maker, loop.Name(), err, output)
	}
	if err := os.Mkdir(f.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.mount(); err != nil {
		t.Skipf("%v; %s", err, remedy)
	}
	t.Cleanup(func() {
		if err := f.unmount(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// newImage returns a sparse file without a name: in memory if there is plenty,
// because a flush costs nothing there and the loop device has no cache to lose.
func newImage(t testing.TB, bytes int64) (*os.File, error) {
	directory := "/dev/shm"
	var state unix.Statfs_t
	if err := unix.Statfs(directory, &state); err != nil || int64(state.Bavail)*state.Bsize < bytes+spareBytes {
		directory = t.TempDir()
	}
	image, err := os.CreateTemp(directory, "ringlog-loopfs-")
	if err != nil {
		return nil, fmt.Errorf("loopfs: make an image: %w", err)
	}
	if err := errors.Join(os.Remove(image.Name()), image.Truncate(bytes)); err != nil {
		image.Close()
		return nil, fmt.Errorf("loopfs: make an image: %w", err)
	}
	return image, nil
}

// attach puts image behind a free loop device, which frees itself when it and
// its last mount are closed.
func attach(image *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("loopfs: %w", err)
	}
	defer control.Close()
	for range 100 {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("loopfs: find a free loop device: %w", err)
		}
		loop, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("loopfs: %w", err)
		}
		config := unix.LoopConfig{Fd: uint32(image.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		if err = unix.IoctlLoopConfigure(int(loop.Fd()), &config); err == nil {
			return loop, nil
		}
		loop.Close()
		if !errors.Is(err, unix.EBUSY) { // EBUSY: somebody else was quicker
			return nil, fmt.Errorf("loopfs: configure %s: %w", loop.Name(), err)
		}
	}
	return nil, errors.New("loopfs: others took every loop device that was free")
}

// Cut cuts the power: whatever is asked of the file system from its return on
// fails, and what was not on the device is lost. Safe for use by any goroutine,
// also again.
func (f *FileSystem) Cut() error {
	root, err := os.Open(f.Path)
	if err != nil {
		return f.cutError(err)
	}
	defer root.Close()
	return f.cutError(unix.IoctlSetPointerInt(int(root.Fd()), shutdown, withoutLogFlush))
}

// ReadOnly makes the file system read-only under those who write to it, as it becomes by itself when it finds
// something wrong (errors=remount-ro). Remount makes it writable again. Only ext4 has it.
func (f *FileSystem) ReadOnly() {
	f.t.Helper()
	if err := unix.Mount(f.loop.Name(), f.Path, string(f.kind), unix.MS_REMOUNT|unix.MS_NOATIME, "errors=remount-ro"); err != nil {
		f.t.Fatalf("loopfs: remount %s: %v", f.kind, err)
	}
	trigger := filepath.Join("/sys/fs", string(f.kind), filepath.Base(f.loop.Name()), "trigger_fs_error")
	if err := os.WriteFile(trigger, []byte("1"), 0o200); err != nil {
		f.t.Skipf("loopfs: %v; %s", err, remedy)
	}
}

func (f *FileSystem) cutError(err error) error {
	if err == nil || errors.Is(err, unix.EIO) { // EIO: it was cut before
		return nil
	}
	return fmt.Errorf("loopfs: cut %s: %w", f.kind, err)
}

// Remount unmounts the file system and mounts it again, as after a restart of
// the machine. No file on it may be open.
func (f *FileSystem) Remount() {
	f.t.Helper()
	if err := f.unmount(); err != nil {
		f.t.Fatal(err)
	}
	if err := f.mount(); err != nil {
		f.t.Fatalf("%v: the file system does not survive its own power cut", err)
	}
}

func (f *FileSystem) mount() error {
	if err := unix.Mount(f.loop.Name(), f.Path, string(f.kind), unix.MS_NOATIME, ""); err != nil {
		return fmt.Errorf("loopfs: mount %s: %w", f.kind, err)
	}
	return nil
}

func (f *FileSystem) unmount() error {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	deadline := time.After(unmountTimeout)
	for {
		err := unix.Unmount(f.Path, 0)
		if !errors.Is(err, unix.EBUSY) {
			if errors.Is(err, unix.EINVAL) || errors.Is(err, fs.ErrNotExist) {
				return nil // it is not mounted: a mount failed
			}
			return err
		}
		select {
		case <-deadline:
			return fmt.Errorf("loopfs: unmount %s: something on it stays open: %w", f.kind, err)
		case <-again.C:
		}
	}
}

// FreeBytes is how much can be written to the file system.
func (f *FileSystem) FreeBytes() int64 {
	f.t.Helper()
	var state unix.Statfs_t
	if err := unix.Statfs(f.Path, &state); err != nil {
		f.t.Fatal(err)
	}
	return int64(state.Bavail) * state.Bsize
}
