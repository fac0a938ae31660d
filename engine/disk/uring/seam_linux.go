package uring

import (
	"fmt"
	"time"

	"ringlog/engine/disk"
)

// Ring is one io_uring as the Disk drives it. This package has its own; package
// giouring puts a library in its place. All methods but the first two are called
// by the one thread that called Enable.
type Ring interface {
	// Entries is the number of submission entries; the completion queue holds twice as many.
	Entries() int
	// Supported returns what tells whether the kernel has an opcode.
	Supported() (func(op uint8) bool, error)
	// Enable makes the calling thread the ring's issuer and starts the ring,
	// which was made disabled.
	Enable() error
	// Push queues an entry for the next Enter. There is always room for it: its
	// user holds a slot, and there are fewer of them than entries.
	Push(entry Entry)
	// Unsubmitted is the number of entries that the kernel has not taken.
	Unsubmitted() int
	// MustEnter says whether completions may wait inside the kernel for an Enter.
	MustEnter() bool
	// Enter hands the kernel what Push queued, if submit says so, and waits for
	// least completions (0: for none), at most for timeout (negative: for ever). It
	// returns ETIME when timeout passed, and what io_uring_enter(2) says else. It may return early.
	Enter(submit bool, least uint32, timeout time.Duration) error
	// Reap calls see for each completion there is. see may use Push.
	Reap(see func(userData uint64, result int32))
	// Close gives the ring back; the kernel cancels what is left.
	Close() error
}

// Entry is what a submission entry says; a Ring leaves every other field of the
// kernel's zero. Which field means what depends on the opcode.
type Entry struct {
	Opcode   uint8
	FD       int32
	Offset   uint64 // or a second address
	Address  uint64
	Length   uint32
	Flags    uint32 // of the operation
	UserData uint64
}

// Maker makes rings of one kind.
type Maker struct {
	Name string // in disk.Info
	// New makes a ring of about entries submission entries, still disabled. It goes through
	// SetUp and CheckFeatures.
	New func(entries int) (Ring, error)
}

// own makes this package's rings.
var own = Maker{Name: "uring", New: func(entries int) (Ring, error) { return newRing(entries) }}

// New returns a Disk on the directory root, which must exist. Whoever calls
// Wait first owns it.
func New(root string, options Options) (disk.Disk, error) { return Over(own, root, options) }

// Probe says in a sentence why a ring cannot be had, or nil.
func Probe() error { return ProbeOver(own) }

// SetUp calls try with the flags for io_uring_setup(2), best first, until the
// kernel knows them all, and returns what try said last.
func SetUp(try func(flags uint32) error) error { return setUpWith(setupChoices, try) }

// CheckFeatures says what a kernel lacks that the Disk needs.
func CheckFeatures(features uint32) error {
	if missing := featuresNeeded &^ features; missing != 0 {
		return fmt.Errorf("this kernel's io_uring lacks features %#x (Linux 5.15 has them)", missing)
	}
	return nil
}
