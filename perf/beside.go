package perf

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// besideRun is one call of Beside.
type besideRun struct {
	options *BesideOptions
	cluster *cluster
	version int16 // of Fetch
	targets []target
}

// Beside measures a producer alone and beside others, in turn: idle connections,
// consumers at the tail, scans of everything, readers that do not read. The report is
// returned beside an error too, with the rounds that are complete.
func Beside(ctx context.Context, options BesideOptions) (BesideReport, error) {
	options.EnsureDefaults()
	report := BesideReport{Kind: "beside", Parameters: options, Started: time.Now(), Environment: CurrentEnvironment()}
	if err := options.Validate(); err != nil {
		return report, err
	}
	run := &besideRun{options: &options}
	var err error
	if run.cluster, err = newCluster(options.Producer.Brokers); err != nil {
		return report, err
	}
	defer run.cluster.close()
	if run.version, err = run.cluster.version(ctx, kmsg.Fetch, fetchVersionMin, fetchVersionMax); err != nil {
		return report, err
	}
	if report.Notes, err = run.prepare(ctx); err != nil {
		return report, err
	}
	if options.Producer.ServerPID == 0 {
		report.Notes = append(report.Notes, "the server's process is not known: its memory and CPU are not in here")
	}
	for number := range options.Rounds {
		round, err := run.round(ctx, number)
		if err != nil {
			return report, err
		}
		report.Rounds = append(report.Rounds, round)
	}
	return report, nil
}

// prepare makes the topics and the history.
func (r *besideRun) prepare(ctx context.Context) (notes []string, err error) {
	o := r.options
	if notes, err = r.cluster.ensureTopic(ctx, o.Producer.Topic, &o.Producer.Load, o.Producer.ReplicationFactor); err != nil {
		return nil, err
	}
	if r.targets, err = r.cluster.settledTargets(ctx, o.Producer.Topic); err != nil {
		return nil, err
	}
	earliest, err := r.cluster.offsets(ctx, o.Producer.Topic, r.targets, FromEarliest)
	if err != nil {
		return nil, err
	}
	latest, err := r.cluster.offsets(ctx, o.Producer.Topic, r.targets, FromEnd)
	if err != nil {
		return nil, err
	}
	stored := int64(0)
	for partition, end := range latest {
		stored += end - earliest[partition]
	}
	records := (o.HistoryBytes + int64(o.Producer.RecordBytes) - 1) / int64(o.Producer.RecordBytes)
	if stored >= records {
		return notes, nil
	}
	o.OnStep(fmt.Sprintf("filling %s with %d records", o.Producer.Topic, records-stored), 0)
	fill := o.Producer
	fill.Rate, fill.Duration, fill.Count, fill.Interval, fill.MetricsURL = 0, 0, records-stored, 0, metricsOff
	_, err = Produce(ctx, fill)
	return notes, err
}

// round measures both phases. The tails are part of both when others are there too.
func (r *besideRun) round(ctx context.Context, number int) (round BesideRound, err error) {
	o := r.options
	disturbed := 0
	if o.Idle+o.Scans+o.Stuck > 0 {
		disturbed = o.Tails
	}
	name := fmt.Sprintf("round %d of %d", number+1, o.Rounds)
	o.OnStep(name+", alone", o.Producer.Duration)
	if round.Alone, err = r.phase(ctx, disturbed, 0); err != nil {
		return round, err
	}
	if o.Idle > 0 {
		o.OnStep(fmt.Sprintf("%s, opening %d connections", name, o.Idle), 0)
		idle, report, err := r.idle(ctx)
		if err != nil {
			return round, err
		}
		defer idle.close()
		round.Idle = report
		defer func() { report.Closed, report.Answered = idle.look() }()
	}
	if o.Stuck > 0 {
		stuck, err := openStuck(ctx, r.cluster, o, r.targets, r.version)
		if err != nil {
			return round, err
		}
		defer stuck.close()
		defer func() { round.StuckClosed, _ = stuck.look() }()
	}
	o.OnStep(name+", beside", o.Producer.Duration)
	round.Beside, err = r.phase(ctx, o.Tails, o.Scans)
	return round, err
}

