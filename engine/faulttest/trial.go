package faulttest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/record"
)

// phase is when the fault is there.
type phase string

const (
	atWork  phase = "at work"
	atStart phase = "at a start"
)

// trial is one cell of the page.
type trial struct {
	file      *fileKind
	operation disk.Kind
	fault     *fault
	phase     phase
}

func (t *trial) String() string {
	return fmt.Sprintf("%s, %s, %s, %s", t.file.name, t.operation, t.fault.name, t.phase)
}

// base is what every trial begins with: the disk that a killed engine has left, and what is owed.
type base struct {
	disk     *crash.Disk
	subjects []*subject
}

// newBase runs the engine whose death is the begin of all trials.
func newBase(p *pools) (*base, error) {
	w := newWorld(p, crash.New(crash.Options{Seed: 1}), newSubjects())
	if err := w.start(); err != nil {
		return nil, err
	}
	w.openAll(true)
	for round := range 14 {
		for _, s := range w.subjects {
			if s.opened != nil {
				return nil, s.opened
			}
			w.append(s, 300)
			if s.id != doomed {
				w.append(s, 3500)
			}
		}
		if round == 8 {
			w.pass(12 * time.Second) // sealed, saved, trimmed
		}
	}
	b := &base{disk: w.disk.Kill(1), subjects: copySubjects(w.subjects)}
	w.end()
	return b, nil
}

// seen is what a trial shows.
type seen struct {
	met bool // the fault happened at all

	start    error // the start was refused
	offline  []*subject
	fenced   []*subject
	poisoned []*subject
	shard    bool // all logs of shard 0 are poisoned
	refused  bool // appends to the victim
	waits    bool
	reads    error
	corrupt  bool
	refusals []string // of what operators ask for
	waitFor  []string // what of it is answered only when the fault is over
	slow     bool     // the engine said that the disk does not answer
	said     slog.Level
	sentence error // the first error of those above

	again bool   // the victim takes appends when the fault is over
	cut   string // what a power cut has left, of faults that lie
}

// run plays a trial. The error is a promise that was broken.
func (t *trial) run(p *pools, b *base, seed uint64) (*seen, error) {
	w := newWorld(p, b.disk.Kill(seed), copySubjects(b.subjects))
	defer w.end()
	o := new(seen)
	var rules []*crash.Fault
	arm := func() {
		for _, rule := range t.rules() {
			rules = append(rules, w.disk.AddFault(rule))
		}
	}
	var err error
	switch {
	case t.phase == atStart:
		arm()
		t.atStart(w, o)
	case t.fault.hangs:
		err = t.begin(w)
		arm()
		if err == nil {
			t.whileItHangs(w, o)
		}
	default:
		err = t.begin(w)
		arm()
		if err == nil {
			t.atWork(w, o)
		}
	}
	if t.fault.lies && err == nil && o.start == nil {
		err = t.unplug(w, o, seed)
	}
	for _, rule := range rules {
		o.met = o.met || rule.Fired() > 0
	}
	if err != nil || !o.met || t.fault.lies {
		return o, errors.Join(err, o.reads)
	}
	w.disk.ClearFaults()
	if err := t.afterwards(w, o); err != nil {
		return o, err
	}
	if w.stands() {
		return o, errors.New("the engine never comes to rest")
	}
	return o, t.lastly(w, seed)
}

// begin starts an engine without a fault.
func (t *trial) begin(w *world) error {
	if err := w.start(); err != nil {
		return err
	}
	w.openAll(false)
	for _, s := range w.subjects {
		if s.opened != nil {
			return fmt.Errorf("%s: %w", s.label, s.opened)
		}
	}
	w.said = said{}
	return nil
}

// atStart starts the engine, opens all logs and reads them.
func (t *trial) atStart(w *world, o *seen) {
	if o.start = w.start(); o.start != nil {
		o.sentence = o.start
		return
	}
	w.openAll(false)
	for _, s := range w.subjects {
		if s.log == nil {
			o.offline = append(o.offline, s)
			o.note(s.opened)
		} else if s.opened != nil {
			o.fenced = append(o.fenced, s)
			o.note(s.opened)
		}
	}
	w.settle()
	t.readAll(w, o)
	o.said = w.said.worst
}

func (o *seen) note(err error) {
	if o.sentence == nil {
		o.sentence = err
	}
}

