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
		return nil, &LockedError{Directory: dir, Holder: "unknown (remove " + path + " if no broker runs there)"}
	}
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return &directoryLock{path}, file.Close()
}

// shareDirectory returns a *LockedError when a broker uses dir. It cannot keep one from starting.
func shareDirectory(dir string) (*directoryLock, error) {
	path := filepath.Join(dir, lockName)
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("server: %w", err)
	}
	return nil, &LockedError{Directory: dir, Holder: "unknown (remove " + path + " if no broker runs there)"}
}

func (l *directoryLock) release() error { return os.Remove(l.path) }
