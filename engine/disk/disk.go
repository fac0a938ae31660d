// Package disk is the seam between the engine and whatever stores its bytes:
// files and directories reached by submit and complete, never by a call that
// blocks. Three implementations satisfy one conformance test
// (engine/disk/disktest): uring (our io_uring), portable (pread/pwrite on a
// bounded pool, for kernels and containers that refuse the ring) and crash (in
// memory and seeded: reorders, tears, lies and fails). Package backend chooses
// between the first two.
//
// A Disk is owned by one goroutine, usually a shard's, which alone calls Submit,
// Wait and Close; it may have been made by another, and the first Wait settles it. Wake is the one method that any goroutine may call.
//
// Every path is relative to the root directory that the Disk was opened on,
// which itself is "."; an absolute path, one with a ".." element or one that a
// symbolic link would lead out of the root is refused with ErrBadPath.
package disk

import (
	"errors"
	"fmt"
	"time"
)

// BlockBytes is the unit of direct I/O: Offset and len(Buffer) of every Write
// and Read are multiples of it, and Buffer starts at an address that is one.
// (The device here takes 512, but 4096 is what every device and file system takes.)
const BlockBytes = 4096

// SectorBytes is what the design assumes a device writes old or new, never
// mixed. It is a named assumption which the crash disk can break on command.
const SectorBytes = 512

// Errors that every implementation returns wrapped in an OperationError.
var (
	// ErrBadPath is returned when a path is absolute or climbs out of the root.
	ErrBadPath = errors.New("disk: path leaves the root directory")
	// ErrClosed is returned by Wait after Close, and for operations still queued then.
	ErrClosed = errors.New("disk: closed")
	// ErrUnaligned is returned when a Write or Read breaks the BlockBytes rule.
	ErrUnaligned = errors.New("disk: unaligned offset, length or address")
)

// File names an open file of one Disk. The zero File is never valid.
type File int32

// Kind says what an Operation does.
type Kind uint8

const (
	// Write stores Buffer at Offset. Done may be less than len(Buffer): the
	// caller submits the rest again and must not count it as written before.
	Write Kind = iota + 1
	// Read fills Buffer from Offset. Done less than len(Buffer) is either the
	// end of the file or a short read: the caller reads on until Done is 0.
	Read
	// Flush makes every Write of File that completed before this Flush was
	// submitted durable, with the metadata needed to read it back (fdatasync).
	// It promises nothing of a Write that was still in flight then.
	Flush
	// SyncFilesystem does what Flush does for all files of the root's file
	// system, and SyncDirectory for all directories (syncfs). File names any open file that was written:
	// one Flush of it follows inside the operation, because XFS skips the device's cache
	// flush when its log is clean. io_uring has no syncfs, so it runs on a helper thread.
	SyncFilesystem
	// Preallocate reserves [Offset, Offset+Length) and extends the file's size
	// to cover it (fallocate mode 0). Bytes not written before read as zeros.
	Preallocate
	// ZeroRange makes [Offset, Offset+Length) read as zeros and keeps it
	// allocated. It is a write: durable only after a Flush.
	ZeroRange
	// Open opens Path by Flags; the handle comes back in File, the file's size
	// in Length. A newly created name is durable only after SyncDirectory of
	// its parent.
	Open
	// Close gives File back. Nothing may be in flight on it.
	Close
	// Rename moves Path to NewPath, replacing what is there. Durable after
	// SyncDirectory of both parents.
	Rename
	// Exchange swaps the files at Path and NewPath, which are both there: neither name is
	// missing at any moment, no block is asked for and none is given back. Durable after SyncDirectory of both parents. It
	// fails with EOPNOTSUPP where the system or the file system cannot.
	Exchange
	// Unlink removes the file at Path. Durable after SyncDirectory of its parent.
	Unlink
	// SyncDirectory makes creations, renames and removals in directory Path durable.
	SyncDirectory
	// MakeDirectory creates directory Path; it is not an error when it exists.
	MakeDirectory
	// RemoveDirectory removes the empty directory Path.
	RemoveDirectory
	// ReadDirectory lists directory Path into Entries, sorted by name.
	ReadDirectory
	// FreeSpace says in Length how many bytes of the root's file system this process may still
	// take, and in TotalBytes how many there are.
	FreeSpace
)

