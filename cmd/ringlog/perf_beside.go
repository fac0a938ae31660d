package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ringlog/perf"
)

func newPerfBeside(app *application) *cobra.Command {
	acks := "all"
	var options perf.BesideOptions
	command := &cobra.Command{
		Use:   "beside",
		Short: "Measure a producer alone and beside many connections or readers",
		Long: `Measure a producer alone and beside others, in turn, so that the difference is theirs:

  --idle N    connections that each wait for records on one long fetch, of a topic that gets none
  --tails N   consumers that read what is sent as it comes
  --scans N   consumers that read from the beginning to what was the end, again and again
  --stuck N   connections that ask for many large replies and read none

With --tails and one of the others, the tails are there in both phases: they are who is disturbed.
What a tail got is measured from when it was due at the producer. With --server-pid, memory and CPU
of the broker stand beside; memory for each idle connection is what it grew while they were
opened and nobody sent: the first round's, since later ones find what the first one left.`,
		Example: `  ringlog perf beside --idle 10000 --rate 50000 --server-pid $(pidof ringlog)
  ringlog perf beside --tails 1 --scans 1 --rate 100000 --rounds 5
  ringlog perf beside --stuck 10 --rate 50000 --json`,
		Args: exactly(),
	}
	app.clientFlags(command)
	flags := command.Flags()
	flags.IntVar(&options.Idle, "idle", 0, "`number` of idle connections")
	flags.IntVar(&options.Tails, "tails", 0, "`number` of consumers at the end")
	flags.IntVar(&options.Scans, "scans", 0, "`number` of consumers that read everything")
	flags.IntVar(&options.Stuck, "stuck", 0, "`number` of connections that do not read")
	flags.Int64Var(&options.HistoryBytes, "history-bytes", 0, "what the topic has to have before anything is measured, in `bytes` (default 4 GiB with --scans, 64 MiB with --stuck)")
	flags.DurationVar(&options.Settle, "settle", time.Second, "how long to wait before the server's memory is looked at, and for the cost of waiting connections")
	flags.IntVar(&options.Rounds, "rounds", 1, "`number` of times that both phases are measured; the medians are printed")
	flags.StringVar(&options.Producer.Topic, "topic", "", "`topic` to send to and to read (default perf-DURABILITY-PARTITIONS)")
	loadFlags(command, &options.Producer.Load)
	for _, name := range []string{"count", "interval"} {
		_ = flags.MarkHidden(name) // fails only for a flag that is not there
	}
	flags.StringVar(&acks, "acks", acks, "`who` must have a record before it counts: all, leader or none")
	flags.IntVar(&options.Producer.ServerPID, "server-pid", 0, "process `id` of a broker on this machine, to report its memory and CPU too")
	command.RunE = app.runs(func(ctx context.Context, _ []string) (err error) {
		if options.Producer.Acks, err = acksNamed(acks); err != nil {
			return err
		}
		options.Producer.Brokers = app.brokerList()
		options.EnsureDefaults()
		if err := options.Validate(); err != nil {
			return usageErrorf("%w", err)
		}
		if err := app.reachable(ctx); err != nil {
			return err
		}
		done := func() {}
		options.OnStep = func(what string, duration time.Duration) {
			done()
			if done = app.progress(what, duration); duration == 0 && app.terminal && !app.json {
				fmt.Fprintln(app.errorOutput, what)
			}
		}
		report, err := perf.Beside(ctx, options)
		done()
		if len(report.Rounds) > 0 || err == nil {
			if printErr := app.print(report, func() { printBeside(app.output, report) }); err == nil {
				err = printErr
			}
		}
		return explainPerf(err)
	})
	return command
}