// idle opens the idle connections and measures what they cost while nobody sends.
func (r *besideRun) idle(ctx context.Context) (*silence, *IdleReport, error) {
	o, pid := r.options, r.options.Producer.ServerPID
	load := Load{Partitions: o.IdlePartitions, Durability: Durable}
	if _, err := r.cluster.ensureTopic(ctx, o.IdleTopic, &load, o.Producer.ReplicationFactor); err != nil {
		return nil, nil, err
	}
	targets, err := r.cluster.settledTargets(ctx, o.IdleTopic)
	if err != nil {
		return nil, nil, err
	}
	if err := pause(ctx, o.Settle); err != nil {
		return nil, nil, err
	}
	report := &IdleReport{Connections: o.Idle, ResidentBytesBefore: residentBytes(pid)}
	start := time.Now()
	idle, err := openIdle(ctx, r.cluster, o, targets, r.version)
	if err != nil {
		return nil, nil, err
	}
	report.OpenSeconds = time.Since(start).Seconds()
	if err = pause(ctx, o.Settle); err == nil {
		report.ResidentBytesAfter = residentBytes(pid)
		report.BytesPerConnection = float64(report.ResidentBytesAfter-report.ResidentBytesBefore) / float64(o.Idle)
		meter := StartCPUMeter(pid)
		err = pause(ctx, o.Settle)
		report.CPU = meter.Stop()
	}
	if closed, _ := idle.look(); err == nil && closed > 0 {
		err = fmt.Errorf("%w: %d of %d", ErrRefused, closed, o.Idle)
	}
	if err != nil {
		idle.close()
		return nil, nil, err
	}
	return idle, report, nil
}

// pause waits, unless the run is over before.
func pause(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// phase runs the producer for its duration, with readers beside it.
func (r *besideRun) phase(ctx context.Context, tails, scans int) (phase BesidePhase, err error) {
	o := r.options
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	phase.ResidentBytesBefore = residentBytes(o.Producer.ServerPID)

	var running sync.WaitGroup
	tailing, err := r.read(ctx, tails, FromEnd, &running, cancel)
	if err != nil {
		return phase, err
	}
	scanning, err := r.read(ctx, scans, FromEarliest, &running, cancel)
	if err != nil {
		tailing.stop()
		running.Wait()
		return phase, err
	}
	peak := watchResident(o.Producer.ServerPID)
	producer := o.Producer
	producer.MetricsURL = metricsOff
	report, err := Produce(ctx, producer)
	tailing.stop()
	scanning.stop()
	running.Wait()
	phase.ResidentBytesMax = peak()
	phase.MBPerSecond, phase.AckLatency, phase.Errors, phase.CPU = report.MBPerSecond, report.AckLatency, report.Errors, report.CPU
	var tailErr, scanErr error
	phase.TailMBPerSecond, phase.EndToEnd, tailErr = tailing.result(report.Seconds)
	phase.ScanMBPerSecond, _, scanErr = scanning.result(report.Seconds)
	// A reader that failed ended the producer: its error is the cause.
	if readErr := errors.Join(tailErr, scanErr); readErr != nil {
		return phase, readErr
	}
	return phase, err
}

// reader is one consumer beside the producer, and what came of it.
type reader struct {
	*reading
	latency *hdrhistogram.Histogram
	err     error
}

type readers []*reader

// read begins count consumers of the producer's topic, which are ready when it
// returns, and run until stop. One that fails calls broken.
func (r *besideRun) read(ctx context.Context, count int, from int64, running *sync.WaitGroup, broken func()) (readers, error) {
	var all readers
	for range count {
		prepared, err := newReading(ctx, ConsumeOptions{
			Brokers: r.options.Producer.Brokers, Topic: r.options.Producer.Topic, Connections: 1, FromOffset: from, Repeat: from != FromEnd,
			Duration: readersDurationMax, EndToEnd: from == FromEnd,
		})
		if err != nil {
			for _, other := range all {
				other.close()
			}
			return nil, err
		}
		all = append(all, &reader{reading: prepared, latency: NewHistogram()})
	}
	for _, one := range all {
		running.Go(func() {
			if _, one.err = one.run(ctx, one.latency); one.err != nil {
				broken()
			}
		})
	}
	return all, nil
}

// readersDurationMax ends readers that nobody stops.
const readersDurationMax = 24 * time.Hour

// stop ends them, when the tails among them have read what is there.
func (all readers) stop() {
	for _, one := range all {
		one.reading.stop()
	}
}

// result adds up what they did in the producer's time, after they have ended.
func (all readers) result(seconds float64) (mbPerSecond float64, latency *Latency, err error) {
	together := NewHistogram()
	var failures []error
	for _, one := range all {
		if seconds > 0 {
			mbPerSecond += float64(one.report.Bytes) / 1e6 / seconds
		}
		together.Merge(one.latency)
		if one.err != nil && !errors.Is(one.err, context.Canceled) {
			failures = append(failures, one.err)
		}
	}
	return mbPerSecond, Summarise(together), errors.Join(failures...)
}

// residentInterval is how often the server's memory is looked at during a phase.
const residentInterval = 100 * time.Millisecond

// watchResident looks at a process's memory until the function that it returns is
// called, which tells the most that it was.
func watchResident(pid int) func() int64 {
	if pid == 0 {
		return func() int64 { return 0 }
	}
	most := residentBytes(pid)
	stop := every(residentInterval, func() { most = max(most, residentBytes(pid)) })
	return func() int64 {
		stop()
		return max(most, residentBytes(pid))
	}
}
