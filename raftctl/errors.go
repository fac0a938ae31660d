package raftctl

import (
	"errors"

	"ringlog/meta"
)

// Errors of a Controller.
var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("raftctl: controller is closed")
	// ErrNoLeader is returned when the quorum has no leader to take a command: most
	// voters are down, or an election is under way. Nothing has happened.
	ErrNoLeader = errors.New("raftctl: the quorum has no leader")
	// ErrUnknownOutcome is returned when the caller stopped waiting for a command
	// that was already proposed: it may still be applied.
	ErrUnknownOutcome = errors.New("raftctl: the command may or may not be applied")
	// ErrTooLarge is returned for a command larger than CommandBytesMax.
	ErrTooLarge = errors.New("raftctl: command is too large")
	// ErrFailed is returned after the store failed: the first error, wrapped,
	// answers everything until the process starts again.
	ErrFailed = errors.New("raftctl: controller has failed")
	// ErrLocked is returned by Open when another process has the file open.
	ErrLocked = errors.New("raftctl: metadata is in use by another process")
	// ErrMissing is returned by Open when there is no file and none may be created.
	ErrMissing = errors.New("raftctl: metadata is missing")
	// ErrExists is returned by Open when a file is there that was to be created.
	ErrExists = errors.New("raftctl: metadata exists already")
	// ErrCorrupt is returned when the file is damaged.
	ErrCorrupt = errors.New("raftctl: metadata is corrupt")
	// ErrWrongCluster is returned by Open for the data of another cluster.
	ErrWrongCluster = errors.New("raftctl: metadata belongs to another cluster")
	// ErrWrongNode is returned by Open for the data of another broker.
	ErrWrongNode = errors.New("raftctl: metadata belongs to another broker")
	// ErrNewerFormat is returned for data that a newer version wrote.
	ErrNewerFormat = meta.ErrNewerFormat
)
