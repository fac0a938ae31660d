//go:build unix

package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// directoryLock is the lock of a data directory (flock(2)): the kernel drops it when
// the process ends, however that happens. The file stays; only its lock counts.
type directoryLock struct{ file *os.File }

// holderDigits are enough for every number of a process.
const holderDigits = 10

// lockDirectory takes the lock of dir, or returns a *LockedError.
func lockDirectory(dir string) (*directoryLock, error) {
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if err := flock(file, syscall.LOCK_EX); err != nil {
		return nil, err
	}
	// Over what is there, not after a truncation: that would give the block back, and a
	// full disk would not give it again. Without any block the sentence has no name.
	if _, err := fmt.Fprintf(io.NewOffsetWriter(file, 0), "%-*d\n", holderDigits, os.Getpid()); err != nil && !errors.Is(err, syscall.ENOSPC) {
		_ = file.Close()
		return nil, fmt.Errorf("server: %w", err)
	}
	return &directoryLock{file}, nil
}

// shareDirectory takes the lock of dir together with other readers, or returns a *LockedError;
// nil when there is no lock to take.
func shareDirectory(dir string) (*directoryLock, error) {
	file, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if err := flock(file, syscall.LOCK_SH); err != nil {
		return nil, err
	}
	return &directoryLock{file}, nil
}

// flock takes the lock of file without waiting. If it cannot, it closes file.
func flock(file *os.File, how int) error {
	err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
	if err == nil {
		return nil
	}
	holder, _ := io.ReadAll(io.LimitReader(file, 32)) // only for the sentence
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return &LockedError{Directory: filepath.Dir(file.Name()), Holder: strings.TrimSpace(string(holder))}
	}
	return fmt.Errorf("server: locking %s: %w", file.Name(), err)
}

// release gives the lock back.
func (l *directoryLock) release() error { return l.file.Close() }
