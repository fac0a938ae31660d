package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/segment"
	"ringlog/record"
)

// The story of these tests: a log lives on a disk that loses everything the seam
// allows it to lose. The power goes at some step; what is found afterwards is
// recovered, perhaps with another power cut in the middle, and then
//
//	every batch that was acknowledged is there, with its bytes
//	there is no hole and no offset twice
//	nothing is there that was never submitted, or that was cut before
//	a second recovery finds the same
//
// (reliability.md, scenarios 1, 3 to 7, 9, 10, 16, 17.)

// oracle knows what must and what may be in the log.
type oracle struct {
	acked     map[int64]record.Batch // by base offset; must be there
	submitted map[uint32]bool        // by checksum; may be there
	gone      map[uint32]bool        // by checksum; cut, durably: must not be there
	start     int64                  // at least, after an acknowledged DeleteRecords
	startMax  int64                  // at most, after one that was not acknowledged
	cutting   int64                  // a truncation that was not acknowledged, or -1
}

func newOracle() *oracle {
	return &oracle{acked: map[int64]record.Batch{}, submitted: map[uint32]bool{}, gone: map[uint32]bool{}, cutting: -1}
}

// check compares what a recovered log holds, from its start to its end.
func (o *oracle) check(found []record.Batch, f Frontiers) error {
	if f.HighWatermark != f.Next || f.Durable != f.Next {
		return fmt.Errorf("after recovery the frontiers are %+v", f)
	}
	if f.Start < o.start && o.cutting < 0 || f.Start > max(o.start, o.startMax) {
		return fmt.Errorf("the log starts at %d, want [%d, %d]", f.Start, o.start, o.startMax)
	}
	at := map[int64]record.Batch{}
	next := int64(-1)
	for _, b := range found {
		if next >= 0 && b.BaseOffset() != next {
			return fmt.Errorf("a batch of offsets [%d, %d] where %d is next", b.BaseOffset(), b.LastOffset(), next)
		}
		next = b.LastOffset() + 1
		at[b.BaseOffset()] = b
		if !o.submitted[b.CRC()] {
			return fmt.Errorf("the batch at %d was never submitted", b.BaseOffset())
		}
		if o.gone[b.CRC()] {
			return fmt.Errorf("the batch at %d was cut and is back", b.BaseOffset())
		}
	}
	if next >= 0 && next != f.Next {
		return fmt.Errorf("batches end at %d, the log at %d", next, f.Next)
	}
	for base, want := range o.acked {
		if want.LastOffset() < f.Start || o.cutting >= 0 && want.LastOffset() >= o.cutting {
			continue
		}
		got, ok := at[base]
		if !ok {
			return fmt.Errorf("the acknowledged batch at %d is lost; the log is [%d, %d)", base, f.Start, f.Next)
		}
		if !bytes.Equal(got[record.HeaderBytes:], want[record.HeaderBytes:]) || got.CRC() != want.CRC() {
			return fmt.Errorf("the acknowledged batch at %d has other bytes", base)
		}
	}
	return nil
}

// settleWith takes what recovery found for the truth from now on.
func (o *oracle) settleWith(found []record.Batch, f Frontiers) {
	o.acked = map[int64]record.Batch{}
	there := map[uint32]bool{}
	for _, b := range found {
		o.acked[b.BaseOffset()] = b
		there[b.CRC()] = true
	}
	for crc := range o.submitted {
		if !there[crc] {
			o.gone[crc] = true
		}
	}
	o.start, o.startMax, o.cutting = f.Start, f.Start, -1
}

// voyage is one log through several lives.
type voyage struct {
	seed   uint64
	rand   *rand.Rand
	disk   *crash.Disk
	oracle *oracle
	faults faults
	config LogConfig
	tail   *buffer.Pool
	cold   *buffer.Pool
	now    time.Duration
	millis int64

	step  *Stepper
	log   *Log
	count uint64
	trace []string
}

type flight struct {
	group  AppendGroup
	batch  record.Batch // a copy
	voyage *voyage
}

func (f *flight) Consumed(*AppendGroup) {}

func (f *flight) Answered(g *AppendGroup) {
	a := &g.Appends[0]
	if a.Err != nil {
		return
	}
	f.batch.SetBaseOffset(a.BaseOffset)
	f.voyage.oracle.acked[a.BaseOffset] = f.batch
}

var errPowerCut = errors.New("power cut")

func newVoyage(seed uint64) *voyage {
	v := &voyage{
		seed: seed, rand: rand.New(rand.NewPCG(seed, 7)), oracle: newOracle(),
		disk: crash.New(crash.Options{Seed: seed}), millis: 1_700_000_000_000,
		tail: buffer.NewPool("tail", 4<<20), cold: buffer.NewPool("cold", 4<<20),
	}
	v.config = LogConfig{SegmentBytes: 24 << 10, IndexIntervalBytes: 512, RetentionMillis: -1, RetentionBytes: -1, Delete: true}
	return v
}

func (v *voyage) note(format string, arguments ...any) {
	v.trace = append(v.trace, fmt.Sprintf(format, arguments...))
}