// readAll reads every log that is open.
func (t *trial) readAll(w *world, o *seen) {
	for _, s := range w.subjects {
		if _, _, err := w.read(s); err != nil {
			o.reads = errors.Join(o.reads, err)
		}
	}
}

// atWork has the engine do everything that it does.
func (t *trial) atWork(w *world, o *seen) {
	ctx := context.Background()
	v, n, x := w.subject(victim), w.subject(neighbour), w.subject(stranger)
	ask := func(what string, f func() error) error {
		err, waited := w.ask(f)
		switch {
		case err != nil:
			o.refusals = append(o.refusals, what)
			o.note(err)
		case waited:
			o.waitFor = append(o.waitFor, what)
		}
		return err
	}
	t.readAll(w, o) // what the last life left is in no memory
	for range 12 {
		for _, s := range []*subject{v, n, x} {
			w.append(s, 700)
		}
		w.append(v, 3500)
		w.pass(step)
	}
	for range 8 { // together: straight to the segment
		w.send(v, 6000)
	}
	w.settle()
	w.pass(12 * time.Second)
	t.readAll(w, o)
	ask("DeleteRecords", func() error { return w.stepper.AdvanceStart(ctx, v.id, v.log.Frontiers().HighWatermark/2) })
	ask("truncation", func() error { return w.truncate(n) })
	fresh := &subject{id: newcomer, label: "newcomer", acked: map[int64]record.Batch{}, made: map[uint32]bool{}}
	if ask("topic creation", func() error { return w.open(fresh, true) }) == nil {
		w.subjects = append(w.subjects, fresh)
	}
	d := w.subject(doomed)
	err := ask("topic deletion", func() error { return w.stepper.Delete(ctx, d.id) })
	d.log = nil
	if err == nil {
		w.forget(d)
	}
	for range 4 {
		for _, s := range []*subject{v, n, x, w.subject(newcomer)} {
			if s != nil {
				w.append(s, 900)
			}
		}
		w.pass(4 * time.Second)
	}
	w.pass(70 * time.Second) // what is stored is looked at
	t.look(w, o)
}

// whileItHangs has everybody use an engine whose device does not answer.
func (t *trial) whileItHangs(w *world, o *seen) {
	for range 6 {
		for _, s := range w.subjects {
			w.append(s, 700)
		}
		w.append(w.subject(victim), 3500)
		w.pass(step)
	}
	for range 6 {
		w.send(w.subject(victim), 6000)
	}
	t.readAll(w, o)
	w.pass(15 * time.Second)
	t.look(w, o)
	o.slow = w.stepper.Metrics().SlowShards > 0
}

// look notes what is to be seen of the logs.
func (t *trial) look(w *world, o *seen) {
	for _, s := range w.subjects {
		if s.poisoned > 0 {
			o.poisoned = append(o.poisoned, s)
		}
	}
	v := w.subject(victim)
	o.refused, o.waits = v.refused > 0, v.waiting > 0
	o.shard = w.stepper.Metrics().PoisonedShards > 0
	for _, s := range w.subjects {
		o.corrupt = o.corrupt || s.corrupt > 0
		if s.unreadable > 0 {
			o.refusals = append(o.refusals, "reads of "+s.label)
		}
		if s.first != nil {
			o.note(s.first)
		}
	}
	o.said = w.said.worst
}

// truncate takes the last batches off a log.
func (w *world) truncate(s *subject) error {
	to := s.log.Frontiers().Next - 3
	err := w.stepper.Truncate(context.Background(), s.id, to)
	for offset := range s.acked { // one that has failed may come to its end at the next start
		if offset >= to {
			delete(s.acked, offset)
		}
	}
	return err
}

func (w *world) forget(s *subject) {
	kept := w.subjects[:0]
	for _, other := range w.subjects {
		if other != s {
			kept = append(kept, other)
		}
	}
	w.subjects = kept
}

