package commit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"ringlog/buffer"
	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/backend"
	"ringlog/perf"
	"ringlog/record"
	"ringlog/replica"
)

const (
	coldBytes         = 16 << 20 // nothing is read but by recovery
	tailWarmBytes     = 16 << 20 // as a broker keeps its tail
	retentionInterval = time.Second
	logsTogether      = 64  // logs that are created at a time: they share flushes
	filesReserved     = 256 // descriptors for everything but segments
	leaderEpoch       = 1
)

// engineOptions is the one place that knows how a way is asked of the engine.
func engineOptions(o *Options, directory string, tail, cold *buffer.Pool) engine.Options {
	options := engine.Options{
		OpenDisk:          func() (disk.Disk, error) { return backend.Open(directory, o.Disk, backend.Options{}) },
		Shards:            o.Shards,
		Tail:              tail,
		Cold:              cold,
		FilesOpenMax:      segmentFiles(),
		Prewrite:          o.Prewrite,
		RetentionInterval: retentionInterval,
	}
	switch o.Way {
	case Auto:
		options.JournalBytes = o.JournalBytes
	case Sync:
		options.FilesFlushMax = 1
	case File:
		options.FilesFlushMax = math.MaxInt
	}
	return options
}

// touch uses all of a pool's memory once, as a broker that has been running for a while has: fresh
// pages take the cores for seconds of a run, and say nothing about the next ones.
func touch(pool *buffer.Pool) {
	var held []*buffer.Buffer
	for size := pool.MaxBytes(); size >= os.Getpagesize(); {
		b := pool.TryGet(size)
		if b == nil {
			size /= 2
			continue
		}
		held = append(held, b)
		for memory := b.Bytes(); len(memory) > 0; memory = memory[min(os.Getpagesize(), len(memory)):] {
			memory[0] = 0
		}
	}
	for _, b := range held {
		b.Release()
	}
}

// engineCounters takes from the engine's figures what is compared with other systems.
func engineCounters(m *engine.Metrics) counters {
	return counters{commits: m.Flushes + m.Commits, deviceBytes: m.DeviceBytes()}
}

// engineCounts is the engine's figures in the form in which reports take them.
func engineCounts(m *engine.Metrics) *perf.EngineCounts {
	return &perf.EngineCounts{
		Appends: m.Appends, AppendBytes: m.AppendBytes,
		JournalAppends: m.JournalAppends, JournalAppendBytes: m.JournalAppendBytes, RelaxedAppends: m.RelaxedAppends,
		Frames: m.Frames, Entries: m.FrameEntries, Trims: m.Trims, FullSeconds: m.JournalFullTime.Seconds(),
		CommitTimes: times(&m.CommitTimes), FlushTimes: times(&m.FlushTimes),
		DeviceJournal: m.FrameBytes, DeviceSegment: m.WriteBytes, DevicePrepared: m.PreparedBytes, DeviceOther: m.OtherBytes, WriteBack: m.BackBytes,
		JournalBytes: m.JournalBytes, JournalUsedBytes: m.JournalUsedBytes, DirtyBytes: m.DirtyBytes, TailBytes: m.TailBytes,
	}
}

func times(d *engine.Durations) perf.Times {
	times := make(perf.Times, len(d))
	for class, count := range d {
		times[class] = perf.TimeClass{Limit: math.Inf(1), Count: count}
		if class < len(d)-1 {
			times[class].Limit = engine.DurationLimit(class).Seconds()
		}
	}
	return times
}

// segmentFiles is the number of descriptors that segments may have.
func segmentFiles() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0 // the engine's own default
	}
	return int(max(int64(min(limit.Cur, math.MaxInt32))-filesReserved, filesReserved))
}

// engineLoad is a run against the engine: everything but the answers' arrival
// belongs to the goroutine of Run.
type engineLoad struct {
	options   *Options
	directory string
	shape     shape
	batch     record.Batch
	meter     *meter
	report    *Report
	before    *perf.EngineCounts // when counting began

	engine   *engine.Engine
	logs     []*engine.Log
	next     []int64 // offset that the next answer for a partition has to have
	rotation *rotation
	answered chan *engineGroup
	inFlight int
}

// engineGroup is one group in flight, with the memory of its batches.
type engineGroup struct {
	engine.AppendGroup
	slice   int
	appends []engine.Append // AppendGroup.Appends are the first of them
	source  []record.Batch
	since   time.Time
	at      time.Time // of the answer
	done    chan<- *engineGroup
}

// Consumed implements engine.AppendOwner: the batches stay until the answer.
func (g *engineGroup) Consumed(*engine.AppendGroup) {}

// Answered implements engine.AppendOwner. It does not block: the channel has
// room for all groups.
func (g *engineGroup) Answered(*engine.AppendGroup) {
	g.at = time.Now()
	g.done <- g
}

