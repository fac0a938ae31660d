package cuttest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"ringlog/engine/disk"
)

// aim says when the power is cut.
type aim struct {
	name    string
	matches func(*disk.Operation) bool // nil: by time alone
	nth     int                        // of those that match
	late    int                        // how often the engine goes on after that
	within  time.Duration              // at the latest
}

func (a aim) String() string {
	if a.matches == nil {
		return fmt.Sprintf("%s after %s", a.name, a.within)
	}
	return fmt.Sprintf("%s: number %d, %d steps later", a.name, a.nth, a.late)
}

// kinds are the operations that cuts are aimed at: those that change names,
// extents and sizes, or make them durable.
var kinds = []disk.Kind{disk.Rename, disk.SyncDirectory, disk.Preallocate, disk.Flush, disk.SyncFilesystem,
	disk.Open, disk.Write, disk.Unlink, disk.ZeroRange, disk.MakeDirectory}

// lifeMax is when a cut comes that its aim does not bring about.
const lifeMax = 150 * time.Millisecond

// drawAim returns the aim of the n-th cut under load: each kind in turn, with
// cuts at any time between them.
func drawAim(n int, dice *rand.Rand) aim {
	n %= len(kinds) + 2
	if n >= len(kinds) {
		return aim{name: "time", within: time.Duration(dice.Int64N(int64(60 * time.Millisecond)))}
	}
	a := aimAt(kinds[n])
	a.nth = 1 + dice.IntN(40)
	if dice.IntN(3) == 0 {
		a.nth = 1 + dice.IntN(5)
	}
	a.late = max(0, dice.IntN(5)-2)
	return a
}

func aimAt(kind disk.Kind) aim {
	a := aim{name: kind.String(), within: lifeMax}
	a.matches = func(op *disk.Operation) bool { return op.Kind == kind }
	if kind == disk.Open {
		a.name = "create"
		a.matches = func(op *disk.Operation) bool { return op.Kind == kind && op.Flags&disk.Create != 0 }
	}
	return a
}

// drawRecoveryAim aims at any operation of a start.
func drawRecoveryAim(dice *rand.Rand) aim {
	return aim{
		name: "any", nth: 1 + dice.IntN(60), within: lifeMax,
		matches: func(op *disk.Operation) bool { return op.Kind != disk.Close },
	}
}

// wire stands between an engine and its disk and pulls the plug when an aim is
// reached: after the operation has finished and before the engine hears of it,
// or some steps later.
type wire struct {
	disk.Disk
	aim   aim
	count int
	pull  func()

	lie   disk.Kind // what it claims to have done, and has not
	liars []*disk.Operation
}

// Submit implements disk.Disk.
func (w *wire) Submit(op *disk.Operation) {
	if w.lie == 0 || op.Kind != w.lie && (w.lie != disk.Flush || op.Kind != disk.SyncFilesystem) {
		w.Disk.Submit(op)
		return
	}
	w.liars = append(w.liars, op)
	w.Disk.Wake()
}

// InFlight implements disk.Disk.
func (w *wire) InFlight() int { return w.Disk.InFlight() + len(w.liars) }

// Wait implements disk.Disk.
func (w *wire) Wait(finished []*disk.Operation, timeout time.Duration) ([]*disk.Operation, error) {
	known := len(finished)
	finished, err := w.Disk.Wait(finished, timeout)
	for _, op := range w.liars {
		op.Err = nil
		finished = append(finished, op)
	}
	w.liars = w.liars[:0]
	if w.aim.matches == nil {
		return finished, err
	}
	for _, op := range finished[known:] {
		if op.Err == nil && w.aim.matches(op) {
			w.count++
		}
	}
	if w.count >= w.aim.nth {
		if w.aim.late == 0 {
			w.pull()
		}
		w.aim.late--
	}
	return finished, err
}