// afterwards looks what has become of everybody now that the fault is over.
func (t *trial) afterwards(w *world, o *seen) error {
	if o.reads != nil {
		return o.reads
	}
	if w.stepper == nil {
		w.disk = w.disk.Kill(1) // that process is over, and its memory with it
		*w.pools = *newPools()
		if err := w.start(); err != nil {
			return fmt.Errorf("the start after the one with the fault: %w", err)
		}
	}
	for _, s := range w.subjects {
		if s.log != nil || s.id == doomed && t.phase == atWork {
			continue
		}
		if err := w.open(s, false); err != nil {
			return fmt.Errorf("%s cannot be opened after the fault: %w", s.label, err)
		}
	}
	w.pass(8 * time.Second)
	v := w.subject(victim)
	if v.log != nil {
		r := w.append(v, 500)
		w.pass(4 * time.Second)
		o.again = r.answered && r.group.Appends[0].Err == nil
	}
	if !o.again && len(o.poisoned)+len(o.fenced) == 0 {
		return fmt.Errorf("the victim takes nothing after the fault is over: %+v", v.first)
	}
	for _, s := range w.subjects {
		if s.waiting > 0 && !o.isPoisoned(s) {
			return fmt.Errorf("%s: %d requests are never answered", s.label, s.waiting)
		}
	}
	return nil
}

func (o *seen) isPoisoned(s *subject) bool {
	for _, p := range o.poisoned {
		if p == s {
			return true
		}
	}
	return false
}

// lastly cuts the power; then every log must have what was acknowledged. After that, the engine that went
// through the fault must come to its end.
func (t *trial) lastly(w *world, seed uint64) error {
	after, owed := w.disk.Crash(seed), copySubjects(w.subjects)
	closing := w.stepper.Close(context.Background())
	if w.stands() {
		return fmt.Errorf("the engine does not stop: %w", closing)
	}
	w.end()
	return t.verify(w.pools, after, owed, nil)
}

// unpluggedTimes is how many power cuts are tried of a device that lies.
const unpluggedTimes = 8

// unplug has a few more records acknowledged by a device that lies, and then looks what a kill leaves of
// everything, and what power cuts do. That no byte is served that was not written holds there, too.
func (t *trial) unplug(w *world, o *seen, seed uint64) error {
	for range 3 {
		w.append(w.subject(victim), 700)
	}
	owed := copySubjects(w.subjects)
	killed := w.disk.Kill(seed)
	var cuts []*crash.Disk
	for i := range uint64(unpluggedTimes) {
		cuts = append(cuts, w.disk.Crash(seed+i))
	}
	w.end()
	kill, cut := new(found), new(found)
	if err := t.verify(w.pools, killed, copySubjects(owed), kill); err != nil {
		return err
	}
	for _, d := range cuts {
		if err := t.verify(w.pools, d, copySubjects(owed), cut); err != nil {
			return err
		}
	}
	o.cut = fmt.Sprintf("after a kill %s; after a power cut %s", kill, cut)
	return nil
}

// verify starts an engine on what is left and compares. With found, what is missing is noted there and is no
// broken promise.
func (t *trial) verify(p *pools, d *crash.Disk, owed []*subject, found *found) error {
	w := newWorld(p, d, owed)
	defer w.end()
	if err := w.start(); err != nil {
		if found != nil && (errors.Is(err, engine.ErrCorrupt) || errors.Is(err, fs.ErrNotExist)) {
			found.refused = true
			return nil
		}
		return fmt.Errorf("the next start: %w", err)
	}
	for _, s := range owed {
		if s.id == doomed && t.phase == atWork {
			continue // it was asked to go
		}
		fenced := false
		if err := w.open(s, false); err != nil {
			if found != nil {
				found.fenced, fenced = true, true
				if s.log == nil {
					continue
				}
			} else {
				return fmt.Errorf("%s at the next start: %w", s.label, err)
			}
		}
		start := s.log.Frontiers().Start
		_, has, err := w.read(s)
		if err != nil {
			return fmt.Errorf("at the next start: %w", err)
		}
		for offset, batch := range s.acked {
			if got, ok := has[offset]; offset >= start && (!ok || got.CRC() != batch.CRC()) {
				if found == nil {
					return fmt.Errorf("%s: the batch that was acknowledged at %d is gone; the log is %+v; %w", s.label, offset, s.log.Frontiers(), s.first)
				}
				if !fenced && s.corrupt == 0 {
					found.lost = true
				}
			}
		}
		if found != nil && s.corrupt > 0 {
			found.fenced = true
		}
	}
	return nil
}

// found is what a device that lied has left.
type found struct{ refused, fenced, lost bool }

func (f *found) String() string {
	var parts []string
	if f.lost {
		parts = append(parts, "records may be missing")
	}
	if f.fenced {
		parts = append(parts, "a loss is found and fenced")
	}
	if f.refused {
		parts = append(parts, "the start may be refused")
	}
	if parts == nil {
		return "everything is there"
	}
	return strings.Join(parts, ", ")
}
