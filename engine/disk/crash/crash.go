// Package crash is a disk.Disk in memory that behaves as badly as the seam
// allows, from a seed: operations complete in any order, what was not flushed
// may be lost in any part, and a fault script makes it lie, tear and fail. Tests
// and the simulation make it; the goroutine that calls Submit and Wait owns it.
// It has no goroutine and no clock of its own: the same seed and the same calls
// give the same outcome.
//
// A power cut is a new Disk: Crash and CrashOutcomes return what would be found
// after one at this moment and leave the Disk as it is. What survives:
//
//	completed and flushed          always
//	completed, not flushed         any subset of its 512-byte sectors; its change of size or not
//	in flight                      the same: torn at any sector boundary
//	queued, not handed to Wait     never
//	name synced                    always, if the names of its parents are
//	name not synced                whole or not at all, in order per name: a rename shows
//	                               the old state or the new one, never neither
//
// Kill is the death of the process alone: what completed is there, but is as
// volatile as before.
//
// The Disk watches its caller, too: it panics when an operation is submitted
// twice, when the buffer of a Write changes while it is in flight, and when a
// File is closed with operations in flight on it. It scribbles over the buffer
// of a Read until the Read completes.
package crash

import (
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"syscall"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/disk/internal/handle"
)

// ErrCrashed is returned by Wait and Close from the step on that CrashAt named,
// or after Halt: the process under test no longer runs.
var ErrCrashed = errors.New("crash: the power is off")

// Options shape a Disk; the zero value is a Disk of seed 0 without limits.
type Options struct {
	// Seed decides the order of completions and every fault with a probability.
	Seed uint64
	// BytesMax bounds the sum of all file sizes; growing past it is ENOSPC. 0 is no bound.
	BytesMax int64
	// TearSectors breaks the assumption of disk.SectorBytes for every Write.
	TearSectors bool
	// InOrder completes operations one at a time in the order of submission.
	InOrder bool
	// Blocking makes a Wait with nothing in flight block until Wake or the
	// timeout. It is for an owner that runs on a goroutine of its own, whose
	// order then depends on the scheduler. Without it such a Wait returns at
	// once: nobody else is there who could wake it.
	Blocking bool
}

// Disk implements disk.Disk.
type Disk struct {
	wake    chan struct{} // holds one token
	machine *machine

	// What follows belongs to the owner.
	options  Options
	world    *world
	files    handle.Table[*openFile]
	order    *dice     // decides the order of completions
	chance   *dice     // decides everything else, so that a fault does not change the order
	queued   []*flight // submitted, not handed over
	flying   []*flight // handed over
	heldBack int       // of flying: those with a delay
	ended    []*disk.Operation
	inFlight int
	closed   bool
}

// machine is what a Disk and its siblings share besides their files: the power, and
// the fault script.
type machine struct {
	crashed atomic.Bool
	disks   []*Disk
	faults  []*Fault
	steps   int
	crashAt int
	marker  uint64 // in disk.Operation.Slot while an operation is in flight on one of them
}

// openFile is one handle.
type openFile struct {
	inode    *inode
	path     string
	readOnly bool
	inFlight int // operations on it
}

// flight is one operation in flight.
type flight struct {
	request
	op      *disk.Operation
	refused error  // when not nil: it completes with this
	sum     uint32 // of a Write's buffer, to catch a caller that changes it
	delay   int    // completions that must come before this one
}

// machines counts what was made, for the markers alone. Each has its own, so that an
// operation that was in flight when the power went may be used on another Disk.
var machines atomic.Uint64

// scribble is what the buffer of a Read holds until the Read completes.
var scribble = page{0: 0xA5, disk.BlockBytes / 2: 0x5A, disk.BlockBytes - 1: 0xA5}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// New returns an empty Disk.
func New(options Options) *Disk {
	return newDisk(options, &world{root: newDirectory(), bytesMax: options.BytesMax})
}

