//go:build !linux

package faultfs

import (
	"syscall"
	"testing"
)

// FileSystem is a file system that fails on command: there is none on this system.
type FileSystem struct{ Path string }

// New skips the test.
func New(t testing.TB) *FileSystem {
	t.Helper()
	t.Skipf("faultfs: this is no Linux; %s", remedy)
	return nil
}

// Fail is never reached.
func (f *FileSystem) Fail(Operation, string, syscall.Errno) {}

// Hang is never reached.
func (f *FileSystem) Hang(Operation, string) {}

// Heal is never reached.
func (f *FileSystem) Heal() {}

// Met is never reached.
func (f *FileSystem) Met() int { return 0 }
