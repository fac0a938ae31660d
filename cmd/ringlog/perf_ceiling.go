package main

import (
	"context"

	"github.com/spf13/cobra"

	"ringlog/perf"
)

func newPerfBare(app *application) *cobra.Command {
	var (
		options perf.BareOptions
		acks    string
		history = string(perf.Recycled)
		serving bool
	)
	command := &cobra.Command{
		Use:   "bare",
		Short: "Measure the ceiling: the same load against the smallest program that keeps the same promise",
		Long: `Measure the ceiling of this machine: the load of perf produce against the smallest program that
receives the same bytes, checks them, makes them durable by the same rule and answers. It runs as
a process of its own, on files of its own in --data-dir, which it removes. A broker's figure is
stated as a share of this one.`,
		Example: `  ringlog perf bare --data-dir ./data --connections 16 --partitions 12
  ringlog perf bare --data-dir ./data --durability written --json`,
		Args: exactly(),
	}
	loadFlags(command, &options.Load)
	flags := command.Flags()
	flags.StringVar(&acks, "acks", "all", "`who` must have a record before it counts: all, leader or none")
	flags.StringVar(&options.Server.DataDir, "data-dir", "./data", "`directory` on the disk to measure")
	flags.StringVar(&options.Server.Disk, "io", "auto", "`way` to reach the disk: auto, uring, portable or, if built with that tag, giouring")
	flags.Int64Var(&options.Server.FileBytes, "file-bytes", 1<<30, "space of all files together, in `bytes`; each is written from its start again when it is full")
	flags.StringVar(&history, "history", history, "`past` of the files: recycled (written once) or prepared (only allocated)")
	flags.BoolVar(&serving, "serve", false, "be the server of a measurement, on standard input and output")
	_ = flags.MarkHidden("serve") // fails only for a flag that is not there
	command.RunE = app.runs(func(ctx context.Context, _ []string) (err error) {
		if serving {
			return perf.ServeBare(ctx, app.input, app.output)
		}
		if options.Acks, err = acksNamed(acks); err != nil {
			return err
		}
		options.Server.History = perf.History(history)
		options.EnsureDefaults()
		if err := options.Validate(); err != nil {
			return usageErrorf("%w", err)
		}
		if err := options.Server.Validate(); err != nil {
			return usageErrorf("%w", err)
		}
		return app.measureLoad(ctx, "bare", &options.Load, func(ctx context.Context) (perf.Report, error) {
			return perf.Bare(ctx, options)
		})
	})
	return command
}

func newPerfDevice(app *application) *cobra.Command {
	var (
		options perf.DeviceOptions
		history = string(perf.Recycled)
		flush   = string(perf.FlushGroup)
	)
	options.EnsureDefaults()
	command := &cobra.Command{
		Use:   "device",
		Short: "Measure the disk alone, flushes included",
		Long: `Measure the disk alone: writes of one size from one thread, some of them in flight, on files of
its own in --data-dir, which it removes. With --flush group, as the broker does it, flushes run
back to back and a write counts when the flush that covers it has ended; with each, every write is
flushed by itself; with none, nothing is.`,
		Example: `  ringlog perf device --data-dir ./data
  ringlog perf device --data-dir ./data --flush each --chunk-bytes 4096 --depth 1
  ringlog perf device --data-dir ./data --history prepared --json`,
		Args: exactly(),
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&options.DataDir, "data-dir", "./data", "`directory` on the disk to measure")
	flags.StringVar(&options.Disk, "io", options.Disk, "`way` to reach the disk: auto, uring, portable or, if built with that tag, giouring")
	flags.StringVar(&flush, "flush", flush, "`when` to flush: group, each or none")
	flags.IntVar(&options.ChunkBytes, "chunk-bytes", options.ChunkBytes, "size of a write, in `bytes`")
	flags.IntVar(&options.Depth, "depth", options.Depth, "`number` of writes in flight, all files together")
	flags.IntVar(&options.Files, "files", options.Files, "`number` of files, written in turn")
	flags.Int64Var(&options.FileBytes, "file-bytes", options.FileBytes, "space of all files together, in `bytes`; each is written from its start again when it is full")
	flags.StringVar(&history, "history", history, "`past` of the files: recycled (written once) or prepared (only allocated)")
	flags.DurationVar(&options.Duration, "duration", options.Duration, "how long to measure")
	command.RunE = app.runs(func(ctx context.Context, _ []string) error {
		options.History, options.Flush = perf.History(history), perf.FlushMode(flush)
		if err := options.Validate(); err != nil {
			return usageErrorf("%w", err)
		}
		return app.measure(ctx, "device", options.Duration, func(ctx context.Context) (perf.Report, error) {
			return perf.Device(ctx, options)
		})
	})
	return command
}
