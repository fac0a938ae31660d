package crashtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"ringlog/buffer"
	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/internal/rule"
	"ringlog/record"
	"ringlog/replica"
)

// keyedLog is a compacted log through several lives, each of which ends by a power cut, a kill
// or a close at any step, and what its users know: every record that was acknowledged.
type keyedLog struct {
	dice   *rand.Rand
	broken rule.Rule
	disk   *crash.Disk
	clock  time.Duration
	tail   *buffer.Pool
	cold   *buffer.Pool

	stepper *engine.Stepper
	log     *engine.Log
	epoch   int32

	truth     []keyedRecord // by offset: acknowledged, or found by a recovery
	producers [2]keyedProducer
	pending   []*keyedAppend // sent and not answered, in order
	passes    int64          // of compaction, in all lives
	dropped   int64
	trace     []string
}

// keyedRecord is what is known of one offset.
type keyedRecord struct {
	key, value string
	tombstone  bool
	at         time.Duration // when it was sent
}

// keyedProducer is one idempotent producer; each batch that it sends waits for its answer.
type keyedProducer struct {
	id   int64
	next int32
	sent []keyedSent // acknowledged, the newest last
}

type keyedSent struct {
	batch record.Batch
	base  int64
}

// keyedAppend is one append on its way.
type keyedAppend struct {
	group    engine.AppendGroup
	log      *keyedLog
	producer int // -1 for none
	batch    record.Batch
	records  []keyedRecord
	answered bool
	retry    bool
	err      error
}

const (
	keyedSegmentBytes = 12 << 10
	keyedTombstone    = 40 * time.Second
	keyedInterval     = 5 * time.Second
)

var errKeyedCut = errors.New("power cut")

func newKeyedLog(seed uint64, broken rule.Rule) *keyedLog {
	k := &keyedLog{
		dice: rand.New(rand.NewPCG(seed, 11)), broken: broken, disk: crash.New(crash.Options{Seed: seed}),
		tail: buffer.NewPool("tail", 1<<20), cold: buffer.NewPool("cold", 1<<20),
	}
	for i := range k.producers {
		k.producers[i].id = int64(i)
	}
	return k
}

func (k *keyedLog) note(format string, arguments ...any) {
	k.trace = append(k.trace, fmt.Sprintf("%8v ", k.clock.Round(time.Millisecond))+fmt.Sprintf(format, arguments...))
}

func (k *keyedLog) closePools() {
	_ = k.tail.Close() // a life that failed may still hold some
	_ = k.cold.Close()
}

func (k *keyedLog) config() engine.LogConfig {
	return engine.LogConfig{
		SegmentBytes: keyedSegmentBytes, IndexIntervalBytes: 512, RetentionMillis: -1, FileDeleteMillis: 500,
		Compact: true, DirtyRatioMin: 0.2, TombstoneMillis: keyedTombstone.Milliseconds(),
	}
}

// boot starts an engine on what is on the disk, and opens the log.
func (k *keyedLog) boot() error {
	journal := int64(0)
	if k.dice.IntN(2) == 0 {
		journal = journalBytes
	}
	options := engine.Options{
		OpenDisk: func() (disk.Disk, error) { return k.disk, nil },
		Tail:     k.tail, Cold: k.cold, JournalBytes: journal,
		NowMillis:     func() int64 { return startMillis + k.clock.Milliseconds() },
		Monotonic:     func() time.Duration { k.clock += tick; return k.clock },
		CleanInterval: keyedInterval,
		CleanKeyBytes: 1, // as few keys as there can be
	}
	if k.broken != 0 {
		options = options.Breaking(k.broken)
	}
	stepper, err := engine.NewStepper(options)
	if err != nil {
		return k.judge(err)
	}
	k.stepper = stepper
	k.log, err = stepper.Create(context.Background(), engine.LogSpec{ID: engine.LogID{1}, Label: "keys-0", Config: k.config(), Replica: replica.New(replica.Options{})})
	if err != nil {
		return k.judge(err)
	}
	status, err := stepper.Status(context.Background(), engine.LogID{1})
	if err == nil {
		err = status.Err
	}
	if err != nil {
		return k.judge(err)
	}
	k.epoch++
	return k.judge(stepper.Lead(context.Background(), engine.LogID{1}, k.epoch))
}

// judge turns errors that a power cut explains into errKeyedCut.
func (k *keyedLog) judge(err error) error {
	if err != nil && k.disk.Crashed() {
		return errKeyedCut
	}
	return err
}