func newDisk(options Options, w *world) *Disk {
	return addDisk(options, w, &machine{marker: 0xC4A5_4EED_0000_0000 + machines.Add(1)})
}

// Sibling returns another Disk on the same files, as a second queue of one
// device is: operations of its own in flight, in an order of their own, under
// the same fault script. Steps count for all siblings, and one power cut
// takes all: Crash and its kin may be asked of any. All belong to one goroutine,
// so Options.Blocking is not for them.
func (d *Disk) Sibling() *Disk {
	if d.options.Blocking {
		panic("crash: a disk that blocks has no siblings")
	}
	return addDisk(d.options, d.world, d.machine)
}

func addDisk(options Options, w *world, m *machine) *Disk {
	stream := uint64(len(m.disks)) << 32
	d := &Disk{
		options: options,
		world:   w,
		machine: m,
		wake:    make(chan struct{}, 1),
		order:   newDice(options.Seed, stream+1),
		chance:  newDice(options.Seed, stream+2),
	}
	m.disks = append(m.disks, d)
	return d
}

// AddFault appends a rule to the fault script and returns it, for Fired.
func (d *Disk) AddFault(rule Fault) *Fault {
	if rule.Err == nil && rule.Effect == 0 || rule.Bytes%disk.BlockBytes != 0 {
		panic("crash: a fault needs an error or an effect, and whole blocks")
	}
	d.machine.faults = append(d.machine.faults, &rule)
	return &rule
}

// ClearFaults ends the fault script.
func (d *Disk) ClearFaults() {
	for _, rule := range d.machine.faults {
		rule.released = true
	}
	d.machine.faults = nil
}

// Steps is the number of submissions and completions so far.
func (d *Disk) Steps() int { return d.machine.steps }

// CrashAt turns the power off just before the step with this number, counted
// from 1: that submission or completion does not happen, and Wait returns
// ErrCrashed from then on. 0 never does.
func (d *Disk) CrashAt(step int) { d.machine.crashAt = step }

// Halt turns the power off now and wakes the owner. Any goroutine may call it.
func (d *Disk) Halt() {
	d.machine.crashed.Store(true)
	for _, sibling := range d.machine.disks {
		sibling.Wake()
	}
}

// Crashed says whether the power is off.
func (d *Disk) Crashed() bool { return d.machine.crashed.Load() }

// step counts one submission or completion; false when it does not happen any more.
func (d *Disk) step() bool {
	m := d.machine
	if m.crashAt > 0 && m.steps+1 >= m.crashAt {
		m.crashed.Store(true)
	}
	if m.crashed.Load() {
		return false
	}
	m.steps++
	return true
}

// Submit queues op.
func (d *Disk) Submit(op *disk.Operation) {
	if op.Slot == d.machine.marker {
		panic(fmt.Sprintf("crash: %s of %q submitted while it is in flight", op.Kind, op.Path))
	}
	d.inFlight++
	op.Done, op.Err = 0, nil
	if !d.step() {
		return
	}
	if d.closed {
		op.Fail(op.Path, disk.ErrClosed)
		d.ended = append(d.ended, op)
		return
	}
	op.Slot = d.machine.marker
	d.queued = append(d.queued, d.newFlight(op))
}

// newFlight takes from op all that its completion needs.
func (d *Disk) newFlight(op *disk.Operation) *flight {
	f := &flight{op: op, refused: op.Check()}
	f.request = request{
		kind: op.Kind, flags: op.Flags, path: op.Path, newPath: op.NewPath,
		buffer: op.Buffer, offset: op.Offset, length: op.Length, sequence: d.world.sequence,
	}
	if op.Kind.UsesFile() {
		d.attach(f)
	}
	if f.refused != nil {
		return f
	}
	switch op.Kind {
	case disk.Write:
		f.sum = crc32.Checksum(op.Buffer, castagnoli)
	case disk.Read:
		for rest := op.Buffer; len(rest) > 0; {
			rest = rest[copy(rest, scribble[:]):]
		}
	}
	for _, rule := range d.machine.faults {
		if rule.meets(&f.request, d.chance) {
			f.fault = rule
			switch {
			case rule.Err != nil:
			case rule.Effect == Delay:
				f.delay = rule.Completions
			case rule.Effect == Hang:
				f.delay = hangForever
			}
			break
		}
	}
	if f.fault == nil && d.options.TearSectors && op.Kind == disk.Write {
		f.fault = &Fault{Effect: TearSectors}
	}
	return f
}

