package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ringlog/server"
)

func newServe(app *application) *cobra.Command {
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run a broker",
		Long: `Run a broker until it is interrupted. Its log goes to standard error, one line each, as JSON
with --json.

Every setting has a name, which is its key in the file of --config, and the name by which --set
takes it; the common ones are flags too. Kafka's names of broker configurations work
(num.partitions, log.retention.hours, …). What is given later wins: defaults, then the file, then
--set, then flags. ringlog settings lists them all.`,
		Example: `  ringlog serve
  ringlog serve --data-dir /var/lib/ringlog --kafka-addr 0.0.0.0:9092 --advertised-addr log1.example.org:9092
  ringlog serve --config ringlog.toml --set num.partitions=3`,
		Args: exactly(),
	}
	var flags serveFlags
	flags.register(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		config, err := flags.config()
		if err != nil {
			return &failure{exitUsage, err, "see: ringlog serve --help"}
		}
		config.Logger = slog.New(app.logHandler())
		if err := server.Run(command.Context(), config); err != nil {
			return explainServe(err, config)
		}
		return nil
	}
	return command
}

// serveFlags are the ways to say how a broker runs: of serve, and of doctor, which asks
// whether it could.
type serveFlags struct {
	file     string
	settings []string
	named    map[string]*settingFlag
}

func (f *serveFlags) register(command *cobra.Command) {
	flags := command.Flags()
	flags.SortFlags = false
	f.named = map[string]*settingFlag{}
	for _, setting := range server.Settings() {
		flag, dotted := strings.CutPrefix(setting.Name, "ringlog.") // ours among Kafka's names
		if dotted {
			flag = strings.ReplaceAll(flag, ".", "-")
		} else if strings.Contains(flag, ".") {
			continue // Kafka's, for --set
		}
		f.named[setting.Name] = addSettingFlag(command, flag, setting.Documentation, setting.Default)
	}
	f.named["node.id"] = addSettingFlag(command, "node-id", "The broker's number in its cluster.", "1")
	flags.StringVarP(&f.file, "config", "c", "", "TOML `file` with one setting a line, such as num.partitions = 3")
	flags.StringArrayVarP(&f.settings, "set", "s", nil, "any setting as `name=value`; may be repeated")
}

// settingFlag is a flag for one of the server's settings. Its default stays the
// server's: a flag that was not given sets nothing.
type settingFlag struct {
	text  string
	given bool
}

// String, Set and Type implement pflag.Value. What a value may look like is
// the setting's business, so help calls it just that.
func (f *settingFlag) String() string { return f.text }
func (f *settingFlag) Type() string   { return "value" }
func (f *settingFlag) Set(text string) error {
	f.text, f.given = text, true
	return nil
}

func addSettingFlag(command *cobra.Command, name, documentation, byDefault string) *settingFlag {
	f := &settingFlag{}
	command.Flags().Var(f, name, documentation+" (default "+byDefault+")")
	if byDefault == "false" {
		command.Flags().Lookup(name).NoOptDefVal = "true"
	}
	return f
}

// config gathers what file, --set and flags say, and reports all that is wrong with it.
func (f *serveFlags) config() (server.Config, error) {
	var (
		config server.Config
		faults []error
	)
	if f.file != "" {
		faults = append(faults, config.ReadFile(f.file))
	}
	for _, setting := range f.settings {
		name, value, found := strings.Cut(setting, "=")
		if !found {
			faults = append(faults, fmt.Errorf("--set %q is not name=value", setting))
			continue
		}
		faults = append(faults, config.Set(name, value))
	}
	for _, name := range slices.Sorted(maps.Keys(f.named)) {
		if f.named[name].given {
			faults = append(faults, config.Set(name, f.named[name].text))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return config, err
	}
	config.EnsureDefaults()
	return config, config.Validate()
}

func (app *application) logHandler() slog.Handler {
	if app.json {
		return slog.NewJSONHandler(app.errorOutput, nil)
	}
	return slog.NewTextHandler(app.errorOutput, nil)
}

// explainServe says why a broker did not start, or not go on, and what to do.
func explainServe(err error, config server.Config) error {
	f := &failure{code: exitFailed, cause: err}
	switch {
	case errors.Is(err, context.Canceled):
		return &failure{code: exitInterrupted, cause: errors.New("interrupted before the broker was ready")}
	case errors.Is(err, server.ErrLocked):
		f.hint = fmt.Sprintf("another broker runs on %s: stop it, or choose another directory with --data-dir", config.DataDir)
	case errors.Is(err, syscall.EADDRINUSE):
		f.hint = fmt.Sprintf("another process listens there: choose another address with --kafka-addr (now %s) or --admin-addr (now %s)", config.KafkaAddr, config.AdminAddr)
	case errors.Is(err, syscall.ENOSPC):
		f.hint = fmt.Sprintf("there is no room on the disk of %s: make some, or take a smaller --journal-bytes (now %d for each shard)", config.DataDir, max(config.JournalBytes, 0))
	case errors.Is(err, syscall.EROFS):
		f.hint = fmt.Sprintf("the file system of %s is read-only: mount it for writing; the system's log says why it is, if nobody asked for it", config.DataDir)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		f.hint = fmt.Sprintf("this user may not do that: look at the owner of %s, or choose another directory with --data-dir", config.DataDir)
	}
	return f
}
