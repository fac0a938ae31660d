package model

import (
	"fmt"
	"path"

	"ringlog/engine/disk"
)

// Observer holds a run of the real engine against the rules. It is told every
// operation when it is submitted and when the engine learns that it completed,
// keeps a shadow of the disk in which only that is durable which the seam
// promises (a flush covers what completed before it was submitted; names need
// their directory's), and reads that shadow as a recovery would. What the
// engine publishes must be found there: never more, at any moment.
//
// It knows nothing of how the engine decides: not which flush the engine counted on,
// nor what it has in memory. Used by one goroutine.
type Observer struct {
	names    names
	open     map[handle]*shadowFile
	flushes  map[*disk.Operation]uint64 // sequence at the submission of flushes in flight
	sequence uint64                     // of the last completed change
	logs     map[string]*observedLog    // by directory

	derivations int
}

// handle is an open file of one of the disks.
type handle struct {
	number int
	file   disk.File
}

// observedLog is what was published of one log.
type observedLog struct {
	last Frontiers
	// durable and written are the highest derived ends. They hold until something
	// below is destroyed.
	durable, written int64
	changing         bool // a truncation was under way when it was last looked at
}

// Frontiers are those of engine.Frontiers.
type Frontiers struct {
	Start         int64
	HighWatermark int64
	Durable       int64
	Written       int64
	Next          int64
}

// File is one file or directory that is there when an Observer begins.
type File struct {
	Path        string // what the process sees; "" when it has no such name any more
	DurablePath string // what a power cut leaves; "" when nothing
	Directory   bool
	Content     []byte
	Durable     []byte // of the content, what a power cut leaves in any case
}

// NewObserver returns an Observer of a disk that holds files.
func NewObserver(files []File) *Observer {
	o := &Observer{
		names:   names{live: map[string]*shadowFile{}, durable: map[string]*shadowFile{}},
		open:    map[handle]*shadowFile{},
		flushes: map[*disk.Operation]uint64{},
		logs:    map[string]*observedLog{},
	}
	for i := range files {
		f := &files[i]
		shadow := &shadowFile{directory: f.Directory}
		shadow.live.bytes = append(shadow.live.bytes, trimZeros(f.Content)...)
		shadow.durable.bytes = append(shadow.durable.bytes, trimZeros(f.Durable)...)
		if string(shadow.live.bytes) != string(shadow.durable.bytes) {
			// It may have become this in any way: a flush makes all of it durable.
			shadow.pending = append(shadow.pending, shadowWrite{empties: true}, shadowWrite{data: append([]byte{}, shadow.live.bytes...)})
		}
		if f.DurablePath != "" {
			o.names.durable[f.DurablePath] = shadow
		}
		if f.Path != "" {
			o.names.live[f.Path] = shadow
		}
		if f.Path == f.DurablePath {
			continue
		}
		if f.DurablePath != "" {
			o.names.pending = append(o.names.pending, nameChange{0, parentOf(f.DurablePath), f.DurablePath, nil})
		}
	}
	for i := range files {
		// Behind all removals: a name may have gone from one file to another.
		if f := &files[i]; f.Path != "" && f.Path != f.DurablePath {
			o.names.pending = append(o.names.pending, nameChange{0, parentOf(f.Path), f.Path, o.names.live[f.Path]})
		}
	}
	return o
}

func parentOf(name string) string { return path.Dir(name) }

// Submitted takes an operation that a shard is about to submit.
func (o *Observer) Submitted(op *disk.Operation) {
	switch op.Kind {
	case disk.Flush, disk.SyncFilesystem, disk.SyncDirectory:
		o.flushes[op] = o.sequence
	}
}

// Completed takes an operation that finished, before the shard is told so. number
// is that of its disk: several may share the files and each has handles of its own.
func (o *Observer) Completed(number int, op *disk.Operation) {
	at := handle{number, op.File}
	began, flush := o.flushes[op]
	delete(o.flushes, op)
	if op.Err != nil {
		// A failed write may have moved any part, and a failed flush made any part
		// durable: nobody may count on it.
		return
	}
	switch {
	case flush:
		o.synced(op, at, began)
	case op.Kind.UsesFile():
		o.fileChanged(op, at)
	default:
		o.nameChanged(op, at)
	}
}

// synced takes a flush of one of the three kinds.
func (o *Observer) synced(op *disk.Operation, at handle, began uint64) {
	switch op.Kind {
	case disk.Flush:
		o.harden(o.open[at], began)
	case disk.SyncFilesystem:
		for _, f := range o.open { // any order: files do not depend on each other
			o.harden(f, began)
		}
		for _, f := range o.names.live { // any order
			o.harden(f, began)
		}
		for _, directory := range o.names.changed() {
			o.namesSynced(directory, began)
		}
	case disk.SyncDirectory:
		o.namesSynced(path.Clean(op.Path), began)
	}
}

