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
	flags.StringVar(&acks, "acks", "all", "who must have a record `before` it counts: all, leader or none")
	flags.StringVar(&options.Server.DataDir, "data-dir", "./data", "`directory` on the disk to measure")
	flags.StringVar(&options.Server.Disk, "io", "auto", "how the disk is `reached`: auto, uring or portable")
	flags.Int64Var(&options.Server.FileBytes, "file-bytes", 1<<30, "space of all files together, in `bytes`; each is written from its start again when it is full")
	flags.StringVar(&history, "history", history, "what the files went through `before`: recycled (written once) or prepared (only allocated)")
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
		return app.measure(ctx, "bare", options.Duration, func(ctx context.Context) (perf.Report, error) {
			return perf.Bare(ctx, options)
		})
	})
	return command
}
