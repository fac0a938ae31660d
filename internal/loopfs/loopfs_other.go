//go:build !linux

package loopfs

import "testing"

// FileSystem is a file system that can be cut: there is none on this system.
type FileSystem struct{ Path string }

// Isolate does nothing: New skips.
func Isolate() {}

// New skips the test.
func New(t testing.TB, kind Kind, bytes int64) *FileSystem {
	t.Helper()
	t.Skipf("loopfs: this is no Linux; %s", remedy)
	return nil
}

// Cut is never reached.
func (f *FileSystem) Cut() error { return nil }

// ReadOnly is never reached.
func (f *FileSystem) ReadOnly() {}

// Remount is never reached.
func (f *FileSystem) Remount() {}

// FreeBytes is never reached.
func (f *FileSystem) FreeBytes() int64 { return 0 }