// boot opens engine and log; errPowerCut when the power went meanwhile.
func (v *voyage) boot() error {
	step, err := NewStepper(Options{
		OpenDisk: func() (disk.Disk, error) { return v.disk, nil },
		Tail:     v.tail, Cold: v.cold,
		NowMillis:          func() int64 { return v.millis },
		Monotonic:          func() time.Duration { return v.now },
		CheckpointInterval: 200 * time.Millisecond,
		RetentionInterval:  300 * time.Millisecond,
	})
	if err != nil {
		return v.judge(err)
	}
	v.step = step
	step.shards[0].faults = v.faults
	v.log, err = step.Create(context.Background(), LogSpec{ID: LogID{1}, Label: "orders-0", Config: v.config, Replica: &aloneReplica{truncated: v.truncated}})
	if err != nil {
		return v.judge(err)
	}
	if v.log.failed != nil {
		return fmt.Errorf("the log is fenced: %w", v.log.failed)
	}
	return v.judge(step.Lead(context.Background(), LogID{1}, v.log.lastEpoch()+1))
}

// judge turns errors that a power cut explains into errPowerCut.
func (v *voyage) judge(err error) error {
	if err != nil && v.disk.Crashed() {
		return errPowerCut
	}
	return err
}

// sail does random things until the power goes or steps are done.
func (v *voyage) sail(steps int) error {
	for range steps {
		if err := v.judge(v.random()); err != nil {
			return err
		}
	}
	return nil
}

func (v *voyage) random() error {
	ctx := context.Background()
	switch n := v.rand.IntN(100); {
	case n < 55:
		v.append(v.size())
	case n < 80:
		for range 1 + v.rand.IntN(8) {
			if err := v.step.Turn(); err != nil {
				return err
			}
		}
	case n < 88:
		d := time.Duration(v.rand.IntN(250)) * time.Millisecond
		v.now += d
		v.millis += d.Milliseconds()
		v.note("pass %v", d)
	case n < 91:
		f := v.log.frontiers()
		if f.Next > f.Start {
			return v.truncate(f.Start + v.rand.Int64N(f.Next-f.Start+1))
		}
	case n < 94:
		f := v.log.frontiers()
		if f.HighWatermark > f.Start {
			offset := f.Start + 1 + v.rand.Int64N(f.HighWatermark-f.Start)
			v.note("start %d", offset)
			v.oracle.startMax = max(v.oracle.startMax, offset)
			if err := v.step.AdvanceStart(ctx, LogID{1}, offset); err != nil {
				return err
			}
			v.oracle.start = offset
		}
	case n < 95:
		v.note("close")
		if err := v.step.Close(ctx); err != nil {
			return err
		}
		v.disk = v.disk.Kill(v.seed) // a closed disk is opened again
		return v.boot()
	default:
		return v.settle()
	}
	return nil
}

func (v *voyage) size() int {
	switch v.rand.IntN(6) {
	case 0:
		return 3000 + v.rand.IntN(9000)
	case 1:
		return disk.BlockBytes - record.HeaderBytes
	}
	return v.rand.IntN(700)
}

func (v *voyage) append(size int) {
	v.count++
	b := batchOf(v.seed<<20+v.count, 1+v.rand.IntN(3), size, v.millis)
	v.oracle.submitted[b.CRC()] = true
	f := &flight{batch: append(record.Batch(nil), b...), voyage: v}
	f.group.Owner = f
	f.group.Appends = []Append{{Log: v.log, Batch: b}}
	v.note("append %d", size)
	v.step.Append(&f.group)
}

// truncate cuts, and forgets what is cut.
func (v *voyage) truncate(offset int64) error {
	v.note("truncate %d", offset)
	v.oracle.cutting = offset
	if err := v.step.Truncate(context.Background(), LogID{1}, offset); err != nil {
		return err
	}
	v.oracle.cutting = -1
	return nil
}

// truncated takes the moment in which a cut is durable: what was acknowledged
// above it must not come back, what is acknowledged from now on must stay.
func (v *voyage) truncated(end int64) {
	v.oracle.cutting = -1
	v.oracle.start = min(v.oracle.start, end) // a batch that holds start and cut goes as a whole
	for base, b := range v.oracle.acked {
		if base >= end {
			v.oracle.gone[b.CRC()] = true
			delete(v.oracle.acked, base)
		}
	}
}

func (v *voyage) settle() error {
	for range 20_000 {
		if err := v.step.Turn(); err != nil {
			return err
		}
		if v.step.Idle() {
			return nil
		}
	}
	return errors.New("the shard does not come to rest")
}