// attach finds the file that the operation names.
func (d *Disk) attach(f *flight) {
	target, ok := d.files.Get(f.op.File)
	if !ok {
		if f.refused == nil {
			f.refused = syscall.EBADF
		}
		return
	}
	f.target, f.path = target, target.path
	if f.refused != nil {
		return
	}
	if f.kind == disk.Close {
		if target.inFlight > 0 {
			panic(fmt.Sprintf("crash: %q closed with %d operations in flight on it", f.path, target.inFlight))
		}
		d.files.Remove(f.op.File)
	}
	target.inFlight++
}

// Wait hands over what is queued and completes some of what is in flight.
func (d *Disk) Wait(finished []*disk.Operation, timeout time.Duration) ([]*disk.Operation, error) {
	if d.machine.crashed.Load() {
		return finished, ErrCrashed
	}
	for _, f := range d.queued {
		if f.delay > 0 {
			d.heldBack++
		}
	}
	d.flying = append(d.flying, d.queued...)
	d.queued = d.queued[:0]
	d.release(false)
	count := 0
	if d.closed {
		finished = d.takeEnded(finished)
		return finished, disk.ErrClosed
	}
	if len(d.flying) == 0 && d.options.Blocking {
		d.block(timeout)
	} else if len(d.flying) > 0 {
		count = d.completions(d.takeWake() || timeout == 0)
	} else {
		d.takeWake()
	}
	for i := range count {
		// The first completion passes over what is held back, or the disk
		// would stand still when nothing else is in flight.
		if i > 0 && len(d.flying) == d.heldBack || !d.completeOne() {
			break
		}
	}
	if d.machine.crashed.Load() {
		// Nobody is there any more who could learn what completed last.
		return finished, ErrCrashed
	}
	return d.takeEnded(finished), nil
}

// release lets what hangs go on when its script is over, or always.
func (d *Disk) release(always bool) {
	if d.heldBack == 0 {
		return
	}
	for _, f := range d.flying {
		if f.hangs() && (always || f.fault.released) {
			f.delay = 0
			d.heldBack--
		}
	}
}

// hangs says whether no completion of others will let the operation go.
func (f *flight) hangs() bool { return f.delay == hangForever }

// completions draws how many operations complete in one Wait: mostly one,
// sometimes all, and when nothing needs to, sometimes none.
func (d *Disk) completions(mayBeNone bool) int {
	if d.options.InOrder {
		return 1
	}
	if mayBeNone && d.order.IntN(2) == 0 {
		return 0
	}
	switch d.order.IntN(4) {
	case 0:
		return len(d.flying)
	case 1:
		return 1 + d.order.IntN(len(d.flying))
	}
	return 1
}

// completeOne completes one operation that is not held back, or the one held
// back least when all are; false when all hang, or the power went off before.
func (d *Disk) completeOne() bool {
	pick := d.pick()
	if pick < 0 || !d.step() {
		return false
	}
	f := d.flying[pick]
	d.flying = append(d.flying[:pick], d.flying[pick+1:]...)
	if f.delay > 0 {
		d.heldBack--
	}
	for _, other := range d.flying {
		if d.heldBack == 0 {
			break
		}
		if other.delay > 0 && !other.hangs() {
			if other.delay--; other.delay == 0 {
				d.heldBack--
			}
		}
	}
	d.complete(f)
	return true
}

