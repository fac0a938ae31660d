package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ringlog/doctor"
	"ringlog/doctor/gather"
	"ringlog/server"
)

// doctorReport is what doctor found; --json prints it as it is.
type doctorReport struct {
	Level    doctor.Level     `json:"level"` // the worst of the findings
	Warnings int              `json:"warnings"`
	Errors   int              `json:"errors"`
	Findings []doctor.Finding `json:"findings"`
	Facts    *doctor.Facts    `json:"facts"` // what they were judged by
}

func newDoctor(app *application) *cobra.Command {
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Examine whether this machine suits a broker, and a broker that runs",
		Long: `Examine whether this machine suits a broker with the given settings: kernel and io_uring, what a
container or sandbox forbids, limits, the data directory's file system and disk, space, memory,
CPUs, clock, and the addresses that clients are told. If a broker runs, ask it too: does it answer
at the addresses that it tells its clients, with the same ones, and is it healthy?

It takes the flags of serve, and changes nothing. Each finding says what was seen, why it matters
and what to do. Exit code 0: all is well; 7: there are warnings; 8: there are errors.

On macOS and FreeBSD, in most containers and on kernels before 5.15 there is no io_uring: the
broker uses ordinary system calls then, keeps the same promise, and doctor says what stands in the
way.`,
		Example: `  ringlog doctor
  ringlog doctor --data-dir /var/lib/ringlog --kafka-addr 0.0.0.0:9092 --advertised-addr log1.example.org:9092
  ringlog doctor --config ringlog.toml --json | jq -r '.findings[] | select(.level != "ok") | .do'`,
		Args: exactly(),
	}
	var (
		flags   serveFlags
		all     bool
		brokers string
		timeout time.Duration
	)
	flags.register(command)
	command.Flags().StringVar(&brokers, "brokers", app.variable("RINGLOG_BROKERS"),
		"`addresses` of a running broker to ask, separated by commas (or set RINGLOG_BROKERS); by default where one with these settings would be")
	command.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for each answer")
	command.Flags().BoolVar(&all, "all", false, "say what is well too, when something is not")
	command.RunE = app.runs(func(ctx context.Context, _ []string) error {
		app.brokers, app.timeout = brokers, timeout // whose defaults are not those of the other commands
		report := app.examine(ctx, &flags)
		if err := app.print(report, func() { app.printDoctor(report, all) }); err != nil {
			return err
		}
		switch report.Level {
		case doctor.Error:
			return &failure{code: exitErrors, cause: fmt.Errorf("%s and %s", count(report.Errors, "error"), count(report.Warnings, "warning"))}
		case doctor.Warning:
			return &failure{code: exitWarnings, cause: errors.New(count(report.Warnings, "warning"))}
		}
		return nil
	})
	return command
}

// examine gathers the facts and judges them.
func (app *application) examine(ctx context.Context, flags *serveFlags) doctorReport {
	config, err := flags.config()
	options := gather.Options{DataDir: config.DataDir}
	if err == nil {
		var needs server.Needs
		if needs, err = config.Needs(); err == nil {
			options.LogsDir = needs.LogsDir
			options.Config = doctor.Config{IO: config.IO, MemoryBytes: needs.MemoryBytes, JournalBytes: needs.JournalBytes,
				Files: needs.Files, FilesMin: needs.FilesMin, Threads: needs.Threads, Listen: needs.Listen, Advertised: needs.Advertised}
		}
	}
	if err != nil {
		options.Config = doctor.Config{Fault: err.Error()}
	}
	facts := gather.Facts(ctx, options)
	if options.Config.Fault == "" {
		facts.Config.KeptFreeBytes = config.KeptFreeBytes(facts.Directory.TotalBytes)
	}
	examineOwner(&facts.Directory)
	if app.brokers == "" {
		app.brokers = facts.Config.Advertised
	}
	if app.brokers == "" {
		app.brokers = facts.Config.Listen
	}
	if app.brokers != "" {
		app.examineBroker(ctx, &facts.Broker)
	}
	if config.AdminAddr != server.AdminOff && (facts.Directory.Holder != "" || facts.Broker.Refusal == "") {
		app.examineHealth(ctx, &facts.Broker, config.AdminAddr)
	}
	findings := doctor.Examine(facts)
	return doctorReport{Level: doctor.Worst(findings), Warnings: doctor.Count(findings, doctor.Warning),
		Errors: doctor.Count(findings, doctor.Error), Findings: findings, Facts: facts}
}

// examineOwner finds out whose data a directory holds and who uses it.
func examineOwner(d *doctor.Directory) {
	if !d.Exists || d.Error != "" {
		return
	}
	owner, err := server.ReadOwner(d.Path)
	switch {
	case err == nil:
		d.Owner = fmt.Sprintf("broker %d of cluster %s", owner.NodeID, owner.ClusterID)
	case !errors.Is(err, os.ErrNotExist):
		d.Error = err.Error()
		return
	}
	if d.HasData, err = server.HasData(d.Path); err != nil {
		d.Error = err.Error()
		return
	}
	release, err := server.HoldDirectory(d.Path)
	var locked *server.LockedError
	switch {
	case errors.As(err, &locked):
		d.Holder = locked.Holder
	case err != nil:
		d.Error = err.Error()
	default:
		if err := release(); err != nil {
			d.Error = err.Error()
		}
	}
}

// printDoctor writes what is not well first, each with its remedy.
func (app *application) printDoctor(report doctorReport, all bool) {
	for level := doctor.Error; level >= doctor.Warning; level-- {
		for _, finding := range report.Findings {
			if finding.Level != level {
				continue
			}
			fmt.Fprintf(app.output, "%s %s: %s\n", strings.ToUpper(level.String()), finding.Check, finding.Seen)
			fmt.Fprintf(app.output, "    why: %s\n    do:  %s\n", finding.Why, finding.Do)
		}
	}
	well := doctor.Count(report.Findings, doctor.OK)
	if report.Level != doctor.OK && !all {
		fmt.Fprintf(app.output, "%s well (--all shows them)\n", count(well, "check"))
		return
	}
	var rows [][]string
	for _, finding := range report.Findings {
		if finding.Level == doctor.OK {
			rows = append(rows, []string{"ok", finding.Check, finding.Seen})
		}
	}
	table(app.output, rows)
}