// printBeside writes the medians of a report for people.
func printBeside(output io.Writer, report perf.BesideReport) {
	o := report.Parameters
	fmt.Fprintf(output, "beside: %d rounds of %v alone and %v beside %d idle, %d tails, %d scans, %d stuck\n",
		len(report.Rounds), o.Producer.Duration, o.Producer.Duration, o.Idle, o.Tails, o.Scans, o.Stuck)
	rows := [][]string{{"", "MB/s", "p50", "p99", "p99.9", "tails MB/s", "end to end p50", "p99", "scans MB/s", "server CPU", "RSS MB", "most"}}
	for _, phase := range []struct {
		name string
		of   func(perf.BesideRound) perf.BesidePhase
	}{
		{"alone", func(r perf.BesideRound) perf.BesidePhase { return r.Alone }},
		{"beside", func(r perf.BesideRound) perf.BesidePhase { return r.Beside }},
	} {
		var phases []perf.BesidePhase
		for _, round := range report.Rounds {
			phases = append(phases, phase.of(round))
		}
		rows = append(rows, besideRow(phase.name, phases))
	}
	table(output, rows)
	for _, round := range report.Rounds {
		if idle := round.Idle; idle != nil {
			fmt.Fprintf(output, "idle: %s connections opened in %.1f s", grouped(float64(idle.Connections)), idle.OpenSeconds)
			if idle.ResidentBytesBefore > 0 {
				fmt.Fprintf(output, ", %s bytes of the server's memory each (%s to %s)", grouped(idle.BytesPerConnection),
					grouped(float64(idle.ResidentBytesBefore)), grouped(float64(idle.ResidentBytesAfter)))
			}
			if server := idle.CPU.Server; server != nil {
				fmt.Fprintf(output, ", server %.1f %% CPU while nobody sends", server.User+server.System)
			}
			fmt.Fprintf(output, "; %d closed, %d answered\n", idle.Closed, idle.Answered)
		}
		if o.Stuck > 0 {
			fmt.Fprintf(output, "stuck: the broker closed %d of %d\n", round.StuckClosed, o.Stuck)
		}
		for _, phase := range []perf.BesidePhase{round.Alone, round.Beside} {
			for _, name := range slices.Sorted(maps.Keys(phase.Errors)) {
				fmt.Fprintf(output, "error: %s: %d replies\n", name, phase.Errors[name])
			}
		}
	}
	for _, note := range report.Notes {
		fmt.Fprintf(output, "note: %s\n", note)
	}
}

// besideRow is the medians of one phase; what was not measured is "-".
func besideRow(name string, phases []perf.BesidePhase) []string {
	median := func(figure func(perf.BesidePhase) float64) float64 {
		var all []float64
		for _, phase := range phases {
			all = append(all, figure(phase))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	number := func(figure func(perf.BesidePhase) float64) string {
		if m := median(figure); m > 0 {
			return fmt.Sprintf("%.1f", m)
		}
		return "-"
	}
	latency := func(of func(perf.BesidePhase) *perf.Latency, quantile func(*perf.Latency) int64) string {
		m := median(func(p perf.BesidePhase) float64 {
			if l := of(p); l != nil {
				return float64(quantile(l))
			}
			return -1
		})
		if m < 0 {
			return "-"
		}
		return micros(int64(m))
	}
	acks := func(p perf.BesidePhase) *perf.Latency { return p.AckLatency }
	endToEnd := func(p perf.BesidePhase) *perf.Latency { return p.EndToEnd }
	p50 := func(l *perf.Latency) int64 { return l.P50 }
	p99 := func(l *perf.Latency) int64 { return l.P99 }
	if len(phases) == 0 {
		return []string{name}
	}
	return []string{
		name, number(func(p perf.BesidePhase) float64 { return p.MBPerSecond }),
		latency(acks, p50), latency(acks, p99), latency(acks, func(l *perf.Latency) int64 { return l.P999 }),
		number(func(p perf.BesidePhase) float64 { return p.TailMBPerSecond }),
		latency(endToEnd, p50), latency(endToEnd, p99),
		number(func(p perf.BesidePhase) float64 { return p.ScanMBPerSecond }),
		number(func(p perf.BesidePhase) float64 {
			if p.CPU.Server == nil {
				return 0
			}
			return p.CPU.Server.User + p.CPU.Server.System
		}),
		number(func(p perf.BesidePhase) float64 { return float64(p.ResidentBytesBefore) / 1e6 }),
		number(func(p perf.BesidePhase) float64 { return float64(p.ResidentBytesMax) / 1e6 }),
	}
}