// namesSynced makes the names in a directory durable.
func (o *Observer) namesSynced(directory string, began uint64) {
	if g := o.logs[directory]; o.names.harden(directory, began) && g != nil {
		g.durable = -1 // its manifest may be another one
	}
}

// harden makes a file's writes durable, and forgets what was derived when that
// destroyed something.
func (o *Observer) harden(f *shadowFile, began uint64) {
	if f == nil || len(f.pending) == 0 {
		return
	}
	read := f.durable.read
	f.harden(began)
	if f.durable.read != read {
		o.forget()
	}
}

func (o *Observer) forget() {
	for _, g := range o.logs { // any order
		g.durable, g.written = -1, -1
	}
}

func (o *Observer) fileChanged(op *disk.Operation, at handle) {
	f := o.open[at]
	w := shadowWrite{offset: op.Offset}
	switch op.Kind {
	case disk.Write:
		w.data = append([]byte{}, op.Buffer[:op.Done]...)
	case disk.ZeroRange:
		w.length = op.Length
	case disk.Close:
		delete(o.open, at)
		return
	default:
		return
	}
	o.sequence++
	w.sequence = o.sequence
	read := f.live.read
	f.change(w)
	if f.live.read != read {
		o.forget()
	}
}

func (o *Observer) nameChanged(op *disk.Operation, at handle) {
	name := path.Clean(op.Path)
	switch op.Kind {
	case disk.Open:
		f := o.names.live[name]
		switch {
		case f == nil:
			f = &shadowFile{}
			o.sequence++
			o.names.change(o.sequence, name, f)
		case op.Flags&disk.Truncate != 0 && len(f.live.bytes) > 0:
			o.sequence++
			f.change(shadowWrite{sequence: o.sequence, empties: true})
		}
		o.open[at] = f
	case disk.Rename:
		o.sequence++
		f := o.names.live[name]
		o.names.change(o.sequence, name, nil)
		o.names.change(o.sequence, path.Clean(op.NewPath), f)
	case disk.Exchange:
		o.sequence++
		one, two := o.names.live[name], o.names.live[path.Clean(op.NewPath)]
		o.names.change(o.sequence, name, two)
		o.names.change(o.sequence, path.Clean(op.NewPath), one)
	case disk.MakeDirectory:
		if o.names.live[name] == nil {
			o.sequence++
			o.names.change(o.sequence, name, &shadowFile{directory: true})
		}
	case disk.Unlink, disk.RemoveDirectory:
		o.sequence++
		o.names.change(o.sequence, name, nil)
	}
}

// Published takes what the log in a directory publishes of itself, as often as
// anybody could look. changing says that a truncation of it is under way. The
// error is a broken rule.
func (o *Observer) Published(directory string, f Frontiers, changing bool) error {
	g := o.logs[directory]
	if g == nil {
		g = &observedLog{durable: -1, written: -1}
		o.logs[directory] = g
	}
	if f == g.last && f.Durable <= g.durable && f.Written <= g.written && !changing && !g.changing {
		return nil
	}
	last, changed := g.last, g.changing
	g.last, g.changing = f, changing
	if changing {
		g.durable, g.written = -1, -1
		return nil
	}
	if changed {
		last = Frontiers{} // what it published before the cut may have been more
	}
	if f.Start < last.Start || f.HighWatermark < last.HighWatermark || f.Durable < last.Durable ||
		f.Written < last.Written || f.Next < last.Next {
		return fmt.Errorf("frontiers of %s fall from %+v to %+v", directory, last, f)
	}
	if f.Durable > g.durable || f.Start > last.Start {
		o.derivations++
		view := o.view(true)
		g.durable = view.end(directory)
		switch {
		case view.broken != "":
			return fmt.Errorf("%s: %s", directory, view.broken)
		case f.Start > view.start:
			return fmt.Errorf("%s is published to start at %d, and after a power cut may start at %d", directory, f.Start, view.start)
		case f.Durable > g.durable:
			return fmt.Errorf("%s is published as durable up to %d, and a power cut may leave no more than %d: %s",
				directory, f.Durable, g.durable, view.why)
		}
	}
	if f.Written > g.written {
		o.derivations++
		view := o.view(false)
		g.written = view.end(directory)
		if f.Written > g.written {
			return fmt.Errorf("%s is published as written up to %d, and a kill may leave no more than %d: %s",
				directory, f.Written, g.written, view.why)
		}
	}
	return nil
}

// AtRest takes that nothing is in flight and nobody waits: what a log that is not
// relaxed was given must be durable, or the engine has forgotten it.
func (o *Observer) AtRest(directory string, f Frontiers) error {
	if f.Durable < f.Next {
		return fmt.Errorf("%s is at rest with %d appended and %d durable", directory, f.Next, f.Durable)
	}
	return nil
}

// Derivations is how often the shadow was read.
func (o *Observer) Derivations() int { return o.derivations }
