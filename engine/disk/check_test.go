package disk_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ringlog/engine/disk"
)

func TestCleanPath(t *testing.T) {
	for name, want := range map[string]string{
		"a": "a", "a/b": "a/b", "a//b/": "a/b", "./a": "a", ".": ".", "./": ".", "..a": "..a", "a..": "a..", "...": "...",
		"": "", "/": "", "/a": "", "..": "", "a/..": "", "a/../b": "", "../a": "", "a\x00": "",
	} {
		got, err := disk.CleanPath(name)
		if got != want || (err != nil) != (want == "") || err != nil && !errors.Is(err, disk.ErrBadPath) {
			t.Errorf("CleanPath(%q) is %q, %v, want %q", name, got, err, want)
		}
	}
}

// Whatever is accepted stays below the root, and is its own clean form.
func FuzzCleanPath(f *testing.F) {
	for _, seed := range []string{"a/b", "..", "a/../b", "//", "a/./b/", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		clean, err := disk.CleanPath(name)
		if err != nil {
			return
		}
		if !filepath.IsLocal(clean) || strings.Contains("/"+clean+"/", "/../") {
			t.Errorf("%q became %q, which leaves the root", name, clean)
		}
		if again, err := disk.CleanPath(clean); err != nil || again != clean {
			t.Errorf("%q became %q and then %q, %v", name, clean, again, err)
		}
	})
}

func TestCheckDoesNotOverflow(t *testing.T) {
	op := &disk.Operation{Kind: disk.Preallocate, Offset: 1<<63 - 1, Length: 1}
	if err := op.Check(); err != syscall.EINVAL {
		t.Errorf("a range past the largest offset: %v, want EINVAL", err)
	}
}

func TestAlignedBytes(t *testing.T) {
	for _, length := range []int{0, 1, disk.BlockBytes, 3 * disk.BlockBytes} {
		buffer := disk.AlignedBytes(length)
		if len(buffer) != length || cap(buffer) != length {
			t.Errorf("%d bytes asked: length %d, capacity %d", length, len(buffer), cap(buffer))
		}
		if want := length%disk.BlockBytes == 0; disk.Aligned(buffer) != want {
			t.Errorf("%d bytes: aligned is %v, want %v", length, !want, want)
		}
	}
	if disk.Aligned(disk.AlignedBytes(2 * disk.BlockBytes)[512 : 512+disk.BlockBytes]) {
		t.Error("an address inside a block counts as aligned")
	}
}

func TestErrorsNameTheDeedAndTheCause(t *testing.T) {
	op := &disk.Operation{Kind: disk.Write, Offset: 8192}
	op.Fail("logs/7", syscall.EIO)
	if got, want := op.Err.Error(), "disk: write logs/7 at 8192: input/output error"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !errors.Is(op.Err, syscall.EIO) {
		t.Error("the cause is not found")
	}
	if got := disk.Kind(99).String(); got != "kind(99)" {
		t.Errorf("an unknown kind is %q", got)
	}
}
