package faulttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ringlog/buffer"
	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/record"
	"ringlog/replica"
)

const (
	poolBytes    = 1 << 20
	journalBytes = 256 << 10
	segmentBytes = 32 << 10
	startMillis  = 1_700_000_000_000
	tick         = 20 * time.Microsecond // that the clock moves at each look at it
	step         = 500 * time.Millisecond
	turnsMax     = 400       // of one look whether everything has come to rest
	looksMax     = 2_000_000 // at the clock, in one trial: more is standing still
	patience     = 200_000   // looks that an operator waits for the end of what was asked
)

// pools is the memory of one engine at a time.
type pools struct{ tail, cold *buffer.Pool }

func newPools() *pools {
	return &pools{buffer.NewPool("tail", poolBytes), buffer.NewPool("cold", poolBytes)}
}

func (p *pools) close() error { return errors.Join(p.tail.Close(), p.cold.Close()) }

// world is one engine on one disk, with all who use it.
type world struct {
	pools    *pools
	disk     *crash.Disk
	stepper  *engine.Stepper
	subjects []*subject
	now      time.Duration
	looks    int
	asked    int  // looks at the clock since an operator has asked for something; -1 while none does
	waited   bool // the operator's patience was at its end: the fault was over before the answer came
	said     said
	batches  int
	value    []byte
}

// subject is one log and what it owes to those who use it.
type subject struct {
	id     engine.LogID
	label  string
	log    *engine.Log // nil while it is not open
	epoch  int32
	acked  map[int64]record.Batch // by base offset
	made   map[uint32]bool        // checksums of all that was submitted
	opened error                  // why it could not be opened

	refused, poisoned, waiting int   // appends, since the last reset
	unreadable, corrupt        int   // reads
	first                      error // the first of all these errors
}

// said is a log handler that only counts.
type said struct {
	mu    sync.Mutex
	worst slog.Level
	text  string
}

func (h *said) Enabled(context.Context, slog.Level) bool { return true }
func (h *said) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *said) WithGroup(string) slog.Handler            { return h }
func (h *said) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Level > h.worst {
		h.worst, h.text = r.Level, r.Message
	}
	return nil
}

func newWorld(p *pools, d *crash.Disk, subjects []*subject) *world {
	return &world{pools: p, disk: d, subjects: subjects, asked: -1}
}

// newSubjects are the logs of a trial, which nobody has written to.
func newSubjects() (subjects []*subject) {
	for label, id := range map[string]engine.LogID{"victim": victim, "stranger": stranger, "neighbour": neighbour, "doomed": doomed} {
		subjects = append(subjects, &subject{id: id, label: label, acked: map[int64]record.Batch{}, made: map[uint32]bool{}})
	}
	// In the order of their ids, which is that in which they are dealt to shards.
	for i := range subjects {
		for k := i + 1; k < len(subjects); k++ {
			if bytes.Compare(subjects[k].id[:], subjects[i].id[:]) < 0 {
				subjects[i], subjects[k] = subjects[k], subjects[i]
			}
		}
	}
	return subjects
}

// copySubjects returns what is owed, for another engine.
func copySubjects(of []*subject) (subjects []*subject) {
	for _, s := range of {
		c := &subject{id: s.id, label: s.label, epoch: s.epoch, acked: map[int64]record.Batch{}, made: map[uint32]bool{}}
		for offset, batch := range s.acked {
			c.acked[offset] = batch
		}
		for crc := range s.made {
			c.made[crc] = true
		}
		subjects = append(subjects, c)
	}
	return subjects
}

func (w *world) subject(id engine.LogID) *subject {
	for _, s := range w.subjects {
		if s.id == id {
			return s
		}
	}
	return nil
}

