package server

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ringlog/meta"
)

const (
	propertiesName    = "ringlog.properties"
	propertiesVersion = 1
	propertiesMax     = 64 << 10
	logsName          = "logs"
	lockName          = "ringlog.lock"
)

// Errors of data directories.
var (
	// ErrLocked is returned by Start when another process uses the directory.
	ErrLocked = errors.New("server: the data directory is in use")
	// ErrWrongNode is returned by Start when the directory belongs to a broker with another node.id.
	ErrWrongNode = errors.New("server: the data directory belongs to another broker")
	// ErrNotOurs is returned by Start when the directory holds data and does
	// not say whose.
	ErrNotOurs = errors.New("server: the data directory holds data without " + propertiesName)
	// ErrBadProperties is returned by Start when ringlog.properties cannot be read.
	ErrBadProperties = errors.New("server: " + propertiesName + " is damaged")
)

// identity is what ringlog.properties says: whose data the directory holds.
//
//	format.version=1
//	cluster.id=tTqpWdEeSP6Ylrk6T1tF7w
//	node.id=1
//	directory.id=00112233445566778899aabbccddeeff
//	state=formatted
//
// A new directory is formatted in three durable steps: the properties with
// state=formatting, the metadata log, the properties with state=formatted. Only
// in the first state may a metadata log be missing; afterwards that is a loss, which must
// not pass for a new cluster.
type identity struct {
	clusterID   string
	nodeID      int32
	directoryID [16]byte // drawn once: another one under the same node.id is a broker that lost its disk
	formatted   bool
}

// openIdentity reads whose data dir holds, or makes a new cluster of an empty one.
// REQUIRES: the directory's lock is held.
func openIdentity(dir string, nodeID int32, random io.Reader) (identity, error) {
	path := filepath.Join(dir, propertiesName)
	text, err := readProperties(path)
	if errors.Is(err, os.ErrNotExist) {
		return formatIdentity(dir, nodeID, random)
	}
	if err != nil {
		return identity{}, fmt.Errorf("server: %w", err)
	}
	id, err := parseIdentity(text)
	if err != nil {
		return identity{}, fmt.Errorf("%s: %w", path, err)
	}
	if id.nodeID != nodeID {
		return identity{}, fmt.Errorf("%w: %s says node.id=%d, this broker has node.id=%d; start it with the former, or give it a directory of its own", ErrWrongNode, path, id.nodeID, nodeID)
	}
	return id, nil
}

// formatIdentity starts a new cluster in a directory that must hold nothing else.
func formatIdentity(dir string, nodeID int32, random io.Reader) (identity, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return identity{}, fmt.Errorf("server: %w", err)
	}
	for _, entry := range entries {
		if name := entry.Name(); !harmless(name) {
			return identity{}, fmt.Errorf("%w: %s has %s; if the file was lost, put it back, else choose an empty directory", ErrNotOurs, dir, name)
		}
	}
	id := identity{nodeID: nodeID}
	if id.clusterID, err = meta.DrawClusterID(random); err != nil {
		return identity{}, fmt.Errorf("server: %w", err)
	}
	if _, err := io.ReadFull(random, id.directoryID[:]); err != nil {
		return identity{}, fmt.Errorf("server: drawing a directory id: %w", err)
	}
	return id, id.write(dir)
}

// harmless names what may lie in a directory that nobody has formatted: our lock,
// what an unfinished write of the properties left, a file system's own.
func harmless(name string) bool {
	return name == lockName || name == propertiesName+".new" || name == "lost+found"
}

// finish records that the metadata log is there.
func (id *identity) finish(dir string) error {
	if id.formatted {
		return nil
	}
	id.formatted = true
	return id.write(dir)
}

// write replaces the properties, durably.
func (id identity) write(dir string) error {
	path := filepath.Join(dir, propertiesName)
	if err := writeFile(path+".new", id.text()); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return syncDirectory(dir)
}

func (id identity) text() string {
	state := "formatting"
	if id.formatted {
		state = "formatted"
	}
	return fmt.Sprintf("# Whose data this directory holds. Written by the broker; do not edit.\nformat.version=%d\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\nstate=%s\n",
		propertiesVersion, id.clusterID, id.nodeID, hex.EncodeToString(id.directoryID[:]), state)
}

func parseIdentity(text string) (identity, error) {
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		if !found {
			return identity{}, fmt.Errorf("%w: %.40q is no property", ErrBadProperties, line)
		}
		values[name] = value
	}
	version, err := strconv.Atoi(values["format.version"])
	switch {
	case err != nil || version < 1:
		return identity{}, fmt.Errorf("%w: format.version is %q", ErrBadProperties, values["format.version"])
	case version > propertiesVersion:
		return identity{}, fmt.Errorf("%w: the directory has format %d, this version reads up to %d; upgrade this broker, or give it a data directory of its own version", meta.ErrNewerFormat, version, propertiesVersion)
	}
	id := identity{clusterID: values["cluster.id"], formatted: values["state"] == "formatted"}
	node, err := strconv.ParseInt(values["node.id"], 10, 32)
	if err != nil || node < 0 {
		return identity{}, fmt.Errorf("%w: node.id is %q", ErrBadProperties, values["node.id"])
	}
	id.nodeID = int32(node)
	directory, err := hex.DecodeString(values["directory.id"])
	if err != nil || len(directory) != len(id.directoryID) {
		return identity{}, fmt.Errorf("%w: directory.id is %q", ErrBadProperties, values["directory.id"])
	}
	copy(id.directoryID[:], directory)
	if id.clusterID == "" {
		return identity{}, fmt.Errorf("%w: cluster.id is missing", ErrBadProperties)
	}
	if !id.formatted && values["state"] != "formatting" {
		return identity{}, fmt.Errorf("%w: state is %q", ErrBadProperties, values["state"])
	}
	return id, nil
}

// writeFile makes a file with text and flushes it.
func writeFile(path, text string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}

func syncDirectory(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("server: flushing directory: %w", err)
	}
	return nil
}

// makeDirectory makes path and whatever lies above it, and flushes the
// directory that its name is in.
func makeDirectory(path string) error {
	if info, err := os.Stat(path); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("server: %s is not a directory", path)
		}
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := makeDirectory(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("server: %w", err)
	}
	return syncDirectory(parent)
}

// randomness is where identities are drawn from.
var randomness io.Reader = rand.Reader