// turns drives the engine until condition holds, and the clock where nothing else helps.
func (k *keyedLog) turns(condition func() bool) error {
	for n := 0; !condition(); n++ {
		if err := k.stepper.Turn(); err != nil {
			return k.judge(err)
		}
		if n > turnsMax {
			doing := map[string]int{}
			k.stepper.Doing(func(what string) { doing[what]++ })
			return fmt.Errorf("the engine gets nowhere: %v", doing)
		}
		if k.stepper.Idle() && !condition() {
			at, ok := k.stepper.NextTimer()
			if !ok {
				return errors.New("the engine is idle, and something waits")
			}
			k.clock = max(k.clock, at)
		}
	}
	return nil
}

// pass lets so much time pass.
func (k *keyedLog) pass(d time.Duration) error {
	until := k.clock + d
	return k.turns(func() bool { return k.clock >= until && k.stepper.Idle() })
}

// Consumed implements engine.AppendOwner.
func (a *keyedAppend) Consumed(*engine.AppendGroup) {}

// Answered implements engine.AppendOwner.
func (a *keyedAppend) Answered(group *engine.AppendGroup) {
	answer := &group.Appends[0]
	a.answered, a.err = true, answer.Err
	if a.err != nil || a.retry {
		return
	}
	k := a.log
	if answer.BaseOffset != int64(len(k.truth)) {
		a.err = fmt.Errorf("an append is at %d of a log that ended at %d", answer.BaseOffset, len(k.truth))
		return
	}
	a.accepted(answer.BaseOffset)
}

// accepted notes that the append is in the log.
func (a *keyedAppend) accepted(base int64) {
	k := a.log
	k.truth = append(k.truth, a.records...)
	if a.producer >= 0 {
		p := &k.producers[a.producer]
		p.next += int32(len(a.records))
		p.sent = append(p.sent, keyedSent{a.batch, base})
	}
}

// produce sends a batch of a few records whose keys repeat, and waits for its answer.
func (k *keyedLog) produce() error {
	codecs := []record.Codec{record.CodecNone, record.CodecNone, record.CodecLZ4, record.CodecZstd, record.CodecSnappy, record.CodecGzip}
	options := record.BuilderOptions{Codec: codecs[k.dice.IntN(len(codecs))]}
	a := &keyedAppend{log: k, producer: k.dice.IntN(4) - 1}
	if a.producer >= len(k.producers) {
		a.producer = -1
	}
	if a.producer >= 0 {
		p := &k.producers[a.producer]
		options.Idempotent, options.ProducerID, options.BaseSequence = true, p.id, p.next
	}
	var b record.Builder
	b.Reset(options)
	for range 1 + k.dice.IntN(4) {
		r := keyedRecord{key: fmt.Sprintf("key %d", k.dice.IntN(12)), at: k.clock}
		var value []byte
		if r.tombstone = k.dice.IntN(5) == 0; !r.tombstone {
			value = bytes.Repeat([]byte{byte('a' + k.dice.IntN(26))}, k.dice.IntN(1200))
		}
		r.value = string(value)
		a.records = append(a.records, r)
		b.Append(startMillis+k.clock.Milliseconds(), []byte(r.key), value)
	}
	batch, err := b.Build()
	if err != nil {
		return err
	}
	a.batch = append(record.Batch(nil), batch...)
	k.pending = append(k.pending, a)
	if err := k.send(a); err != nil {
		return err
	}
	k.pending = nil
	return nil
}

// send hands an append to the engine and waits for its answer.
func (k *keyedLog) send(a *keyedAppend) error {
	a.group.Owner = a
	a.group.Appends = []engine.Append{{Log: k.log, Batch: append(record.Batch(nil), a.batch...)}}
	k.stepper.Append(&a.group)
	if err := k.turns(func() bool { return a.answered }); err != nil {
		return err
	}
	return k.judge(a.err)
}

// retry sends the last batches of each producer again: each is answered with its offset, and
// none is appended, whatever compaction has left of it.
func (k *keyedLog) retry() error {
	end := k.log.Frontiers().Next
	for i := range k.producers {
		sent := k.producers[i].sent
		for _, s := range sent[max(0, len(sent)-batchesRemembered):] {
			a := &keyedAppend{log: k, producer: i, batch: s.batch, retry: true}
			if err := k.send(a); err != nil {
				return fmt.Errorf("a retry of producer %d's batch at %d: %w", i, s.base, err)
			}
			if got := a.group.Appends[0].BaseOffset; got != s.base {
				return fmt.Errorf("a retry of producer %d's batch at %d is answered %d", i, s.base, got)
			}
		}
	}
	if next := k.log.Frontiers().Next; next != end {
		return fmt.Errorf("retries were appended: the log went from %d to %d", end, next)
	}
	return nil
}