var kindNames = [...]string{
	Write: "write", Read: "read", Flush: "flush", SyncFilesystem: "sync file system",
	Preallocate: "preallocate", ZeroRange: "zero range", Open: "open", Close: "close",
	Rename: "rename", Exchange: "exchange", Unlink: "unlink", SyncDirectory: "sync directory",
	MakeDirectory: "make directory", RemoveDirectory: "remove directory", ReadDirectory: "read directory",
	FreeSpace: "free space",
}

// String returns the operation's name as errors and metrics use it.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Flags of an Open. Zero opens an existing file for reading and writing.
type Flags uint8

const (
	// Create makes the file when it is missing.
	Create Flags = 1 << iota
	// Exclusive fails with fs.ErrExist when the file is there; only with Create.
	Exclusive
	// Truncate empties the file.
	Truncate
	// ReadOnly opens for reading only.
	ReadOnly
)

// Entry is one name in a directory.
type Entry struct {
	Name      string
	Directory bool
	Bytes     int64 // size of a file, 0 of a directory
}

// Operation is one request and, once Wait has returned it, its result.
//
// From Submit until Wait returns it the Operation and the memory of its Buffer
// belong to the Disk; the caller must not read, write or reuse either. After
// that both belong to the caller again and may be reused for another Submit.
type Operation struct {
	Kind    Kind
	Flags   Flags
	File    File
	Path    string
	NewPath string
	Buffer  []byte
	Offset  int64 // bytes from the file's start
	Length  int64 // bytes; of Preallocate and ZeroRange. Open returns the file's size here.

	// TotalBytes is the size of the root's file system, of FreeSpace.
	TotalBytes int64
	// Done is the number of bytes that a Write or Read moved.
	Done int
	// Err is nil or an *OperationError. A failed Write may have moved any part of its bytes.
	Err error
	// Entries is what ReadDirectory found.
	Entries []Entry

	// Owner is the caller's; no Disk touches it. Nor does any touch Era, in which it keeps when
	// the operation was submitted.
	Owner any
	Era   uint32

	// Slot is the implementation's, meaningful only while the operation is in flight.
	// (A caller may leave anything in it.)
	Slot uint64
}

// OperationError is the one error type that a Disk reports: what was done, to
// what, and why it failed. It unwraps to a syscall.Errno or a sentinel above.
type OperationError struct {
	Kind   Kind
	Path   string // the path, or the path that File was opened by
	Offset int64
	Err    error
}

// Error says the operation, the file and the cause.
func (e *OperationError) Error() string {
	return fmt.Sprintf("disk: %s %s at %d: %v", e.Kind, e.Path, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *OperationError) Unwrap() error { return e.Err }

// Disk carries out operations. Operations in flight together run and complete
// in any order; whoever needs an order waits for the first to complete.
type Disk interface {
	// Submit queues op. It never blocks and never completes anything itself.
	// REQUIRES: called by the owner; op is not in flight.
	Submit(op *Operation)

	// Wait hands all that is queued to the device and appends finished
	// operations to finished, which it returns. It returns as soon as one
	// operation has finished, Wake was called, or timeout has passed; a
	// timeout of 0 polls and a negative one waits for ever. Each operation that was
	// submitted is returned exactly once, also when it failed. The error is for the
	// Disk itself being broken or closed; an operation's own error is in op.Err.
	// REQUIRES: called by the owner.
	Wait(finished []*Operation, timeout time.Duration) ([]*Operation, error)

	// Wake makes the Wait in progress, or the next one, return. Calls before
	// that Wait may be merged. Safe for use by any goroutine.
	Wake()

	// InFlight is the number of operations submitted and not yet returned by Wait.
	InFlight() int

	// Info describes the implementation for logs, doctor and metrics.
	Info() Info

	// Close waits for what the device has, closes every file and gives all else
	// back. Operations that were still queued end with ErrClosed. Nothing is lost: the
	// first Wait after Close returns what had not been returned, with ErrClosed; the
	// second Close returns ErrClosed. REQUIRES: called by the owner.
	Close() error
}

// Info says what a Disk is.
type Info struct {
	Name   string // "uring", "portable", "crash"
	Direct bool   // whether writes bypass the page cache
	Reason string // why this one was chosen over another, in a sentence; "" when it was asked for
}
