//go:build !unix

package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// directoryLock stands for the lock of a data directory. Without flock(2) there is only a file that
// must not exist; it has to be removed by hand after a crash.
type directoryLock struct{ path string }

func lockDirectory(dir string) (*directoryLock, error) {
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%w: %s is there; remove it if no broker runs on this directory", ErrLocked, path)
	}
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return &directoryLock{path}, file.Close()
}

func (l *directoryLock) release() error { return os.Remove(l.path) }
