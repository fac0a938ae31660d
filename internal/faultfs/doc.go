// Package faultfs is a file system that fails on command: a FUSE server in the test's own
// process that passes everything through to a directory beside it, but for the operations that it
// was told to fail, or not to answer. It shows the real binary, on io_uring and all, what
// engine/disk/crash shows the engine. Tests of internal/killtest use it; a FileSystem belongs to the
// test that made it, and its methods may be called by any goroutine.
//
// It needs root and /dev/fuse, and a mount namespace of its own (loopfs.Isolate), so that nothing is left behind however the test ends.
// A process with an operation that hangs cannot be killed: Heal comes first.
package faultfs

import "syscall"

// Operation is what can be told to fail.
type Operation string

// The operations, as an application asks for them. Flush is fsync and fdatasync, of directories too.
const (
	Open     Operation = "open"
	Read     Operation = "read"
	Write    Operation = "write"
	Flush    Operation = "flush"
	Allocate Operation = "allocate"
	Rename   Operation = "rename"
)

// rule is one thing that fails.
type rule struct {
	operation Operation
	pattern   string        // of path.Match, for the name of the file
	errno     syscall.Errno // 0: it hangs
}

// remedy is said whenever a test that needs such a file system is skipped.
const remedy = "file systems that fail on command need Linux, root (CAP_SYS_ADMIN) and /dev/fuse: " +
	"run the test as root, outside of containers that forbid mounts"