// start runs an engine on the disk.
func (w *world) start() error {
	first := true
	options := engine.Options{
		OpenDisk: func() (disk.Disk, error) {
			if first {
				first = false
				return w.disk, nil
			}
			return w.disk.Sibling(), nil
		},
		Shards: 2, Tail: w.pools.tail, Cold: w.pools.cold, JournalBytes: journalBytes,
		NewStore:           func() [16]byte { return [16]byte{1} },
		FreeBytesMin:       1,
		Directory:          "DATA",
		CheckpointInterval: 5 * time.Second, RetentionInterval: time.Minute,
		ScrubBytesPerSecond: 1 << 30, ScrubInterval: time.Hour,
		NowMillis: func() int64 { return startMillis + w.now.Milliseconds() },
		Monotonic: w.clock,
		Logger:    slog.New(&w.said),
	}
	stepper, err := engine.NewStepper(options)
	if err != nil {
		return err
	}
	w.stepper = stepper
	return nil
}

// clock moves a little at each look, so that whoever waits for a time meets it. One that
// is looked at for ever turns the power off: the trial then fails.
func (w *world) clock() time.Duration {
	if w.looks++; w.looks == looksMax {
		w.disk.Halt()
	}
	if w.asked >= 0 {
		if w.asked++; w.asked == patience {
			w.waited = true
			w.disk.ClearFaults()
		}
	}
	w.now += tick
	return w.now
}

// ask does what an operator asks for, which returns when it is done. waited says that it was not before the
// fault was over.
func (w *world) ask(f func() error) (err error, waited bool) {
	w.asked, w.waited = 0, false
	err = f()
	w.asked = -1
	return err, w.waited
}

// stands says that the engine stood still.
func (w *world) stands() bool { return w.looks >= looksMax }

func spec(s *subject) engine.LogSpec {
	return engine.LogSpec{
		ID: s.id, Label: s.label, Replica: replica.New(replica.Options{}),
		Config: engine.LogConfig{
			SegmentBytes: segmentBytes, IndexIntervalBytes: 1024, RetentionMillis: -1, RetentionBytes: -1, FileDeleteMillis: 1000, Delete: true,
		},
	}
}

// open opens, or makes, the log of s and leads it.
func (w *world) open(s *subject, create bool) error {
	ctx := context.Background()
	open := w.stepper.Open
	if create {
		open = w.stepper.Create
	}
	l, err := open(ctx, spec(s))
	if err == nil {
		var status engine.LogStatus
		if status, err = w.stepper.Status(ctx, s.id); err == nil && status.Err != nil {
			s.log = l
			return status.Err
		}
	}
	if err == nil {
		s.epoch++
		err = w.stepper.Lead(ctx, s.id, s.epoch)
	}
	if err != nil {
		return err
	}
	s.log = l
	return nil
}

// openAll opens every log; what fails is left in its subject.
func (w *world) openAll(create bool) {
	for _, s := range w.subjects {
		if s.log == nil {
			s.opened = w.open(s, create)
		}
	}
}

// settle lets what can happen without a clock happen.
func (w *world) settle() {
	for range turnsMax {
		if w.stepper.Turn() != nil || w.stepper.Idle() {
			return
		}
	}
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	for until := w.now + d; w.now < until && !w.stands(); {
		w.now += step
		w.settle()
	}
}

// request is one append on its way.
type request struct {
	subject  *subject
	batch    record.Batch
	group    engine.AppendGroup
	answered bool
}

func (r *request) Consumed(*engine.AppendGroup) {}

func (r *request) Answered(group *engine.AppendGroup) {
	r.answered = true
	r.subject.waiting--
	a := &group.Appends[0]
	switch {
	case a.Err == nil:
		r.subject.acked[a.BaseOffset] = r.batch
		return
	case errors.Is(a.Err, engine.ErrPoisoned):
		r.subject.poisoned++
	default:
		r.subject.refused++
	}
	r.subject.note(a.Err)
}

// note keeps the first error.
func (s *subject) note(err error) {
	if s.first == nil {
		s.first = err
	}
}

