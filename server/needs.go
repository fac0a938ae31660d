package server

import (
	"path/filepath"

	"ringlog/engine"
	"ringlog/engine/plan"
)

// Needs is what a broker takes of its machine with a configuration; `ringlog doctor` holds it
// against what there is.
type Needs struct {
	// LogsDir is the storage engine's directory.
	LogsDir string
	// MemoryBytes is the budget of data in memory; the Go heap comes on top.
	MemoryBytes int64
	// JournalBytes is what the commit journals of all shards take of the disk.
	JournalBytes int64
	// Files is how many descriptors it may come to; with less than FilesMin its clients can
	// leave the logs without.
	Files, FilesMin int64
	// Threads are busy ones: shards and event loops.
	Threads int
	// Listen and Advertised are host:port; Advertised is "" when it is where the broker listens.
	Listen, Advertised string
}

// Needs returns what a configuration takes whose defaults are filled in. The error joins all
// that is wrong with it.
func (c *Config) Needs() (Needs, error) {
	r, err := c.resolve()
	if err != nil {
		return Needs{}, err
	}
	connections := r.integer("max.connections")
	n := Needs{
		LogsDir:      LogsDirectory(r.DataDir),
		MemoryBytes:  r.MemoryBytes,
		JournalBytes: max(r.JournalBytes, 0) * int64(r.Shards),
		Files:        descriptorsReserved + segmentFilesMax + connections,
		FilesMin:     descriptorsReserved + segmentFilesMin + connections,
		Threads:      r.busyThreads(),
		Listen:       r.listen.String(),
	}
	if r.advertised != (address{}) {
		n.Advertised = r.advertise(r.listen).String()
	}
	return n, nil
}

// KeptFreeBytes is how much of a disk of so many bytes is kept free.
func (c *Config) KeptFreeBytes(diskBytes int64) int64 {
	switch c.DiskFreeBytesMin {
	case DiskFreeOff:
		return 0
	case engine.FreeBytesDefault:
		return plan.FreeBytesMin(diskBytes)
	}
	return c.DiskFreeBytesMin
}

// LogsDirectory is the storage engine's part of a data directory.
func LogsDirectory(dataDir string) string { return filepath.Join(dataDir, logsName) }