// pick chooses which operation in flight completes; -1 when all hang.
func (d *Disk) pick() int {
	free := len(d.flying) - d.heldBack
	if free == 0 {
		least := 0
		for i, f := range d.flying {
			if f.delay < d.flying[least].delay {
				least = i
			}
		}
		if d.flying[least].hangs() {
			return -1
		}
		return least
	}
	nth := 0
	if !d.options.InOrder {
		nth = d.order.IntN(free)
	}
	if d.heldBack == 0 {
		return nth
	}
	for i, f := range d.flying {
		if f.delay > 0 {
			continue
		}
		if nth == 0 {
			return i
		}
		nth--
	}
	panic("crash: the operations held back were counted wrong")
}

// complete carries out f and gives its operation back.
func (d *Disk) complete(f *flight) {
	op := f.op
	op.Slot = 0
	d.ended = append(d.ended, op)
	if f.refused != nil {
		op.Fail(f.path, f.refused)
		return
	}
	if f.kind == disk.Write && crc32.Checksum(op.Buffer, castagnoli) != f.sum {
		panic(fmt.Sprintf("crash: the buffer of a write to %q at %d changed while it was in flight", f.path, f.offset))
	}
	if f.target != nil {
		f.target.inFlight--
	}
	r, err := d.world.perform(&f.request, d.chance)
	if err == nil && f.kind == disk.Open {
		err = d.register(op, r.opened)
	}
	op.Done = r.done
	if f.kind == disk.FreeSpace && err == nil {
		op.Length, op.TotalBytes = r.free, r.total
	}
	if f.kind == disk.ReadDirectory {
		op.Entries = append(op.Entries[:0], r.entries...)
	}
	if err != nil {
		op.Fail(f.path, err)
	}
}

// register gives an opened file its number.
func (d *Disk) register(op *disk.Operation, opened *inode) error {
	file, ok := d.files.Add(&openFile{inode: opened, path: op.Path, readOnly: op.Flags&disk.ReadOnly != 0})
	if !ok {
		return syscall.EMFILE
	}
	opened.opens++
	op.File, op.Length = file, opened.live.size
	return nil
}

func (d *Disk) takeEnded(finished []*disk.Operation) []*disk.Operation {
	d.inFlight -= len(d.ended)
	finished = append(finished, d.ended...)
	clear(d.ended)
	d.ended = d.ended[:0]
	return finished
}

// block is the idle Wait of Options.Blocking.
func (d *Disk) block(timeout time.Duration) {
	switch {
	case timeout == 0:
		d.takeWake()
	case timeout < 0:
		<-d.wake
	default:
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		select {
		case <-d.wake:
		case <-timer.C:
		}
	}
}

func (d *Disk) takeWake() bool {
	select {
	case <-d.wake:
		return true
	default:
		return false
	}
}

// Wake makes the next Wait return, also with nothing finished.
func (d *Disk) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// InFlight is the number of operations submitted and not returned.
func (d *Disk) InFlight() int { return d.inFlight }

// Info describes this implementation.
func (d *Disk) Info() disk.Info { return disk.Info{Name: "crash", Direct: true} }

// Close completes what was handed over; what was queued ends with ErrClosed.
func (d *Disk) Close() error {
	if d.machine.crashed.Load() {
		return ErrCrashed
	}
	if d.closed {
		return disk.ErrClosed
	}
	d.release(true)
	for len(d.flying) > 0 {
		if !d.completeOne() {
			return ErrCrashed
		}
	}
	for _, f := range d.queued {
		f.op.Slot = 0
		f.op.Fail(f.path, disk.ErrClosed)
		d.ended = append(d.ended, f.op)
	}
	d.queued, d.closed = nil, true
	d.files.All(func(_ disk.File, open *openFile) {
		open.inode.opens--
		d.world.unused(open.inode)
	})
	d.files = handle.Table[*openFile]{}
	return nil
}