// send appends a batch with a value of so many bytes.
func (w *world) send(s *subject, valueBytes int) *request {
	if s == nil || s.log == nil {
		return nil
	}
	w.batches++
	if cap(w.value) < valueBytes {
		w.value = make([]byte, valueBytes)
	}
	value := w.value[:valueBytes]
	for i := range value {
		value[i] = byte(w.batches*7 + i)
	}
	var builder record.Builder
	builder.Reset(record.BuilderOptions{})
	builder.Append(startMillis+w.now.Milliseconds(), fmt.Appendf(nil, "%s %d", s.label, w.batches), value)
	built, err := builder.Build()
	if err != nil {
		panic(fmt.Sprintf("faulttest: build a batch: %v", err))
	}
	r := &request{subject: s, batch: bytes.Clone(built)}
	s.made[r.batch.CRC()] = true
	s.waiting++
	r.group.Appends = []engine.Append{{Log: s.log, Batch: bytes.Clone(built)}}
	r.group.Owner = r
	w.stepper.Append(&r.group)
	return r
}

// append sends a batch and lets it come to rest.
func (w *world) append(s *subject, valueBytes int) *request {
	r := w.send(s, valueBytes)
	w.settle()
	return r
}

// read reads a log from its start to its high watermark. What is served must have been submitted, and be where
// it was acknowledged; err says where that does not hold. end is where it came to.
func (w *world) read(s *subject) (end int64, found map[int64]record.Batch, err error) {
	found = map[int64]record.Batch{}
	if s == nil || s.log == nil {
		return 0, found, nil
	}
	offset := s.log.Frontiers().Start
	for tries := 0; offset < s.log.Frontiers().HighWatermark; tries++ {
		if tries > 5_000 || w.stands() {
			return offset, found, fmt.Errorf("%s: reading gets nowhere at offset %d", s.label, offset)
		}
		answered := false
		read := &engine.Read{
			Parts: []engine.ReadPart{{Log: s.log, Offset: offset, BytesMax: poolBytes / 4}}, BytesMax: poolBytes / 4,
			Done: func(*engine.Read) { answered = true },
		}
		w.stepper.Read(read)
		for range turnsMax {
			if answered || w.stepper.Turn() != nil {
				break
			}
		}
		if !answered { // it hangs, and is not looked at any more
			s.waiting++
			read.Done = func(r *engine.Read) { s.waiting--; r.Release() }
			return offset, found, nil
		}
		part := &read.Parts[0]
		next := offset
		for _, rest := range part.Batches {
			for len(rest) > 0 && err == nil {
				var batch record.Batch
				if batch, rest, err = record.Next(rest); err == nil {
					if err = s.judge(batch); err == nil {
						found[batch.BaseOffset()] = bytes.Clone(batch)
						next = batch.LastOffset() + 1
					}
				}
			}
		}
		partErr := part.Err
		read.Release()
		switch {
		case err != nil:
			return offset, found, err
		case errors.Is(partErr, engine.ErrCorrupt):
			s.corrupt++
			s.note(partErr)
			return offset, found, nil
		case errors.Is(partErr, engine.ErrOffsetOutOfRange):
			next = max(next, s.log.Frontiers().Start)
		case partErr != nil:
			s.unreadable++
			s.note(partErr)
			return offset, found, nil
		}
		offset = next
	}
	return offset, found, nil
}

// judge says why a batch must not be served, or nil.
func (s *subject) judge(batch record.Batch) error {
	if err := batch.Check(); err != nil {
		return fmt.Errorf("%s: the batch at %d is served and is not whole: %w", s.label, batch.BaseOffset(), err)
	}
	if !s.made[batch.CRC()] {
		return fmt.Errorf("%s: the batch at %d is served and was never submitted", s.label, batch.BaseOffset())
	}
	if want, ok := s.acked[batch.BaseOffset()]; ok && want.CRC() != batch.CRC() {
		return fmt.Errorf("%s: another batch is served at %d than was acknowledged there", s.label, batch.BaseOffset())
	}
	return nil
}

// end stops the engine where it stands.
func (w *world) end() {
	if w.stepper != nil {
		w.stepper.Abandon()
		w.stepper = nil
	}
	for _, s := range w.subjects {
		s.log = nil
	}
}
