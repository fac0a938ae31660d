package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Owner says whose data a data directory holds.
type Owner struct {
	ClusterID   string
	NodeID      int32
	DirectoryID [16]byte
	// Formatted: the metadata store has been there; else the first start was not finished.
	Formatted bool
}

// ReadOwner reads whose data a directory holds, changing nothing. The error is os.ErrNotExist when
// there is no ringlog.properties, ErrBadProperties, meta.ErrNewerFormat, or the system's.
func ReadOwner(dir string) (Owner, error) {
	path := filepath.Join(dir, propertiesName)
	text, err := readProperties(path)
	if err != nil {
		return Owner{}, err
	}
	id, err := parseIdentity(text)
	if err != nil {
		return Owner{}, fmt.Errorf("%s: %w", path, err)
	}
	return Owner{ClusterID: id.clusterID, NodeID: id.nodeID, DirectoryID: id.directoryID, Formatted: id.formatted}, nil
}

// HasData says whether a directory holds what a broker would not take for its own to format.
func HasData(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("server: %w", err)
	}
	for _, entry := range entries {
		if !harmless(entry.Name()) {
			return true, nil
		}
	}
	return false, nil
}

// LockedError says which process uses a data directory. It unwraps to ErrLocked.
type LockedError struct {
	Directory string
	Holder    string // a process id, as the lock file has it
}

// Error names both.
func (e *LockedError) Error() string {
	return fmt.Sprintf("%v: %s is locked by process %s; two brokers cannot share one", ErrLocked, e.Directory, e.Holder)
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// HoldDirectory keeps brokers out of a data directory while somebody reads it, and changes nothing
// in it. It returns a *LockedError when a broker uses it; else release gives it back.
func HoldDirectory(dir string) (release func() error, err error) {
	lock, err := shareDirectory(dir)
	switch {
	case err != nil:
		return nil, err
	case lock == nil:
		return func() error { return nil }, nil // no broker was ever there
	}
	return lock.release, nil
}

// readProperties reads the text of ringlog.properties.
func readProperties(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(file, propertiesMax))
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("server: %w", err)
	}
	return string(text), nil
}