// check reads the log from offset 0, as a consumer does that rebuilds a table from it, and compares.
// After a crash the log may have the one batch that was not answered.
func (k *keyedLog) check() error {
	found, err := k.contents()
	if err != nil {
		return err
	}
	end := k.log.Frontiers().Next
	if f := k.log.Frontiers(); f.HighWatermark != end || f.Start != 0 {
		return fmt.Errorf("at rest the frontiers are %+v", f)
	}
	if len(k.pending) == 1 && end == int64(len(k.truth)+len(k.pending[0].records)) {
		k.pending[0].accepted(int64(len(k.truth)))
	}
	k.pending = nil
	if end != int64(len(k.truth)) {
		return fmt.Errorf("the log ends at %d, and what was acknowledged at %d", end, len(k.truth))
	}
	newest, kept := map[string]int64{}, map[string]int64{}
	for offset, r := range k.truth {
		newest[r.key] = int64(offset)
	}
	for _, r := range found {
		want := k.truth[r.Offset]
		if string(r.Key) != want.key || string(r.Value) != want.value || (r.Value == nil) != want.tombstone {
			return fmt.Errorf("at %d is %s, produced was %s", r.Offset, r.Key, want.key)
		}
		kept[want.key] = r.Offset
	}
	for key, offset := range newest {
		at, ok := kept[key]
		want := &k.truth[offset]
		if ok && at == offset || !ok && want.tombstone && k.clock >= want.at+keyedTombstone {
			continue
		}
		return fmt.Errorf("the newest record of %s is at %d (tombstone: %v, of %v), found is %d, %v", key, offset, want.tombstone, want.at, at, ok)
	}
	return nil
}

// contents reads all records, through batches that follow one another without a hole.
func (k *keyedLog) contents() ([]record.Record, error) {
	var all []record.Record
	var reader record.Reader
	defer reader.Close()
	for next := int64(0); next < k.log.Frontiers().HighWatermark; {
		done := false
		read := &engine.Read{
			Parts:    []engine.ReadPart{{Log: k.log, Offset: next, BytesMax: 64 << 10}},
			BytesMax: 64 << 10, Done: func(*engine.Read) { done = true },
		}
		k.stepper.Read(read)
		if err := k.turns(func() bool { return done }); err != nil {
			return nil, err
		}
		part := &read.Parts[0]
		if part.Err != nil || part.Bytes == 0 {
			return nil, fmt.Errorf("read at %d: %d bytes, %w", next, part.Bytes, k.judge(part.Err))
		}
		for i, slice := range part.Batches {
			for first := i == 0; len(slice) > 0; first = false {
				batch, rest, err := record.Next(slice)
				if err == nil {
					err = batch.Check()
				}
				// A swap since the last answer may have made this offset one inside a batch.
				follows := batch.BaseOffset() == next || first && batch.BaseOffset() < next && batch.LastOffset() >= next
				if err != nil || !follows {
					return nil, fmt.Errorf("a batch at %d where %d is next: %w", batch.BaseOffset(), next, err)
				}
				reader.Reset(batch)
				for reader.Next() {
					r := *reader.Record()
					if r.Offset < next {
						continue
					}
					r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
					all = append(all, r)
				}
				if err := reader.Err(); err != nil {
					return nil, err
				}
				next, slice = batch.LastOffset()+1, rest
			}
		}
		read.Release()
	}
	return all, nil
}

// harm makes the disk fail once where a compacted segment is written, or be slow, or forgets side state: what a
// log survives.
func (k *keyedLog) harm() {
	const compacted = "*/*.*.log"
	switch k.dice.IntN(4) {
	case 0:
		k.note("a write of a compacted segment fails")
		k.disk.AddFault(crash.Fault{Kind: disk.Write, Path: compacted, Err: syscall.EIO, Times: 1})
	case 1:
		k.note("there is no space for a compacted segment")
		k.disk.AddFault(crash.Fault{Kind: disk.Write, Path: compacted, Err: syscall.ENOSPC, Times: 1 + k.dice.IntN(3)})
	case 2:
		k.note("its flush fails")
		k.disk.AddFault(crash.Fault{Kind: disk.Flush, Path: compacted, Err: syscall.EIO, Times: 1})
	case 3:
		k.disk.AddFault(crash.Fault{Kind: disk.Flush, Effect: crash.Delay, Probability: 0.5, Times: 10, Completions: 1 + k.dice.IntN(20)})
	}
}

// spoilSnapshots makes every snapshot useless, so that the next start replays the whole log.
func (k *keyedLog) spoilSnapshots() {
	for _, name := range k.disk.List() {
		if bytes.HasSuffix([]byte(name), []byte(".snapshot")) {
			_ = k.disk.WriteFile(name, make([]byte, disk.BlockBytes)) // it is there: List has it
		}
	}
}
