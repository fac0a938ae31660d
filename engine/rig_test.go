package engine

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/disk/portable"
	"ringlog/record"
)

// journalBytes is the commit journal of every rig that asks for no other: see
// TestStoriesWithAJournal.
var journalBytes = flag.Int64("journal", 0, "bytes of the commit journal of the engines under test")

// rig drives a Stepper on a directory, with clocks that the test moves.
type rig struct {
	testing.TB
	root   string
	opened func() (disk.Disk, error) // nil: the portable disk on root
	tune   func(*Options)
	now    time.Duration
	millis int64
	step   *Stepper
	tail   *buffer.Pool
	cold   *buffer.Pool
	id     LogID
	config LogConfig
	log    *Log
	alone  *aloneReplica
	faults faults
	logs   *slog.Logger
}

func newRig(t testing.TB) *rig {
	r := &rig{TB: t, root: t.TempDir(), millis: 1_700_000_000_000}
	r.id = LogID{0xab, 1}
	r.tail = buffer.NewPool("tail", 16<<20)
	r.cold = buffer.NewPool("cold", 16<<20)
	return r
}

// start opens the engine.
func (r *rig) start() {
	r.Helper()
	if err := r.tryStart(); err != nil {
		r.Fatalf("start: %v", err)
	}
}

func (r *rig) tryStart() error {
	options := Options{
		OpenDisk: func() (disk.Disk, error) {
			if r.opened != nil {
				return r.opened()
			}
			return portable.New(r.root, portable.Options{Workers: 4})
		},
		Tail: r.tail, Cold: r.cold,
		NowMillis: func() int64 { return r.millis },
		Monotonic: func() time.Duration { return r.now },
		Logger:    r.logs,
	}
	options.JournalBytes = *journalBytes
	if r.tune != nil {
		r.tune(&options)
	}
	step, err := NewStepper(options)
	if err != nil {
		return err
	}
	step.shards[0].faults = r.faults
	r.step = step
	return nil
}

// journals says whether the rig's engine has a commit journal.
func (r *rig) journals() bool { return r.step.shards[0].journal.enabled() }

// open opens the rig's log and leads it.
func (r *rig) open() {
	r.Helper()
	if err := r.tryOpen(); err != nil {
		r.Fatalf("open: %v", err)
	}
}

func (r *rig) tryOpen() error {
	r.alone = new(aloneReplica)
	l, err := r.step.Create(context.Background(), LogSpec{ID: r.id, Label: "orders-3", Config: r.config, Replica: r.alone})
	if err != nil {
		return err
	}
	r.log = l
	if l.failed == nil {
		return r.step.Lead(context.Background(), r.id, l.lastEpoch()+1)
	}
	return nil
}

// close ends the engine in order.
func (r *rig) close() {
	r.Helper()
	if err := r.step.Close(context.Background()); err != nil {
		r.Fatalf("close: %v", err)
	}
}

// crash ends the engine as kill -9 does: what was submitted stays.
func (r *rig) crash() {
	for r.step.shards[0].disk.InFlight() > 0 {
		r.step.shards[0].finished, _ = r.step.shards[0].disk.Wait(r.step.shards[0].finished[:0], -1)
	}
	d := r.step.shards[0].disk
	r.step.Abandon()
	_ = d.Close()
}

// settle turns until nothing happens any more without a clock.
func (r *rig) settle() {
	r.Helper()
	for range 100_000 {
		if err := r.step.Turn(); err != nil {
			r.Fatalf("turn: %v", err)
		}
		if r.step.Idle() {
			return
		}
	}
	r.Fatal("the shard does not come to rest")
}

// pass lets time pass on both clocks and settles.
func (r *rig) pass(d time.Duration) {
	r.Helper()
	for d > 0 {
		step := min(d, 100*time.Millisecond)
		r.now += step
		r.millis += step.Milliseconds()
		d -= step
		r.settle()
	}
}

// produced is one append group with what became of it.
type produced struct {
	AppendGroup
	consumed, answered int
}

func (p *produced) Consumed(*AppendGroup) { p.consumed++ }
func (p *produced) Answered(*AppendGroup) { p.answered++ }

// submit hands batches to the engine as one group for the rig's log.
func (r *rig) submit(batches ...record.Batch) *produced {
	p := new(produced)
	p.Owner = p
	for _, b := range batches {
		p.Appends = append(p.Appends, Append{Log: r.log, Batch: b})
	}
	r.step.Append(&p.AppendGroup)
	return p
}

// produce appends one batch and returns its base offset.
func (r *rig) produce(b record.Batch) int64 {
	r.Helper()
	p := r.submit(b)
	r.settle()
	if p.consumed != 1 || p.answered != 1 {
		r.Fatalf("produce: consumed %d times, answered %d times", p.consumed, p.answered)
	}
	if err := p.Appends[0].Err; err != nil {
		r.Fatalf("produce: %v", err)
	}
	return p.Appends[0].BaseOffset
}

// read reads one part and returns copies of its batches.
func (r *rig) read(offset int64, bytesMax int) ([]record.Batch, error) {
	r.Helper()
	got, err := r.readWith(&Read{Parts: []ReadPart{{Log: r.log, Offset: offset, BytesMax: bytesMax}}, BytesMax: bytesMax})
	return got, err
}

func (r *rig) readWith(read *Read) ([]record.Batch, error) {
	r.Helper()
	done := 0
	read.Done = func(*Read) { done++ }
	r.step.Read(read)
	for i := 0; done == 0; i++ {
		if err := r.step.Turn(); err != nil {
			r.Fatalf("turn: %v", err)
		}
		if i > 100_000 {
			r.Fatal("the read is not answered")
		}
	}
	if done != 1 {
		r.Fatalf("Done was called %d times", done)
	}
	defer read.Release()
	return copyBatches(r, &read.Parts[0]), read.Parts[0].Err
}

func copyBatches(r *rig, p *ReadPart) []record.Batch {
	r.Helper()
	var batches []record.Batch
	for _, b := range p.Batches {
		for rest := b; len(rest) > 0; {
			batch, after, err := record.Next(rest)
			if err != nil {
				r.Fatalf("a slice of a read is not whole batches: %v", err)
			}
			if err := batch.Check(); err != nil {
				r.Fatalf("a read returns a bad batch: %v", err)
			}
			batches = append(batches, append(record.Batch(nil), batch...))
			rest = after
		}
	}
	return batches
}

// readAll reads the log from offset to the high watermark.
func (r *rig) readAll(offset int64) []record.Batch {
	r.Helper()
	var all []record.Batch
	for offset < r.log.Frontiers().HighWatermark {
		got, err := r.read(offset, 1<<20)
		if err != nil {
			r.Fatalf("read at %d: %v", offset, err)
		}
		if len(got) == 0 {
			r.Fatalf("read at %d: nothing below the high watermark %d", offset, r.log.Frontiers().HighWatermark)
		}
		all = append(all, got...)
		offset = got[len(got)-1].LastOffset() + 1
	}
	return all
}

// batchOf makes a batch of records records whose payload is size bytes that
// depend on seed. The engine does not look into records, so they are none.
func batchOf(seed uint64, records int, size int, timestamp int64) record.Batch {
	return record.Batch(rawBatch(seed, records, size, timestamp))
}

func (r *rig) String() string { return fmt.Sprintf("%+v", r.log.frontiers()) }