func runEngine(ctx context.Context, l *engineLoad) (err error) {
	o := l.options
	tail, cold := buffer.NewPool("perf tail", o.TailBytes), buffer.NewPool("perf cold", coldBytes)
	touch(tail)
	stop, warm := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(warm)
		tail.KeepWarm(stop, min(tailWarmBytes, o.TailBytes/2))
	}()
	defer func() {
		close(stop)
		<-warm
		err = errors.Join(err, tail.Close(), cold.Close())
	}()
	l.engine, err = engine.New(engineOptions(o, l.directory, tail, cold))
	if err != nil {
		return fmt.Errorf("perf: commit: %w", err)
	}
	defer func() { err = errors.Join(err, l.engine.Close(context.WithoutCancel(ctx))) }()
	info := l.engine.Info()
	l.report.Notes = append(l.report.Notes, fmt.Sprintf("disk %s, direct %v", info.Name, info.Direct))
	if err := l.createLogs(ctx); err != nil {
		return fmt.Errorf("perf: commit: %w", err)
	}
	l.boundSpace()
	groups := l.newGroups()
	l.meter.begin(time.Now(), func() counters {
		m := l.engine.Metrics()
		l.report.Engine, l.report.TailBytesUsed = &m, tail.InUseBytes()
		if l.before == nil {
			l.before = engineCounts(&m)
		}
		return engineCounters(&m)
	})
	return l.run(ctx, groups)
}

// boundSpace ends a run before its files take more than they may. Retention
// bounds a log at four segments or so; where that is too much for all, so do the bytes.
func (l *engineLoad) boundSpace() {
	o := l.options
	if 4*int64(o.Partitions)*o.SegmentBytes > o.SpaceBytes {
		// As much again as is written may be reserved ahead, and a first step of each log.
		const reservedMin = 256 << 10
		l.meter.bytesMax = max(o.SpaceBytes-reservedMin*int64(o.Partitions), o.SpaceBytes/4) / 2
	}
}

// createLogs makes the logs and leads them.
func (l *engineLoad) createLogs(ctx context.Context) error {
	o := l.options
	config := engine.LogConfig{
		SegmentBytes: o.SegmentBytes, RetentionBytes: o.SegmentBytes, Delete: true, FileDeleteMillis: 1, FlushMessages: 1,
	}
	if o.Durability == perf.Written {
		config.FlushMessages = math.MaxInt64
	}
	l.logs, l.next = make([]*engine.Log, o.Partitions), make([]int64, o.Partitions)
	creations, ctx := errgroup.WithContext(ctx)
	creations.SetLimit(logsTogether)
	for i := range l.logs {
		creations.Go(func() (err error) {
			spec := engine.LogSpec{ID: logID(i), Label: fmt.Sprintf("commit-%d", i), Config: config, Replica: replica.New(replica.Options{})}
			if l.logs[i], err = l.engine.Create(ctx, spec); err != nil {
				return err
			}
			return l.engine.Lead(ctx, spec.ID, leaderEpoch)
		})
	}
	return creations.Wait()
}

// logID names the log of a partition.
func logID(partition int) (id engine.LogID) {
	binary.BigEndian.PutUint64(id[8:], uint64(partition)+1)
	return id
}

// newGroups makes the groups, with a slice for each.
func (l *engineLoad) newGroups() []*engineGroup {
	l.rotation = newRotation(l.shape)
	l.answered = make(chan *engineGroup, l.shape.window)
	groups := make([]*engineGroup, l.shape.window)
	for i, source := range newSource(l.batch, len(groups), l.shape.size) {
		groups[i] = &engineGroup{appends: make([]engine.Append, l.shape.size), source: source, done: l.answered}
		groups[i].Owner = groups[i]
		l.assign(groups[i], i%l.shape.slices)
	}
	return groups
}

// assign points the appends of a group at the logs of a slice.
func (l *engineLoad) assign(g *engineGroup, slice int) {
	first, count := l.shape.of(slice)
	g.slice, g.Appends = slice, g.appends[:count]
	for i := range g.Appends {
		g.Appends[i].Log, g.Appends[i].Batch = l.logs[first+i], g.source[i]
	}
}

func (l *engineLoad) submit(g *engineGroup) {
	l.inFlight++
	g.since = time.Now()
	l.engine.Append(&g.AppendGroup)
}

// run keeps the groups in flight until the meter has enough, and then waits for
// what is left.
func (l *engineLoad) run(ctx context.Context, groups []*engineGroup) error {
	for _, g := range groups {
		l.submit(g)
	}
	var failed error
	for l.inFlight > 0 {
		g := <-l.answered
		l.inFlight--
		failed = errors.Join(failed, l.check(g))
		l.meter.answered(g.at, g.since, len(g.Appends))
		if failed != nil || l.meter.over() || ctx.Err() != nil {
			continue
		}
		if slice := l.rotation.after(g.slice); slice != g.slice {
			l.assign(g, slice)
		}
		l.submit(g)
	}
	if failed != nil {
		return failed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.checkLogs()
}

// check holds the answers of a group against the offsets that were next.
func (l *engineLoad) check(g *engineGroup) error {
	first, _ := l.shape.of(g.slice)
	for i := range g.Appends {
		a, want := &g.Appends[i], l.next[first+i]
		if a.Err != nil {
			return fmt.Errorf("perf: commit: append to %s: %w", a.Log.Label(), a.Err)
		}
		if a.BaseOffset != want {
			return fmt.Errorf("perf: commit: an append to %s got offset %d, not %d", a.Log.Label(), a.BaseOffset, want)
		}
		l.next[first+i]++
	}
	return nil
}

// checkLogs holds the ends of the logs against what was answered.
func (l *engineLoad) checkLogs() error {
	for i, log := range l.logs {
		if f := log.Frontiers(); f.HighWatermark != l.next[i] || f.Next != l.next[i] {
			return fmt.Errorf("perf: commit: %s ends at %d with high watermark %d after %d answers", log.Label(), f.Next, f.HighWatermark, l.next[i])
		}
	}
	return nil
}
