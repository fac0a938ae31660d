package crashtest

import (
	"ringlog/engine/disk/crash"
	"ringlog/engine/model"
)

// isObserved draws whether a life is held against package model. A bit that rots
// on the disk is nothing that an observer of the engine could know of.
func (l *life) isObserved() bool {
	if l.x.config.Rot > 0 {
		return false
	}
	return l.depth == 0 || l.x.config.Observed > 0 && l.x.dice.Float64() < l.x.config.Observed
}

// newObserver begins with what is on a disk.
func newObserver(d *crash.Disk) *model.Observer {
	found := d.Inspect()
	files := make([]model.File, len(found))
	for i := range found {
		files[i] = model.File(found[i])
	}
	return model.NewObserver(files)
}

// holdPublished compares what every open log publishes at this moment, before
// the engine learns of another completion, with what it may.
func (l *life) holdPublished() error {
	for _, g := range l.logs {
		if g.log == nil {
			continue
		}
		f := model.Frontiers(g.log.Frontiers())
		if err := l.observer.Published(g.id.String(), f, g.cut != noCut); err != nil {
			return l.x.fail(err)
		}
	}
	return nil
}

// holdAtRest compares again when everything is at rest: nothing may be left that
// is not durable.
func (l *life) holdAtRest() error {
	if l.observer == nil || l.faulty {
		return nil
	}
	for _, g := range l.logs {
		if g.log == nil || g.relaxed {
			continue
		}
		if err := l.observer.AtRest(g.id.String(), model.Frontiers(g.log.Frontiers())); err != nil {
			return l.x.fail(err)
		}
	}
	return nil
}
