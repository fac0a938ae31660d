package crashtest

import (
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/model"
)

// probe stands between an engine and its disk and shows every state of the disk
// that a crash could leave: what is in flight has all, in part or not happened
// in the outcomes of crash.Disk, so it is enough to look each time the
// engine has handed something over and before it learns what completed.
type probe struct {
	*crash.Disk
	look func() error // called at each state; an error ends the disk
	// progress is told, each time, whether the disk has something to do or to tell.
	progress func(busy bool) error
	trace    func(op *disk.Operation) // called for each operation that finished; nil is not at all

	number    int             // of the disk, among those of the engine
	observer  *model.Observer // is told what the engine does and learns; nil in lives that are not observed
	published func() error    // holds what the engine has published against what it was told so far
}

// Submit implements disk.Disk.
func (p *probe) Submit(op *disk.Operation) {
	if p.observer != nil {
		p.observer.Submitted(op)
	}
	p.Disk.Submit(op)
}

// Wait implements disk.Disk.
func (p *probe) Wait(finished []*disk.Operation, timeout time.Duration) ([]*disk.Operation, error) {
	if p.observer != nil {
		if err := p.published(); err != nil {
			return finished, err
		}
	}
	before := len(finished)
	for {
		// A poll hands over what is queued and completes nothing, or something.
		var err error
		known := len(finished)
		finished, err = p.Disk.Wait(finished, 0)
		for _, op := range finished[known:] {
			if p.observer != nil {
				p.observer.Completed(p.number, op)
			}
			if p.trace != nil {
				p.trace(op)
			}
		}
		if err == nil {
			err = p.look()
		}
		if err == nil {
			err = p.progress(len(finished) > known || p.Disk.InFlight() > 0)
		}
		if err != nil || len(finished) > before || timeout == 0 || p.Disk.InFlight() == 0 {
			return finished, err
		}
	}
}
