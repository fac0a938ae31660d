package crash

import (
	"math"
	"path"

	"ringlog/engine/disk"
)

// Effect is what a Fault does to an operation that it does not fail.
type Effect uint8

const (
	// Short makes a Write or Read of two blocks or more move fewer than asked.
	Short Effect = iota + 1
	// Delay holds the operation back until Fault.Completions others have
	// completed, or nothing else is in flight.
	Delay
	// FlipBit flips one bit in what a Read returns; the file stays as it is.
	FlipBit
	// LoseWrite reports a Write as done and does nothing.
	LoseWrite
	// MisdirectWrite stores a Write Fault.Bytes away from where it belongs (0:
	// in another block of the file, drawn from the seed) and reports it as done.
	MisdirectWrite
	// TearSectors breaks the assumption of disk.SectorBytes for a Write: a
	// power cut before its Flush may leave a sector half old, half new.
	TearSectors
	// LieAboutFlush reports a Flush, SyncFilesystem or SyncDirectory as done and
	// makes nothing durable.
	LieAboutFlush
	// Hang holds the operation back until the script ends (ClearFaults), or the Disk is closed: a device
	// that does not answer. A Wait with nothing else in flight returns nothing.
	Hang
)

// Fault is one rule of the fault script: which operations it meets and what
// happens to them. Rules are asked in the order in which they were added; the
// first that fires decides. Which operations match is counted at Submit, so a
// rule means the same whatever the order of completion.
type Fault struct {
	// Kind is the kind it meets; 0 is every kind.
	Kind disk.Kind
	// Path is a path.Match pattern for the operation's path (of a File: what it
	// was opened by), or for a Rename either path; "" is every path. A "*" stops
	// at a slash: "*/*.log" meets the logs one directory down.
	Path string
	// Nth is the one match that it fires at, counted from 1; 0 is every match.
	Nth int
	// Probability is that of firing at a match; 0 is always.
	Probability float64
	// Times bounds how often it fires; 0 is no bound.
	Times int

	// Err fails the operation, if it is not nil: syscall.EIO, ENOSPC,
	// ECANCELED. A failed Write has moved any part of its bytes, a failed Flush
	// has made any part durable and the rest never will be; others do nothing.
	Err error
	// Effect is what happens when Err is nil.
	Effect Effect
	// Completions is the length of a Delay.
	Completions int
	// Bytes is the distance of a MisdirectWrite, in whole blocks.
	Bytes int64

	matched  int
	fired    int
	released bool // the script is over: what hangs goes on
}

// hangForever is the delay of what hangs: no number of completions ends it.
const hangForever = math.MaxInt

// Fired is the number of operations that the rule has met so far.
func (f *Fault) Fired() int { return f.fired }

// meets says whether the rule fires for r, and counts.
func (f *Fault) meets(r *request, d *dice) bool {
	if f.Kind != 0 && f.Kind != r.kind {
		return false
	}
	if f.Path != "" && !matches(f.Path, r.path) && (r.kind != disk.Rename && r.kind != disk.Exchange || !matches(f.Path, r.newPath)) {
		return false
	}
	f.matched++
	switch {
	case f.Nth != 0 && f.matched != f.Nth:
		return false
	case f.Times != 0 && f.fired == f.Times:
		return false
	case f.Probability != 0 && d.Float64() >= f.Probability:
		return false
	}
	f.fired++
	return true
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// misdirected is where a misdirected write lands: never where it belongs.
func (f *Fault) misdirected(r *request, c chooser) int64 {
	if f.Bytes != 0 {
		return max(0, r.offset+f.Bytes)
	}
	blocks := int(r.target.inode.live.size/disk.BlockBytes) + 1
	at := int64(c.below(blocks)) * disk.BlockBytes
	if at == r.offset {
		at += disk.BlockBytes
	}
	return at
}
