package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"ringlog/perf/commit"
)

func newPerfCommit(app *application) *cobra.Command {
	var (
		options commit.Options
		overlap = true
	)
	options.EnsureDefaults()
	options.Way, options.Shards, options.SegmentBytes, options.TailBytes = "", 0, 0, 0 // of the engine alone
	command := &cobra.Command{
		Use:   "commit",
		Short: "Measure the storage engine without its network, or raw writes in its place",
		Long: `Measure what it costs to append one small batch to each of many partitions and to have all of them
safe: the storage engine without its network (--system engine), or a raw program that does the
same writes with no engine. Each of these copies a batch once, takes one CRC-32C over it, writes
past the page cache into files that were written before, and flushes:

  journal  all batches of a commit one behind the other in one file, then one flush
  syncfs   one write for each partition's file, then one syncfs and one fdatasync
  files    one write for each partition's file, then a flush of each, in parallel
  direct   each partition for itself: every append in whole blocks, then a flush

An append is one batch of --record-bytes, header included, with one record. The partitions are cut
into --groups; a group is submitted as one produce request would be, and again when all of its
appends are answered. The latency is what an appender sees: from there to there.`,
		Example: `  ringlog perf commit --data-dir ./data --partitions 384 --record-bytes 1024
  ringlog perf commit --data-dir ./data --partitions 384 --system journal --overlap=false
  ringlog perf commit --data-dir ./data --partitions 4 --record-bytes 1048576 --system direct --json`,
		Args: exactly(),
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&options.DataDir, "data-dir", "./data", "`directory` on the disk to measure; the run's own is made in it and removed")
	flags.StringVar((*string)(&options.System), "system", string(options.System), "`what` to measure: engine, journal, syncfs, files or direct")
	flags.StringVar((*string)(&options.Way), "way", "", "`how` the engine makes appends durable: auto, with its journal, or without one: sync, one syncfs, or file, a flush of each file (default auto)")
	flags.StringVar(&options.Disk, "io", options.Disk, "`way` to reach the disk: auto, uring, portable or, if built with that tag, giouring")
	flags.IntVar(&options.Partitions, "partitions", options.Partitions, "`number` of partitions")
	flags.IntVar(&options.RecordBytes, "record-bytes", options.RecordBytes, "size of an append, a whole batch with one record, in `bytes`")
	flags.StringVar((*string)(&options.Durability), "durability", string(options.Durability), "`promise` of an answer: durable or written")
	flags.IntVar(&options.InFlight, "in-flight", options.InFlight, "`number` of appends in flight for each partition")
	flags.IntVar(&options.Groups, "groups", options.Groups, "`number` of groups that one append to each partition is cut into")
	flags.Int64Var(&options.InFlightBytes, "in-flight-bytes", options.InFlightBytes, "most that is in flight, in `bytes`; beyond it partitions take turns")
	flags.DurationVar(&options.WarmUp, "warm-up", options.WarmUp, "how long to run before measuring")
	flags.DurationVar(&options.Duration, "duration", options.Duration, "how long to measure")
	flags.Int64Var(&options.JournalBytes, "journal-bytes", options.JournalBytes, "size of the journal, in `bytes`")
	flags.IntVar(&options.Shards, "shards", 0, "`number` of the engine's shards (default 1)")
	flags.Int64Var(&options.SpaceBytes, "space-bytes", options.SpaceBytes, "most that all files may take, in `bytes`")
	flags.Int64Var(&options.SegmentBytes, "segment-bytes", 0, "size of the engine's segments, in `bytes` (default: by --space-bytes)")
	flags.Int64Var(&options.TailBytes, "tail-bytes", 0, "memory of the engine for what was appended, in `bytes` (default 2147483648)")
	flags.BoolVar(&options.Prewrite, "prewrite", false, "let the engine write zeros over the space that it prepares")
	flags.BoolVar(&overlap, "overlap", true, "let a raw program write the next commit while one is flushed")
	command.RunE = app.runs(func(ctx context.Context, _ []string) error {
		options.Serial = !overlap
		options.EnsureDefaults()
		if err := options.Validate(); err != nil {
			return usageErrorf("%w", err)
		}
		done := app.progress("commit", options.WarmUp+options.Duration)
		report, err := commit.Run(ctx, options)
		done()
		if err != nil {
			return err
		}
		return app.print(report, func() { printCommit(app.output, report) })
	})
	return command
}

// printCommit writes a report for people.
func printCommit(output io.Writer, r commit.Report) {
	fmt.Fprintf(output, "commit, %s: %.1f s, %s partitions, %s appends of %s bytes in flight\n", r.Parameters.System, r.Seconds,
		grouped(float64(r.Parameters.Partitions)), grouped(float64(r.AppendsInFlight)), grouped(float64(r.BatchBytes)))
	fmt.Fprintf(output, "  throughput  %s appends/s, %.1f MB/s\n", grouped(r.AppendsPerSecond), r.MBPerSecond)
	fmt.Fprintf(output, "  first third %s appends/s, last third %s\n", grouped(r.FirstThird), grouped(r.LastThird))
	if r.Commits > 0 {
		fmt.Fprintf(output, "  commits     %s/s, of %s appends and %s bytes\n", grouped(r.CommitsPerSecond), grouped(r.AppendsPerCommit), grouped(r.BytesPerCommit))
	}
	if latency := r.Latency; latency != nil {
		fmt.Fprintf(output, "  latency     p50 %s, p99 %s, p99.9 %s, max %s\n",
			micros(latency.P50), micros(latency.P99), micros(latency.P999), micros(latency.Max))
	}
	if r.EngineRun != nil {
		printEngine(output, r.EngineRun)
	}
	fmt.Fprintf(output, "  written     %.2f bytes for each byte appended, %.2f by the kernel's count\n", r.Amplification, r.ProcessAmplification)
	fmt.Fprintf(output, "  memory      %s bytes resident at most, tails %s\n", grouped(float64(r.ResidentBytesMax)), grouped(float64(r.TailBytesUsed)))
	fmt.Fprintf(output, "  CPU         %.0f %%, others %.0f %% (of one core; there are %d)\n",
		r.CPU.User+r.CPU.System, r.CPU.Foreign, r.Environment.Cores)
	for _, note := range r.Notes {
		fmt.Fprintf(output, "  note        %s\n", note)
	}
}