// contents reads the whole log.
func (v *voyage) contents() ([]record.Batch, Frontiers, error) {
	if err := v.settle(); err != nil {
		return nil, Frontiers{}, err
	}
	f := v.log.frontiers()
	var all []record.Batch
	for offset := f.Start; offset < f.HighWatermark; {
		done := false
		read := &Read{Parts: []ReadPart{{Log: v.log, Offset: offset, BytesMax: 1 << 20}}, BytesMax: 1 << 20, Done: func(*Read) { done = true }}
		v.step.Read(read)
		for !done {
			if err := v.step.Turn(); err != nil {
				return nil, f, err
			}
		}
		p := &read.Parts[0]
		if p.Err != nil {
			return nil, f, fmt.Errorf("read at %d: %w", offset, p.Err)
		}
		for _, slice := range p.Batches {
			for rest := slice; len(rest) > 0; {
				b, after, err := record.Next(rest)
				if err == nil {
					err = b.Check()
				}
				if err != nil {
					return nil, f, fmt.Errorf("read at %d: %w", offset, err)
				}
				all = append(all, append(record.Batch(nil), b...))
				rest, offset = after, b.LastOffset()+1
			}
		}
		if len(p.Batches) == 0 {
			return nil, f, fmt.Errorf("nothing to read at %d below the high watermark %d", offset, f.HighWatermark)
		}
		read.Release()
	}
	return all, f, nil
}

// cut ends this life and returns what the disk holds afterwards.
func (v *voyage) cut(seed uint64) {
	// First the cut: what is in flight is lost or kept as it was, and Abandon
	// gives its memory back.
	v.disk = v.disk.Crash(seed)
	if v.step != nil {
		v.step.Abandon()
		v.step = nil
	}
}

// live is one life: boot, check, sail until the power goes at step crashAt (0:
// when the script ends), cut.
func (v *voyage) live(crashAt, steps int, cutSeed uint64) error {
	v.disk.CrashAt(crashAt)
	err := v.boot()
	if err == nil {
		var found []record.Batch
		var f Frontiers
		found, f, err = v.contents()
		if err == nil {
			if err := v.oracle.check(found, f); err != nil {
				return err
			}
			v.oracle.settleWith(found, f)
			if err = v.again(found); err == nil {
				err = v.sail(steps)
			}
		}
	}
	if err = v.judge(err); err != nil && !errors.Is(err, errPowerCut) {
		return err
	}
	v.note("power cut at step %d of the disk (script ended: %v)", v.disk.Steps(), err == nil)
	v.cut(cutSeed)
	return nil
}

// closePools unmaps the voyage's memory: thousands of them in one process
// would otherwise keep a huge page or two each. What a failed voyage still holds stays mapped.
func (v *voyage) closePools() {
	_ = v.tail.Close()
	_ = v.cold.Close()
}

// again recovers once more from a copy of the disk as it is now and compares.
func (v *voyage) again(found []record.Batch) error {
	other := *v
	other.oracle = newOracle()
	other.disk = v.disk.Crash(v.rand.Uint64())
	other.step = nil
	other.tail, other.cold = buffer.NewPool("tail", 1<<20), buffer.NewPool("cold", 1<<20)
	defer other.closePools() // deferred calls run last in, first out: after Abandon
	if err := other.boot(); err != nil {
		return fmt.Errorf("second recovery: %w", err)
	}
	defer other.step.Abandon()
	second, _, err := other.contents()
	if err != nil {
		return fmt.Errorf("second recovery: %w", err)
	}
	if len(second) != len(found) {
		return fmt.Errorf("the second recovery finds %d batches, the first %d", len(second), len(found))
	}
	for i := range found {
		if !bytes.Equal(found[i], second[i]) {
			return fmt.Errorf("the second recovery finds other bytes at %d", found[i].BaseOffset())
		}
	}
	return nil
}

// sailSeed runs one seed: a few lives, each ended by a power cut.
func sailSeed(seed uint64, f faults) (*voyage, error) {
	v := newVoyage(seed)
	defer v.closePools()
	v.faults = f
	for life := range 4 {
		crashAt := 0
		if v.rand.IntN(4) > 0 {
			crashAt = 1 + v.rand.IntN(400)
			if life > 0 && v.rand.IntN(3) == 0 {
				crashAt = 1 + v.rand.IntN(40) // in the middle of recovery
			}
		}
		if os.Getenv("RINGLOG_CRASH_DEBUG") != "" {
			for _, name := range v.disk.List() {
				v.note("  %s", name)
			}
			if content, err := v.disk.ReadFile("01000000000000000000000000000000/log.meta"); err == nil {
				m, err := segment.DecodeManifest(content)
				v.note("  manifest %+v %v", m, err)
			}
			if content, err := v.disk.ReadFile("shard-0.checkpoint"); err == nil {
				m, err := segment.DecodeCheckpoint(content)
				v.note("  checkpoint %+v %v", m, err)
			}
		}
		if err := v.live(crashAt, 40, v.rand.Uint64()); err != nil {
			return v, err
		}
	}
	if err := v.live(0, 0, 0); err != nil {
		return v, err
	}
	return v, nil
}

func TestPowerCuts(t *testing.T) {
	first, count := uint64(1), uint64(80)
	if s := os.Getenv("RINGLOG_CRASH_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, count = n, 1
	}
	if s := os.Getenv("RINGLOG_CRASH_COUNT"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		count = n
	}
	for seed := first; seed < first+count; seed++ {
		v, err := sailSeed(seed, faults{})
		if err != nil {
			for _, line := range v.trace {
				t.Log(line)
			}
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
