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

// lockDirectory takes the lock of dir, or returns ErrLocked with who has it.
func lockDirectory(dir string) (*directoryLock, error) {
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(file, 32)) // only for the sentence
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is locked by process %s; two brokers cannot share one", ErrLocked, dir, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("server: locking %s: %w", path, err)
	}
	// Over what is there, not after a truncation: that would give the block back, and a
	// full disk would not give it again. Without any block the sentence has no name.
	if _, err := fmt.Fprintf(io.NewOffsetWriter(file, 0), "%-*d\n", holderDigits, os.Getpid()); err != nil && !errors.Is(err, syscall.ENOSPC) {
		_ = file.Close()
		return nil, fmt.Errorf("server: %w", err)
	}
	return &directoryLock{file}, nil
}

// release gives the lock back.
func (l *directoryLock) release() error { return l.file.Close() }
