package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"ringlog/perf"
)

func newPerf(app *application) *cobra.Command {
	command := &cobra.Command{
		Use:   "perf",
		Short: "Measure a broker, the ceiling of this machine, and its disk",
		Long: `Measure a broker (produce, consume, beside), the ceiling that this machine sets for it (bare), its storage
engine without the network (commit), and the disk alone (device). A broker's figure says little
without the others, measured beside it on the same quiet machine: BENCHMARKS.md says how.

With --json the report has everything that made the figures: parameters, machine, kernel, commit,
and the CPU that was used by whom.`,
		Example: `  ringlog perf device --data-dir ./data
  ringlog perf bare --data-dir ./data --connections 16
  ringlog perf commit --data-dir ./data --partitions 384
  ringlog perf produce --connections 16 --duration 30s
  ringlog perf produce --rate 20000 --record-bytes 200 --json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newPerfProduce(app), newPerfConsume(app), newPerfBeside(app), newPerfBare(app), newPerfCommit(app), newPerfDevice(app))
	return command
}

// loadFlags adds what produce and bare have in common.
func loadFlags(command *cobra.Command, load *perf.Load) {
	*load = perf.NewLoad()
	flags := command.Flags()
	flags.SortFlags = false
	flags.IntVar(&load.RecordBytes, "record-bytes", load.RecordBytes, "size of a record's value, in `bytes`")
	flags.IntVar(&load.BatchBytes, "batch-bytes", load.BatchBytes, "largest batch before compression, in `bytes`")
	flags.IntVar(&load.Connections, "connections", load.Connections, "`number` of connections")
	flags.IntVar(&load.Partitions, "partitions", load.Partitions, "`number` of partitions of a topic that has to be created")
	flags.IntVar(&load.Depth, "depth", load.Depth, "`number` of requests in flight on each connection")
	flags.StringVar((*string)(&load.Durability), "durability", string(load.Durability), "`promise` of an acknowledgement: durable or written")
	flags.StringVar(&load.Codec, "codec", load.Codec, "`compression`: none, gzip, snappy, lz4 or zstd")
	flags.Float64Var(&load.Rate, "rate", 0, "`records` per second of all connections together, latency measured from when each was due; 0 is as fast as possible")
	flags.DurationVar(&load.Duration, "duration", load.Duration, "how long to measure")
	flags.DurationVar(&load.Interval, "interval", 0, "also report each `interval` of the run: a line, with --json one of JSON, as the report at the end then is too")
	flags.Int64Var(&load.Count, "count", 0, "stop after this many `records`, rounded up to whole batches, if --duration has not passed before")
}

func newPerfProduce(app *application) *cobra.Command {
	var (
		options perf.ProduceOptions
		acks    string
	)
	command := &cobra.Command{
		Use:   "produce",
		Short: "Send a load to a broker and measure throughput and latency",
		Long: `Send a load to a broker and measure throughput and latency. The topic is created when it is not
there. Without --rate each connection keeps --depth requests in flight; with it, requests are sent
by the clock, and a broker that pauses pays for every request that was due meanwhile.`,
		Example: `  ringlog perf produce --connections 16 --partitions 12 --duration 30s
  ringlog perf produce --rate 50000 --record-bytes 200
  ringlog perf produce --durability written`,
		Args: exactly(),
	}
	app.clientFlags(command)
	flags := command.Flags()
	flags.StringVar(&options.Topic, "topic", "", "`topic` to send to (default perf-DURABILITY-PARTITIONS)")
	loadFlags(command, &options.Load)
	flags.BoolVar(&options.Stamp, "stamp", false, "put into each batch when it was due, for perf consume --end-to-end")
	flags.StringVar(&acks, "acks", "all", "`who` must have a record before it counts: all, leader or none")
	flags.IntVar(&options.ServerPID, "server-pid", 0, "process `id` of a broker on this machine, to report its CPU too")
	flags.StringVar(&options.MetricsURL, "metrics", "", "`URL` of the broker's metrics, to report what its storage engine did, or off (default: of the default admin address, if the broker is there)")
	command.RunE = app.runs(func(ctx context.Context, _ []string) (err error) {
		if options.Acks, err = acksNamed(acks); err != nil {
			return err
		}
		options.Brokers = app.brokerList()
		if err := app.reachable(ctx); err != nil {
			return err
		}
		options.EnsureDefaults()
		if err := options.Validate(); err != nil {
			return usageErrorf("%w", err)
		}
		return app.measureLoad(ctx, "produce", &options.Load, func(ctx context.Context) (perf.Report, error) {
			return perf.Produce(ctx, options)
		})
	})
	return command
}

func newPerfConsume(app *application) *cobra.Command {
	var options perf.ConsumeOptions
	command := &cobra.Command{
		Use:   "consume",
		Short: "Read a topic as fast as a broker gives it",
		Long: `Read a topic as fast as a broker gives it. Without --duration and --count it ends at what was the
end of each partition when it began.`,
		Example: `  ringlog perf consume --topic perf-durable-1
  ringlog perf consume --topic orders --connections 3 --end-to-end --duration 10s`,
		Args: exactly(),
	}
	app.clientFlags(command)
	options.EnsureDefaults()
	flags := command.Flags()
	flags.StringVar(&options.Topic, "topic", options.Topic, "`topic` to read")
	flags.IntVar(&options.Connections, "connections", options.Connections, "`number` of connections, at most one for each partition")
	flags.IntVar(&options.Depth, "depth", options.Depth, "`number` of fetches in flight on each connection, each for partitions of its own")
	flags.IntVar(&options.FetchBytesMax, "fetch-bytes", options.FetchBytesMax, "largest reply, in `bytes`")
	flags.Int64Var(&options.FromOffset, "from-offset", options.FromOffset, "`offset` where each partition starts; -2 is its earliest, -1 its end")
	flags.BoolVar(&options.Repeat, "repeat", false, "start over at what was the end of each partition when it began, until --duration or --count")
	flags.DurationVar(&options.Duration, "duration", 0, "how long to measure")
	flags.Int64Var(&options.Count, "count", 0, "stop after this many `records`")
	flags.BoolVar(&options.EndToEnd, "end-to-end", false, "measure the time since each batch was due (perf produce --stamp) or its newest record was stamped; for topics that are being written to")
	flags.IntVar(&options.ServerPID, "server-pid", 0, "process `id` of a broker on this machine, to report its CPU too")
	command.RunE = app.runs(func(ctx context.Context, _ []string) error {
		options.Brokers = app.brokerList()
		if err := options.Validate(); err != nil {
			return usageErrorf("%w", err)
		}
		if err := app.topicThere(ctx, options.Topic); err != nil {
			return err
		}
		return app.measure(ctx, "consume", options.Duration, func(ctx context.Context) (perf.Report, error) {
			return perf.Consume(ctx, options)
		})
	})
	return command
}

// measureLoad is measure for a load, which may have windows.
func (app *application) measureLoad(ctx context.Context, name string, load *perf.Load, run func(context.Context) (perf.Report, error)) error {
	if load.Interval == 0 {
		return app.measure(ctx, name, load.Duration, run)
	}
	app.jsonLines = true
	load.OnWindow = func(window perf.Window) {
		_ = app.print(window, func() { printWindow(app.output, window) }) // the report at the end meets the same fault
	}
	return app.measure(ctx, name, 0, run) // the windows are its progress
}

// measure runs one measurement with its progress on a terminal, and reports
// what was measured, even when it failed.
func (app *application) measure(ctx context.Context, name string, duration time.Duration, run func(context.Context) (perf.Report, error)) error {
	done := app.progress(name, duration)
	report, err := run(ctx)
	done()
	if report.Requests > 0 || err == nil {
		if printErr := app.print(report, func() { printReport(app.output, report) }); err == nil {
			err = printErr
		}
	}
	return explainPerf(err)
}

// perfRemedies are the errors that only a measurement has, and what to do about each.
var perfRemedies = []struct {
	err    error
	code   exitCode
	remedy string
}{
	{perf.ErrDurability, exitRefused, "choose another --topic, or the --durability that the topic has"},
	{perf.ErrReplies, exitRefused, "the figures above are of a broker that refused requests: look at its log"},
	{perf.ErrVersion, exitRefused, "the broker is too old, or is no Kafka broker"},
	{perf.ErrFiles, exitFailed, "raise the limit (ulimit -n), here and for the broker"},
	{syscall.EADDRNOTAVAIL, exitFailed, "the ports of this machine are used up: widen net.ipv4.ip_local_port_range, or open fewer connections"},
	{perf.ErrRefused, exitRefused, "look at its limits: max.connections, max.connections.per.ip and, of its process, ulimit -n"},
}

// explainPerf says what to do about them.
func explainPerf(err error) error {
	for _, known := range perfRemedies {
		if errors.Is(err, known.err) {
			return &failure{known.code, err, known.remedy}
		}
	}
	return err
}

// acksNamed returns what --acks means on the wire.
func acksNamed(name string) (int16, error) {
	switch name {
	case "all", "-1":
		return -1, nil
	case "leader", "1":
		return 1, nil
	case "none", "0":
		return 0, nil
	}
	return 0, usageErrorf("--acks %q is none of all, leader, none", name)
}

// reachable makes sure that a broker answers before anything is measured.
func (app *application) reachable(ctx context.Context) error {
	client, err := app.connect(ctx)
	if err != nil {
		return err
	}
	client.Close()
	return nil
}

// topicThere makes sure that a topic can be read.
func (app *application) topicThere(ctx context.Context, topic string) error {
	return app.withAdmin(ctx, func(admin *kadm.Client) error {
		_, err := partitionsOf(ctx, admin, topic)
		var f *failure
		if errors.As(err, &f) && f.code == exitNotFound {
			return &failure{exitNotFound, f.cause, fmt.Sprintf("fill it first: ringlog perf produce --topic %s", topic)}
		}
		return err
	})
}
